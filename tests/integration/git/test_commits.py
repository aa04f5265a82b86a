"""Preserving commits and refs (FC-35, FC-37), and commits in the user's name."""

from __future__ import annotations

import os
import subprocess

import pytest

from bridge.git import commits
from bridge.git.commits import (
    commit_tree,
    move_branch,
    preserve,
    read_ref,
    require_bridge_ref,
    snapshot_tree,
    tree_of,
    update_ref,
)
from bridge.git.errors import GitFailed, GitIdentityMissing, RefMoved, UnbornHead, WorktreeNotRegistered
from bridge.git.repository import discover

REF = "refs/bridge/tasks/t1"


@pytest.fixture
def location(repository):
    return discover(repository.path)


def test_a_clean_worktree_is_kept_by_its_head_itself(repository, location):
    kept = preserve(repository.path, ref=REF, message="kept")
    assert (kept.commit, kept.head, kept.had_uncommitted) == (repository.head(), repository.head(), False)
    assert read_ref(location, REF) == repository.head()


def test_all_uncommitted_work_is_kept_and_nothing_of_the_users_changes(repository, location, look, bytes_below):
    repository.commit("more", c_txt="c\n", d_txt="d\n", _gitignore="*.log\n", run_sh="x\n")
    repository.write("a.txt", "staged\n")
    repository.git("add", "a.txt")
    repository.write("a.txt", "staged and edited\n")
    (repository.path / "b.txt").unlink()
    repository.git("mv", "c.txt", "moved.txt")
    (repository.path / "run.sh").chmod(0o755)
    (repository.path / "link").symlink_to("a.txt")
    repository.write("new/untracked.txt", "untracked\n")
    repository.write("ignored.log", "ignored\n")
    repository.write("forced.log", "forced\n")
    repository.git("add", "-f", "forced.log")
    before, index = look(repository.path), (repository.path / ".git" / "index").read_bytes()
    kept = preserve(repository.path, ref=REF, message="everything")
    assert look(repository.path).state == before.state
    assert (repository.path / ".git" / "index").read_bytes() == index
    assert kept.head == repository.head()
    assert kept.had_uncommitted
    assert kept.omitted == ()
    listed = repository.git("ls-tree", "-r", kept.commit).splitlines()
    found = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert found == {
        ".gitignore": "100644",
        "a.txt": "100644",
        "d.txt": "100644",
        "forced.log": "100644",
        "link": "120000",
        "moved.txt": "100644",
        "new/untracked.txt": "100644",
        "run.sh": "100755",
    }
    assert repository.git("show", f"{kept.commit}:a.txt") == "staged and edited\n"
    assert repository.git("rev-parse", f"{kept.commit}^").strip() == kept.head
    assert read_ref(location, REF) == kept.commit
    assert repository.git("for-each-ref", "--format=%(refname)").split() == [REF, "refs/heads/main"]
    assert bytes_below(repository.path / ".git" / "hooks") is not None


def test_an_edit_of_equal_size_in_the_same_tick_as_the_index_is_kept(repository):
    """The private index keeps the times of the original, by which git knows which entries are racy."""
    for number in range(10):
        repository.commit(f"round {number}", a_txt=f"{number}-before\n")
        repository.write("a.txt", f"{number}-after!\n")
        index = repository.path / ".git" / "index"
        moment = os.stat(index).st_mtime_ns
        os.utime(repository.path / "a.txt", ns=(moment, moment))
        kept = preserve(repository.path, ref=REF, message="racy")
        assert repository.git("show", f"{kept.commit}:a.txt") == f"{number}-after!\n"


@pytest.mark.parametrize("fault", ["signing", "pre-commit", "identity"])
def test_fc_35_fc_37_keeping_work_needs_no_signature_hook_or_identity(repository, monkeypatch, fault):
    repository.write("a.txt", "edited\n")
    repository.write("untracked", "work\n")
    if fault == "signing":
        repository.git("config", "commit.gpgSign", "true")
        repository.git("config", "gpg.program", "/nonexistent/gpg")
    elif fault == "pre-commit":
        for name in ("pre-commit", "commit-msg", "prepare-commit-msg", "reference-transaction"):
            hook = repository.path / ".git" / "hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_text("#!/bin/sh\nexit 1\n")
            hook.chmod(0o755)
    else:
        for name in list(os.environ):
            if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")):
                monkeypatch.delenv(name)
        repository.git("config", "user.useConfigOnly", "true")
        with pytest.raises(GitIdentityMissing, match="whose name"):
            _user_commit(repository)
    kept = preserve(repository.path, ref=REF, message="kept")
    assert kept.had_uncommitted
    assert kept.commit != kept.head
    assert repository.git("show", f"{kept.commit}:untracked") == "work\n"
    assert repository.git("log", "-1", "--format=%an <%ae> %cn <%ce>", kept.commit).strip() == (
        "Bridge <bridge@localhost> Bridge <bridge@localhost>"
    )


