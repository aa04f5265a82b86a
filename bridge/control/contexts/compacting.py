"""Use cases around compaction: what a harness did to its own window, and what stands for the beginning of a branch.

The harness owns its live window: what it reports is noted and changes nothing. A compaction of Bridge's own is one more
entry on the branch, checked against it in the transaction that writes it. No earlier entry is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.control.contexts.building import stored_path
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import InvalidBoundary
from bridge.conversations.forest import require_cursor, require_session
from bridge.conversations.models import Appended, EntryDraft
from bridge.conversations.projection import COMPACTION, Projection, project_source
from bridge.conversations.shape.runs import shape_of
from bridge.conversations.store import get_head
from bridge.foundation.ids import short_entry
from bridge.storage.transaction import Connection
from bridge.workspaces.store import save_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What shall stand for the beginning of a branch.

    Parameters
    ----------
    summary
        What is told instead of it.
    first_retained_entry_id
        The oldest entry that stays in the context as it is; on the branch.
    tokens_before
        What the context took before; None has it estimated.
    checkpoint_entry_id
        The checkpoint that the summary comes from.
    """

    summary: str
    first_retained_entry_id: str
    reason: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    decisions: tuple[str, ...] = ()
    files_touched: tuple[str, ...] = ()
    open_work: tuple[str, ...] = ()
    checkpoint_entry_id: str | None = None
    model: str | None = None
    turn_id: str | None = None


def record_compaction(
    controller: Controller,
    session_id: str,
    compaction: Compaction,
    *,
    cursor: str | None = None,
    branch_of: str | None = None,
    expected_head: str | None = None,
) -> Appended:
    """Record a compaction at the head, at a cursor, or on the branch of an entry. Blocking.

    Parameters
    ----------
    branch_of
        An entry that must be on the branch: the compaction goes to the head if it is, else right under it.

    Raises
    ------
    InvalidBoundary
        If the summary is empty, or the first retained entry does not lie on that branch.
    SessionNotFound, CursorNotFound, HeadMoved, PathBroken, InvalidPayload
        As appending.
    """
    if not compaction.summary.strip():
        raise InvalidBoundary("A compaction without a summary would hide what it stands for. Nothing was written.")
    tokens = compaction.tokens_before
    if tokens is None:
        tokens = projection_at(controller, session_id, cursor=cursor, at=branch_of).tokens
    payload = _present(
        summary=compaction.summary,
        first_retained_entry_id=compaction.first_retained_entry_id,
        tokens_before=tokens,
        tokens_after=compaction.tokens_after,
        reason=compaction.reason,
        decisions=list(compaction.decisions) or None,
        files_touched=list(compaction.files_touched) or None,
        open_work=list(compaction.open_work) or None,
        checkpoint_entry_id=compaction.checkpoint_entry_id,
        model=compaction.model,
        turn_id=compaction.turn_id,
    )

    def place(recording: RecordingTransaction) -> str | None:
        connection = recording.tx.connection
        under = None if branch_of is None else under_branch(connection, session_id, branch_of)
        leaf = leaf_of(connection, session_id, cursor) if under is None else under
        require_boundary(connection, leaf, compaction.first_retained_entry_id)
        return under

    draft = EntryDraft(kind=COMPACTION, payload=payload, cursor=cursor, expected_head=expected_head)
    return append_stamped(controller, session_id, draft, place=place)


def note_compacted_by_harness(
    controller: Controller,
    session_id: str,
    harness: str,
    *,
    reason: str | None = None,
    summary: str | None = None,
    tokens_before: int | None = None,
    tokens_after: int | None = None,
    turn_id: str | None = None,
    cursor: str | None = None,
) -> Appended:
    """Note that an agent program shortened its own window. Blocking. Raises as appending."""
    payload = _present(
        harness=harness,
        reason=reason,
        summary=summary,
        tokens_before=tokens_before,
        tokens_after=tokens_after,
        turn_id=turn_id,
    )
    return append_stamped(controller, session_id, EntryDraft(kind="context.compacted", payload=payload, cursor=cursor))


