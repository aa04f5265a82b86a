"""Queries over what steers workers: paused credentials, approvals, messages. All take an open connection."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from bridge.control.delegations.steering.model import Approval, ApprovalStatus, Pause, TaskMessage
from bridge.foundation.canonical import canonical_text, parse_json
from bridge.storage.tables import approvals, quota_pauses, task_messages


def put_pause(connection: Connection, pause: Pause) -> None:
    """Record a pause in the place of any other of its credential."""
    connection.execute(delete(quota_pauses).where(quota_pauses.c.credential == pause.credential))
    connection.execute(
        insert(quota_pauses).values(
            credential=pause.credential,
            paused_at=pause.paused_at,
            resets_at=pause.resets_at,
            is_reset_known=int(pause.is_reset_known),
            delegation_id=pause.delegation_id,
        )
    )


def lift_pause(connection: Connection, credential: str, *, moment: str, by: str) -> None:
    """Record that a pause was lifted before its time."""
    connection.execute(
        update(quota_pauses).where(quota_pauses.c.credential == credential).values(lifted_at=moment, lifted_by=by)
    )


def open_pauses(connection: Connection, *, now: str) -> list[Pause]:
    """Return the pauses that hold, by credential."""
    query = select(quota_pauses).where(quota_pauses.c.lifted_at.is_(None), quota_pauses.c.resets_at > now)
    return [_pause(row) for row in connection.execute(query.order_by(quota_pauses.c.credential))]


def pause_of(connection: Connection, credential: str, *, now: str) -> Pause | None:
    """Return the pause of a credential, if one holds."""
    return next((pause for pause in open_pauses(connection, now=now) if pause.credential == credential), None)


def add_approval(connection: Connection, approval: Approval) -> None:
    """Record something to be approved."""
    connection.execute(
        insert(approvals).values(
            id=approval.id,
            delegation_id=approval.delegation_id,
            attempt=approval.attempt,
            status=str(approval.status),
            title=approval.title,
            tool_kind=approval.tool_kind,
            tool_call_id=approval.tool_call_id,
            approval_id=approval.approval_id,
            paths=canonical_text(list(approval.paths)),
            details=canonical_text(approval.details),
            options=canonical_text([dict(option) for option in approval.options]),
            requested_at=approval.requested_at,
            expires_at=approval.expires_at,
        )
    )


def decide_approval(connection: Connection, approval_id: str, status: ApprovalStatus, **changes: str | None) -> bool:
    """Record what became of a pending approval; False if it is not pending any more."""
    done = connection.execute(
        update(approvals)
        .where(approvals.c.id == approval_id, approvals.c.status == str(ApprovalStatus.PENDING))
        .values(status=str(status), **changes)
    )
    return done.rowcount == 1


def lapse_approvals(connection: Connection, delegation_id: str, *, moment: str) -> None:
    """Close what a delegation still asks for: nobody waits for an answer any more."""
    connection.execute(
        update(approvals)
        .where(approvals.c.delegation_id == delegation_id, approvals.c.status == str(ApprovalStatus.PENDING))
        .values(status=str(ApprovalStatus.LAPSED), decided_at=moment)
    )


def approval_by_id(connection: Connection, approval_id: str) -> Approval | None:
    """Return one approval, or None."""
    row = connection.execute(select(approvals).where(approvals.c.id == approval_id)).one_or_none()
    return None if row is None else _approval(row)


def list_approvals(
    connection: Connection, *, delegation_id: str | None = None, pending_only: bool = False, limit: int | None = None
) -> list[Approval]:
    """Return approvals in the order in which they were asked for; with a limit the newest ones."""
    query = select(approvals)
    if delegation_id is not None:
        query = query.where(approvals.c.delegation_id == delegation_id)
    if pending_only:
        query = query.where(approvals.c.status == str(ApprovalStatus.PENDING))
    newest_first = query.order_by(approvals.c.requested_at.desc(), approvals.c.id.desc())
    rows = connection.execute(newest_first if limit is None else newest_first.limit(limit)).all()
    return [_approval(row) for row in reversed(rows)]


def add_message(connection: Connection, message: TaskMessage) -> None:
    """Record what was said to a worker."""
    connection.execute(
        insert(task_messages).values(
            delegation_id=message.delegation_id,
            number=message.number,
            text=message.text,
            entry_id=message.entry_id,
            sent_at=message.sent_at,
        )
    )


def next_message_number(connection: Connection, delegation_id: str) -> int:
    """Return the number of the next message to a worker, from 1."""
    query = select(func.max(task_messages.c.number)).where(task_messages.c.delegation_id == delegation_id)
    return int(connection.execute(query).scalar_one_or_none() or 0) + 1


def waiting_message(connection: Connection, delegation_id: str) -> TaskMessage | None:
    """Return the oldest message to a worker that was not handed over."""
    query = (
        select(task_messages)
        .where(task_messages.c.delegation_id == delegation_id, task_messages.c.handed_over_at.is_(None))
        .order_by(task_messages.c.number)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else _message(row)


def hand_over(connection: Connection, message: TaskMessage, moment: str) -> None:
    """Record that a worker was told."""
    connection.execute(
        update(task_messages)
        .where(task_messages.c.delegation_id == message.delegation_id, task_messages.c.number == message.number)
        .values(handed_over_at=moment)
    )


def list_messages(connection: Connection, delegation_id: str) -> list[TaskMessage]:
    """Return what was said to a worker, in order."""
    query = select(task_messages).where(task_messages.c.delegation_id == delegation_id)
    return [_message(row) for row in connection.execute(query.order_by(task_messages.c.number))]


def _pause(row: Row[Any]) -> Pause:
    return Pause(
        credential=row.credential,
        paused_at=row.paused_at,
        resets_at=row.resets_at,
        is_reset_known=bool(row.is_reset_known),
        delegation_id=row.delegation_id,
        lifted_at=row.lifted_at,
        lifted_by=row.lifted_by,
    )


def _approval(row: Row[Any]) -> Approval:
    values = dict(row._mapping)  # noqa: SLF001 - the documented way to a row's columns
    values["status"] = ApprovalStatus(row.status)
    values["paths"] = tuple(parse_json(row.paths))
    values["details"] = parse_json(row.details)
    values["options"] = tuple(parse_json(row.options))
    return Approval(**values)


def _message(row: Row[Any]) -> TaskMessage:
    return TaskMessage(**row._mapping)  # noqa: SLF001 - the documented way to a row's columns
