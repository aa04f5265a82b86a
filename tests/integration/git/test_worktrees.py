"""Worktrees: exact base, verified, found by path, kept unless nothing can be lost (FC-29, 30, 33, 34, 53)."""

from __future__ import annotations

import os
import shutil

import pytest

from bridge.git.commits import move_branch, preserve
from bridge.git.errors import (
    BranchCheckedOut,
    CommitMissing,
    GitFailed,
    GitTimedOut,
    RefMoved,
    WorktreeMismatch,
    WorktreeNotRegistered,
    WorktreePathTaken,
)
from bridge.git.history import upstream_distance
from bridge.git.removal import ObstacleReason, removal_obstacles
from bridge.git.repository import discover
from bridge.git.worktrees import (
    add_detached,
    add_on_branch,
    branch_holder,
    checkout_drift,
    find_worktree,
    list_worktrees,
    remove_worktree,
    require_registered,
)


@pytest.fixture
def location(repository):
    return discover(repository.path)


@pytest.fixture
def worker(repository, location, tmp_path):
    """A worktree of the repository at HEAD."""
    add_detached(location, tmp_path / "worker", repository.head())
    return type(repository)(tmp_path / "worker")


def test_a_worktree_stands_detached_at_the_commit_and_leaves_the_checkout_alone(repository, location, tmp_path, look):
    base = repository.head()
    repository.commit("later", a_txt="later\n")
    repository.write("b.txt", "uncommitted\n")
    before = look(repository.path).state
    made = add_detached(location, tmp_path / "deep" / "worker", base)
    assert made.root == tmp_path / "deep" / "worker"
    assert made.common_dir == location.common_dir
    seen = look(made.root)
    assert (seen.state.head, seen.state.ref, seen.is_clean) == (base, None, True)
    assert look(repository.path).state == before


@pytest.mark.parametrize("is_detached", [False, True])
def test_fc_29_the_base_is_the_commit_asked_for_not_the_default_branch(repository, tmp_path, is_detached):
    repository.git("clone", "-q", ".", tmp_path / "clone")
    clone = type(repository)(tmp_path / "clone")
    assert clone.git("rev-parse", "--abbrev-ref", "origin/HEAD").strip() == "origin/main"
    clone.git("switch", "-qc", "feat")
    clone.git("branch", "-q", "--set-upstream-to=origin/main")
    clone.commit("one", a_txt="1\n")
    head = clone.commit("two", a_txt="2\n")
    if is_detached:
        clone.git("checkout", "-q", "--detach")
    location = discover(clone.path)
    made = add_detached(location, tmp_path / "worker", head)
    assert type(repository)(made.root).head() == head
    distance = upstream_distance(location, "refs/heads/feat", head)
    assert (distance.upstream, distance.ahead, distance.behind) == ("refs/remotes/origin/main", 2, 0)
    assert upstream_distance(location, "refs/heads/main", head) is not None
    assert upstream_distance(location, "refs/heads/none", head) is None


def test_fc_29_a_worktree_at_another_commit_fails_and_is_removed(repository, location, tmp_path, monkeypatch):
    """Something moves the new worktree's HEAD between its making and the check."""
    base = repository.head()
    later = repository.commit("later", a_txt="later\n")
    from bridge.git import worktrees

    check = worktrees._verified

    def moved(location, path, commit):
        type(repository)(path).git("checkout", "-q", "--detach", later)
        return check(location, path, commit)

    monkeypatch.setattr(worktrees, "_verified", moved)
    with pytest.raises(WorktreeMismatch) as caught:
        add_detached(location, tmp_path / "worker", base)
    assert caught.value.details["expected"] == base
    assert caught.value.details["found"] == later
    assert not (tmp_path / "worker").exists()
    assert find_worktree(location, tmp_path / "worker") is None


def test_fc_30_a_second_worktree_has_todays_head_and_a_leftover_branch_is_not_reused(repository, location, tmp_path):
    first = repository.head()
    path = tmp_path / "worker"
    add_detached(location, path, first)
    type(repository)(path).git("switch", "-qc", "task/t1")
    remove_worktree(location, path)
    repository.commit("one", a_txt="1\n")
    head = repository.commit("two", a_txt="2\n")
    with pytest.raises(RefMoved) as caught:
        add_on_branch(location, path, "refs/heads/task/t1", expected_tip=head)
    assert caught.value.details == {"ref": "refs/heads/task/t1", "expected": head, "found": first}
    assert not path.exists()
    assert type(repository)(add_detached(location, path, head).root).head() == head
    assert repository.git("rev-parse", "task/t1").strip() == first


