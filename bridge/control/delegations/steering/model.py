"""Values of steering: a paused credential, something to be approved, a message to a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bridge.agents.policy_model import QuotaPause


@dataclass(frozen=True, slots=True)
class Pause:
    """A credential whose quota is used up.

    Parameters
    ----------
    resets_at
        Until when nothing is started with it.
    is_reset_known
        Whether the harness told that, or it is a guess.
    delegation_id
        The task that met the limit.
    lifted_at, lifted_by
        When it was lifted before its time; None while it holds.
    """

    credential: str
    paused_at: str
    resets_at: str
    is_reset_known: bool
    delegation_id: str
    lifted_at: str | None = None
    lifted_by: str | None = None

    def as_fact(self) -> QuotaPause:
        """Return the pause as policy sees it."""
        return QuotaPause(self.credential, self.resets_at)

    def to_json(self) -> dict[str, Any]:
        """Return the pause as it is shown."""
        return {
            "credential": self.credential,
            "paused_at": self.paused_at,
            "resets_at": self.resets_at,
            "is_reset_known": self.is_reset_known,
            "delegation_id": self.delegation_id,
            "lifted_at": self.lifted_at,
            "lifted_by": self.lifted_by,
        }


class ApprovalStatus(StrEnum):
    """What became of a request for approval. Only ``denied`` means that somebody said no."""

    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    #: Nobody answered in time.
    TIMED_OUT = "timed_out"
    #: The worker that asked is gone, or was cancelled.
    LAPSED = "lapsed"


@dataclass(frozen=True, slots=True)
class Approval:
    """Something that a worker wants allowed and that the operator is asked about.

    Parameters
    ----------
    approval_id
        As the events of the worker's session name it.
    paths, details
        Files concerned, and the call's input with known secrets masked.
    options
        The answers that the agent offers: id, name, kind.
    expires_at
        Until when it can be answered.
    """

    id: str
    delegation_id: str
    attempt: int
    status: ApprovalStatus
    title: str
    tool_kind: str
    tool_call_id: str
    approval_id: str
    paths: tuple[str, ...]
    details: Any
    options: tuple[Mapping[str, str], ...]
    requested_at: str
    expires_at: str
    decided_at: str | None = None
    decided_by: str | None = None
    option_id: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the approval as it is shown."""
        return {
            "id": self.id,
            "delegation_id": self.delegation_id,
            "attempt": self.attempt,
            "status": str(self.status),
            "title": self.title,
            "tool_kind": self.tool_kind,
            "tool_call_id": self.tool_call_id,
            "approval_id": self.approval_id,
            "paths": list(self.paths),
            "details": self.details,
            "options": [dict(option) for option in self.options],
            "requested_at": self.requested_at,
            "expires_at": self.expires_at,
            "decided_at": self.decided_at,
            "decided_by": self.decided_by,
            "option_id": self.option_id,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """Something said to a running worker; ``handed_over_at`` None while it waits for the end of a turn."""

    delegation_id: str
    number: int
    text: str
    entry_id: str
    sent_at: str
    handed_over_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the message as it is shown."""
        return {
            "delegation_id": self.delegation_id,
            "number": self.number,
            "text": self.text,
            "entry_id": self.entry_id,
            "sent_at": self.sent_at,
            "handed_over_at": self.handed_over_at,
        }
