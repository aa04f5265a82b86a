"""Ranking and folding."""

from __future__ import annotations

import pytest

from bridge.workspaces.pathchanges import Change, PathDifference, Status
from bridge.workspaces.ranking import MAX_FOLDERS, Folder, Rank, Touched, folded, is_generated, ranked


def changed(path, **values):
    return PathDifference(path, Change.CHANGED, Status.CLEAN, Status.MODIFIED, **values)


@pytest.mark.parametrize(
    "path",
    [
        b"uv.lock",
        b"web/package-lock.json",
        b"node_modules/a/index.js",
        b"src/__pycache__/a.cpython-311.pyc",
        b"web/dist/a.js",
        b"a.min.js",
        b"api/v1_pb2.py",
    ],
)
def test_lock_and_generated_files_are_known(path):
    assert is_generated(path)


@pytest.mark.parametrize("path", [b"lock", b"uv.lock.md", b"dist", b"build/a.py", b"src/distance.py", b"vendor/a.go"])
def test_names_that_only_look_alike_are_not(path):
    assert not is_generated(path)


def test_order_is_edited_read_rest_generated_then_by_path():
    touched = Touched(edited=frozenset({b"z", b"uv.lock"}), read=frozenset({b"y", b"old"}))
    found = ranked(
        [
            *[changed(path) for path in (b"b", b"a", b"yarn.lock", b"y", b"z", b"uv.lock")],
            changed(b"x", old_path=b"old"),
        ],
        touched,
    )
    assert [(item.difference.path, item.rank) for item in found] == [
        (b"uv.lock", Rank.EDITED),
        (b"z", Rank.EDITED),
        (b"x", Rank.READ),
        (b"y", Rank.READ),
        (b"a", Rank.OTHER),
        (b"b", Rank.OTHER),
        (b"yarn.lock", Rank.GENERATED),
    ]


def test_folders_are_as_deep_as_their_number_allows():
    paths = [b"a/b/1", b"a/b/2", b"a/c/3", b"4"]
    assert folded(paths) == [Folder(b"a/b", 2), Folder(b"", 1), Folder(b"a/c", 1)]
    assert folded(paths, max_folders=2) == [Folder(b"a", 3), Folder(b"", 1)]


def test_more_folders_than_allowed_at_the_top_are_put_together():
    paths = [b"d%02d/x" % number for number in range(MAX_FOLDERS + 5)] + [b"top", b"d03/y"]
    found = folded(paths)
    assert len(found) == MAX_FOLDERS
    assert found[0] == Folder(b"d03", 2)
    assert found[-1] == Folder(b"", 7)
    assert sum(folder.count for folder in found) == len(paths)


def test_exactly_as_many_folders_as_allowed_are_all_named():
    found = folded([b"d%d/x" % number for number in range(MAX_FOLDERS)])
    assert len(found) == MAX_FOLDERS
    assert all(folder.path for folder in found)


def test_nothing_folds_to_nothing():
    assert folded([]) == []