def test_hooks_do_not_run_when_a_worktree_is_made(repository, location, tmp_path):
    marker = tmp_path / "ran"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repository.path / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
        hook.chmod(0o755)
    add_detached(location, tmp_path / "worker", repository.head())
    preserve(tmp_path / "worker", ref="refs/bridge/x", message="x")
    remove_worktree(location, tmp_path / "worker")
    assert not marker.exists()


def test_filters_do_run_when_a_worktree_is_made(repository, location, tmp_path):
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    repository.git("config", "filter.up.smudge", "tr A-Z a-z")
    repository.write(".gitattributes", "*.dat filter=up\n")
    head = repository.commit("filtered", x_dat="text\n")
    add_detached(location, tmp_path / "worker", head)
    assert (tmp_path / "worker" / "x.dat").read_text() == "text\n"


def test_a_missing_commit_is_a_typed_error(repository, location, tmp_path):
    for commit in ("1" * 40, repository.git("rev-parse", "HEAD^{tree}").strip()):
        with pytest.raises(CommitMissing):
            add_detached(location, tmp_path / "worker", commit)
    assert not (tmp_path / "worker").exists()


def test_a_path_that_is_taken_is_a_typed_error(repository, location, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WorktreePathTaken):
        add_detached(location, tmp_path / "file", repository.head())
    assert (tmp_path / "file").read_text() == "mine"
    add_detached(location, tmp_path / "gone", repository.head())
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(WorktreePathTaken):
        add_detached(location, tmp_path / "gone", repository.head())


def test_a_worktree_that_is_not_done_in_time_is_not_left_half_made(repository, location, tmp_path):
    repository.git("config", "filter.slow.smudge", "sleep 30; cat")
    repository.write(".gitattributes", "*.slow filter=slow\n")
    head = repository.commit("slow", x_slow="x\n")
    with pytest.raises(GitTimedOut):
        add_detached(location, tmp_path / "worker", head, timeout_seconds=1.0)
    assert not (tmp_path / "worker").exists()
    assert find_worktree(location, tmp_path / "worker") is None


def test_a_plain_folder_inside_a_repository_is_refused(repository, location, tmp_path):
    plain = repository.path / "plain"
    plain.mkdir()
    for path in (plain, tmp_path / "absent", tmp_path, repository.path / ".git"):
        with pytest.raises(WorktreeNotRegistered):
            require_registered(path)
    assert require_registered(repository.path).root == repository.path


def test_a_copied_worktree_is_refused(repository, worker, tmp_path):
    """Its .git file leads to a git directory, which leads to the original."""
    shutil.copytree(worker.path, tmp_path / "copy")
    with pytest.raises(WorktreeNotRegistered):
        require_registered(tmp_path / "copy")
    assert require_registered(worker.path).is_linked


def test_a_worktree_is_listed_with_its_facts(repository, location, worker):
    repository.git("worktree", "lock", "--reason", "in use\nby me", worker.path)
    main, linked = list_worktrees(location)
    assert (main.path, main.branch, main.locked) == (repository.path, "refs/heads/main", None)
    assert (linked.path, linked.branch, linked.head) == (worker.path, None, repository.head())
    assert linked.locked == "in use\nby me"
    shutil.rmtree(worker.path)
    repository.git("worktree", "unlock", worker.path)
    assert list_worktrees(location)[1].prunable is not None


def test_fc_33_a_worktree_is_found_by_path_after_its_branch_was_renamed(repository, location, tmp_path, look):
    repository.git("branch", "task/t1")
    path = tmp_path / "worker"
    add_on_branch(location, path, "refs/heads/task/t1", expected_tip=repository.head())
    assert checkout_drift(path, "refs/heads/task/t1").notes == ()
    worker = type(repository)(path)
    worker.git("branch", "-m", "other")
    worker.write("a.txt", "edited\n")
    assert find_worktree(location, path).branch == "refs/heads/other"
    drift = checkout_drift(path, "refs/heads/task/t1")
    assert drift.branch == "refs/heads/other"
    assert "renamed" in drift.notes[0]
    kept = preserve(path, ref="refs/bridge/t1", message="t1")
    assert repository.git("show", f"{kept.commit}:a.txt") == "edited\n"
    assert look(repository.path).is_clean


