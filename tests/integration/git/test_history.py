"""What became of HEAD, and which paths changed between two commits."""

from __future__ import annotations

import subprocess

import pytest

from bridge.git import history
from bridge.git.errors import GitFailed, GitTimedOut
from bridge.git.history import RelationKind, changed_paths, existing_commits, head_relation, is_ancestor
from bridge.git.repository import discover
from bridge.git.walk import walk_histories


@pytest.fixture
def location(repository):
    return discover(repository.path)


def test_the_same_commit(repository, location):
    assert head_relation(location, repository.head(), repository.head()).kind is RelationKind.SAME
    assert head_relation(location, "unborn", "unborn").kind is RelationKind.SAME


def test_ahead_and_behind_with_counts_and_first_commits(repository, location):
    old = repository.head()
    new = [repository.commit(f"commit {number}", a_txt=f"{number}\n") for number in range(12)]
    found = head_relation(location, old, new[-1])
    assert (found.kind, found.ahead, found.behind, found.is_cut) == (RelationKind.AHEAD, 12, 0, False)
    assert [commit.id for commit in found.commits] == new[::-1][: history.MAX_NAMED_COMMITS]
    assert found.commits[0].subject == "commit 11"
    back = head_relation(location, new[-1], old)
    assert (back.kind, back.ahead, back.behind) == (RelationKind.BEHIND, 0, 12)
    assert back.commits[0].id == new[-1]


def test_diverged_after_different_work(repository, location):
    repository.git("checkout", "-qb", "side")
    side = repository.commit("side", a_txt="side\n")
    repository.git("checkout", "-q", "main")
    repository.commit("one", b_txt="1\n")
    main = repository.commit("two", b_txt="2\n")
    found = head_relation(location, side, main)
    assert (found.kind, found.ahead, found.behind) == (RelationKind.DIVERGED, 2, 1)


def test_a_merge_is_ahead_by_all_that_came_with_it(repository, location):
    old = repository.head()
    repository.git("checkout", "-qb", "side")
    repository.commit("side", a_txt="side\n")
    repository.git("checkout", "-q", "main")
    repository.commit("main", b_txt="main\n")
    repository.git("merge", "-q", "--no-edit", "side")
    found = head_relation(location, old, repository.head())
    assert (found.kind, found.ahead) == (RelationKind.AHEAD, 3)


def test_an_amended_message_is_rewritten(repository, location):
    old = repository.commit("messsage", a_txt="work\n")
    repository.git("commit", "-q", "--amend", "-m", "message")
    found = head_relation(location, old, repository.head())
    assert (found.kind, found.rewritten_as) == (RelationKind.REWRITTEN, repository.head())
    assert (found.ahead, found.behind) == (1, 1)


def test_an_amended_content_is_diverged(repository, location):
    old = repository.commit("work", a_txt="work\n")
    repository.write("a.txt", "other work\n")
    repository.git("commit", "-q", "-a", "--amend", "-m", "work")
    assert head_relation(location, old, repository.head()).kind is RelationKind.DIVERGED


def test_a_rebase_is_rewritten_by_its_patches(repository, location):
    repository.git("checkout", "-qb", "side")
    repository.commit("one", new_txt="1\n")
    old = repository.commit("two", new_txt="2\n")
    repository.git("checkout", "-q", "main")
    repository.commit("main", b_txt="main\n")
    repository.git("checkout", "-q", "side")
    repository.git("rebase", "-q", "main")
    repository.commit("three", new_txt="3\n")
    found = head_relation(location, old, repository.head())
    assert found.kind is RelationKind.REWRITTEN
    assert found.rewritten_as == repository.git("rev-parse", "HEAD~1").strip()


def test_a_squash_is_rewritten_by_its_tree(repository, location):
    repository.commit("one", a_txt="1\n")
    old = repository.commit("two", b_txt="2\n")
    repository.git("reset", "-q", "--soft", "HEAD~2")
    repository.git("commit", "-qm", "both")
    found = head_relation(location, old, repository.head())
    assert (found.kind, found.rewritten_as) == (RelationKind.REWRITTEN, repository.head())


def test_a_rebase_that_lost_a_commit_is_diverged(repository, location):
    repository.commit("one", new_txt="1\n")
    old = repository.commit("two", other_txt="2\n")
    repository.git("reset", "-q", "--hard", "HEAD~2")
    repository.commit("main", b_txt="main\n")
    repository.git("cherry-pick", old)
    assert head_relation(location, old, repository.head()).kind is RelationKind.DIVERGED


