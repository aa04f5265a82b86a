"""Recording a turn: it begins together with its message, its events follow its cursor, it ends in every case.

All of it blocks; run in helper threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bridge.adapters.events import AdapterEvent
from bridge.control.contexts.building import stored_path
from bridge.control.controller import Controller
from bridge.control.conversing import store as rows
from bridge.control.errors import TurnRunning
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import PayloadTooLarge
from bridge.conversations.forest import require_cursor, require_session
from bridge.conversations.models import Entry, EntryDraft
from bridge.conversations.projection import MODEL_CHANGED, latest_model
from bridge.conversations.store import list_cursors
from bridge.foundation.errors import NotCanonical
from bridge.foundation.ids import short_entry
from bridge.semantics.errors import InvalidPayload
from bridge.semantics.kinds import HIDDEN
from bridge.workspaces.store import save_state

#: Begins the owner of every cursor of a chat's turn, and the id of its agent.
OWNER_PREFIX: Final = "chat-"
#: Characters kept of an event that cannot be recorded as it is.
MAX_KEPT: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """What a turn begins with.

    Parameters
    ----------
    agent_id
        The agent, and the owner of the turn's cursor.
    expected_head
        The entry that the agent's context leads up to; if the head is another by now, nothing is written.
    native_session_id
        The harness's own session.
    mode, reason
        How the agent came by what it knows of the conversation.
    """

    session_id: str
    agent_id: str
    turn_id: str
    harness: str
    native_session_id: str
    expected_head: str
    text: str
    mode: str
    reason: str
    model: str | None = None


def begin_turn(controller: Controller, plan: TurnPlan, workspace_id: str | None) -> Entry:
    """Record a message under the head and the beginning of its turn, in one transaction; return the message.

    Raises
    ------
    TurnRunning
        If another chat's turn is running at the head.
    HeadMoved
        If the head is another than expected.
    """
    observation = controller.observer.stamp_session(controller.store, workspace_id)
    controller.keeper.keep(observation)
    meta = {"harness": plan.harness, "restoration": {"mode": plan.mode, "reason": plan.reason}}
    message = controller.recorder.prepare(
        EntryDraft(
            kind="user.message",
            payload={"text": plan.text, "turn_id": plan.turn_id},
            expected_head=plan.expected_head,
        ),
        observation.stamp,
    )
    payload: dict[str, Any] = {
        "turn_id": plan.turn_id,
        "native_session_id": plan.native_session_id,
        "provider_meta": meta,
    }
    if plan.model is not None:
        payload["model"] = plan.model
    started = controller.recorder.prepare(
        EntryDraft(kind="turn.started", payload=payload, cursor=plan.agent_id), observation.stamp
    )

    change = _model_change(controller, plan)
    changed = None if change is None else controller.recorder.prepare(change, observation.stamp)

    def run(recording: RecordingTransaction) -> Entry:
        _require_idle(recording, plan)
        save_state(recording.tx, observation, recording.moment)
        entry = recording.append(plan.session_id, message).entry
        recording.open_cursor(plan.session_id, plan.agent_id, entry.id)
        recording.append(plan.session_id, started)
        if changed is not None:
            recording.append(plan.session_id, changed)
        rows.note_turn(recording.tx.connection, plan.agent_id, plan.turn_id)
        if require_session(recording.tx.connection, plan.session_id).harness != plan.harness:
            recording.update_session(plan.session_id, harness=plan.harness)
        return entry

    return controller.recorder.transact(run)


def record_event(controller: Controller, plan: TurnPlan, workspace_id: str | None, event: AdapterEvent) -> Entry:
    """Record what happened in a turn, at its cursor. What no entry can hold is kept in words, never lost silently."""
    observation = controller.observer.stamp_session(controller.store, workspace_id)
    controller.keeper.keep(observation)

    def keep_state(recording: RecordingTransaction) -> None:
        save_state(recording.tx, observation, recording.moment)

    try:
        draft = _draft(plan, event)
        return controller.recorder.append(plan.session_id, draft, observation.stamp, first=keep_state).result().entry
    except (InvalidPayload, NotCanonical, PayloadTooLarge) as error:
        kept = f"{error.code}: {error.message}"[:MAX_KEPT]
        opaque = AdapterEvent("provider.unknown", {"raw_type": event.kind, "raw": kept, "turn_id": plan.turn_id})
        draft = _draft(plan, opaque)
        return controller.recorder.append(plan.session_id, draft, observation.stamp, first=keep_state).result().entry


def end_turn(
    controller: Controller, plan: TurnPlan, workspace_id: str | None, completed: AdapterEvent, *, is_known: bool
) -> Entry:
    """Record the end of a turn and close its cursor, in one transaction; return its last entry.

    Parameters
    ----------
    completed
        Its ``turn.completed``.
    is_known
        Whether the agent's own session holds what is recorded, so that it can be taken up again here.
    """
    observation = controller.observer.stamp_session(controller.store, workspace_id)
    controller.keeper.keep(observation)
    payload = dict(completed.payload)
    if is_known:
        payload["native_session_id"] = plan.native_session_id
    ended = controller.recorder.prepare(_draft(plan, AdapterEvent(completed.kind, payload)), observation.stamp)

    def run(recording: RecordingTransaction) -> Entry:
        save_state(recording.tx, observation, recording.moment)
        entry = recording.append(plan.session_id, ended).entry
        recording.close_cursor(plan.session_id, plan.agent_id)
        rows.note_turn(recording.tx.connection, plan.agent_id, None)
        return entry

    return controller.recorder.transact(run)


def leaf_of_turn(controller: Controller, plan: TurnPlan) -> str:
    """Return where a running turn stands."""
    with controller.store.read() as connection:
        return require_cursor(connection, plan.session_id, plan.agent_id)


def _draft(plan: TurnPlan, event: AdapterEvent) -> EntryDraft:
    return EntryDraft(
        kind=event.kind,
        payload=dict(event.payload),
        cursor=plan.agent_id,
        context_visibility=HIDDEN if event.is_hidden else None,
        external_id=event.external_id,
        external_source=plan.harness if event.external_id is not None else "",
    )


def _model_change(controller: Controller, plan: TurnPlan) -> EntryDraft | None:
    """Return what says that another model answers than the conversation says, None if it says so already.

    Contexts tell the latest model from these entries: those of every turn would have to be read one by one.
    """
    if plan.model is None:
        return None
    with controller.store.read() as connection:
        before = latest_model(stored_path(connection, plan.expected_head))
    if before == plan.model:
        return None
    previous = {} if before is None else {"previous": before}
    payload = {"model": plan.model, "turn_id": plan.turn_id, **previous}
    return EntryDraft(kind=MODEL_CHANGED, payload=payload, cursor=plan.agent_id)


def _require_idle(recording: RecordingTransaction, plan: TurnPlan) -> None:
    """Refuse to write into another chat's running turn: its cursor would follow, and the two would be one branch."""
    for cursor in list_cursors(recording.tx.connection, plan.session_id):
        is_chat = cursor.owner.startswith(OWNER_PREFIX) and cursor.owner != plan.agent_id
        if is_chat and cursor.leaf_entry_id == plan.expected_head:
            raise TurnRunning(
                f"Another chat's turn is running at {short_entry(plan.expected_head)}. Nothing was sent.",
                details={"session_id": plan.session_id, "entry_id": plan.expected_head, "owner": cursor.owner},
            )
