"""Reading one result as evidence, by whatever people call it. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.adapters.base import Evidence
from bridge.control.controller import Controller
from bridge.control.delegations.evidence import resolve_evidence
from bridge.control.delegations.tasks import find_task
from bridge.control.errors import ReferenceNotFound, TaskNotFound, TaskStillOpen
from bridge.control.standpoint import Standpoint, find_entry, find_session
from bridge.conversations.errors import EntryNotFound, InvalidReference, SessionNotFound
from bridge.foundation.canonical import parse_json
from bridge.foundation.ids import split_entry_id
from bridge.storage.transaction import Connection


@dataclass(frozen=True, slots=True)
class ResolvedResult:
    """A result that may be cited in a session."""

    session_id: str
    evidence: Evidence

    @property
    def payload(self) -> dict[str, Any]:
        """The payload, parsed; floats keep their digits."""
        return dict(parse_json(self.evidence.payload))

    def to_json(self) -> dict[str, Any]:
        """Return reference, digest and payload."""
        return {
            "reference": self.evidence.reference,
            "session_id": self.session_id,
            "digest": self.evidence.digest,
            "payload": self.payload,
        }


def resolve_result(
    controller: Controller, standpoint: Standpoint, reference: str, *, session: str | None = None
) -> ResolvedResult:
    """Resolve a reference as evidence for a session.

    The session is the one given, else the one the standpoint names, else the one that the result is recorded in.

    A task's name or id stands for the result of that task.

    Raises
    ------
    ReferenceNotFound, ReferenceForeignSession, ReferenceNotAResult, ReferenceNotOnActiveBranch,
    ReferenceInvalidResult, UnsupportedSemanticVersion
        As :func:`bridge.control.delegations.evidence.resolve_evidence`.
    SessionNotFound, AmbiguousReference, TaskAmbiguous, TaskStillOpen
        If session or reference cannot be told, or the task has no result yet.
    """
    with controller.store.read() as connection:
        citing = session or standpoint.session
        entry_id = _entry_id(connection, standpoint, reference, citing)
        session_id = split_entry_id(entry_id)[0] if citing is None else find_session(connection, standpoint, citing)
        return ResolvedResult(session_id, resolve_evidence(connection, session_id, entry_id))


def no_such_reference(reference: str) -> ReferenceNotFound:
    """Return the error for a reference that names nothing."""
    return ReferenceNotFound(f"There is no entry or task {reference[:80]!r}.", details={"reference": reference[:200]})


def _entry_id(connection: Connection, standpoint: Standpoint, reference: str, session: str | None) -> str:
    try:
        task = find_task(connection, reference)
    except TaskNotFound:
        task = None
    if task is not None:
        if task.result_entry_id is None:
            raise TaskStillOpen(
                f"{task.name or task.id} has no result ({task.status}).", details={"delegation_id": task.id}
            )
        return task.result_entry_id
    session_id = None if session is None else find_session(connection, standpoint, session)
    try:
        return find_entry(connection, standpoint, reference, session_id=session_id)
    except (EntryNotFound, InvalidReference, SessionNotFound) as error:
        raise no_such_reference(reference) from error