def test_unrelated_histories(repository, location):
    old = repository.head()
    repository.git("checkout", "-q", "--orphan", "other")
    repository.write("a.txt", "unrelated\n")
    repository.commit("other root")
    found = head_relation(location, old, repository.head())
    assert (found.kind, found.ahead, found.behind) == (RelationKind.UNRELATED, 1, 1)


def test_a_commit_that_gc_removed_is_missing(repository, location):
    old = repository.commit("lost", a_txt="lost\n")
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "-q", "--prune=now")
    found = head_relation(location, old, repository.head())
    assert (found.kind, found.missing) == (RelationKind.MISSING, (old,))


def test_unborn_to_a_commit_is_ahead_by_all_of_it(repository, location):
    repository.commit("second", a_txt="2\n")
    found = head_relation(location, "unborn", repository.head())
    assert (found.kind, found.ahead) == (RelationKind.AHEAD, 2)
    back = head_relation(location, repository.head(), "unborn")
    assert (back.kind, back.behind) == (RelationKind.BEHIND, 2)
    cut = head_relation(location, "unborn", repository.head(), max_commits=1, count_seconds=0)
    assert (cut.ahead, cut.is_cut) == (1, True)
    counted = head_relation(location, "unborn", repository.head(), max_commits=1)
    assert (counted.ahead, counted.is_cut, len(counted.commits)) == (2, False, 2)
    counted = head_relation(location, repository.head(), "unborn", max_commits=1)
    assert (counted.behind, counted.is_cut) == (2, False)


def test_the_budget_cuts_and_says_so_exactly_at_its_edge(repository, location):
    old = repository.head()
    for number in range(5):
        repository.commit(f"{number}", a_txt=f"{number}\n")
    whole = head_relation(location, old, repository.head(), max_commits=6)
    assert (whole.kind, whole.ahead, whole.is_cut) == (RelationKind.AHEAD, 5, False)
    cut = head_relation(location, old, repository.head(), max_commits=4, count_seconds=0)
    assert (cut.kind, cut.is_cut) == (RelationKind.UNDECIDED, True)
    assert 3 <= cut.ahead <= 4
    counted = head_relation(location, old, repository.head(), max_commits=4)
    assert (counted.kind, counted.ahead, counted.behind, counted.is_cut) == (RelationKind.AHEAD, 5, 0, False)
    assert [commit.subject for commit in counted.commits] == ["4", "3", "2", "1", "0"]
    back = head_relation(location, repository.head(), old, max_commits=4)
    assert (back.kind, back.ahead, back.behind, back.is_cut) == (RelationKind.BEHIND, 0, 5, False)
    assert [commit.subject for commit in back.commits] == ["4", "3", "2", "1", "0"]


def test_histories_that_git_compares_alone_give_what_the_walk_gives(repository, location):
    repository.git("checkout", "-q", "-b", "topic")
    topic = repository.commit("topic", topic_txt="1\n")
    repository.git("checkout", "-q", "main")
    main = repository.commit("main", main_txt="1\n")
    repository.git("checkout", "-q", "--orphan", "other")
    other = repository.commit("other")
    pairs = [(topic, main), (main, topic), (topic, other), (topic, repository.git("rev-parse", "main~1").strip())]
    for old, new in pairs:
        whole = head_relation(location, old, new)
        assert head_relation(location, old, new, max_commits=0) == whole
        assert not whole.is_cut


