"""Copies of files and folders that share nothing with the original but, where the file system can, its blocks.

A hard link would be quicker still, and would let whoever writes into the copy write into the original.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path
from typing import Final

#: ``ioctl`` by which Btrfs, XFS, bcachefs and others give a file the blocks of another (linux/fs.h).
_FICLONE: Final = 0x40049409
#: What a file system says that cannot do that, or not between these two files.
_NOT_CLONED: Final = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.ENOTTY, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY, errno.EXDEV}
)


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file with mode and times, or a symlink as it is; ``target`` must not exist.

    Raises
    ------
    OSError
        If it cannot be read or written, or is neither.
    """
    if source.is_symlink():
        target.symlink_to(source.readlink())
        return
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(reading, "rb") as original:
        status = os.fstat(reading)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "neither a file nor a symlink", str(source))
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(writing, "wb") as copy:
            if not _clone(reading, writing):
                shutil.copyfileobj(original, copy, 1 << 20)
                copy.flush()
            os.fchmod(writing, stat.S_IMODE(status.st_mode))
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))


def copy_tree(source: Path, target: Path) -> int:
    """Copy a folder with all that is in it, or a file; symlinks as they are. Return how many files were copied.

    Raises
    ------
    OSError
        If something cannot be read or written, or is none of these; what was copied stays.
    """
    if source.is_symlink() or not source.is_dir():
        copy_file(source, target)
        return 1
    target.mkdir()
    copied = 0
    with os.scandir(source) as entries:
        for entry in entries:
            inner = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                copied += copy_tree(inner, target / entry.name)
            else:
                copy_file(inner, target / entry.name)
                copied += 1
    status = source.stat()
    target.chmod(stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    return copied


def _clone(reading: int, writing: int) -> bool:
    try:
        fcntl.ioctl(writing, _FICLONE, reading)
    except OSError as error:
        if error.errno not in _NOT_CLONED:
            raise
        return False
    return True