def test_drift_of_a_detached_worktree_is_told(repository, worker):
    assert checkout_drift(worker.path, None).notes == ()
    worker.git("switch", "-qc", "mine")
    assert "detached" in checkout_drift(worker.path, None).notes[0]
    worker.git("switch", "-q", "--detach")
    assert "detached now" in checkout_drift(worker.path, "refs/heads/mine").notes[0]
    worker.git("switch", "-qc", "second")
    assert "switched" in checkout_drift(worker.path, "refs/heads/mine").notes[0]


def reasons(obstacles) -> set[ObstacleReason]:
    return {obstacle.reason for obstacle in obstacles}


def test_a_worktree_with_nothing_to_lose_has_no_obstacle(repository, location, worker):
    base = repository.head()
    assert removal_obstacles(location, worker.path, base=base) == []
    remove_worktree(location, worker.path)
    assert not worker.path.exists()
    assert find_worktree(location, worker.path) is None


def test_uncommitted_files_are_an_obstacle_until_they_are_kept_and_merged(repository, location, worker):
    base = repository.head()
    worker.write("new", "new\n")
    found = removal_obstacles(location, worker.path, base=base)
    assert [(each.reason, each.paths) for each in found] == [(ObstacleReason.UNCOMMITTED_FILES, (b"new",))]
    with pytest.raises(GitFailed):
        remove_worktree(location, worker.path)
    assert (worker.path / "new").exists()
    kept = preserve(worker.path, ref="refs/bridge/worker", message="worker")
    found = removal_obstacles(location, worker.path, base=base, preserved=kept.commit)
    assert reasons(found) == {ObstacleReason.UNMERGED_COMMITS}
    repository.git("merge", "-q", "--ff-only", kept.commit)
    options = {"base": base, "preserved": kept.commit, "merged_into": ["refs/heads/main"]}
    assert removal_obstacles(location, worker.path, **options) == []
    worker.write("new", "newer\n")
    assert reasons(removal_obstacles(location, worker.path, **options)) == {ObstacleReason.UNCOMMITTED_FILES}
    worker.write("new", "new\n")
    remove_worktree(location, worker.path, is_forced=True)
    assert not worker.path.exists()


def test_unmerged_commits_are_an_obstacle(repository, location, worker):
    base = repository.head()
    worker.commit("work", a_txt="work\n")
    found = removal_obstacles(location, worker.path, base=base, merged_into=["refs/heads/main"])
    assert [(each.reason, each.count) for each in found] == [(ObstacleReason.UNMERGED_COMMITS, 1)]
    repository.git("merge", "-q", "--ff-only", worker.head())
    assert removal_obstacles(location, worker.path, base=base, merged_into=["refs/heads/main"]) == []


def test_fc_34_a_corrupt_index_keeps_the_worktree_with_gits_words(repository, location, worker):
    worker.write("new", "new\n")
    (discover(worker.path).git_dir / "index").write_bytes(b"x")
    found = removal_obstacles(location, worker.path, base=repository.head())
    assert reasons(found) == {ObstacleReason.INSPECTION_FAILED}
    assert "index" in found[0].detail
    with pytest.raises(GitFailed):
        remove_worktree(location, worker.path)
    assert (worker.path / "new").read_text() == "new\n"


def test_a_worktree_whose_registration_is_gone_cannot_be_proven_empty(repository, location, worker):
    shutil.rmtree(discover(worker.path).git_dir)
    assert reasons(removal_obstacles(location, worker.path)) == {ObstacleReason.INSPECTION_FAILED}
    with pytest.raises(WorktreeNotRegistered):
        remove_worktree(location, worker.path, is_forced=True)
    assert (worker.path / "a.txt").exists()


def test_a_missing_base_cannot_prove_anything(location, worker):
    found = removal_obstacles(location, worker.path, base="1" * 40)
    assert reasons(found) == {ObstacleReason.INSPECTION_FAILED}


