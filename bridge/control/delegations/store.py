"""Queries over control's own rows: controllers, plans, delegations, attempts. All take an open connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, tuple_, update

from bridge.control.delegations.model import (
    OPEN_STATUSES,
    AdoptionStatus,
    Attempt,
    Delegation,
    DelegationStatus,
    PlanRun,
    Request,
    Submission,
)
from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.redaction import redact, redact_text
from bridge.process.identity import ProcessIdentity
from bridge.storage.prepared import Prepared
from bridge.storage.tables import attempts, controllers, delegations, plans, submissions

#: Requests and decisions that are kept as read, and the longest text of one that is: a delegation's row is read some
#: twenty times until it has ended, and every row of a session at each of its requests.
_READ_TEXTS: Final = 512
_READ_CHARACTERS: Final = 16 * 1024
#: Statements that are kept, one for each set of columns that some step changes; there are about twenty.
_UPDATES: Final = 64

_COLUMNS: Final = tuple(column.name for column in delegations.columns)
_BY_ID: Final = Prepared(select(delegations).where(delegations.c.id == bindparam("id")), "id")


@dataclass(frozen=True, slots=True)
class ControllerRow:
    """A process that owns, or owned, delegations.

    Parameters
    ----------
    machine
        Which process table ``identity`` is looked for in; None in rows of an older Bridge.
    lease_expires_at
        Until when it is certainly there, unless it renews that.
    """

    id: str
    identity: ProcessIdentity
    host: str
    machine: str | None
    lease_expires_at: str | None
    has_ended: bool


def add_controller(
    connection: Connection,
    controller_id: str,
    identity: ProcessIdentity,
    *,
    host: str,
    machine: str,
    build: str,
    started_at: str,
    lease_expires_at: str,
) -> None:
    """Record a process that is about to own delegations."""
    connection.execute(
        insert(controllers).values(
            id=controller_id,
            pid=identity.pid,
            process_start_time=identity.start_time,
            host=host,
            machine=machine,
            build=build,
            started_at=started_at,
            lease_expires_at=lease_expires_at,
        )
    )


def end_controller(connection: Connection, controller_id: str, ended_at: str) -> None:
    """Record that a controller ended in order."""
    connection.execute(update(controllers).where(controllers.c.id == controller_id).values(ended_at=ended_at))


def controller_by_id(connection: Connection, controller_id: str) -> ControllerRow | None:
    """Return a controller, or None if it is not recorded."""
    row = connection.execute(select(controllers).where(controllers.c.id == controller_id)).one_or_none()
    if row is None:
        return None
    identity = ProcessIdentity(row.pid, row.process_start_time)
    return ControllerRow(row.id, identity, row.host, row.machine, row.lease_expires_at, row.ended_at is not None)


def renew_leases(connection: Connection, controller_id: str, expires_at: str) -> None:
    """Renew a controller's lease, and those of the workers that it watches over."""
    own = select(delegations.c.id).where(
        delegations.c.controller_id == controller_id,
        delegations.c.status.in_([str(status) for status in OPEN_STATUSES]),
    )
    connection.execute(update(controllers).where(controllers.c.id == controller_id).values(lease_expires_at=expires_at))
    connection.execute(
        update(attempts)
        .where(attempts.c.finished_at.is_(None), attempts.c.delegation_id.in_(own))
        .values(lease_expires_at=expires_at)
    )


def add_plan(connection: Connection, plan: PlanRun, text: str) -> None:
    """Record the run of a plan together with the file's text as it was read, known secrets masked."""
    connection.execute(
        insert(plans).values(
            id=plan.id,
            label=plan.label,
            session_id=plan.session_id,
            path=plan.path,
            status=plan.status,
            created_at=plan.created_at,
            updated_at=plan.updated_at,
            finished_at=plan.finished_at,
            text=redact_text(text)[0],
        )
    )


def finish_plan(connection: Connection, plan_id: str, status: str, moment: str) -> None:
    """Record how a plan ended."""
    connection.execute(
        update(plans).where(plans.c.id == plan_id).values(status=status, updated_at=moment, finished_at=moment)
    )


def plan_by_id(connection: Connection, plan_id: str) -> PlanRun | None:
    """Return one run of a plan, or None."""
    row = connection.execute(select(plans).where(plans.c.id == plan_id)).one_or_none()
    return None if row is None else _plan(row)


