"""Saying something to a running worker without ending its turn: recorded at once, handed over at the turn's end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from anyio import to_thread

from bridge.adapters.registry import harness
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation, DelegationStatus
from bridge.control.delegations.steering import store as steering
from bridge.control.delegations.steering.model import TaskMessage
from bridge.control.delegations.submitting import has_ended
from bridge.control.errors import HarnessTakesNoMessages, TaskAlreadyEnded, TaskNotRunning
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft
from bridge.foundation.redaction import redact_text

#: Who says it, as the entry names it.
AUTHOR: Final = "operator"


def send_message(controller: Controller, delegation: Delegation, text: str) -> TaskMessage:
    """Say something to a worker: an entry of its session now, its next prompt once its running turn is over.

    Raises
    ------
    TaskAlreadyEnded
        If it has ended, or its result is in.
    TaskNotRunning
        If its worker has not been started.
    HarnessTakesNoMessages
        If its harness cannot be told anything while it works.
    """
    name = delegation.name or delegation.id
    if not delegation.status.is_final and not _takes_messages(controller, delegation):
        raise HarnessTakesNoMessages(
            f"{name} runs through {delegation.request.harness}, which cannot be told anything while it works. "
            "Nothing was sent.",
            hint=f"Cancel it, then: bridge task retry {name} --feedback TEXT",
            details={"delegation_id": delegation.id, "harness": delegation.request.harness},
        )

    prepared = controller.recorder.prepare(EntryDraft(kind="user.message", payload={"text": text, "author": AUTHOR}))

    def record(recording: RecordingTransaction) -> TaskMessage:
        connection, moment = recording.tx.connection, recording.moment
        current = rows.require_delegation(connection, delegation.id)
        attempts = rows.list_attempts(connection, delegation.id)
        is_over = bool(attempts) and has_ended(connection, delegation.id, attempts[-1].number)
        if current.status.is_final or current.status is DelegationStatus.SETTLING or is_over:
            raise TaskAlreadyEnded(
                f"{name} has its result already ({current.status}). Nothing was sent.",
                hint=f"Have it tried again: bridge task retry {name} --feedback TEXT",
                details={"delegation_id": delegation.id, "status": str(current.status)},
            )
        if current.worker_session_id is None:
            raise TaskNotRunning(
                f"The worker of {name} has not been started ({current.status}). Nothing was sent.",
                details={"delegation_id": delegation.id, "status": str(current.status)},
            )
        entry = recording.append(current.worker_session_id, prepared).entry
        number = steering.next_message_number(connection, delegation.id)
        message = TaskMessage(delegation.id, number, redact_text(text)[0], entry.id, moment)
        steering.add_message(connection, message)
        body = {"delegation_id": delegation.id, "number": number, "entry_id": entry.id}
        recording.event(delegation.parent_session_id, "delegation.message_sent", body)
        return message

    return controller.recorder.transact(record)


def _takes_messages(controller: Controller, delegation: Delegation) -> bool:
    return harness(delegation.request.harness, controller.settings.harness).capabilities.messages


@dataclass(frozen=True, slots=True)
class Inbox:
    """Hands one attempt's worker what was said to it; a ``NextMessage`` of the adapters."""

    controller: Controller
    delegation: Delegation
    attempt: int

    async def __call__(self) -> str | None:
        """Take the oldest message that was not handed over; None if there is none, or the result is in."""
        return await to_thread.run_sync(partial(self._take))

    def _take(self) -> str | None:
        with self.controller.store.read() as connection:
            waiting = steering.waiting_message(connection, self.delegation.id)
        if waiting is None:
            return None

        def record(recording: RecordingTransaction) -> str | None:
            connection = recording.tx.connection
            message = steering.waiting_message(connection, self.delegation.id)
            if message is None or has_ended(connection, self.delegation.id, self.attempt):
                return None
            steering.hand_over(connection, message, recording.moment)
            body = {"delegation_id": self.delegation.id, "number": message.number, "attempt": self.attempt}
            recording.event(self.delegation.parent_session_id, "delegation.message_handed_over", body)
            return message.text

        return self.controller.recorder.transact(record)