def request_compaction(
    controller: Controller,
    session_id: str,
    reason: str,
    *,
    tokens_before: int | None = None,
    turn_id: str | None = None,
    cursor: str | None = None,
) -> Appended:
    """Record that a compaction was asked for. Blocking. Raises as appending."""
    payload = _present(reason=reason, tokens_before=tokens_before, turn_id=turn_id)
    return append_stamped(
        controller, session_id, EntryDraft(kind="compaction.requested", payload=payload, cursor=cursor)
    )


def record_compaction_failure(
    controller: Controller,
    session_id: str,
    reason: str,
    message: str | None = None,
    *,
    kept: Mapping[str, Any] | None = None,
    turn_id: str | None = None,
    cursor: str | None = None,
) -> Appended:
    """Record that a compaction or checkpoint did not come about. Blocking. Raises as appending.

    Parameters
    ----------
    reason
        The typed cause.
    kept
        What may help to see why; goes along as metadata, which no agent is told.
    """
    payload = _present(
        reason=reason, message=message, turn_id=turn_id, provider_meta=None if kept is None else dict(kept)
    )
    return append_stamped(controller, session_id, EntryDraft(kind="compaction.failed", payload=payload, cursor=cursor))


def first_to_retain(controller: Controller, session_id: str, keep_tokens: int, *, at: str | None = None) -> str:
    """Return the oldest entry that fits into so many tokens along with all after it, up to an entry. Blocking.

    ``at`` is the head unless given.
    """
    projection = projection_at(controller, session_id, at=at, budget=keep_tokens)
    for message in projection.messages:
        if message.entry_id != projection.boundary_entry_id:
            return message.entry_id
    with controller.store.read() as connection:
        return leaf_of(connection, session_id, None) if at is None else at


def projection_at(
    controller: Controller,
    session_id: str,
    *,
    cursor: str | None = None,
    at: str | None = None,
    budget: int | None = None,
) -> Projection:
    """Return the context of a branch that ends at an entry, a cursor or the head, files left aside. Blocking."""
    with controller.store.read() as connection:
        leaf = leaf_of(connection, session_id, cursor) if at is None else at
        return project_source(stored_path(connection, leaf), budget_tokens=budget)


def under_branch(connection: Connection, session_id: str, entry_id: str) -> str | None:
    """Return where what speaks of an entry belongs: None, the head, if the entry lies on its path; else under it."""
    head = leaf_of(connection, session_id, None)
    is_on_it = head == entry_id or shape_of(connection, head).position(entry_id) is not None
    return None if is_on_it else entry_id


def require_boundary(connection: Connection, leaf_entry_id: str, first_retained_entry_id: str) -> None:
    """Refuse a first retained entry that does not lie on the path to a leaf.

    Raises
    ------
    InvalidBoundary
        If it does not.
    """
    if shape_of(connection, leaf_entry_id).position(first_retained_entry_id) is None:
        raise InvalidBoundary(
            f"{first_retained_entry_id[:80]!r} does not lie on the branch that ends at {short_entry(leaf_entry_id)}. "
            "Nothing was written.",
            details={"first_retained_entry_id": first_retained_entry_id[:200], "leaf_entry_id": leaf_entry_id},
        )


def leaf_of(connection: Connection, session_id: str, cursor: str | None) -> str:
    """Return the leaf of a cursor, or the head. Raises SessionNotFound and CursorNotFound."""
    if cursor is not None:
        return require_cursor(connection, session_id, cursor)
    head = get_head(connection, session_id)
    return require_session(connection, session_id).active_entry_id if head is None else head.entry_id


def append_stamped(
    controller: Controller,
    session_id: str,
    draft: EntryDraft,
    *,
    place: Callable[[RecordingTransaction], str | None] | None = None,
) -> Appended:
    """Stamp the session's worktree and append an entry; where it goes is decided in the same transaction. Blocking.

    Parameters
    ----------
    place
        Returns the entry to append under, None for the draft's own place; raises if it may not be written.
    """
    with controller.store.read() as connection:
        workspace_id = require_session(connection, session_id).workspace_id
    observation = controller.observer.stamp_session(controller.store, workspace_id)
    controller.keeper.keep(observation)
    prepared = controller.recorder.prepare(draft, observation.stamp)

    def run(recording: RecordingTransaction) -> Appended:
        under = None if place is None else place(recording)
        save_state(recording.tx, observation, recording.moment)
        return recording.append(session_id, prepared if under is None else prepared._replace(parent_entry_id=under))

    return controller.recorder.transact(run)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
