"""During whose turns the paths of a report changed: the stored stamps of a checkout, read and handed to a pure judge.

Bounded in sessions, entries, manifests, moves of HEAD and time; a part that was left out is said to be.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bridge.conversations.models import OPEN_STATUS, Session
from bridge.conversations.store import list_sessions, newest_stamped_nodes
from bridge.conversations.turns import TURN_BEGINNINGS, StampedNode, Turns, turns_of
from bridge.foundation.clock import format_timestamp
from bridge.git.errors import GitFailed, GitTimedOut
from bridge.git.history import changed_paths, newest_commit_time
from bridge.git.manifest import Manifest, directory_of
from bridge.git.observe import Observation
from bridge.git.repository import RepositoryLocation
from bridge.semantics.stamps import RepositoryState
from bridge.storage.store import Store
from bridge.storage.transaction import Connection
from bridge.workspaces.attribution import (
    ATTRIBUTION_SECONDS,
    MAX_ENTRIES,
    MAX_HEAD_MOVES,
    MAX_ROWS,
    MAX_SESSIONS,
    MAX_STEPS,
    HeadMove,
    Sighting,
    Span,
    Step,
    View,
    attribute,
    steps_of,
)
from bridge.workspaces.divergence import DivergenceReport
from bridge.workspaces.errors import StateDamaged
from bridge.workspaces.store import PageReader, list_workspaces, load_state

#: Kinds of sessions whose turns are named.
NAMED_KINDS = ("chat", "worker")


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the sessions of a checkout say, and whether that is all of it."""

    sightings: tuple[Sighting, ...]
    spans: tuple[Span, ...]
    is_complete: bool


def with_attribution(
    store: Store, report: DivergenceReport, observed_at: str | None, observation: Observation
) -> DivergenceReport:
    """Return a report that says of each path during whose turns it changed. Blocking.

    Unchanged if nothing differs, or if it is not known when the stamp was observed.

    Parameters
    ----------
    observed_at
        When the stamp was observed that the report compares with now.
    """
    then, now, location = report.then, report.now, observation.location
    if not report.changes or observed_at is None or then is None or now is None or location is None:
        return report
    if observation.manifest is None or then.worktree_id != now.worktree_id:
        return report
    deadline = time.monotonic() + ATTRIBUTION_SECONDS
    paths = {path for change in report.changes for path in (change.difference.path, change.difference.old_path) if path}
    with store.read() as connection:
        recorded = _recorded(connection, now.worktree_id, observed_at)
        base, present = (
            Sighting(observed_at, then.state_digest),
            Sighting(format_timestamp(observation.observed_at), now.state_digest),
        )
        steps = steps_of(base, recorded.sightings, present)
        kept = steps[-MAX_STEPS:]
        views = _views(connection, kept, now, observation.manifest, frozenset(paths), deadline=deadline)
    found = attribute(
        paths,
        kept,
        recorded.spans,
        views=views,
        moves=_moves(location, kept, views, deadline),
        since=observed_at,
        is_complete=recorded.is_complete and len(kept) == len(steps),
    )
    return replace(report, attribution=found)


def _recorded(connection: Connection, worktree_id: str, since: str) -> _Recorded:
    workspaces = [workspace.id for workspace in list_workspaces(connection, worktree_id=worktree_id)]
    sessions = list_sessions(connection, workspace_ids=workspaces, kinds=NAMED_KINDS, limit=MAX_SESSIONS + 1)
    later = [session for session in sessions if session.updated_at >= since]
    is_complete = len(later) <= MAX_SESSIONS
    sightings: list[Sighting] = []
    spans: list[Span] = []
    for session in later[:MAX_SESSIONS]:
        nodes = newest_stamped_nodes(connection, session.id, MAX_ENTRIES + 1)
        if len(nodes) > MAX_ENTRIES:
            nodes = nodes[1:]
            is_complete = is_complete and any(_begins_before(node, since) for node in nodes)
        sightings += [
            Sighting(node.observed_at, node.state_digest)
            for node in nodes
            if node.observed_at is not None and node.state_digest is not None
        ]
        spans += _spans(turns_of(nodes), session)
    return _Recorded(tuple(sightings), tuple(spans), is_complete)


def _begins_before(node: StampedNode, since: str) -> bool:
    """Return whether no turn of interest can have begun before an entry."""
    return node.kind in TURN_BEGINNINGS and node.observed_at is not None and node.observed_at <= since


def _spans(turns: Turns, session: Session) -> Iterator[Span]:
    for window in turns.windows:
        yield Span(window.session_id, window.after_entry_id, window.entry_id, window.begins_at, window.ends_at)
    if turns.running is not None and session.status == OPEN_STATUS:
        yield Span(turns.running.session_id, turns.running.after_entry_id, None, turns.running.begins_at, None)


def _views(
    connection: Connection,
    steps: Sequence[Step],
    now: RepositoryState,
    manifest: Manifest,
    paths: frozenset[bytes],
    *,
    deadline: float,
) -> dict[str, View]:
    """Return the states of some steps as far as the budgets reach, the newest first; those of this worktree alone."""
    views = {now.state_digest: View.of(now.head, manifest.rows, paths)}
    reader = PageReader(connection, {directory_of(path) for path in paths})
    by_hash: dict[str, View] = {}
    for step in reversed(steps):
        for digest in (step.after.state_digest, step.before.state_digest):
            if digest in views or reader.rows_read >= MAX_ROWS or time.monotonic() > deadline:
                continue
            try:
                state = load_state(connection, digest)
                if not isinstance(state, RepositoryState) or state.worktree_id != now.worktree_id:
                    continue
                if state.dirty_hash not in by_hash:
                    rows = reader.rows(state.dirty_hash)
                    if rows is None:
                        continue
                    by_hash[state.dirty_hash] = View.of(state.head, rows, paths)
            except StateDamaged:  # it says nothing any more; the answer is incomplete for it
                continue
            views[digest] = replace(by_hash[state.dirty_hash], head=state.head)
    return views


def _moves(
    location: RepositoryLocation, steps: Sequence[Step], views: Mapping[str, View], deadline: float
) -> dict[tuple[str, str], HeadMove]:
    """Return what the commits between the HEADs of some steps touch, the newest first."""
    moves: dict[tuple[str, str], HeadMove] = {}
    for step in reversed(steps):
        before, after = views.get(step.before.state_digest), views.get(step.after.state_digest)
        if before is None or after is None or before.head == after.head or (before.head, after.head) in moves:
            continue
        left = deadline - time.monotonic()
        if len(moves) >= MAX_HEAD_MOVES or left <= 0:
            break
        try:
            moves[before.head, after.head] = _move(location, before.head, after.head, left)
        except (GitFailed, GitTimedOut):  # a commit is gone, or there is no time: the answer is incomplete for it
            continue
    return moves


def _move(location: RepositoryLocation, old: str, new: str, timeout_seconds: float) -> HeadMove:
    changed = changed_paths(location, old, new, find_renames=False, timeout_seconds=timeout_seconds)
    newest = newest_commit_time(location, old, new, timeout_seconds=timeout_seconds)
    return HeadMove(frozenset(row.path for row in changed), None if newest is None else _end_of_second(newest))


def _end_of_second(seconds: int) -> str:
    # git keeps whole seconds: only a commit whose second has passed was surely made before a moment.
    return format_timestamp(datetime.fromtimestamp(seconds, UTC).replace(microsecond=999_999))