def list_plans(connection: Connection, *, limit: int) -> list[PlanRun]:
    """Return the newest runs of plans, newest first."""
    ordered = select(plans).order_by(plans.c.created_at.desc(), plans.c.id.desc()).limit(limit)
    return [_plan(row) for row in connection.execute(ordered)]


def running_plans(connection: Connection) -> list[PlanRun]:
    """Return the plans that nobody has recorded an end of."""
    query = select(plans).where(plans.c.finished_at.is_(None)).order_by(plans.c.created_at, plans.c.id)
    return [_plan(row) for row in connection.execute(query)]


def add_delegation(connection: Connection, delegation: Delegation) -> None:
    """Record a new delegation. Known secrets in its request are masked; who runs it has the request itself."""
    connection.execute(insert(delegations).values(**_delegation_values(delegation)))


def update_delegation(connection: Connection, delegation_id: str, *, updated_at: str, **changes: Any) -> None:
    """Change columns of a delegation; ``decision`` is given as a JSON value.

    Statuses may be enumeration members. Only the columns named are touched.
    """
    values = {
        key: str(value) if isinstance(value, (DelegationStatus, AdoptionStatus)) else value
        for key, value in changes.items()
    }
    if "decision" in values and values["decision"] is not None:
        values["decision"] = canonical_text(values["decision"])
    values["updated_at"] = updated_at
    _update_of(tuple(values)).run(connection, delegation_id, *values.values())


@lru_cache(_UPDATES)
def _update_of(columns: tuple[str, ...]) -> Prepared:
    """Return the statement that changes these columns of a delegation."""
    new: dict[str, Any] = {column: bindparam(f"new_{column}") for column in columns}
    statement = update(delegations).where(delegations.c.id == bindparam("which")).values(new)
    return Prepared(statement, "which", *(f"new_{column}" for column in columns))


def delegation_by_id(connection: Connection, delegation_id: str) -> Delegation | None:
    """Return one delegation, or None."""
    row = _BY_ID.run(connection, delegation_id).fetchone()
    return None if row is None else _read_delegation(dict(zip(_COLUMNS, row, strict=True)))


def is_cancel_requested(connection: Connection, delegation_id: str) -> bool:
    """Tell whether somebody asked for a delegation's end; reads one column, since it is asked often."""
    query = select(delegations.c.cancel_requested_at).where(delegations.c.id == delegation_id)
    return connection.execute(query).scalar_one_or_none() is not None


def is_to_end(connection: Connection, delegation_id: str, owner: str | None) -> bool:
    """Tell whether a controller has to end a worker: somebody asked for it, or another controller took it over."""
    query = select(delegations.c.cancel_requested_at, delegations.c.controller_id).where(
        delegations.c.id == delegation_id
    )
    row = connection.execute(query).one_or_none()
    return row is not None and (row.cancel_requested_at is not None or row.controller_id != owner)


def claim_delegation(connection: Connection, delegation_id: str, *, lost: str, by: str, updated_at: str) -> bool:
    """Take over an open delegation of a lost controller; False if another one was quicker, or it has ended."""
    done = connection.execute(
        update(delegations)
        .where(
            delegations.c.id == delegation_id,
            delegations.c.controller_id == lost,
            delegations.c.status.in_([str(status) for status in OPEN_STATUSES]),
        )
        .values(controller_id=by, updated_at=updated_at)
    )
    return done.rowcount == 1


def require_delegation(connection: Connection, delegation_id: str) -> Delegation:
    """Return one delegation that is known to exist.

    Raises
    ------
    LookupError
        If it does not; a fault of the caller, not a condition.
    """
    found = delegation_by_id(connection, delegation_id)
    if found is None:
        raise LookupError(f"no delegation {delegation_id}")
    return found


def delegations_like(connection: Connection, reference: str) -> list[Delegation]:
    """Return the delegations whose id begins with, or whose name is, the reference; newest first."""
    escaped = reference.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    found = connection.execute(
        select(delegations)
        .where(or_(delegations.c.id.like(escaped + "%", escape="\\"), delegations.c.name == reference))
        .order_by(delegations.c.created_at.desc(), delegations.c.id.desc())
    )
    return [_delegation(row) for row in found]