def _user_commit(repository) -> str:
    location = discover(repository.path)
    return commit_tree(location, tree_of(location, "HEAD"), [repository.head()], "in your name")


def test_a_commit_in_the_users_name_carries_it(repository, location):
    made = _user_commit(repository)
    assert repository.git("log", "-1", "--format=%an %cn %s", made).strip() == (
        "Test Author Test Committer in your name"
    )
    assert repository.head() != made


def test_an_identity_that_git_would_guess_is_not_the_users(repository, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("GIT_AUTHOR", "GIT_COMMITTER")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("EMAIL", "guess@example.invalid")
    with pytest.raises(GitIdentityMissing):
        _user_commit(repository)
    repository.git("config", "user.name", "Configured")
    repository.git("config", "user.email", "configured@example.invalid")
    assert repository.git("log", "-1", "--format=%an", _user_commit(repository)).strip() == "Configured"


def test_fc_37_work_that_cannot_be_kept_fails_loudly(repository, ordinary_user):
    ordinary_user.write("secret", "x").chmod(0)
    with pytest.raises(GitFailed):
        preserve(ordinary_user.path, ref=REF, message="kept")
    assert read_ref(discover(ordinary_user.path), REF) is None


def test_an_unreadable_folder_is_not_left_out_of_a_snapshot_in_silence(ordinary_user):
    folder = ordinary_user.write("closed/secret", "x").parent
    folder.chmod(0)
    with pytest.raises(GitFailed) as caught:
        preserve(ordinary_user.path, ref=REF, message="kept")
    folder.chmod(0o700)
    assert caught.value.details["path"] == "closed"


def test_nested_repositories_are_named_as_omitted(repository):
    for name in ("with", "without"):
        inner = type(repository)(repository.path / name)
        inner.path.mkdir()
        inner.git("init", "-q", "-b", "main")
        inner.write("file", "x\n")
        if name == "with":
            inner.commit("inner")
    repository.write("beside", "kept\n")
    kept = preserve(repository.path, ref=REF, message="kept")
    assert kept.omitted == (b"with", b"without")
    assert repository.git("show", f"{kept.commit}:beside") == "kept\n"
    assert "with" not in repository.git("ls-tree", "--name-only", kept.commit).split()


def test_only_nested_repositories_leave_head_as_the_commit(repository):
    inner = type(repository)(repository.path / "nested")
    inner.path.mkdir()
    inner.git("init", "-q")
    kept = preserve(repository.path, ref=REF, message="kept")
    assert (kept.commit, kept.had_uncommitted, kept.omitted) == (repository.head(), True, (b"nested",))


def test_work_inside_a_submodule_is_named_as_omitted(repository, tmp_path):
    repository.git("clone", "-q", ".", tmp_path / "library")
    repository.git("submodule", "--quiet", "add", f"file://{tmp_path / 'library'}", "sub")
    repository.git("commit", "-qm", "submodule")
    repository.write("sub/a.txt", "edited\n")
    assert preserve(repository.path, ref=REF, message="kept").omitted == (b"sub",)
    commit = type(repository)(repository.path / "sub").commit("inner")
    kept = preserve(repository.path, ref=REF, message="kept")
    assert kept.omitted == (b"sub",)
    assert repository.git("rev-parse", f"{kept.commit}:sub").strip() == commit


def test_line_end_and_split_index_settings_do_not_stop_a_snapshot(repository):
    repository.git("config", "core.autocrlf", "input")
    repository.git("config", "core.safecrlf", "true")
    repository.git("config", "core.splitIndex", "true")
    repository.git("update-index", "--split-index")
    shared = {path.name for path in (repository.path / ".git").glob("sharedindex.*")}
    repository.write("crlf.txt", "one\r\n")
    kept = preserve(repository.path, ref=REF, message="kept")
    assert repository.git("show", f"{kept.commit}:crlf.txt") == "one\n"
    assert {path.name for path in (repository.path / ".git").glob("sharedindex.*")} == shared


def test_untracked_files_outside_a_sparse_checkout_are_kept(repository):
    repository.commit("folders", a__x="x\n", b__y="y\n")
    repository.git("sparse-checkout", "set", "--cone", "a")
    repository.write("b/new", "new\n")
    kept = preserve(repository.path, ref=REF, message="kept")
    assert repository.git("show", f"{kept.commit}:b/new") == "new\n"
    assert repository.git("show", f"{kept.commit}:b/y") == "y\n"


def test_conflicts_are_kept_with_their_markers(repository):
    repository.git("checkout", "-qb", "side")
    repository.commit("side", a_txt="side\n")
    repository.git("checkout", "-q", "main")
    repository.commit("main", a_txt="main\n")
    repository.git("merge", "side", check=False)
    kept = preserve(repository.path, ref=REF, message="kept")
    assert "<<<<<<<" in repository.git("show", f"{kept.commit}:a.txt")
    assert repository.git("ls-files", "-u") != ""


def test_an_unborn_worktree_is_kept_as_a_root_commit(repository, location):
    repository.git("checkout", "-q", "--orphan", "fresh")
    repository.write("new", "new\n")
    kept = preserve(repository.path, ref=REF, message="kept")
    assert kept.head is None
    assert repository.git("rev-list", "--count", kept.commit).strip() == "1"


def test_an_empty_unborn_repository_has_nothing_to_keep(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path / "empty")], check=True)
    with pytest.raises(UnbornHead):
        preserve(tmp_path / "empty", ref=REF, message="kept")