def test_skewed_clocks_do_not_change_the_counts(repository, location, monkeypatch):
    """Children dated before their parents, on both sides of the fork."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2030-01-01T00:00:00+00:00")
    repository.commit("from the future", a_txt="0\n")
    repository.git("branch", "side")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00+00:00")
    for number in range(3):
        repository.commit(f"main {number}", a_txt=f"main {number}\n")
    main = repository.head()
    repository.git("checkout", "-q", "side")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2040-01-01T00:00:00+00:00")
    for number in range(2):
        repository.commit(f"side {number}", b_txt=f"side {number}\n")
    found = head_relation(location, main, repository.head())
    assert (found.kind, found.ahead, found.behind) == (RelationKind.DIVERGED, 2, 3)


def test_counts_agree_with_git_on_a_history_full_of_merges(repository, location):
    ids = [repository.head()]
    for number in range(24):
        parents = {ids[-1], ids[(number * 7) % len(ids)]}
        tree = repository.git("rev-parse", "HEAD^{tree}").strip()
        arguments = [part for parent in sorted(parents) for part in ("-p", parent)]
        ids.append(repository.git("commit-tree", tree, *arguments, "-m", str(number)).strip())
        if number % 5 == 0:
            ids.append(repository.git("commit-tree", tree, "-p", ids[0], "-m", f"side {number}").strip())
    for old, new in [(ids[-1], ids[-2]), (ids[3], ids[-1]), (ids[7], ids[12]), (ids[20], ids[9]), (ids[2], ids[8])]:
        walk = walk_histories(location, old, new)
        expected = repository.git("rev-list", "--left-right", "--count", f"{old}...{new}").split()
        assert [str(len(walk.only_old)), str(len(walk.only_new))] == expected


def test_a_damaged_history_is_gits_failure(repository, location):
    repository.commit("second", a_txt="2\n")
    middle = repository.commit("third", a_txt="3\n")
    head = repository.commit("fourth", a_txt="4\n")
    first = repository.git("rev-list", "--max-parents=0", "HEAD").strip()
    (repository.path / ".git" / "objects" / middle[:2] / middle[2:]).unlink()
    with pytest.raises(GitFailed):
        walk_histories(location, first, head)


def test_a_walk_that_takes_too_long_is_stopped(repository, location):
    repository.commit("second", a_txt="2\n")
    with pytest.raises(GitTimedOut):
        walk_histories(location, repository.git("rev-parse", "HEAD~1").strip(), repository.head(), timeout_seconds=0.0)


def test_a_shallow_history_is_compared_as_far_as_it_goes(repository, tmp_path):
    for number in range(4):
        repository.commit(f"{number}", a_txt=f"{number}\n")
    repository.git("clone", "-q", "--depth=2", f"file://{repository.path}", tmp_path / "shallow")
    clone = type(repository)(tmp_path / "shallow")
    found = head_relation(discover(clone.path), clone.git("rev-parse", "HEAD~1").strip(), clone.head())
    assert (found.kind, found.ahead) == (RelationKind.AHEAD, 1)
    lost = repository.git("rev-parse", "HEAD~3").strip()
    assert head_relation(discover(clone.path), lost, clone.head()).kind is RelationKind.MISSING


def test_existence_and_ancestry(repository, location):
    old = repository.head()
    new = repository.commit("second", a_txt="2\n")
    tree = repository.git("rev-parse", "HEAD^{tree}").strip()
    assert existing_commits(location, [old, new, "1" * 40, tree]) == {old, new}
    assert is_ancestor(location, old, new)
    assert not is_ancestor(location, new, old)
    with pytest.raises(GitFailed):
        is_ancestor(location, "1" * 40, new)


def test_changed_paths_name_every_kind_of_change_with_renames(repository, location):
    body = "".join(f"line {number}\n" for number in range(30))
    repository.commit("base", moved_txt=body, gone_txt="gone\n", typed_txt="a.txt")
    old = repository.head()
    repository.git("mv", "moved.txt", "new name é.txt")
    repository.write("new name é.txt", body + "more\n")
    repository.write("a.txt", "changed\n")
    repository.git("rm", "-q", "gone.txt")
    (repository.path / "typed.txt").unlink()
    (repository.path / "typed.txt").symlink_to("a.txt")
    (repository.path / "b.txt").chmod(0o755)
    new = repository.commit("all", added_txt="added\n")
    repository.git("config", "diff.renames", "false")
    found = {change.path: change for change in changed_paths(location, old, new)}
    assert {path: change.status for path, change in found.items()} == {
        b"a.txt": "M",
        b"added.txt": "A",
        b"b.txt": "M",
        b"gone.txt": "D",
        "new name é.txt".encode(): "R",
        b"typed.txt": "T",
    }
    renamed = found["new name é.txt".encode()]
    assert renamed.old_path == b"moved.txt"
    assert renamed.similarity is not None
    assert found[b"b.txt"].new_mode == "100755"


def test_changed_paths_from_and_to_nothing(repository, location):
    assert [change.status for change in changed_paths(location, "unborn", repository.head())] == ["A", "A"]
    assert [change.status for change in changed_paths(location, repository.head(), "unborn")] == ["D", "D"]
    assert changed_paths(location, "unborn", "unborn") == []
    assert changed_paths(location, repository.head(), repository.head()) == []


def test_histories_and_changes_in_a_sha256_repository(tmp_path, repository):
    path = tmp_path / "sha256"
    subprocess.run(["git", "init", "-q", "-b", "main", "--object-format=sha256", str(path)], check=True)
    other = type(repository)(path)
    old = other.commit("one", a_txt="1\n")
    new = other.commit("two", a_txt="2\n")
    location = discover(path)
    assert head_relation(location, old, new).ahead == 1
    assert [change.status for change in changed_paths(location, "unborn", new)] == ["A"]