def list_delegations(
    connection: Connection,
    *,
    plan_id: str | None = None,
    session_ids: Iterable[str] | None = None,
    open_only: bool = False,
    before: Delegation | None = None,
    limit: int | None = None,
) -> list[Delegation]:
    """Return delegations in the order in which they were asked for, oldest first; with a limit the newest ones."""
    query = select(delegations)
    if plan_id is not None:
        query = query.where(delegations.c.plan_id == plan_id)
    if session_ids is not None:
        query = query.where(delegations.c.parent_session_id.in_(list(session_ids)))
    if open_only:
        query = query.where(delegations.c.status.in_([str(status) for status in OPEN_STATUSES]))
    if before is not None:
        place = tuple_(delegations.c.created_at, delegations.c.position, delegations.c.id)
        query = query.where(place < (before.created_at, before.position, before.id))
    newest_first = query.order_by(
        delegations.c.created_at.desc(), delegations.c.position.desc(), delegations.c.id.desc()
    )
    rows = connection.execute(newest_first if limit is None else newest_first.limit(limit)).all()
    return [_delegation(row) for row in reversed(rows)]


def workers_of_results(connection: Connection, session_ids: Iterable[str], entry_ids: Collection[str]) -> list[str]:
    """Return the sessions of the workers whose results, in some sessions, are among some entries; each once."""
    query = select(delegations.c.worker_session_id, delegations.c.result_entry_id).where(
        delegations.c.parent_session_id.in_(list(session_ids)), delegations.c.worker_session_id.is_not(None)
    )
    rows = connection.execute(query.order_by(delegations.c.created_at, delegations.c.id))
    return list(dict.fromkeys(row[0] for row in rows if row[1] in entry_ids))


def open_writers(connection: Connection, workspace_id: str) -> list[Delegation]:
    """Return the delegations that were approved and have not ended, and whose workspace is this one."""
    started = [str(status) for status in OPEN_STATUSES - {DelegationStatus.QUEUED}]
    query = select(delegations).where(delegations.c.workspace_id == workspace_id, delegations.c.status.in_(started))
    return [_delegation(row) for row in connection.execute(query)]


def open_in_workspace(connection: Connection, workspace_id: str) -> list[Delegation]:
    """Return the delegations that have not ended and whose workspace is, or is to be, this one."""
    open_statuses = [str(status) for status in OPEN_STATUSES]
    query = select(delegations).where(
        delegations.c.workspace_id == workspace_id, delegations.c.status.in_(open_statuses)
    )
    return [_delegation(row) for row in connection.execute(query)]


def holders_of_workspace(connection: Connection, workspace_id: str, *, without: str) -> list[Delegation]:
    """Return the other delegations that still need a worktree: they work in it, or their changes wait in it."""
    open_statuses = [str(status) for status in OPEN_STATUSES]
    needs_it = or_(
        delegations.c.status.in_(open_statuses), delegations.c.adoption_status == str(AdoptionStatus.PENDING)
    )
    query = select(delegations).where(delegations.c.workspace_id == workspace_id, delegations.c.id != without, needs_it)
    return [_delegation(row) for row in connection.execute(query)]


def plan_text(connection: Connection, plan_id: str) -> str:
    """Return the text of a plan's file as it was recorded, known secrets masked."""
    return str(connection.execute(select(plans.c.text).where(plans.c.id == plan_id)).scalar_one())


def put_attempt(connection: Connection, attempt: Attempt) -> None:
    """Record a new attempt."""
    connection.execute(
        insert(attempts).values(
            delegation_id=attempt.delegation_id,
            number=attempt.number,
            status=attempt.status,
            started_at=attempt.started_at,
            pid=attempt.pid,
            process_start_time=attempt.process_start_time,
            lease_expires_at=attempt.lease_expires_at,
        )
    )


def update_attempt(connection: Connection, delegation_id: str, number: int, **changes: Any) -> None:
    """Change columns of an attempt."""
    connection.execute(
        update(attempts).where(attempts.c.delegation_id == delegation_id, attempts.c.number == number).values(**changes)
    )


