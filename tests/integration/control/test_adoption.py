"""Adoption brings in exactly the work, in the user's name, or changes nothing; discarding loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.control.delegations.adoption import adopting
from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.discarding import discard
from bridge.control.delegations.adoption.model import Wish
from bridge.control.errors import AdoptionConflict, AdoptionRefused, NothingToAdopt, TaskStillOpen
from bridge.control.plans.scheduling import run_plan
from bridge.git.errors import CheckoutBlocked

USER = "committer@example.invalid"
BRIDGE = "bridge@localhost"


def log(world: Any, since: str, form: str = "%s") -> list[str]:
    return world.repo.git("log", f"--format={form}", f"{since}..HEAD").splitlines()  # type: ignore[no-any-return]


def parents(world: Any, commit: str = "HEAD") -> list[str]:
    return world.repo.git("log", "-1", "--format=%P", commit).split()  # type: ignore[no-any-return]


def test_own_commits_fast_forward(world: Any) -> None:
    head = world.repo.head()
    world.run(world.shell("a", "echo 1 >> a.txt; git commit -qam one; echo 2 >> a.txt; git commit -qam two"))
    done = adopt(world.controller, world.task("a"))
    assert done.commit == world.repo.head() == world.task("a").result_commit
    assert (log(world, head), done.branch, done.was_contained) == (["two", "one"], "refs/heads/main", False)
    assert done.files_changed == ("a.txt",)
    assert world.repo.git("status", "--porcelain") == ""
    details = world.details("a")
    assert (details["adoption_status"], details["worktree_status"], details["kept_reason"]) == (
        "adopted",
        "removed",
        None,
    )
    assert world.kinds(world.task("a").parent_session_id)[-1] == "note"


def test_own_commits_are_merged_where_the_branch_moved(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; git commit -qam own"))
    moved = world.repo.commit("meanwhile", c_txt="c\n")
    done = adopt(world.controller, world.task("a"))
    assert parents(world) == [moved, world.task("a").result_commit]
    assert set(log(world, moved, "%ce")) == {USER}
    assert f"Bridge-Delegation: {world.task('a').id}" in world.repo.git("log", "-1", "--format=%B")
    assert done.commit == world.repo.head()
    assert (world.repo.path / "a.txt").read_text() == "alpha\n1\n"


@pytest.mark.parametrize("has_moved", [False, True])
def test_uncommitted_work_arrives_as_one_commit_in_the_users_name(world: Any, has_moved: bool) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; echo new > new.txt"))
    head = world.repo.commit("meanwhile", c_txt="c\n") if has_moved else world.repo.head()
    adopt(world.controller, world.task("a"))
    assert parents(world) == [head]
    assert world.repo.git("diff", "--name-only", head, "HEAD").split() == ["a.txt", "new.txt"]
    assert BRIDGE not in world.repo.git("log", "--format=%ce %ae")
    assert world.repo.git("merge-base", "--is-ancestor", world.task("a").result_commit, "HEAD", check=False) == ""
    assert world.task("a").result_commit not in world.repo.git("rev-list", "HEAD")


@pytest.mark.parametrize("has_moved", [False, True])
def test_own_commits_and_uncommitted_work_come_together(world: Any, has_moved: bool) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; git commit -qam own; echo new > new.txt"))
    head = world.repo.commit("meanwhile", c_txt="c\n") if has_moved else world.repo.head()
    own = world.task("a").worker_commit
    adopt(world.controller, world.task("a"))
    if has_moved:
        first, leftovers = parents(world)
        assert (first, parents(world, leftovers)) == (head, [own])
    else:
        assert parents(world) == [own]
    assert world.repo.git("diff", "--name-only", head, "HEAD").split() == ["a.txt", "new.txt"]
    assert BRIDGE not in world.repo.git("log", "--format=%ce %ae")
    assert world.details("a")["worktree_status"] == "removed"


def test_a_conflict_is_told_and_changes_nothing(world: Any) -> None:
    world.run(world.shell("a", "echo theirs > a.txt"))
    world.repo.commit("ours", a_txt="ours\n")
    world.repo.write("b.txt", "uncommitted\n")
    before = world.everything()
    with pytest.raises(AdoptionConflict) as caught:
        adopt(world.controller, world.task("a"))
    assert caught.value.details["paths"] == ["a.txt"]
    assert world.everything() == before
    assert world.task("a").adoption_status == "pending"


@pytest.mark.parametrize("edit", ["unstaged", "staged", "untracked"])
def test_fc_56_later_edits_of_the_results_files_are_refused_and_kept(world: Any, edit: str) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; echo new > new.txt"))
    world.repo.write("new.txt" if edit == "untracked" else "a.txt", "the user's\n")
    if edit == "staged":
        world.repo.git("add", "a.txt")
    before = world.everything()
    with pytest.raises(CheckoutBlocked) as caught:
        adopt(world.controller, world.task("a"))
    assert caught.value.details["paths"] == ["new.txt" if edit == "untracked" else "a.txt"]
    assert world.everything() == before


@pytest.mark.parametrize("act", [adopt, discard])
def test_fc_56_unrelated_work_stays_byte_for_byte(world: Any, act: Any) -> None:
    world.repo.commit("more", staged_txt="s\n", unstaged_txt="u\n")
    world.run(world.shell("a", "echo 1 >> a.txt"))
    world.repo.write("staged.txt", "staged edit\n")
    world.repo.git("add", "staged.txt")
    world.repo.write("unstaged.txt", "unstaged edit\n")
    world.repo.write("untracked.txt", "untracked\n")
    before, status = world.everything(), world.repo.git("status", "--porcelain")
    act(world.controller, world.task("a"))
    after = world.everything()
    assert world.repo.git("status", "--porcelain") == status
    for name in ("staged.txt", "unstaged.txt", "untracked.txt", "b.txt"):
        assert after[name] == before[name]
    if act is discard:
        assert after == before
    else:
        assert after["a.txt"] == b"alpha\n1\n"


def test_asked_for_on_no_branch_there_is_nothing_to_adopt_into_until_one_is_named(world: Any) -> None:
    world.repo.git("checkout", "-q", "--detach")
    world.run(world.shell("a", "echo 1 >> a.txt"))
    before = world.everything()
    with pytest.raises(AdoptionRefused, match="HEAD is detached"):
        adopt(world.controller, world.task("a"))
    assert world.everything() == before
    done = adopt(world.controller, world.task("a"), wish=Wish(into="main"))
    assert (done.branch, done.is_checked_out) == ("refs/heads/main", False)
    assert world.repo.git("show", "main:a.txt") == "alpha\n1\n"
    after = world.everything()
    assert before.pop("refs") != after.pop("refs")
    assert before == after


def test_a_failed_task_is_adopted_only_when_that_is_meant(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; exit 1"))
    before = world.everything()
    with pytest.raises(AdoptionRefused):
        adopt(world.controller, world.task("a"))
    assert world.everything() == before
    assert adopt(world.controller, world.task("a"), wish=Wish(is_forced=True)).commit == world.repo.head()


def test_a_task_is_adopted_once(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    adopt(world.controller, world.task("a"))
    before = world.everything()
    for act in (adopt, discard):
        with pytest.raises(NothingToAdopt) as caught:
            act(world.controller, world.task("a"))
        assert "git revert" in (caught.value.hint or "")
    assert world.everything() == before


def test_commits_that_go_back_before_the_base_are_told_and_not_adopted_unasked(world: Any) -> None:
    world.repo.commit("second", a_txt="second\n")
    world.run(world.shell("a", "git reset -q --hard HEAD~1; echo 1 >> b.txt"))
    result = world.result("a")
    assert "does not descend from the base" in result["risks"][0]
    assert result["files_changed"] == ["a.txt", "b.txt"]
    before = world.everything()
    with pytest.raises(AdoptionRefused) as caught:
        adopt(world.controller, world.task("a"))
    assert "do not descend" in caught.value.message
    assert world.everything() == before
    adopt(world.controller, world.task("a"), wish=Wish(is_forced=True))
    assert (world.repo.path / "a.txt").read_text() == "second\n"
    assert (world.repo.path / "b.txt").read_text() == "beta\n1\n"


def test_what_changed_nothing_cannot_be_adopted(world: Any) -> None:
    world.run(world.shell("a", "true"))
    with pytest.raises(NothingToAdopt):
        adopt(world.controller, world.task("a"))


def test_work_that_the_branch_has_already_is_adopted_without_a_commit(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    head = world.repo.commit("the same by hand", a_txt="alpha\n1\n")
    done = adopt(world.controller, world.task("a"))
    assert (done.was_contained, done.commit, world.repo.head()) == (True, head, head)


def test_an_open_task_is_neither_adopted_nor_discarded(world: Any, tmp_path: Path) -> None:
    refused: list[str] = []

    class Trying(list[Any]):
        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_running":
                for act in (adopt, discard):
                    with pytest.raises(TaskStillOpen):
                        act(world.controller, world.task("a"))
                    refused.append(report.event)

    world.run(world.shell("a", "true"), reports=Trying())
    assert len(refused) == 2


@pytest.mark.parametrize("own", ["", "git commit -qam own"])
def test_an_adoption_interrupted_before_it_was_recorded_is_finished_by_the_next(
    world: Any, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    world.run(world.shell("a", f"echo 1 >> a.txt; {own}"))
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "_record", _fail)
        with pytest.raises(ZeroDivisionError):
            adopt(world.controller, world.task("a"))
    moved = world.everything()
    assert world.task("a").adoption_status == "pending"
    done = adopt(world.controller, world.task("a"))
    assert (done.was_contained, done.commit) == (True, world.repo.head())
    assert world.everything() == moved
    assert world.task("a").adoption_status == "adopted"


def _fail(*_args: Any, **_kwargs: Any) -> Any:
    raise ZeroDivisionError("killed")


def test_two_adoptions_at_once_bring_the_work_in_once(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    task, head = world.task("a"), world.repo.head()
    outcomes: list[Any] = []

    def one() -> None:
        try:
            outcomes.append(adopt(world.controller, task))
        except Exception as error:  # noqa: BLE001 - one of two may be refused; which one is open
            outcomes.append(error)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(anyio.to_thread.run_sync, one)

    anyio.run(main)
    assert len(log(world, head)) == 1
    assert world.task("a").adoption_status == "adopted"
    notes = [kind for kind in world.kinds(task.parent_session_id) if kind == "note"]
    assert len(notes) == 1


def test_discarding_keeps_the_work_under_a_ref_and_gives_the_worktree_up(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    worktree, before = world.worktree("a"), world.everything()
    (worktree / "later.txt").write_text("after the result\n")
    discard(world.controller, world.task("a"))
    task = world.task("a")
    assert (task.adoption_status, task.kept_reason) == ("discarded", None)
    assert not worktree.exists()
    assert world.everything() == before
    assert world.repo.git("show", f"{task.result_ref}:a.txt") == "alpha\n1\n"
    assert world.repo.git("show", f"refs/bridge/tasks/{task.id}/discarded:later.txt") == "after the result\n"
    with pytest.raises(NothingToAdopt):
        adopt(world.controller, task)


def test_a_worktree_with_work_later_than_the_result_stays_after_adoption(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    worktree = world.worktree("a")
    (worktree / "later.txt").write_text("after the result\n")
    adopt(world.controller, world.task("a"))
    assert world.task("a").adoption_status == "adopted"
    assert "uncommitted" in world.task("a").kept_reason
    assert (worktree / "later.txt").read_text() == "after the result\n"
    assert world.details("a")["worktree_status"] == "kept"


def test_adoption_goes_to_the_checkout_that_delegated(world: Any, tmp_path: Path) -> None:
    """A plan run in a linked worktree, in a session of the main checkout."""
    session_id = world.session("begin")
    world.repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    workspace = world.register(tmp_path / "side")
    plan = world.plan(world.shell("a", "echo 1 >> a.txt"), session_id=session_id)
    anyio.run(run_plan, world.controller, workspace, plan)
    main = world.everything()
    done = adopt(world.controller, world.task("a"))
    assert done.branch == "refs/heads/side"
    assert (tmp_path / "side/a.txt").read_text() == "alpha\n1\n"
    after = world.everything()
    assert main.pop("refs") != after.pop("refs")
    assert main == after
