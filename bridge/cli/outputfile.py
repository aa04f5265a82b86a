"""A file that is there as a whole under its name, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from bridge.cli.errors import OutputFailed, UsageInvalid


@contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[Callable[[bytes], object]]:
    """Write a file beside its place, and give it its name once all of it is on the disk.

    Parameters
    ----------
    path
        Where it goes; what a symbolic link points at is replaced, not the link.
    force
        Whether a file that is there is replaced.

    Raises
    ------
    UsageInvalid
        If something is there and may not be replaced, or is no regular file.
    OutputFailed
        If it cannot be written. Nothing is left of it.
    """
    target = Path(os.path.realpath(path))
    _require_free(path, target, force=force)
    part = target.with_name(f".{target.name[:100]}.{token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        _give_name(part, path, target, force=force)
    except OSError as error:
        raise OutputFailed(f"{str(path)!r} could not be written: {error.strerror}. Nothing is left of it.") from error
    finally:
        with suppress(OSError):  # it has its name, or was never made
            part.unlink(missing_ok=True)


def _require_free(path: Path, target: Path, *, force: bool) -> None:
    if not os.path.lexists(target):
        return
    if not target.is_file():
        raise UsageInvalid(f"--output: {str(path)!r} is no regular file. Nothing was written.")
    if not force:
        raise _taken(path)


def _give_name(part: Path, path: Path, target: Path, *, force: bool) -> None:
    if force:
        part.replace(target)
    else:
        try:
            # Unlike a rename it never replaces what somebody else made meanwhile.
            target.hardlink_to(part)
        except FileExistsError as error:
            raise _taken(path) from error
        except OSError:
            _rename_where_links_are_unknown(part, path, target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _rename_where_links_are_unknown(part: Path, path: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise _taken(path)
    part.rename(target)


def _taken(path: Path) -> UsageInvalid:
    return UsageInvalid(f"--output: {str(path)!r} exists already. Nothing was written.", hint="Replace it: --force")
