"""Several tasks at once, in every way that commits can come; previews, checks, hooks, signatures, other branches."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.discarding import discard
from bridge.control.delegations.adoption.model import MAX_TASKS, Method, Wish
from bridge.control.delegations.adoption.previewing import preview
from bridge.control.errors import (
    AdoptionCheckFailed,
    AdoptionConflict,
    AdoptionRefused,
    NothingToAdopt,
    OutOfScopeWrites,
)
from bridge.git.errors import BranchCheckedOut, CheckoutBlocked, CommitRefused

USER = "committer@example.invalid"


def log(world: Any, since: str, form: str = "%s") -> list[str]:
    return world.repo.git("log", f"--format={form}", f"{since}..HEAD").splitlines()  # type: ignore[no-any-return]


def tasks(world: Any, *names: str) -> list[Any]:
    return [world.task(name) for name in names]


def hook(world: Any, name: str, body: str, folder: str = ".git/hooks") -> None:
    world.repo.write(f"{folder}/{name}", f"#!/bin/sh\n{body}\n").chmod(0o755)


def scratches(world: Any) -> list[Path]:
    return [path for path in world.controller.settings.scratch.rglob("scratch-*") if path.parent.parent.name]


def assert_nothing_stranded(world: Any, *names: str) -> None:
    """Nothing waits, nothing stands around: neither tasks, worktrees, scratch worktrees nor marks of adoptions."""
    for name in names:
        details = world.details(name)
        assert (details["adoption_status"], details["worktree_status"]) == ("adopted", "removed")
    assert world.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert scratches(world) == []
    assert "adopting" not in world.repo.git("for-each-ref", "--format=%(refname)", "refs/bridge")


def test_several_tasks_come_together(world: Any) -> None:
    head = world.repo.head()
    world.run(
        world.shell("a", "echo 1 >> a.txt; git commit -qam own; echo new > left.txt")
        + world.shell("b", "echo 1 >> b.txt")
        + world.shell("c", "echo c > c.txt; git add c.txt; git commit -qm theirs")
    )
    done = adopt(world.controller, *tasks(world, "a", "b", "c", "a"))
    assert done.files_changed == ("a.txt", "b.txt", "c.txt", "left.txt")
    assert [task.method for task in done.tasks] == ["fast_forward", "commit", "merge"]
    assert [task.files_changed for task in done.tasks] == [("a.txt", "left.txt"), ("b.txt",), ("c.txt",)]
    assert {"own", "theirs"} < set(log(world, head))
    assert set(log(world, head, "%ce")) == {USER}
    assert (done.previous, done.commit) == (head, world.repo.head())
    assert world.repo.git("status", "--porcelain") == ""
    assert_nothing_stranded(world, "a", "b", "c")
    notes = [entry.payload["text"] for entry in world.path(world.task("a").parent_session_id) if entry.kind == "note"]
    assert len(notes) == 1
    assert [f"Adopted {name}" in notes[0] for name in "abc"] == [True] * 3


@pytest.mark.parametrize("method", list(Method))
def test_every_way_brings_the_same_files(world: Any, method: Method) -> None:
    world.run(
        world.shell(
            "a", "echo 1 >> a.txt; git commit -qam one; echo 2 >> a.txt; git commit -qam two; echo l > left.txt"
        )
        + world.shell("b", "echo 1 >> b.txt; git commit -qam three --author='Somebody <s@example.invalid>'")
    )
    head = world.repo.commit("meanwhile", c_txt="c\n")
    world.repo.write("untracked.txt", "the user's\n")
    done = adopt(world.controller, *tasks(world, "a", "b"), wish=Wish(method=method))
    assert [(world.repo.path / f"{name}.txt").read_text() for name in ("a", "b", "c", "left", "untracked")] == [
        "alpha\n1\n2\n",
        "beta\n1\n",
        "c\n",
        "l\n",
        "the user's\n",
    ]
    merges = [line for line in log(world, head, "%p") if " " in line]
    subjects = log(world, head)
    if method in {Method.AUTO, Method.MERGE}:
        assert len(merges) == 2
        assert {"one", "two", "three"} < set(subjects)
        assert world.task("a").worker_commit in world.repo.git("rev-list", "HEAD")
    elif method is Method.SQUASH:
        assert (merges, subjects) == ([], ["Adopt b: do b", "Adopt a: do a"])
    else:
        assert (merges, subjects) == ([], ["three", "Adopt a: do a", "two", "one"])
        assert "Somebody <s@example.invalid>" in log(world, head, "%an <%ae>")
    assert set(log(world, head, "%ce")) == {USER}
    assert {task.method for task in done.tasks} <= {"merge", "squash", "pick"}
    assert_nothing_stranded(world, "a", "b")


def test_a_merge_commit_is_made_where_one_is_wanted_even_if_the_branch_has_not_moved(world: Any) -> None:
    head = world.repo.head()
    world.run(world.shell("a", "echo 1 >> a.txt; git commit -qam own") + world.shell("b", "echo 1 >> b.txt"))
    adopt(world.controller, *tasks(world, "a", "b"), wish=Wish(method=Method.MERGE, message="Take it\n\nwhole"))
    assert len([line for line in log(world, head, "%p") if " " in line]) == 2
    assert world.repo.git("log", "-1", "--format=%B").startswith("Take it\n\nwhole\n\nBridge-Delegation: ")


def test_own_commits_on_carried_work_are_picked_and_the_snapshot_stays_out(world: Any) -> None:
    world.repo.write("a.txt", "edited\n")
    head = world.repo.head()
    world.run(
        'dirty = "carry"\n' + world.shell("a", "echo 1 >> b.txt; git commit -qam one; echo 2 >> b.txt; echo n > n")
    )
    done = adopt(world.controller, world.task("a"))
    assert (done.tasks[0].method, log(world, head)) == ("pick", ["Adopt a: do a", "one"])
    assert world.task("a").base_commit not in world.repo.git("rev-list", "HEAD")
    assert world.repo.git("show", "HEAD:a.txt") == "alpha\n"
    assert (world.repo.path / "a.txt").read_text() == "edited\n"
    assert_nothing_stranded(world, "a")


def test_two_workers_that_clash_are_told_apart_from_a_clash_with_the_branch(world: Any) -> None:
    world.run(
        world.shell("a", "echo one > a.txt")
        + world.shell("b", "echo two > a.txt; echo 1 >> b.txt")
        + world.shell("c", "echo mine > c.txt")
    )
    before = world.everything()
    with pytest.raises(AdoptionConflict) as caught:
        adopt(world.controller, *tasks(world, "c", "a", "b"))
    assert caught.value.details["paths"] == ["a.txt"]
    assert caught.value.details["with_tasks"] == ["a"]
    assert "Adopting b conflicts with a, adopted together with it, in 1 files: a.txt" in caught.value.message
    world.repo.commit("ours", c_txt="ours\n")
    committed = world.everything()
    with pytest.raises(AdoptionConflict) as caught:
        adopt(world.controller, *tasks(world, "a", "c"))
    assert (caught.value.details["paths"], caught.value.details["with_tasks"]) == (["c.txt"], [])
    assert world.everything() == committed
    assert before["a.txt"] == committed["a.txt"]
    assert {world.task(name).adoption_status for name in "abc"} == {"pending"}


def test_a_preview_tells_everything_and_changes_nothing(world: Any) -> None:
    passed = '[{"command": "make test", "status": "passed"}]'
    world.run(
        world.worker(
            "a",
            f"open('a.txt', 'a').write('1\\n'); open('x', 'w').write('x'); hand_in(tests={passed})",
            owned_paths=["a.txt"],
        )
        + world.shell("b", "echo two > a.txt")
        + world.shell("c", "true")
        + world.shell("d", "echo d > d.txt")
    )
    world.repo.commit("meanwhile", z_txt="z\n")
    world.repo.write("d.txt", "in the way\n")
    before, counts = world.everything(), [world.count(table) for table in ("session_entries", "audit_events")]
    found = preview(world.controller, *tasks(world, "a", "b", "c", "d"), wish=Wish(allows_out_of_scope=True)).to_json()
    a, b, c, d = found["tasks"]
    assert found["is_adoptable"] is False
    assert (found["branch"], found["tip"]) == ("refs/heads/main", world.repo.head())
    assert (a["method"], a["files_changed"], a["out_of_scope"]) == ("commit", ["a.txt", "x"], ["x"])
    assert (a["has_base_moved"], a["verification"]["status"]) == (True, "reopened")
    assert a["verification"]["tests"] == [{"command": "make test", "status": "passed"}]
    assert (b["method"], b["conflicts"], b["conflicts_with"]) == ("conflict", ["a.txt"], ["a"])
    assert b["obstacle"]["code"] == "adoption_conflict"
    assert c["obstacle"]["code"] == "nothing_to_adopt"
    assert (d["method"], d["obstacle"]) == ("commit", None)
    assert [obstacle["code"] for obstacle in found["blocked_by"]] == ["checkout_blocked"]
    assert found["blocked_by"][0]["details"]["paths"] == ["d.txt"]
    strict = preview(world.controller, world.task("a"))
    assert (strict.tasks[0].obstacle or pytest.fail("nothing")).code == "out_of_scope_writes"
    assert world.everything() == before
    assert counts == [world.count(table) for table in ("session_entries", "audit_events")]
    assert preview(world.controller, world.task("b")).is_adoptable


def test_a_check_sees_the_combined_files_and_nothing_moves_if_it_fails(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt") + world.shell("b", "echo 1 >> b.txt; git commit -qam own"))
    world.repo.write("mine.txt", "uncommitted\n")
    before = world.everything()
    wish = Wish(check="grep -c 1 a.txt b.txt; ls mine.txt; pwd >&2; exit 3")
    with pytest.raises(AdoptionCheckFailed) as caught:
        adopt(world.controller, *tasks(world, "a", "b"), wish=wish)
    details = caught.value.details
    kept = Path(details["log"]).read_text()
    assert (details["exit_status"], details["reason"], kept) == (3, "exited", details["log_tail"])
    assert "a.txt:1\nb.txt:1\n" in kept
    assert "No such file" in kept
    assert str(world.controller.settings.scratch) in kept
    assert world.everything() == before
    assert scratches(world) == []
    assert [obstacle.code for obstacle in preview(world.controller, world.task("a"), wish=wish).blocked_by] == [
        "adoption_check_failed"
    ]
    done = adopt(world.controller, *tasks(world, "a", "b"), wish=Wish(check="test $(cat a.txt b.txt | grep -c 1) = 2"))
    assert done.check is not None
    assert done.check.tree == world.repo.git("rev-parse", "HEAD^{tree}").strip()
    assert_nothing_stranded(world, "a", "b")


def test_a_check_that_does_not_end_is_ended(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    before = world.everything()
    with pytest.raises(AdoptionCheckFailed, match="timed_out"):
        adopt(world.controller, world.task("a"), wish=Wish(check="sleep 60", check_timeout_seconds=0.2))
    assert world.everything() == before


@pytest.mark.parametrize("folder", [".git/hooks", "hooks here"])
def test_the_users_hooks_run_for_commits_that_are_made(world: Any, folder: str, tmp_path: Path) -> None:
    """They see the files as they will be, not the checkout; a relative folder counts from the checkout."""
    seen = tmp_path / "seen"
    if folder != ".git/hooks":
        world.repo.git("config", "core.hooksPath", folder)
    hook(
        world,
        "pre-commit",
        f'cat a.txt >> "{seen}"; git diff --cached --name-only >> "{seen}"; pwd >> "{seen}"',
        folder,
    )
    hook(world, "commit-msg", 'echo "Signed-off-by: hook" >> "$1"', folder)
    world.run('dirty = "ignore"\n' + world.shell("a", "echo 1 >> a.txt"))
    adopt(world.controller, world.task("a"))
    lines = seen.read_text().splitlines()
    assert lines[:3] == ["alpha", "1", "a.txt"]
    assert lines[3].startswith(str(world.controller.settings.scratch))
    assert "Signed-off-by: hook" in world.repo.git("log", "-1", "--format=%B")
    assert (world.repo.path / "a.txt").read_text() == "alpha\n1\n"
    assert scratches(world) == []


def test_hooks_run_for_merges_and_picks_and_what_they_change_is_taken(world: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook(world, "pre-commit", f'echo x >> "{seen}"; echo formatted > formatted.txt; git add formatted.txt')
    world.run(
        world.shell("a", "echo 1 >> a.txt; git commit -qn -am own")
        + world.shell("b", "echo 1 >> b.txt; git commit -qn -am two")
    )
    world.repo.git("commit", "-q", "--no-verify", "--allow-empty", "-m", "meanwhile")
    head = world.repo.head()
    adopt(world.controller, world.task("a"))
    assert world.repo.git("log", "-1", "--format=%P").split() == [head, world.task("a").worker_commit]
    adopt(world.controller, world.task("b"), wish=Wish(method=Method.PICK))
    assert seen.read_text() == "x\nx\n"
    assert (world.repo.path / "formatted.txt").read_text() == "formatted\n"
    assert [(world.repo.path / name).read_text() for name in ("a.txt", "b.txt")] == ["alpha\n1\n", "beta\n1\n"]
    assert world.repo.git("status", "--porcelain") == ""


def test_a_hook_that_refuses_changes_nothing_and_can_be_left_out(world: Any) -> None:
    hook(world, "pre-commit", "echo no debugging left in >&2; exit 1")
    world.run(world.shell("a", "echo 1 >> a.txt"))
    before = world.everything()
    with pytest.raises(CommitRefused, match="no debugging left in"):
        adopt(world.controller, world.task("a"))
    assert world.everything() == before
    assert scratches(world) == []
    assert adopt(world.controller, world.task("a"), wish=Wish(runs_hooks=False)).commit == world.repo.head()


@pytest.mark.parametrize("has_hook", [False, True])
def test_commits_are_signed_where_the_user_signs(world: Any, tmp_path: Path, has_hook: bool) -> None:
    program = tmp_path / "gpg"
    program.write_text(
        "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED D' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\nmade up\\n-----END PGP SIGNATURE-----\\n'\n"
    )
    program.chmod(0o755)
    world.repo.git("config", "gpg.program", str(program))
    if has_hook:
        hook(world, "pre-commit", "true")
    world.run(world.shell("a", "echo 1 >> a.txt") + world.shell("b", "echo 1 >> b.txt"))
    world.repo.git("config", "commit.gpgSign", "true")
    adopt(world.controller, world.task("a"))
    assert "made up" in world.repo.git("cat-file", "commit", "HEAD")
    adopt(world.controller, world.task("b"), wish=Wish(is_signed=False))
    assert "made up" not in world.repo.git("cat-file", "commit", "HEAD")


def test_commits_go_to_the_branch_they_were_asked_for_on(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    world.repo.git("switch", "-q", "-c", "elsewhere")
    world.repo.write("a.txt", "in progress\n")
    before = world.everything()
    done = adopt(world.controller, world.task("a"))
    after = world.everything()
    assert (done.branch, done.is_checked_out) == ("refs/heads/main", False)
    assert before.pop("refs") != after.pop("refs")
    assert before == after
    assert world.repo.git("show", "main:a.txt") == "alpha\n1\n"
    subprocess.run(["/bin/sh", "-c", done.undo], check=True)
    assert world.repo.git("rev-parse", "main").strip() == done.previous
    assert_nothing_stranded(world, "a")


def test_fc_53_a_branch_that_another_worktree_holds_is_refused_by_its_name(world: Any, tmp_path: Path) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    world.repo.git("switch", "-q", "-c", "elsewhere")
    world.repo.git("worktree", "add", "-q", str(tmp_path / "holder"), "main")
    before = world.everything()
    with pytest.raises(BranchCheckedOut) as caught:
        adopt(world.controller, world.task("a"))
    assert caught.value.details == {"branch": "refs/heads/main", "worktree": str(tmp_path / "holder")}
    assert world.everything() == before
    assert world.task("a").adoption_status == "pending"
    assert world.worktree("a").is_dir()
    world.repo.git("worktree", "remove", str(tmp_path / "holder"))
    assert adopt(world.controller, world.task("a")).branch == "refs/heads/main"


@pytest.mark.parametrize("into", ["gone", "main~0", "-x", "a b"])
def test_a_branch_that_is_none_takes_nothing(world: Any, into: str) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    before = world.everything()
    with pytest.raises(AdoptionRefused):
        adopt(world.controller, world.task("a"), wish=Wish(into=into))
    assert world.everything() == before


def test_tasks_of_different_branches_come_together_only_onto_a_named_one(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    world.repo.git("switch", "-q", "-c", "feature")
    world.run(world.shell("b", "echo 1 >> b.txt"))
    with pytest.raises(AdoptionRefused) as caught:
        adopt(world.controller, *tasks(world, "a", "b"))
    assert caught.value.details["branches"] == ["feature", "main"]
    done = adopt(world.controller, *tasks(world, "a", "b"), wish=Wish(into="feature"))
    assert (done.branch, done.files_changed) == ("refs/heads/feature", ("a.txt", "b.txt"))


def test_the_number_of_tasks_is_bounded(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    task = world.task("a")
    with pytest.raises(AdoptionRefused):
        adopt(world.controller)
    many = [replace(task, id=f"d{number}") for number in range(MAX_TASKS + 1)]
    with pytest.raises(AdoptionRefused) as caught:
        adopt(world.controller, *many)
    assert caught.value.details == {"tasks": MAX_TASKS + 1, "limit": MAX_TASKS}


@pytest.mark.parametrize("keys", [{"owned_paths": ["a.txt"]}, {"write": "read_only", "role": "research"}])
def test_writes_out_of_scope_wait_for_a_decision(world: Any, keys: dict[str, Any]) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; echo 1 >> b.txt; git commit -qam own", **keys))
    before = world.everything()
    with pytest.raises(OutOfScopeWrites) as caught:
        adopt(world.controller, world.task("a"))
    assert caught.value.details["paths"] == (["b.txt"] if "owned_paths" in keys else ["a.txt", "b.txt"])
    assert world.everything() == before
    done = adopt(world.controller, world.task("a"), wish=Wish(allows_out_of_scope=True))
    assert done.files_changed == ("a.txt", "b.txt")
    assert "b.txt" in done.tasks[0].out_of_scope


def test_allowing_writes_out_of_scope_allows_nothing_else(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt; exit 1"))
    with pytest.raises(AdoptionRefused, match="ended as failed"):
        adopt(world.controller, world.task("a"), wish=Wish(allows_out_of_scope=True))


def test_verification_holds_for_the_very_files_it_was_gained_on(world: Any) -> None:
    passed = '[{"command": "make test", "status": "passed"}]'
    bodies = {name: f"open('{name}.txt', 'a').write('1\\n'); hand_in(tests={passed})" for name in "ab"}
    world.run("".join(world.worker(name, body) for name, body in bodies.items()))
    first = adopt(world.controller, world.task("a")).tasks[0].verification
    assert (str(first.status), first.tested_tree) == ("holds", first.adopted_tree)
    second = adopt(world.controller, world.task("b")).tasks[0].verification
    assert str(second.status) == "reopened"
    assert second.tested_tree != second.adopted_tree
    session_id = world.task("b").parent_session_id
    assert "its verification is open again" in world.path(session_id)[-1].payload["text"]
    recorded = [body["verification"] for kind, body in world.events(session_id) if kind == "delegation.adopted"]
    assert recorded == ["holds", "reopened"]


def test_fc_56_what_is_printed_takes_it_back_and_keeps_work_in_progress(world: Any) -> None:
    world.repo.commit("more", staged_txt="s\n", unstaged_txt="u\n")
    world.run(world.shell("a", "echo 1 >> a.txt; echo new > new.txt"))
    world.repo.write("unstaged.txt", "unstaged edit\n")
    world.repo.write("untracked.txt", "untracked\n")
    before = world.everything()
    done = adopt(world.controller, world.task("a"))
    world.repo.write("a.txt", "edited later\n")
    adopted = world.everything()
    assert subprocess.run(["/bin/sh", "-c", done.undo], capture_output=True, check=False).returncode != 0
    assert world.everything() == adopted
    world.repo.write("a.txt", "alpha\n1\n")
    subprocess.run(["/bin/sh", "-c", done.undo], check=True, capture_output=True)
    after = world.everything()
    assert {key: value for key, value in after.items() if key != ".git/index"} == {
        key: value for key, value in before.items() if key != ".git/index"
    }
    again = adopt(world.controller, world.task("a"))
    assert (again.was_contained, again.files_changed) == (False, ("a.txt", "new.txt"))
    with pytest.raises(NothingToAdopt):
        discard(world.controller, world.task("a"))
    subprocess.run(["/bin/sh", "-c", again.undo], check=True, capture_output=True)
    assert discard(world.controller, world.task("a")).adoption_status == "discarded"


def test_work_in_the_way_is_found_before_hooks_and_checks_run(world: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook(world, "pre-commit", f'touch "{seen}"')
    world.run(world.shell("a", "echo 1 >> a.txt"))
    world.repo.write("a.txt", "the user's\n")
    before = world.everything()
    with pytest.raises(CheckoutBlocked):
        adopt(world.controller, world.task("a"), wish=Wish(check=f'touch "{seen}"'))
    assert world.everything() == before
    assert not seen.exists()
