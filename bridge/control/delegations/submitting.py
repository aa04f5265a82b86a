"""A worker hands in its result while it runs: checked at once, so that it can mend what is wrong. Blocking.

What is accepted ends the attempt: the process gets a moment to end by itself, then it is ended, and the result
stands whatever its exit status is. What is not accepted is kept, with what is wrong with it; after
:data:`~bridge.control.delegations.model.MAX_SUBMISSIONS` tries the attempt ends with the last of them, as with an
invalid result file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from anyio import to_thread

from bridge.adapters.base import Handing
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import MAX_SUBMISSIONS, Delegation, DelegationStatus, Submission
from bridge.control.errors import NoOpenDelegation, ResultAlreadySubmitted
from bridge.control.recording import RecordingTransaction
from bridge.foundation.canonical import canonical_bytes, canonical_text
from bridge.semantics.results import validate_result
from bridge.storage.transaction import Connection

#: Seconds that a worker's process may go on after its result was accepted, or its tries are used up.
SUBMITTED_GRACE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Handed:
    """What became of a result that was handed in."""

    delegation: Delegation
    submission: Submission

    def to_json(self) -> dict[str, Any]:
        """Return what the agent is told."""
        permitted = self.delegation.request.attempts_permitted
        attempt, left = self.submission.attempt, MAX_SUBMISSIONS - self.submission.number
        return {
            "accepted": self.submission.is_accepted,
            "delegation_id": self.delegation.id,
            "errors": [dict(error) for error in self.submission.field_errors],
            "attempt": attempt,
            "attempts_permitted": permitted,
            "is_last_permitted_attempt": 1 < permitted == attempt,
            "try": self.submission.number,
            "tries_left": 0 if self.submission.is_accepted else left,
        }


def submit_result(controller: Controller, worker_session_id: str, result: Mapping[str, Any]) -> Handed:
    """Check a result against the worker result contract and the task's own schema, and record it.

    Raises
    ------
    NoOpenDelegation
        If the session is no worker's, or its task does not run.
    ResultAlreadySubmitted
        If the attempt has its result, or no try is left.
    NotCanonical
        If the result is not plain JSON.
    """
    return submit_raw(controller, worker_session_id, canonical_bytes(dict(result)))


def submit_raw(controller: Controller, worker_session_id: str, raw: bytes) -> Handed:
    """Check a result as it was written, and record it; what is no JSON is recorded with that fault.

    Raises
    ------
    NoOpenDelegation, ResultAlreadySubmitted
        As :func:`submit_result`.
    """
    with controller.store.read() as connection:
        delegation, attempt = _place(connection, worker_session_id)
    schema = delegation.request.output_schema
    check = validate_result(raw, None if schema is None else dict(schema))

    def record(recording: RecordingTransaction) -> Submission:
        connection = recording.tx.connection
        current, number = _place(connection, worker_session_id)
        if (current.id, number) != (delegation.id, attempt):
            raise _none_open(worker_session_id)
        earlier = rows.submission_states(connection, delegation.id, attempt)
        if any(earlier) or len(earlier) >= MAX_SUBMISSIONS:
            raise ResultAlreadySubmitted(
                "A result was accepted already." if any(earlier) else f"All {MAX_SUBMISSIONS} tries are used up.",
                details={"delegation_id": delegation.id, "attempt": attempt, "tries": len(earlier)},
            )
        submission = Submission(
            delegation_id=delegation.id,
            attempt=attempt,
            number=len(earlier) + 1,
            is_accepted=check.valid,
            received_at=recording.moment,
            text=canonical_text(check.value) if check.valid else check.raw_text,
            field_errors=tuple(check.fields),
        )
        rows.add_submission(connection, submission)
        body = {"delegation_id": delegation.id, "attempt": attempt, "try": submission.number, "accepted": check.valid}
        recording.event(delegation.parent_session_id, "delegation.result_submitted", body)
        return submission

    return Handed(delegation, controller.recorder.transact(record))


@dataclass(frozen=True, slots=True)
class AttemptDesk:
    """Where the results of one attempt are handed in; see ``bridge.adapters.base.Desk``."""

    controller: Controller
    worker_session_id: str
    delegation_id: str
    attempt: int

    async def hand_in(self, raw: bytes) -> Handing:
        """Check a result and record it; after the last one, say what became of that."""
        try:
            handed = await to_thread.run_sync(partial(submit_raw, self.controller, self.worker_session_id, raw))
        except ResultAlreadySubmitted:
            # The agent handed one in itself just now.
            latest = await self.latest()
            if latest is None:
                raise
            return latest
        return _handing(handed.submission)

    async def latest(self) -> Handing | None:
        """Return what became of the last result handed in, by whomever."""
        return await to_thread.run_sync(self._latest)

    def _latest(self) -> Handing | None:
        with self.controller.store.read() as connection:
            found = rows.list_submissions(connection, self.delegation_id, self.attempt)
        return _handing(found[-1]) if found else None


def _handing(submission: Submission) -> Handing:
    return Handing(
        is_accepted=submission.is_accepted,
        number=submission.number,
        permitted=MAX_SUBMISSIONS,
        errors=submission.field_errors,
    )


def final_submission(connection: Connection, delegation_id: str, attempt: int) -> Submission | None:
    """Return what an attempt ends with; None if nothing was handed in that ends it."""
    found = rows.list_submissions(connection, delegation_id, attempt)
    return found[-1] if found and found[-1].is_final else None


def has_ended(connection: Connection, delegation_id: str, attempt: int) -> bool:
    """Tell whether what was handed in ends an attempt."""
    states = rows.submission_states(connection, delegation_id, attempt)
    return any(states) or len(states) >= MAX_SUBMISSIONS


def _place(connection: Connection, worker_session_id: str) -> tuple[Delegation, int]:
    delegation = rows.open_delegation_of_worker(connection, worker_session_id)
    if delegation is None or delegation.status is not DelegationStatus.RUNNING:
        raise _none_open(worker_session_id)
    running = [one for one in rows.list_attempts(connection, delegation.id) if one.finished_at is None]
    if not running:
        raise _none_open(worker_session_id)
    return delegation, running[-1].number


def _none_open(worker_session_id: str) -> NoOpenDelegation:
    return NoOpenDelegation(
        "This session works on no task that is running. Nothing was recorded.",
        details={"session_id": worker_session_id},
    )
