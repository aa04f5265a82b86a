"""Histories of many thousand commits: compared whole where time allows, and said to be cut where it does not."""

from __future__ import annotations

import subprocess

import pytest

from bridge.git.history import RelationKind, head_relation
from bridge.git.repository import discover
from bridge.git.walk import MAX_WALKED_COMMITS

LENGTH = 25_000
#: A side branch leaves here, long before the end.
FORK = 100


def history(length):
    """Return input of ``git fast-import``: ``main`` of ``length`` commits, and ``side`` of ten that leaves early."""
    yield b"blob\nmark :1\ndata 2\na\n"
    for number in range(length):
        start = b"M 100644 :1 a.txt\n" if number == 0 else b"from :%d\n" % (number + 1)
        yield commit(b"main", number, number) + start
    for number in range(10):
        parent = FORK + 2 if number == 0 else length + 1 + number
        yield commit(b"side", length + number, length // 2 + number) + (
            b"from :%d\nM 100644 :1 side%d.txt\n" % (parent, number)
        )


def commit(branch, mark, minute):
    who = b"A <a@example.invalid> %d +0000" % (1_600_000_000 + 60 * minute)
    text = b"commit %d" % mark
    return b"commit refs/heads/%b\nmark :%d\ncommitter %b\ndata %d\n%b\n" % (branch, mark + 2, who, len(text), text)


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    path = tmp_path_factory.mktemp("long")
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=b"".join(history(LENGTH)), check=True)
    return discover(path)


def commit_at(location, name):
    answer = subprocess.run(
        ["git", "rev-parse", name], cwd=location.run_directory, capture_output=True, text=True, check=True
    )
    return answer.stdout.strip()


def test_both_ends_are_compared_whole(location):
    old, new = commit_at(location, f"main~{LENGTH - 1}"), commit_at(location, "main")
    ahead = head_relation(location, old, new)
    assert (ahead.kind, ahead.ahead, ahead.behind, ahead.is_cut) == (RelationKind.AHEAD, LENGTH - 1, 0, False)
    assert [commit.subject for commit in ahead.commits[:2]] == [f"commit {LENGTH - 1}", f"commit {LENGTH - 2}"]
    behind = head_relation(location, new, old)
    assert (behind.kind, behind.ahead, behind.behind) == (RelationKind.BEHIND, 0, LENGTH - 1)
    assert behind.commits == ahead.commits


def test_sides_that_parted_long_ago_are_compared_whole(location):
    found = head_relation(location, commit_at(location, "side"), commit_at(location, "main"))
    assert (found.kind, found.ahead, found.behind) == (RelationKind.DIVERGED, LENGTH - 1 - FORK, 10)
    assert (len(found.commits), len(found.lost), found.found_again, found.compared) == (10, 10, 0, 10)
    # The main branch's commits are empty here, but there are far more of them than are looked into.
    assert found.is_search_cut


def test_without_time_to_count_the_walk_says_that_it_was_cut(location):
    old, new = commit_at(location, f"main~{LENGTH - 1}"), commit_at(location, "main")
    for seconds in (0, 0.001):
        found = head_relation(location, old, new, count_seconds=seconds)
        assert (found.kind, found.is_cut) == (RelationKind.UNDECIDED, True)
        assert (found.ahead, found.behind) == (MAX_WALKED_COMMITS, 0)
        assert len(found.commits) == 10


def test_near_commits_cost_what_they_are_apart(location):
    """A hundred commits apart is decided without looking at the others."""
    old, new = commit_at(location, "main~100"), commit_at(location, "main")
    found = head_relation(location, old, new, max_commits=101 + 33, count_seconds=0)
    assert (found.kind, found.ahead, found.is_cut) == (RelationKind.AHEAD, 100, False)
