"""The parser of git status: every documented line, and nothing else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.git.porcelain import PorcelainMalformed, parse_status

A = b"a" * 40
B = b"b" * 40
HEADER = b"# branch.oid " + A + b"\0# branch.head main\0"


def test_headers():
    found = parse_status(HEADER + b"# branch.upstream origin/main\0# branch.ab +1 -2\0# stash 3\0")
    assert (found.head, found.branch, found.rows) == (A, b"main", [])


def test_no_commit_and_no_branch():
    found = parse_status(b"# branch.oid (initial)\0# branch.head (detached)\0")
    assert (found.head, found.branch) == (None, None)


def test_an_ordinary_line_keeps_blanks_and_line_feeds_of_the_name():
    name = b" a -> b\n\xff "
    line = b"1 .M N... 100644 100644 100755 " + A + b" " + B + b" " + name + b"\0"
    (row,) = parse_status(HEADER + line).rows
    assert (row.path, row.index_status, row.worktree_status) == (name, b".", b"M")
    assert (row.modes, row.object_ids, row.worktree_mode) == ((b"100644", b"100644"), (A, B), b"100755")


def test_an_unmerged_line():
    line = b"u UU N... 100644 100755 120000 100644 " + A + b" " + B + b" " + A + b" x y\0"
    (row,) = parse_status(HEADER + line).rows
    assert (row.path, row.kind, row.index_status + row.worktree_status) == (b"x y", b"u", b"UU")
    assert row.modes == (b"100644", b"100755", b"120000")
    assert row.object_ids == (A, B, A)
    assert row.worktree_mode == b"100644"


def test_an_untracked_file_and_an_untracked_repository():
    file, nested = parse_status(HEADER + b"? new file\0? vendor/nested/\0").rows
    assert (file.path, file.is_nested) == (b"new file", False)
    assert (nested.path, nested.is_nested) == (b"vendor/nested", True)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"# branch.head main\0",
        HEADER + b"? cut",
        HEADER + b"2 R. N... 100644 100644 100644 " + A + b" " + B + b" R100 new\0old\0",
        HEADER + b"! ignored\0",
        HEADER + b"1 .M N... 100644 100644 100644 " + A + b" x\0",
        HEADER + b"1 M N... 100644 100644 100644 " + A + b" " + B + b" x\0",
        HEADER + b"1 .M N... 100644 100644 100644 " + A + b" " + B + b" \0",
        HEADER + b"u UU N... 100644 100644 100644 100644 " + A + b" " + B + b" x\0",
        HEADER + b"\0",
    ],
)
def test_anything_else_is_refused(output):
    with pytest.raises(PorcelainMalformed):
        _ = parse_status(output).rows


@given(st.lists(st.binary(min_size=1).filter(lambda name: b"\0" not in name and not name.endswith(b"/"))))
def test_names_come_through_byte_for_byte(names):
    found = parse_status(HEADER + b"".join(b"? " + name + b"\0" for name in names))
    assert [row.path for row in found.rows] == names


@given(st.binary(max_size=200))
def test_no_bytes_make_the_parser_raise_anything_else(output):
    with contextlib.suppress(PorcelainMalformed):
        _ = parse_status(output).rows
