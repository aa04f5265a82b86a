"""The table of mounts: its form, which of them matter, and that only local ones do."""

from __future__ import annotations

import pytest

from bridge.git.inotify import WatchFailed
from bridge.git.mounts import Mount, MountTable, mounts_of, parse_mounts

TABLE = rb"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:5 / /tmp\040dir rw - tmpfs tmpfs rw,size=1g
23 21 0:6 / /home/u/repo/net rw,relatime master:3 propagate_from:2 - nfs4 server:/x rw
"""


def test_the_table_is_read():
    assert parse_mounts(TABLE) == (
        Mount(21, b"/", "ext4"),
        Mount(22, b"/tmp dir", "tmpfs"),
        Mount(23, b"/home/u/repo/net", "nfs4"),
    )


@pytest.mark.parametrize("line", [b"x y z - ext4", b"21 1 8:1 / / rw,relatime", b"", b"a 1 8:1 / / rw - ext4 d rw"])
def test_a_table_of_another_form_is_refused(line):
    with pytest.raises(WatchFailed):
        parse_mounts(line + b"\n" + TABLE)


def test_the_mount_below_a_path_and_those_within_it_matter():
    mounts = (
        Mount(1, b"/", "ext4"),
        Mount(2, b"/home", "xfs"),
        Mount(3, b"/home/u/repo/build", "tmpfs"),
        Mount(4, b"/home/u/repository", "nfs4"),
        Mount(5, b"/proc", "proc"),
    )
    assert mounts_of(mounts, [b"/home/u/repo"]) == (mounts[1], mounts[2])
    assert mounts_of(mounts, [b"/srv", b"/home/u/repo/build/x"]) == (mounts[0], mounts[2])


def test_the_later_of_two_mounts_at_one_place_counts():
    mounts = (Mount(1, b"/", "ext4"), Mount(7, b"/r", "nfs4"), Mount(9, b"/r", "tmpfs"))
    assert Mount(9, b"/r", "tmpfs") in mounts_of(mounts, [b"/r/x"])


@pytest.mark.parametrize("path", [b"/home/u/repo", b"/home/u/repo/net", b"/home/u/repo/net/x"])
def test_a_file_system_that_others_change_too_is_refused(path):
    with pytest.raises(WatchFailed, match="nfs4"):
        mounts_of(parse_mounts(TABLE), [path])


def test_a_path_on_no_mount_is_refused():
    with pytest.raises(WatchFailed, match="no mount"):
        mounts_of((Mount(1, b"/srv", "ext4"),), [b"/home"])


def test_a_table_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(WatchFailed, match="cannot be read"):
        MountTable(str(tmp_path / "none"))
