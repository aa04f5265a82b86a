"""Merging without a checkout, and bringing a commit into a checkout that has work in progress."""

from __future__ import annotations

import pytest

from bridge.git.commits import commit_tree, tree_of
from bridge.git.errors import CheckoutBlocked, CommitMissing, GitFailed, NotAFastForward, RefMoved
from bridge.git.merging import fast_forward_checkout, merge_tree
from bridge.git.repository import discover


@pytest.fixture
def location(repository):
    return discover(repository.path)


@pytest.fixture
def target(repository):
    """A commit ahead of main: changes a.txt, adds new.txt; main stays where it was."""
    repository.git("checkout", "-qb", "task")
    repository.write("new.txt", "from the task\n")
    commit = repository.commit("task", a_txt="from the task\n")
    repository.git("checkout", "-q", "main")
    return commit


def test_a_clean_merge_yields_a_tree_and_touches_nothing(repository, location, look):
    repository.git("checkout", "-qb", "side")
    side = repository.commit("side", new_txt="side\n")
    repository.git("checkout", "-q", "main")
    main = repository.commit("main", b_txt="main\n")
    before = look(repository.path).state
    outcome = merge_tree(location, main, side)
    assert outcome.is_clean
    assert repository.git("show", f"{outcome.tree}:new.txt") == "side\n"
    assert repository.git("show", f"{outcome.tree}:b.txt") == "main\n"
    assert look(repository.path).state == before
    merged = commit_tree(location, outcome.tree, [main, side], "merged")
    assert tree_of(location, merged) == outcome.tree


def test_a_merge_follows_a_rename(repository, location):
    body = "".join(f"line {number}\n" for number in range(30))
    repository.commit("base", old_txt=body)
    repository.git("checkout", "-qb", "side")
    repository.write("old.txt", "first\n" + body)
    side = repository.commit("edit")
    repository.git("checkout", "-q", "main")
    repository.git("mv", "old.txt", "renamed.txt")
    main = repository.commit("rename")
    outcome = merge_tree(location, main, side)
    assert outcome.is_clean
    assert repository.git("show", f"{outcome.tree}:renamed.txt").startswith("first\n")


def test_conflicts_are_named_with_their_stages_and_messages(repository, location):
    repository.commit("base", deleted_txt="base\n")
    repository.git("checkout", "-qb", "side")
    repository.write("new\nline", "side\n")
    repository.write("deleted.txt", "edited\n")
    side = repository.commit("side", a_txt="side\n")
    repository.git("checkout", "-q", "main")
    repository.write("new\nline", "main\n")
    repository.git("rm", "-q", "deleted.txt")
    main = repository.commit("main", a_txt="main\n")
    outcome = merge_tree(location, main, side)
    assert not outcome.is_clean
    stages = {conflict.path: sorted(conflict.stages) for conflict in outcome.conflicts}
    assert stages == {b"a.txt": [1, 2, 3], b"deleted.txt": [1, 3], b"new\nline": [2, 3]}
    kinds = {message.kind for message in outcome.messages}
    assert {"CONFLICT (contents)", "CONFLICT (modify/delete)"} <= kinds
    assert any(b"deleted.txt" in message.paths for message in outcome.messages)


def test_unrelated_histories_are_gits_refusal(repository, location):
    main = repository.head()
    repository.git("checkout", "-q", "--orphan", "other")
    other = repository.commit("other", a_txt="other\n")
    with pytest.raises(GitFailed):
        merge_tree(location, main, other)


def test_a_checkout_moves_forward_and_unrelated_work_stays(repository, target, look):
    repository.write("b.txt", "unstaged\n")
    repository.write("staged.txt", "staged\n")
    repository.git("add", "staged.txt")
    repository.write("untracked.txt", "untracked\n")
    listed = look.listed(repository.path)
    base = repository.head()
    fast_forward_checkout(repository.path, target, expected_head=base)
    assert repository.head() == target
    assert repository.git("symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert (repository.path / "a.txt").read_text() == "from the task\n"
    assert (repository.path / "b.txt").read_text() == "unstaged\n"
    assert look.listed(repository.path) == listed


def test_a_detached_checkout_moves_forward(repository, target, look):
    repository.git("checkout", "-q", "--detach")
    fast_forward_checkout(repository.path, target)
    seen = look(repository.path)
    assert (seen.state.head, seen.state.ref, seen.is_clean) == (target, None, True)


@pytest.mark.parametrize("clash", ["unstaged", "staged", "untracked", "ignored", "folder", "deleted"])
def test_work_in_the_way_is_named_and_nothing_changes(repository, target, look, clash):
    path = {"untracked": "new.txt", "ignored": "new.txt", "folder": "new.txt"}.get(clash, "a.txt")
    if clash == "ignored":
        (repository.path / ".git" / "info").mkdir(exist_ok=True)
        (repository.path / ".git" / "info" / "exclude").write_text("new.txt\n")
    if clash == "folder":
        repository.write("new.txt/inside", "mine\n")
    elif clash == "deleted":
        repository.git("rm", "-q", "a.txt")
        repository.write("a.txt/inside", "mine\n")
    else:
        repository.write(path, "mine\n")
    if clash == "staged":
        repository.git("add", "a.txt")
    repository.write("b.txt", "unrelated\n")
    before, entries = look(repository.path), repository.git("ls-files", "-s")
    with pytest.raises(CheckoutBlocked) as caught:
        fast_forward_checkout(repository.path, target)
    assert any(name.startswith(path) for name in caught.value.details["paths"])
    assert "b.txt" not in caught.value.details["paths"]
    assert look(repository.path).state == before.state
    assert repository.git("ls-files", "-s") == entries


def test_user_settings_do_not_turn_a_fast_forward_into_something_else(repository, target, tmp_path, look):
    marker = tmp_path / "ran"
    hook = repository.path / ".git" / "hooks" / "post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    for name, value in [
        ("merge.ff", "false"),
        ("branch.main.mergeOptions", "--squash --no-commit"),
        ("merge.autoStash", "true"),
        ("merge.verifySignatures", "true"),
        ("commit.gpgSign", "true"),
        ("gpg.program", "/nonexistent"),
    ]:
        repository.git("config", name, value)
    repository.write("b.txt", "mine\n")
    fast_forward_checkout(repository.path, target)
    assert repository.head() == target
    assert not marker.exists()
    assert look.listed(repository.path) == {b"b.txt": ".M"}
    assert repository.git("stash", "list") == ""


def test_a_head_that_moved_since_is_refused(repository, target, look):
    base = repository.head()
    repository.commit("meanwhile", b_txt="meanwhile\n")
    before = look(repository.path).state
    with pytest.raises(RefMoved):
        fast_forward_checkout(repository.path, target, expected_head=base)
    with pytest.raises(NotAFastForward):
        fast_forward_checkout(repository.path, target)
    assert look(repository.path).state == before


def test_a_missing_commit_is_refused(repository):
    with pytest.raises(CommitMissing):
        fast_forward_checkout(repository.path, "1" * 40)


def test_an_operation_in_progress_is_refused(repository, target, look):
    repository.git("revert", "--no-commit", "HEAD", check=False)
    (repository.path / ".git" / "MERGE_HEAD").write_text(f"{target}\n")
    before = look(repository.path).state
    with pytest.raises(CheckoutBlocked) as caught:
        fast_forward_checkout(repository.path, target)
    assert caught.value.details["operation"] == "merge"
    assert look(repository.path).state == before


def test_a_commit_that_is_already_there_changes_nothing(repository, look):
    before = look(repository.path).state
    fast_forward_checkout(repository.path, repository.head())
    assert look(repository.path).state == before