def test_a_plain_folder_is_never_preserved_through_the_enclosing_repository(repository):
    (repository.path / "plain").mkdir()
    with pytest.raises(WorktreeNotRegistered):
        preserve(repository.path / "plain", ref=REF, message="kept")


@pytest.mark.parametrize(
    "ref", ["refs/heads/main", "HEAD", "refs/bridge", "refs/bridge/", "refs/bridge/../heads/main", "refs/bridge/a.lock"]
)
def test_a_preserving_ref_outside_the_namespace_is_refused(repository, ref):
    with pytest.raises(ValueError, match="ref of Bridge's own"):
        preserve(repository.path, ref=ref, message="kept")
    assert require_bridge_ref("refs/bridge/x") == "refs/bridge/x"


def test_a_kept_commit_survives_gc_after_its_worktree_is_gone(repository, location, tmp_path):
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "worker")
    worker = type(repository)(tmp_path / "worker")
    worker.write("new", "new\n")
    kept = preserve(worker.path, ref=REF, message="kept")
    repository.git("worktree", "remove", "--force", worker.path)
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "-q", "--prune=now")
    assert repository.git("show", f"{kept.commit}:new") == "new\n"


def test_a_ref_moves_only_from_where_it_was_seen(repository, location):
    first = repository.head()
    second = repository.commit("second", a_txt="2\n")
    update_ref(location, REF, first, must_be_new=True)
    with pytest.raises(RefMoved):
        update_ref(location, REF, second, must_be_new=True)
    with pytest.raises(RefMoved) as caught:
        update_ref(location, REF, second, expected=second)
    assert caught.value.details == {"ref": REF, "expected": second, "found": first}
    assert read_ref(location, REF) == first
    update_ref(location, REF, second, expected=first)
    assert read_ref(location, REF) == second
    with pytest.raises(RefMoved):
        update_ref(location, REF, None, expected=first)
    update_ref(location, REF, None, expected=second)
    assert read_ref(location, REF) is None


def test_a_ref_to_something_that_is_not_there_is_gits_error(location):
    with pytest.raises(GitFailed):
        update_ref(location, REF, "1" * 40)


def test_a_branch_that_is_checked_out_nowhere_moves_by_compare_and_swap(repository, location, look):
    first = repository.head()
    repository.git("branch", "side")
    made = commit_tree(location, tree_of(location, first), [first], "adopted")
    before = look(repository.path).state
    move_branch(location, "refs/heads/side", made, expected=first)
    assert read_ref(location, "refs/heads/side") == made
    assert look(repository.path).state == before
    with pytest.raises(RefMoved):
        move_branch(location, "refs/heads/side", first, expected=first)


def test_a_snapshot_moves_no_ref(repository, location):
    repository.write("a.txt", "edited\n")
    taken = snapshot_tree(location)
    assert taken.had_uncommitted
    assert repository.git("show", f"{taken.tree}:a.txt") == "edited\n"
    assert repository.git("for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_what_was_just_seen_clean_is_kept_without_another_look(repository, monkeypatch):
    head = repository.commit("one", a_txt="a\n")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was looked at again")

    monkeypatch.setattr(commits, "read_status", refuse)
    kept = preserve(repository.path, ref=REF, message="kept", clean_at=head)
    assert (kept.commit, kept.head, kept.had_uncommitted, kept.omitted) == (head, head, False, ())
    assert repository.git("rev-parse", REF).strip() == head
