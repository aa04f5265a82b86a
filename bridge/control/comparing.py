"""Use cases that compare the files with conversations, for references as people type them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.control.contents.restoring import behind_entry
from bridge.control.controller import Controller
from bridge.control.divergence import CheckoutStatus, SessionDivergence, checkout_status, session_divergence
from bridge.control.standpoint import Standpoint, find_entry, find_session
from bridge.foundation.ids import split_entry_id
from bridge.git.paths import join, parse_path
from bridge.git.repository import discover
from bridge.workspaces.patching import MAX_PATCH_FILES, PathPatch, patches
from bridge.workspaces.pathchanges import PathDifference


def require_checkout(directory: Path) -> None:
    """Return if a folder lies in a repository; what is no checkout at all has no status.

    Raises
    ------
    NotARepository
        If it does not.
    """
    discover(directory)


def status_of(controller: Controller, standpoint: Standpoint, session: str | None) -> SessionDivergence:
    """Return how the files are to a session's active leaf. Raises as ``find_session``."""
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
    return session_divergence(
        controller.store,
        controller.observer,
        session_id,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )


def status_here(controller: Controller, directory: Path) -> CheckoutStatus:
    """Return how a checkout is to every open session about it."""
    return checkout_status(
        controller.store,
        controller.observer,
        directory,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )


def difference_to(controller: Controller, standpoint: Standpoint, entry: str) -> SessionDivergence:
    """Return how the files of an entry's own session are to that entry. Raises as ``find_entry``."""
    with controller.store.read() as connection:
        entry_id = find_entry(connection, standpoint, entry)
    session_id, _ = split_entry_id(entry_id)
    return session_divergence(
        controller.store,
        controller.observer,
        session_id,
        entry_id=entry_id,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )


@dataclass(frozen=True, slots=True)
class PatchedDivergence:
    """How the files are to an entry, with the text of what differs.

    Parameters
    ----------
    patches
        One per path that was asked for and differs, in the order of the report.
    omitted
        How many more there are.
    """

    found: SessionDivergence
    patches: tuple[PathPatch, ...]
    omitted: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.found.to_json(),
            "patches": [patch.to_json() for patch in self.patches],
            "patches_omitted": self.omitted,
        }


def text_difference_to(
    controller: Controller, standpoint: Standpoint, entry: str, paths: Sequence[str] = ()
) -> PatchedDivergence:
    """Return how the files are to an entry, with the text of what differs where it is known.

    Parameters
    ----------
    paths
        Only these files and what is below these folders; relative to where the request is made if that is in
        the checkout, else to its top level. In quotes, escaped names are understood as they are shown.

    Raises
    ------
    BridgeError
        What :func:`difference_to` and :func:`bridge.control.contents.restoring.behind_entry` raise.
    """
    found = difference_to(controller, standpoint, entry)
    if not found.report.changes:
        return PatchedDivergence(found, (), 0)
    with controller.store.read() as connection:
        behind = behind_entry(controller, connection, found.entry)
    wanted = _wanted(paths, standpoint.directory, behind.location.root)
    differences = [change.difference for change in found.report.changes if _is_wanted(change.difference, wanted)]
    with tempfile.TemporaryDirectory(prefix=".diff-", dir=controller.settings.home) as aside:
        made = patches(
            behind,
            differences[:MAX_PATCH_FILES],
            aside=Path(aside),
            timeout_seconds=controller.settings.git_timeout_seconds,
        )
    return PatchedDivergence(found, tuple(made), max(0, len(differences) - MAX_PATCH_FILES))


def _wanted(paths: Sequence[str], directory: Path | None, root: Path) -> frozenset[bytes] | None:
    """Return paths as bytes relative to the top level, the empty one being that itself; None if none were given."""
    if not paths:
        return None
    base = root if directory is None or not directory.resolve().is_relative_to(root) else directory.resolve()
    found = set()
    for text in paths:
        path = join(base, parse_path(text) if text.startswith('"') else os.fsencode(text))
        parts: list[bytes] = []
        for part in path.split(b"/"):
            if part == b"..":
                parts = parts[:-1]
            elif part not in {b"", b"."}:
                parts.append(part)
        whole, top = b"/" + b"/".join(parts), os.fsencode(root)
        if whole == top or whole.startswith(top + b"/"):
            found.add(whole[len(top) + 1 :])
    return frozenset(found)


def _is_wanted(difference: PathDifference, wanted: frozenset[bytes] | None) -> bool:
    if wanted is None or b"" in wanted:
        return True
    names = [name for name in (difference.path, difference.old_path) if name is not None]
    return any(name == path or name.startswith(path + b"/") for name in names for path in wanted)
