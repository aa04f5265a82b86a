"""Anchors of the log: its size and root, kept outside the database, where whoever cuts its end off does not reach.

One is a file in the state directory, written whenever a root is given out or a verification finds everything healthy.
On request another one is a commit under ``refs/bridge/anchors/`` of a repository, which a push takes elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import orjson

from bridge.control.controller import Controller
from bridge.foundation.canonical import canonical_bytes
from bridge.git.commits import read_message, record_message
from bridge.git.errors import GitError
from bridge.git.repository import RepositoryLocation, discover
from bridge.integrity.errors import AnchorDamaged, AnchorNotReached, InvalidLogRoot
from bridge.integrity.log import leaves
from bridge.integrity.log.checking import Anchor, parse_log_root
from bridge.integrity.log.leaves import LogRoot
from bridge.integrity.log.store import clear_leaves, first_event_hash, last_leaf
from bridge.storage.transaction import Connection
from bridge.workspaces.store import list_workspaces

#: Where anchors are in a repository; a log's own ref below it is named after its first event.
ANCHOR_REFS: Final = "refs/bridge/anchors/"
_FOLDER: Final = "anchors"
_LINE: Final = "log: "


def bring_log_up(controller: Controller) -> LogRoot:
    """Give every event its leaf, and return the root of the log. Other writers take their turns in between.

    Raises
    ------
    LogUnsound
        If events that have a place in the log are missing.
    """
    while not controller.store.write(leaves.catch_up):
        pass
    with controller.store.read() as connection:
        return leaves.current_root(connection)


def anchor_file(controller: Controller) -> Path:
    """Return where the anchor of a store is kept: one file for each place of a database."""
    name = sha256(controller.store.place.encode()).hexdigest()[:16]
    return controller.settings.home / _FOLDER / f"{name}.json"


def read_anchor(controller: Controller) -> Anchor | None:
    """Return what the state directory says of the log; None if it says nothing yet.

    Raises
    ------
    AnchorDamaged
        If its file is not what was written.
    """
    path = anchor_file(controller)
    try:
        written = orjson.loads(path.read_bytes())
        return Anchor(str(path), parse_log_root(f"{written['root']}/{written['size']}"))
    except FileNotFoundError:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError, InvalidLogRoot) as error:
        raise AnchorDamaged(f"{path} does not hold an anchor.", details={"path": str(path)}) from error


def anchor_log(controller: Controller, *, replace: bool = False) -> Anchor:
    """Bring the log up to date and keep its size and root in the state directory.

    Parameters
    ----------
    replace
        Give up what was anchored before, whatever it says, and make the log's leaves anew.

    Raises
    ------
    AnchorNotReached
        If the log does not extend what was anchored before; that stays.
    AnchorDamaged
        If what was anchored before cannot be read.
    LogUnsound
        If events that have a place in the log are missing.
    """
    with _turn(controller):
        if replace:
            controller.store.write(clear_leaves)
        known = None if replace else read_anchor(controller)
        log = bring_log_up(controller)
        if known is not None:
            _require_extended(controller, known, log)
        _write(controller, log)
    return Anchor(str(anchor_file(controller)), log)


def keep_verified(controller: Controller, log: LogRoot) -> None:
    """Keep the size and root of a log that was just recomputed and found to extend its anchor."""
    with _turn(controller):
        known = read_anchor(controller)
        if known is None or known.log.size < log.size:
            _write(controller, log)


def anchor_in_repository(controller: Controller, location: RepositoryLocation, log: LogRoot) -> str | None:
    """Commit size and root of the log under its ref in a repository; return the ref, None for a log without events.

    Neither HEAD nor an index nor a file changes.

    Raises
    ------
    GitFailed, GitTimedOut, RefMoved
        If git refuses.
    """
    with controller.store.read() as connection:
        ref = _ref_of(connection)
    if ref is not None:
        message = f"Anchor the log of {log.size} events\n\n{_LINE}{log}"
        record_message(location, ref, message, timeout_seconds=controller.settings.git_timeout_seconds)
    return ref


def known_anchors(controller: Controller) -> list[Anchor]:
    """Return what the state directory, and the repositories of all workspaces, say of the log.

    Raises
    ------
    AnchorDamaged
        If the file in the state directory is not what was written.
    """
    own = read_anchor(controller)
    anchors = [] if own is None else [own]
    with controller.store.read() as connection:
        ref = _ref_of(connection)
        places = {found.repository_id: found.path for found in list_workspaces(connection)}
    for path in sorted(places.values()) if ref is not None else ():
        found = _in_repository(controller, Path(path), str(ref))
        if found is not None:
            anchors.append(found)
    return anchors


def _in_repository(controller: Controller, path: Path, ref: str) -> Anchor | None:
    try:
        location = discover(path)
        message = read_message(location, ref, timeout_seconds=controller.settings.git_timeout_seconds)
    except GitError:
        return None  # a repository that is not here now says nothing
    lines = [line.removeprefix(_LINE) for line in (message or "").splitlines() if line.startswith(_LINE)]
    try:
        return Anchor(f"{path} {ref}", parse_log_root(lines[-1])) if lines else None
    except InvalidLogRoot:
        return None


def _ref_of(connection: Connection) -> str | None:
    first = first_event_hash(connection)
    return None if first is None else f"{ANCHOR_REFS}{first[:16]}"


def _require_extended(controller: Controller, known: Anchor, log: LogRoot) -> None:
    with controller.store.read() as connection:
        size, _ = last_leaf(connection)
        is_extended = known.log.size <= size and leaves.root_at(connection, known.log.size) == known.log
    if not is_extended:
        raise AnchorNotReached(
            f"{known.source} says {known.log.size} events; the log of {log.size} does not extend them. "
            "The anchor stays as it was.",
            details={"source": known.source, "anchored": str(known.log), "found": str(log)},
        )


@contextmanager
def _turn(controller: Controller) -> Iterator[None]:
    """Hold the anchors against other processes, so that a later one is never replaced by an earlier one."""
    folder = anchor_file(controller).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(controller: Controller, log: LogRoot) -> None:
    """Replace the file in one step, on the disk before this returns."""
    target = anchor_file(controller)
    text = canonical_bytes(
        {"anchored_at": controller.now(), "root": log.root, "size": log.size, "store": controller.store.place}
    )
    temporary = target.with_suffix(f".{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
