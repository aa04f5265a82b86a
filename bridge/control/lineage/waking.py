"""Use case: waking up. A session begins with what the one before it left: its last word, and what changed since."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.control.divergence import SessionDivergence, session_divergence
from bridge.control.lineage.notes import EVERYBODY, Note, predecessors, write_note
from bridge.control.lineage.words import LOOKED_THROUGH, last_word
from bridge.control.sessions import SessionRequest, start_session
from bridge.control.standpoint import Standpoint, find_session, workspace_at
from bridge.conversations.forest import require_session
from bridge.conversations.listing.store import latest_chat, newest_entries
from bridge.conversations.models import Session
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.ids import short_session
from bridge.storage.transaction import Connection
from bridge.workspaces.models import WorkspaceStatus
from bridge.workspaces.store import find_workspace
from bridge.workspaces.wording import START_LIMIT, agent_text

#: Who leaves the first note of a session, and of what type it is.
SENDER: Final = "bridge"
SPARK_TYPE: Final = "spark"
NOTHING_BEFORE: Final = "Session started."
#: Things of one sort that an answer lists.
MAX_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a session left behind: tasks that have not ended, results that nobody has answered, worktrees."""

    open_tasks: tuple[Delegation, ...]
    unread: tuple[Delegation, ...]
    worktrees: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Woken:
    """A session that goes on, or has just begun.

    Parameters
    ----------
    is_new
        Whether it was started by this.
    predecessor
        The session that it continues; None if there is none.
    age_seconds
        Since when that one is silent.
    note
        The first note, if this seeded one.
    is_stale
        Whether the predecessor's last word is too old to be handed on.
    divergence
        How the files are to the predecessor's last entry, or to the session's own where it goes on.
    """

    session: Session
    is_new: bool
    predecessor: Session | None
    age_seconds: float | None
    note: Note | None
    is_stale: bool
    divergence: SessionDivergence | None
    left: LeftBehind

    def to_json(self) -> dict[str, Any]:
        found = self.divergence
        return {
            "session_id": self.session.id,
            "new": self.is_new,
            "predecessor": None if self.predecessor is None else self.predecessor.id,
            "predecessor_age_seconds": None if self.age_seconds is None else round(self.age_seconds),
            "spark": None if self.note is None else self.note.text,
            "stale": self.is_stale,
            "divergence": None if found is None else str(found.report.divergence),
            "text": "" if found is None else agent_text(found.report, START_LIMIT),
            "open_tasks": [_task(one) for one in self.left.open_tasks],
            "unread_results": [_task(one) for one in self.left.unread],
            "worktrees": list(self.left.worktrees),
        }


def wake(
    controller: Controller,
    standpoint: Standpoint,
    *,
    from_session: str | None = None,
    label: str | None = None,
    harness: str | None = None,
) -> Woken:
    """Start a session that continues the one before it, and seed its first note.

    The one before is the given one, else the chat of this workspace that was touched last. Works in any folder; one
    outside of repositories has no session before it, unless it is given.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference, InvalidSession, LineageCycle
        If the one before cannot be found or continued, or the label not be given.
    """
    with controller.store.read() as connection:
        if from_session is not None:
            parent: str | None = find_session(connection, standpoint, from_session)
        else:
            found = _latest(connection, standpoint)
            parent = None if found is None else found.id
    request = SessionRequest(label=label, harness=harness, parent=parent)
    return _seeded(controller, start_session(controller, standpoint, request).session, is_new=True)


def resume(controller: Controller, standpoint: Standpoint, session: str | None) -> Woken:
    """Return what matters on going on with a session. Seeds its first note only if nothing was ever said in it.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If it cannot be found.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
    if found.next_sequence == 1:
        return _seeded(controller, found, is_new=False)
    return _woken(controller, found, is_new=False, note=None, is_stale=False)


def _latest(connection: Connection, standpoint: Standpoint) -> Session | None:
    workspace = workspace_at(connection, standpoint.directory)
    if workspace is None:
        return None
    # A person's sessions are those of no agent and of the agents that they talked to: whoever spoke last.
    return latest_chat(connection, workspace.id)


def _seeded(controller: Controller, session: Session, *, is_new: bool) -> Woken:
    with controller.store.read() as connection:
        before = next(iter(predecessors(connection, session).sessions), None)
        word = None if before is None else last_word(connection, before)
    is_stale = False
    if before is None:
        text = NOTHING_BEFORE
    elif (age := _age(controller, before)) > timedelta(hours=controller.settings.spark_hours).total_seconds():
        is_stale = True
        text = f"{NOTHING_BEFORE} {short_session(before.id)} before it has been silent for {_in_words(age)}."
    else:
        text = word or NOTHING_BEFORE
    here = Standpoint(session=session.id)
    note = write_note(controller, here, session.id, text, sender=SENDER, recipient=EVERYBODY, note_type=SPARK_TYPE)
    return _woken(controller, session, is_new=is_new, note=note, is_stale=is_stale)


def _woken(controller: Controller, session: Session, *, is_new: bool, note: Note | None, is_stale: bool) -> Woken:
    with controller.store.read() as connection:
        current = require_session(connection, session.id)
        before = next(iter(predecessors(connection, current).sessions), None)
        # What is new has nothing of its own yet; what goes on has.
        subject = before if note is not None else current
        left = LeftBehind((), (), ()) if subject is None else _left_behind(connection, subject)
    divergence = None
    if subject is not None and subject.workspace_id is not None:
        divergence = session_divergence(
            controller.store,
            controller.observer,
            subject.id,
            timeout_seconds=controller.settings.git_timeout_seconds,
        )
    age = None if before is None else _age(controller, before)
    return Woken(current, is_new, before, age, note, is_stale, divergence, left)


def _age(controller: Controller, session: Session) -> float:
    """Return since when a session is silent, in seconds; none at all if the clock was set back meanwhile."""
    return max(0.0, (controller.clock.now() - parse_timestamp(session.updated_at)).total_seconds())


def _left_behind(connection: Connection, session: Session) -> LeftBehind:
    tasks = rows.list_delegations(connection, session_ids=[session.id], limit=LOOKED_THROUGH)
    answered = _last_answer(connection, session)
    unread = [one for one in tasks if one.result_entry_id is not None and _sequence(one.result_entry_id) > answered]
    worktrees = []
    for one in reversed(tasks):
        place = None if one.workspace_id is None else find_workspace(connection, one.workspace_id)
        if place is not None and place.id != session.workspace_id and place.status is not WorkspaceStatus.REMOVED:
            worktrees.append({"task": one.name or one.id, "path": place.path, "status": str(place.status)})
    return LeftBehind(
        tuple(one for one in tasks if not one.status.is_final)[-MAX_LISTED:],
        tuple(unread)[-MAX_LISTED:],
        tuple(worktrees[:MAX_LISTED]),
    )


def _last_answer(connection: Connection, session: Session) -> int:
    """Return the sequence of the last thing that an agent said: results before it were there to be read."""
    last = newest_entries(connection, session.id, before_sequence=None, after_sequence=0, limit=LOOKED_THROUGH)
    return next((entry.sequence for entry in last if entry.kind == "assistant.message"), 0)


def _sequence(entry_id: str) -> int:
    return int(entry_id.rpartition("-")[2])


def _task(delegation: Delegation) -> dict[str, Any]:
    return {
        "id": delegation.id,
        "name": delegation.name,
        "status": str(delegation.status),
        "reference": delegation.result_entry_id,
    }


def _in_words(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours / 24:.0f} days" if hours >= 72 else f"{hours:.0f} hours"
