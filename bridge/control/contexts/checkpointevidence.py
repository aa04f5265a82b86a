"""What a branch shows of decisions and files, so that a checkpoint holds what its author left out.

Read from the last boundary on: earlier evidence is in that boundary's own lists. Files come from tool events, workers'
results, earlier summaries, and from the stamps: a path that changed inside a turn of this branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.control.contexts.building import stored_path
from bridge.control.controller import Controller
from bridge.control.divergence import EDITED_FIELDS, relative_paths, session_divergence
from bridge.control.observing import session_folder
from bridge.conversations.forest import require_session
from bridge.conversations.pathsource import StoredPath
from bridge.conversations.projection import find_boundary, project_source
from bridge.foundation.errors import BridgeError
from bridge.git.paths import plain_path
from bridge.git.repository import discover
from bridge.semantics.interpretation import meaning_of
from bridge.semantics.results import ResultStatus
from bridge.workspaces.divergence import DivergenceReport

#: Decisions and files that a checkpoint takes from evidence; the newest.
MAX_ADDED_DECISIONS: Final = 200
MAX_ADDED_FILES: Final = 1_000
#: Kinds that say what was decided.
_DECIDING: Final = frozenset({"worker.result", "checkpoint", "compaction"})
#: A payload is only parsed if one of the names can be in it.
_NAMES: Final = tuple(f'"{name}"' for name in (*EDITED_FIELDS, "decisions"))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a branch shows up to an entry.

    Parameters
    ----------
    leaf_entry_id
        Where it was read from.
    entries, tokens
        How many entries the branch has, and what their context takes.
    decisions, files
        Each with the entry that shows it first; None where stamps alone do. Files are relative to the top of the
        repository, as plain names.
    root
        The top of the checkout; None without one.
    """

    session_id: str
    leaf_entry_id: str
    entries: int
    tokens: int
    decisions: Mapping[str, str | None]
    files: Mapping[str, str | None]
    root: Path | None = None

    def plain(self, path: str) -> str:
        """Return a path, as somebody wrote it, the way that files are listed here."""
        return plain_name(path, self.root)


def gather(controller: Controller, session_id: str, leaf_entry_id: str) -> Evidence:
    """Return what the branch that ends at an entry shows. Blocking.

    Raises
    ------
    SessionNotFound, EntryNotFound, SessionQuarantined, PathBroken, UnsupportedSemanticVersion
        As reading the path.
    """
    with controller.store.read() as connection:
        session = require_session(connection, session_id)
    root = _root(controller, session.workspace_id)
    decisions: dict[str, str | None] = {}
    files: dict[str, str | None] = {}
    with controller.store.read() as connection:
        path = stored_path(connection, leaf_entry_id)
        tokens = project_source(path).tokens
        since = _collect(path, root, decisions, files)
        on_path = path.shape.position
        length = path.length
    if root is not None and since is not None:
        report = session_divergence(
            controller.store,
            controller.observer,
            session_id,
            entry_id=since,
            timeout_seconds=controller.settings.git_timeout_seconds,
        ).report
        for name, entry_id in _attributed(report):
            if on_path(entry_id) is not None:
                files.setdefault(name, entry_id)
    return Evidence(
        session_id=session_id,
        leaf_entry_id=leaf_entry_id,
        entries=length,
        tokens=tokens,
        decisions=_newest(decisions, MAX_ADDED_DECISIONS),
        files=_newest(files, MAX_ADDED_FILES),
        root=root,
    )


def plain_name(path: str, root: Path | None) -> str:
    """Return a path relative to the top of a checkout; as it is if it lies outside, or there is none."""
    if root is None:
        return path
    found = next(iter(relative_paths([path], root)), None)
    return path if found is None else plain_path(found)


def _collect(
    path: StoredPath, root: Path | None, decisions: dict[str, str | None], files: dict[str, str | None]
) -> str | None:
    """Fill in what entries say, oldest first; return the entry from which on they were read."""
    boundary = find_boundary(path, cold_start=True)
    # The boundary is itself among the entries read: its lists stand for what lies before.
    stop = 0 if boundary is None else min(boundary.start, path.position(boundary.message.entry_id) or 0)
    told: list[tuple[str, dict[str, Any], str]] = []
    oldest = None
    for entry_id, place, row in path.upwards():
        if place < stop:
            break
        oldest = entry_id
        text = row[2]
        if text is None or not any(name in text for name in _NAMES):
            continue
        payload = meaning_of(row[0], row[1], text, entry_id=entry_id)
        if payload is not None:
            told.append((row[1], payload, entry_id))
    for kind, payload, entry_id in reversed(told):
        if kind in _DECIDING and payload.get("status") != ResultStatus.INVALID:
            for decision in payload.get("decisions", ()):
                decisions.setdefault(" ".join(decision.split()), entry_id)
        for name in EDITED_FIELDS:
            for file in _texts(payload.get(name)):
                files.setdefault(plain_name(file, root), entry_id)
    decisions.pop("", None)
    return oldest


def _attributed(report: DivergenceReport) -> Iterable[tuple[str, str]]:
    """Yield the paths that changed inside turns, each with the first entry that it is attributed to."""
    if report.attribution is None:
        return
    for change in report.changes:
        difference = change.difference
        for found in report.attribution.of(difference.path, difference.old_path).attributed_to:
            if not found.came_with_older_commits:
                yield plain_path(difference.path), found.entry_id


def _texts(values: Any) -> Iterable[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else ()


def _newest(found: dict[str, str | None], limit: int) -> dict[str, str | None]:
    return dict(list(found.items())[-limit:])


def _root(controller: Controller, workspace_id: str | None) -> Path | None:
    folder = session_folder(controller.store, workspace_id)
    if folder is None:
        return None
    try:
        return discover(folder).root
    except BridgeError:  # the checkout is gone: what entries say stands as they say it
        return None
