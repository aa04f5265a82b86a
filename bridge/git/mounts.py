"""Which file systems are mounted, and whether that changed: events say nothing about what happens elsewhere.

A folder on a network or in user space (NFS, SMB, FUSE, 9p, virtiofs) changes without an event here, and one that
is mounted over hides what was watched. The kernel's own table names both, and can be asked cheaply whether it is
still the same.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterable
from dataclasses import dataclass

from bridge.git.inotify import WatchFailed

MOUNT_TABLE = "/proc/self/mountinfo"
#: File systems whose every change is made by this kernel, so that it reports them all.
LOCAL_FILE_SYSTEMS = frozenset(
    {
        "bcachefs",
        "btrfs",
        "devtmpfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "nilfs2",
        "overlay",
        "ramfs",
        "reiserfs",
        "tmpfs",
        "xfs",
        "zfs",
    }
)

_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the table: its number, where it is mounted, and the type of the file system."""

    number: int
    point: bytes
    kind: str


class MountTable:
    """This process's mounts.

    Raises
    ------
    WatchFailed
        If the table is not to be had.
    """

    def __init__(self, table: str = MOUNT_TABLE) -> None:
        try:
            self._descriptor = os.open(table, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise WatchFailed(f"the mounts cannot be read: {table}: {error.strerror}") from error
        self._poller = select.poll()
        self._poller.register(self._descriptor, select.POLLPRI)

    def close(self) -> None:
        """Let go of the table. Harmless when done twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def has_changed(self) -> bool:
        """Whether anything was mounted or unmounted since this was last asked (or since the beginning)."""
        return bool(self._poller.poll(0))

    def read(self) -> tuple[Mount, ...]:
        """Return all mounts, later ones over earlier ones.

        Raises
        ------
        WatchFailed
            If the table cannot be read.
        """
        try:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            parts = []
            while part := os.read(self._descriptor, 65_536):
                parts.append(part)
        except OSError as error:
            raise WatchFailed(f"the mounts cannot be read: {error.strerror}") from error
        return parse_mounts(b"".join(parts))


def parse_mounts(table: bytes) -> tuple[Mount, ...]:
    """Return the mounts that a table in the form of ``/proc/self/mountinfo`` lists.

    Raises
    ------
    WatchFailed
        If a line has another form.
    """
    mounts = []
    for line in table.splitlines():
        left, _, right = line.partition(b" - ")
        fields = left.split(b" ")
        kind = right.split(b" ")[0].decode("ascii", "replace")
        if len(fields) < 6 or not kind or not fields[0].isdigit():
            raise WatchFailed("the table of mounts has an unknown form")
        point = _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), fields[4])
        mounts.append(Mount(int(fields[0]), point, kind))
    return tuple(mounts)


def mounts_of(mounts: Iterable[Mount], paths: Iterable[bytes]) -> tuple[Mount, ...]:
    """Return the mounts that real paths lie on, and those within the paths.

    Raises
    ------
    WatchFailed
        If one of them is not of a local file system, or a path lies on none.
    """
    listed = tuple(mounts)
    found: dict[int, Mount] = {}
    for path in dict.fromkeys(paths):
        below: Mount | None = None
        for mount in listed:
            if _is_within(path, mount.point):
                if below is None or len(mount.point) >= len(below.point):
                    below = mount
            elif _is_within(mount.point, path):
                found[mount.number] = mount
        if below is None:
            raise WatchFailed(f"{os.fsdecode(path)!r} is on no mount")
        found[below.number] = below
    for mount in found.values():
        if mount.kind not in LOCAL_FILE_SYSTEMS:
            raise WatchFailed(
                f"{os.fsdecode(mount.point)!r} is a {mount.kind} file system, which tells only of some changes"
            )
    return tuple(sorted(found.values(), key=lambda mount: mount.number))


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder if folder.endswith(b"/") else folder + b"/")
