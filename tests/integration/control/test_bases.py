"""Where workers work: the base of their worktree, what happens to it behind Bridge's back, what of it is kept."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.agents.policy_model import PolicyLimits
from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.model import Wish
from bridge.control.delegations.tasks import worktree_path
from bridge.control.errors import AdoptionRefused, BaseUnavailable
from bridge.control.plans.scheduling import run_plan
from bridge.git.errors import CommitRefused, GitFailed, GitIdentityMissing, WorktreeNotRegistered
from bridge.workspaces.store import load_state

EDIT = "echo more >> a.txt"


@pytest.mark.parametrize("is_detached", [False, True])
def test_fc_29_a_worker_starts_from_the_stamped_head(world: Any, tmp_path: Path, is_detached: bool) -> None:
    subprocess.run(["git", "clone", "-q", world.repo.path, tmp_path / "clone"], check=True)
    clone = type(world.repo)(tmp_path / "clone")
    clone.git("switch", "-q", "-c", "feat", "--track", "origin/main")
    first = clone.commit("one", c_txt="1\n")
    head = clone.commit("two", c_txt="2\n")
    if is_detached:
        clone.git("checkout", "-q", "--detach", first)
        head = first
    world.repo, world.workspace = clone, world.register(clone.path)
    world.run(world.shell("t1", "git rev-parse HEAD"))
    task = world.task("t1")
    assert world.result("t1")["summary"] == head == task.base_commit
    asked = world.entry(task.request_entry_id)
    with world.controller.store.read() as connection:
        stamped = load_state(connection, asked.state_digest)
    assert stamped.head == head
    base = asked.payload["request"]["base"]
    assert (base["commit"], base["ref"]) == (head, None if is_detached else "refs/heads/feat")
    if not is_detached:
        assert (base["upstream"], base["ahead"], base["behind"]) == ("refs/remotes/origin/main", 2, 0)


def test_fc_30_a_task_of_the_same_name_starts_from_todays_head(world: Any) -> None:
    world.run(world.shell("t1", f"git switch -q -c t1; {EDIT}; git commit -qam own"))
    first = world.task("t1")
    tip = world.repo.git("rev-parse", "t1").strip()
    world.repo.git("worktree", "remove", "--force", str(world.worktree("t1")))
    world.repo.commit("main one")
    head = world.repo.commit("main two")
    world.run(world.shell("t1", "git rev-parse HEAD; git symbolic-ref -q HEAD || echo detached"))
    second = world.task("t1")
    assert second.id != first.id
    assert world.result("t1")["summary"].splitlines() == [head, "detached"]
    assert world.repo.git("rev-parse", "t1").strip() == tip


def test_fc_32_two_tasks_of_one_name_at_once_have_their_own_worktrees(
    world: Any, tmp_path: Path, another_controller: Any
) -> None:
    meet = f"touch {tmp_path}/$0; while [ ! -e {tmp_path}/a -o ! -e {tmp_path}/b ]; do sleep 0.02; done; echo $0 > $0"
    plans = [
        world.plan(world.table("t1", command=["/bin/sh", "-c", f"pwd; {meet}", mark], timeout_seconds=90))
        for mark in ("a", "b")
    ]

    async def main() -> list[Any]:
        outcomes = []

        async def one(plan: Any) -> None:
            outcomes.append(await run_plan(world.controller, world.workspace, plan))

        async with anyio.create_task_group() as group:
            for plan in plans:
                group.start_soon(one, plan)
        return outcomes

    tasks = [outcome.delegations[0] for outcome in anyio.run(main)]
    assert all(task.status == "completed" for task in tasks)
    after_restart = another_controller()
    folders = [worktree_path(after_restart, task) for task in tasks]
    assert folders[0] != folders[1]
    files = sorted((folder / mark).read_text() for folder in folders for mark in "ab" if (folder / mark).exists())
    assert files == ["a\n", "b\n"]
    assert len({task.workspace_id for task in tasks}) == 2


def test_fc_33_a_branch_made_and_renamed_in_the_worktree_is_drift_and_nothing_is_lost(world: Any) -> None:
    before = world.everything()
    world.run(world.shell("t1", f"git switch -q -c mine; git branch -m other; {EDIT}"))
    result = world.result("t1")
    assert result["status"] == "completed"
    assert result["files_changed"] == ["a.txt"]
    assert result["risks"] == ["HEAD was detached and is on refs/heads/other now."]
    after = world.everything()
    assert before.pop("refs") != after.pop("refs")  # the worker's own branch
    assert before == after
    assert world.repo.git("show", f"{world.task('t1').result_commit}:a.txt") == "alpha\nmore\n"


def test_fc_34_what_cannot_be_inspected_is_kept_and_never_called_unchanged(world: Any) -> None:
    world.run(world.shell("t1", "echo new > new.txt; printf x > $(git rev-parse --git-dir)/index"))
    task, result = world.task("t1"), world.result("t1")
    assert (result["status"], result["failure_class"]) == ("blocked", "inspection_failed")
    assert "could not be inspected" in result["risks"][0]
    assert "index" in result["risks"][0]
    assert task.adoption_status is None
    assert "index" in task.kept_reason
    assert (world.worktree("t1") / "new.txt").read_text() == "new\n"
    assert result["stamp"]["unknown"] == "git_failed"


def test_fc_34_once_it_can_be_inspected_the_work_can_be_adopted(world: Any) -> None:
    world.run(world.shell("t1", "echo new > new.txt; printf x > $(git rev-parse --git-dir)/index"))
    before = world.everything()
    with pytest.raises(GitFailed):
        adopt(world.controller, world.task("t1"), wish=Wish(is_forced=True))
    assert world.everything() == before
    worktree = type(world.repo)(world.worktree("t1"))
    Path(worktree.git("rev-parse", "--absolute-git-dir").strip(), "index").unlink()
    worktree.git("reset", "-q")
    with pytest.raises(AdoptionRefused):
        adopt(world.controller, world.task("t1"))
    assert world.task("t1").adoption_status == "pending"
    adopt(world.controller, world.task("t1"), wish=Wish(is_forced=True))
    assert (world.repo.path / "new.txt").read_text() == "new\n"
    assert world.details("t1")["worktree_status"] == "removed"


@pytest.mark.parametrize("obstacle", ["signing", "hook", "identity"])
def test_fc_35_fc_37_work_is_kept_without_signature_hook_or_identity(
    world: Any, hermetic_environment: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    if obstacle == "signing":
        world.repo.git("config", "commit.gpgSign", "true")
        world.repo.git("config", "gpg.program", "/nonexistent/gpg")
    elif obstacle == "hook":
        hook = world.repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    else:
        for who in ("AUTHOR", "COMMITTER"):
            for what in ("NAME", "EMAIL"):
                monkeypatch.delenv(f"GIT_{who}_{what}")
    world.run(world.shell("t1", f"{EDIT}; echo new > new.txt"))
    task = world.task("t1")
    assert world.result("t1")["files_changed"] == ["a.txt", "new.txt"]
    assert task.adoption_status == "pending"
    assert world.worktree("t1").is_dir()
    before = world.everything()
    with pytest.raises(GitIdentityMissing if obstacle == "identity" else CommitRefused):
        adopt(world.controller, task)
    assert world.everything() == before
    assert world.task("t1").adoption_status == "pending"
    assert world.worktree("t1").is_dir()
    if obstacle != "identity":
        wish = Wish(runs_hooks=False, is_signed=False)
        assert adopt(world.controller, task, wish=wish).delegation.adoption_status == "adopted"


def test_fc_52_without_a_commit_there_is_nothing_to_start_from(world: Any, tmp_path: Path) -> None:
    (tmp_path / "unborn").mkdir()
    unborn = type(world.repo)(tmp_path / "unborn")
    unborn.git("init", "-q", "-b", "main")
    unborn.write("staged.txt")
    unborn.git("add", "staged.txt")
    unborn.write("untracked.txt")
    world.repo, world.workspace = unborn, world.register(unborn.path)
    before = [world.count(table) for table in ("sessions", "delegations", "plans", "repository_states")]
    with pytest.raises(BaseUnavailable):
        world.run(world.shell("t1", "true"))
    assert before == [world.count(table) for table in ("sessions", "delegations", "plans", "repository_states")]
    unborn.commit("first")
    assert world.run(world.shell("t1", "true")).is_completed


def test_fc_53_a_worker_cannot_take_the_branch_that_is_checked_out(world: Any) -> None:
    world.run(world.shell("t1", "git switch main"))
    result = world.result("t1")
    assert (result["status"], result["failure_class"]) == ("failed", "exit_nonzero")
    assert str(world.repo.path) in result["summary"]


def test_fc_53_a_lost_worktree_leaves_the_task_adoptable(world: Any) -> None:
    world.run(world.shell("t1", f"{EDIT}; git commit -qam own"))
    worktree = world.worktree("t1")
    world.repo.git("worktree", "remove", "--force", str(worktree))
    with pytest.raises(WorktreeNotRegistered):
        worktree_path(world.controller, world.task("t1"))
    adoption = adopt(world.controller, world.task("t1"))
    assert adoption.commit == world.repo.head() == world.task("t1").result_commit
    assert world.details("t1")["worktree_status"] == "removed"


def test_a_worktree_without_changes_is_given_up_at_once(world: Any) -> None:
    world.run(world.shell("t1", "true"))
    details = world.details("t1")
    assert (details["adoption_status"], details["kept_reason"]) == ("empty", None)
    assert details["worktree_status"] == "removed"
    assert not Path(details["worktree"]).exists()
    assert world.repo.git("worktree", "list").count("\n") == 1


def test_a_worktree_that_its_worker_removed_is_told(world: Any) -> None:
    world.run(world.worker("t1", "import shutil; shutil.rmtree(os.getcwd()); hand_in()"))
    result = world.result("t1")
    assert (result["status"], result["failure_class"]) == ("blocked", "inspection_failed")
    assert world.open_tasks() == []


def test_worktrees_are_bounded_over_all_runs(world: Any) -> None:
    world.run(world.shell("t1", EDIT))
    request = world.plan(world.shell("t2", EDIT) + world.shell("t3", "true", write="shared"))
    limited = replace(request, limits=PolicyLimits(max_worktrees=1))
    outcome = anyio.run(run_plan, world.controller, world.workspace, limited)
    assert [str(task.status) for task in outcome.delegations] == ["rejected", "completed"]
    assert world.details("t2")["decision"]["reason"] == "worktrees_exhausted"


def test_a_folder_that_cannot_be_made_is_a_recorded_failure(world: Any) -> None:
    home = world.controller.settings.home
    home.mkdir(exist_ok=True)
    (home / "worktrees").write_text("no folder\n")
    outcome = world.run(world.shell("t1", "true") + world.shell("t2", "true", write="shared"))
    assert [str(task.status) for task in outcome.delegations] == ["failed", "completed"]
    assert world.result("t1")["failure_class"] == "system_error"
    assert world.open_tasks() == []