def end_attempts(connection: Connection, delegation_id: str, *, moment: str, failure_class: str | None) -> None:
    """Close every attempt of a delegation that nobody has closed: what ran it was interrupted."""
    connection.execute(
        update(attempts)
        .where(attempts.c.delegation_id == delegation_id, attempts.c.finished_at.is_(None))
        .values(status="ended", finished_at=moment, failure_class=failure_class)
    )


def list_attempts(connection: Connection, delegation_id: str) -> list[Attempt]:
    """Return the attempts of a delegation in order."""
    query = select(attempts).where(attempts.c.delegation_id == delegation_id).order_by(attempts.c.number)
    return [Attempt(**row._mapping) for row in connection.execute(query)]  # noqa: SLF001 - the documented way


def open_delegation_of_worker(connection: Connection, worker_session_id: str) -> Delegation | None:
    """Return the delegation that a worker's session works on, or None; a worker has one."""
    query = select(delegations).where(
        delegations.c.worker_session_id == worker_session_id,
        delegations.c.status.in_([str(status) for status in OPEN_STATUSES]),
    )
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else _delegation(row)


def add_submission(connection: Connection, submission: Submission) -> None:
    """Record what was handed in."""
    errors = submission.field_errors
    connection.execute(
        insert(submissions).values(
            delegation_id=submission.delegation_id,
            attempt=submission.attempt,
            number=submission.number,
            status="accepted" if submission.is_accepted else "refused",
            received_at=submission.received_at,
            text=submission.text,
            field_errors=canonical_text([dict(error) for error in errors]) if errors else None,
        )
    )


def list_submissions(connection: Connection, delegation_id: str, attempt: int) -> list[Submission]:
    """Return what was handed in during an attempt, in order."""
    query = (
        select(submissions)
        .where(submissions.c.delegation_id == delegation_id, submissions.c.attempt == attempt)
        .order_by(submissions.c.number)
    )
    return [
        Submission(
            delegation_id=row.delegation_id,
            attempt=row.attempt,
            number=row.number,
            is_accepted=row.status == "accepted",
            received_at=row.received_at,
            text=row.text,
            field_errors=() if row.field_errors is None else tuple(parse_json(row.field_errors)),
        )
        for row in connection.execute(query)
    ]


def submission_states(connection: Connection, delegation_id: str, attempt: int) -> list[bool]:
    """Return of each thing handed in during an attempt whether it was taken; asked often, so no text is read."""
    query = (
        select(submissions.c.status)
        .where(submissions.c.delegation_id == delegation_id, submissions.c.attempt == attempt)
        .order_by(submissions.c.number)
    )
    return [status == "accepted" for status in connection.execute(query).scalars()]


def _plan(row: Row[Any]) -> PlanRun:
    return PlanRun(
        row.id, row.label, row.session_id, row.path, row.status, row.created_at, row.updated_at, row.finished_at
    )


def _delegation_values(delegation: Delegation) -> dict[str, Any]:
    values = {column.name: getattr(delegation, column.name) for column in delegations.columns}
    values["status"] = str(delegation.status)
    values["request"] = redact(delegation.request.to_json()).canonical.decode()
    values["decision"] = None if delegation.decision is None else canonical_text(delegation.decision)
    values["adoption_status"] = None if delegation.adoption_status is None else str(delegation.adoption_status)
    return values


def _delegation(row: Row[Any]) -> Delegation:
    return _read_delegation(dict(row._mapping))  # noqa: SLF001 - the documented way to a row's columns


def _read_delegation(values: dict[str, Any]) -> Delegation:
    """Return a delegation from its columns. What is shared of it with others is not to be changed by anybody."""
    request, decision, adoption = values["request"], values["decision"], values["adoption_status"]
    values["status"] = DelegationStatus(values["status"])
    values["request"] = _request(request) if len(request) <= _READ_CHARACTERS else _read_request(request)
    if decision is not None:
        values["decision"] = _decision(decision) if len(decision) <= _READ_CHARACTERS else parse_json(decision)
    values["adoption_status"] = None if adoption is None else AdoptionStatus(adoption)
    return Delegation(**values)


def _read_request(text: str) -> Request:
    return Request.from_json(parse_json(text))


_request = lru_cache(_READ_TEXTS)(_read_request)
_decision = lru_cache(_READ_TEXTS)(parse_json)
