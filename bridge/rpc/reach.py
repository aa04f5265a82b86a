"""What an agent reaches: its own session, what that session asked for, evidence of its parent's active branch, and the
notes of the sessions that its own continues.

Everything else is refused in the very words for what does not exist, by the very code that says so for it: whether an
id is somebody else's or nobody's cannot be told from the answer. What is reached is handed on as full ids, so that a
name cannot come to mean something else between this look and the call's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridge.control.controller import Controller
from bridge.control.delegations.evidence import resolve_evidence
from bridge.control.delegations.results import no_such_reference
from bridge.control.delegations.tasks import find_task
from bridge.control.errors import ReferenceNotFound, TaskNotFound, TaskStillOpen
from bridge.control.lineage.notes import PREVIOUS, predecessors
from bridge.control.standpoint import Standpoint, find_entry, find_session
from bridge.conversations.errors import AmbiguousReference, EntryNotFound, InvalidReference, SessionNotFound
from bridge.conversations.forest import require_session
from bridge.conversations.paths import belongs_to_session
from bridge.foundation.errors import BridgeError
from bridge.foundation.redaction import redact_text
from bridge.rpc.methods.shapes import Names, named_params
from bridge.rpc.refusals import tally_of
from bridge.storage.transaction import Connection

#: Audit event of an agent's session: it asked for what it may not have.
ACCESS_REFUSED = "access.refused"
#: Characters of what was asked for that are recorded.
_MAX_RECORDED = 200
_UNKNOWN = (SessionNotFound, EntryNotFound, AmbiguousReference, InvalidReference)


class Reach:
    """What the agent of one session reaches. Blocks."""

    def __init__(self, controller: Controller, session_id: str) -> None:
        self._controller = controller
        self._session_id = session_id
        self._standpoint = Standpoint(session=session_id)

    def within(self, params: Any) -> Any:
        """Return the params with full ids in place of what they refer to.

        Raises
        ------
        SessionNotFound, EntryNotFound, TaskNotFound, ReferenceNotFound
            If something of it is out of reach, or does not exist.
        """
        named = named_params(type(params))
        if not named:
            return params
        changes: dict[str, Any] = {}
        with self._controller.store.read() as connection:
            for name, kind in named.items():
                given = getattr(params, name)
                if given is None and kind is not Names.SESSION:
                    continue
                if kind is Names.SESSION:
                    changes.setdefault(name, self._session(connection, given))
                elif kind is Names.ENTRY:
                    changes[name] = self._entry(connection, given)
                elif kind is Names.TASK:
                    changes[name] = self._task(connection, given)
                elif kind is Names.LINEAGE:
                    changes[name] = self._in_line(connection, given)
                elif isinstance(given, tuple):
                    changes[name] = tuple(self._own_evidence(connection, one) for one in given)
                else:
                    changes[name], changes["session"] = self._evidence(connection, given)
        return replace(params, **changes)

    def record_refusal(self, method: str, error: BridgeError) -> None:
        """Record in the agent's own chain that it was refused something, unless it was so too often (``refusals``)."""
        count = tally_of(self._controller).count(self._session_id, self._controller.clock.monotonic())
        if count is None:
            return
        asked = error.details.get("reference")
        body = {
            "method": _recorded(method),
            "code": error.code,
            "reference": None if asked is None else _recorded(asked),
            "count": count,
        }
        self._controller.recorder.transact(lambda recording: recording.event(self._session_id, ACCESS_REFUSED, body))

    def _session(self, connection: Connection, reference: str | None) -> str:
        if reference is not None and self._found_session(connection, reference) != self._session_id:
            raise SessionNotFound(f"There is no session {reference!r}.", details={"reference": reference})
        return self._session_id

    def _in_line(self, connection: Connection, reference: str) -> str:
        """Return what notes may be read of: the own session, or one that it continues."""
        if reference == PREVIOUS:
            return reference
        found = self._found_session(connection, reference)
        line = predecessors(connection, require_session(connection, self._session_id)).sessions
        if found is None or found not in {self._session_id, *(one.id for one in line)}:
            raise SessionNotFound(f"There is no session {reference!r}.", details={"reference": reference})
        return found

    def _found_session(self, connection: Connection, reference: str) -> str | None:
        try:
            return find_session(connection, self._standpoint, reference)
        except _UNKNOWN:
            return None

    def _entry(self, connection: Connection, reference: str) -> str:
        found = self._found_entry(connection, reference)
        if found is None or not belongs_to_session(connection, self._session_id, found):
            raise EntryNotFound(f"There is no entry {reference!r}.", details={"reference": reference})
        return found

    def _found_entry(self, connection: Connection, reference: str) -> str | None:
        try:
            return find_entry(connection, self._standpoint, reference, session_id=self._session_id)
        except _UNKNOWN:
            return None

    def _task(self, connection: Connection, reference: str) -> str:
        try:
            return find_task(connection, reference, session_id=self._session_id).id
        except TaskNotFound as error:
            raise TaskNotFound(f"There is no task {reference!r}.", details={"reference": reference}) from error

    def _own_evidence(self, connection: Connection, reference: str) -> str:
        found = self._found_entry(connection, reference)
        if found is None or not belongs_to_session(connection, self._session_id, found):
            raise no_such_reference(reference)
        return found

    def _evidence(self, connection: Connection, reference: str) -> tuple[str, str]:
        """Return the entry that is cited and the session that cites it: the agent's own, or its parent's."""
        found = self._result_of_task(connection, reference) or self._found_entry(connection, reference)
        if found is None:
            raise no_such_reference(reference)
        if belongs_to_session(connection, self._session_id, found):
            return found, self._session_id
        session = require_session(connection, self._session_id)
        if session.parent_session_id is None or session.parent_relation != "delegated":
            raise no_such_reference(reference)
        try:
            resolve_evidence(connection, session.parent_session_id, found)
        except BridgeError as error:
            # Of its parent's session an agent reaches nothing but what can be cited now.
            raise no_such_reference(reference) from error
        return found, session.parent_session_id

    def _result_of_task(self, connection: Connection, reference: str) -> str | None:
        try:
            task = find_task(connection, reference, session_id=self._session_id)
        except TaskNotFound:
            return None
        if task.result_entry_id is None:
            raise TaskStillOpen(
                f"{task.name or task.id} has no result ({task.status}).", details={"delegation_id": task.id}
            )
        return task.result_entry_id


#: What being out of reach looks like.
REFUSALS = (SessionNotFound, EntryNotFound, TaskNotFound, ReferenceNotFound)


def _recorded(text: object) -> str:
    return redact_text(str(text)[:_MAX_RECORDED])[0]