def test_locks_operations_and_hidden_files_are_obstacles(repository, location, worker):
    base = repository.head()
    repository.git("worktree", "lock", worker.path)
    worker.git("update-index", "--assume-unchanged", "a.txt")
    worker.git("bisect", "start")
    found = reasons(removal_obstacles(location, worker.path, base=base))
    assert found == {ObstacleReason.LOCKED, ObstacleReason.HIDDEN_FILES, ObstacleReason.OPERATION_IN_PROGRESS}
    with pytest.raises(GitFailed):
        remove_worktree(location, worker.path, is_forced=True)


def test_submodules_checked_out_in_a_worktree_are_an_obstacle(repository, location, tmp_path):
    """Their repositories lie in the worktree's own git directory and would go with it."""
    repository.git("clone", "-q", ".", tmp_path / "library")
    repository.git("submodule", "--quiet", "add", f"file://{tmp_path / 'library'}", "sub")
    base = repository.commit("submodule")
    add_detached(location, tmp_path / "worker", base)
    assert removal_obstacles(location, tmp_path / "worker", base=base) == []
    type(repository)(tmp_path / "worker").git("submodule", "--quiet", "update", "--init")
    assert reasons(removal_obstacles(location, tmp_path / "worker", base=base)) == {ObstacleReason.SUBMODULES}


def test_a_sparse_worktree_may_be_removed(repository, location, worker):
    worker.git("sparse-checkout", "set", "--no-cone", "a.txt")
    assert not (worker.path / "b.txt").exists()
    assert removal_obstacles(location, worker.path, base=repository.head()) == []


def test_a_worktree_whose_folder_is_gone_may_still_hold_commits(repository, location, worker):
    base = repository.head()
    worker.commit("work", a_txt="work\n")
    shutil.rmtree(worker.path)
    assert reasons(removal_obstacles(location, worker.path, base=base)) == {ObstacleReason.UNMERGED_COMMITS}
    remove_worktree(location, worker.path)
    assert find_worktree(location, worker.path) is None
    assert removal_obstacles(location, worker.path, base=base) == []


def test_the_main_worktree_is_never_removed(repository, location):
    with pytest.raises(WorktreeNotRegistered):
        remove_worktree(location, repository.path, is_forced=True)
    with pytest.raises(WorktreeNotRegistered):
        remove_worktree(location, repository.path.parent, is_forced=True)
    assert (repository.path / "a.txt").exists()


def test_fc_53_a_branch_that_is_checked_out_elsewhere_is_refused_by_name(repository, location, tmp_path):
    head = repository.head()
    with pytest.raises(BranchCheckedOut) as caught:
        add_on_branch(location, tmp_path / "again", "refs/heads/main", expected_tip=head)
    assert caught.value.details == {"branch": "refs/heads/main", "worktree": str(repository.path)}
    assert not (tmp_path / "again").exists()
    assert len(list_worktrees(location)) == 1
    linked = discover(add_detached(location, tmp_path / "worker", head).root)
    new = type(repository)(linked.root).commit("work", a_txt="work\n")
    with pytest.raises(BranchCheckedOut) as caught:
        move_branch(linked, "refs/heads/main", new, expected=head)
    assert caught.value.details["worktree"] == str(repository.path)
    assert repository.head() == head


def test_fc_53_a_branch_under_rebase_or_bisection_counts_as_checked_out(repository, location):
    repository.git("checkout", "-qb", "side")
    repository.commit("side", a_txt="side\n")
    repository.git("checkout", "-q", "main")
    repository.commit("main", a_txt="main\n")
    repository.git("rebase", "side", check=False)
    assert branch_holder(location, "refs/heads/main") == repository.path
    repository.git("rebase", "--abort")
    repository.git("bisect", "start", "HEAD", "HEAD~1", check=False)
    repository.git("checkout", "-q", "--detach")
    assert branch_holder(location, "refs/heads/main") == repository.path
    assert branch_holder(location, "refs/heads/side") is None


def test_a_worktree_of_a_bare_repository_is_made_and_removed(repository, tmp_path):
    repository.git("clone", "-q", "--bare", ".", tmp_path / "bare")
    bare = discover(tmp_path / "bare")
    made = add_detached(bare, tmp_path / "worker", repository.head())
    assert made.common_dir == tmp_path / "bare"
    assert removal_obstacles(bare, made.root, base=repository.head()) == []
    remove_worktree(bare, made.root)
    assert not os.path.lexists(made.root)
