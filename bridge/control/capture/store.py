"""Queries over captured sessions and hosts. All take an open connection."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select, update

from bridge.control.capture.model import SUBAGENT_MARK, Captured, HostRecord
from bridge.process.identity import ProcessIdentity
from bridge.storage.tables import captured_hosts, captured_sessions

_PLAIN = (
    "host",
    "native_id",
    "session_id",
    "workspace_id",
    "started_at",
    "last_event_at",
    "agent_id",
    "base_entry_id",
    "turn_id",
    "told_key",
    "told_person_key",
    "owed_text",
    "transcript",
    "transcript_offset",
)
_HOST = ("host", "first_event_at", "last_event_at", "last_event", "version", "events", "late", "spooled", "refused")


def find_captured(connection: Connection, host: str, native_id: str) -> Captured | None:
    """Return a host's session; None if it is not recorded."""
    table = captured_sessions.c
    query = select(captured_sessions).where(table.host == host, table.native_id == native_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _captured(row)


def captured_by_process(connection: Connection, host: str, process: ProcessIdentity) -> Captured | None:
    """Return the session that a process of a host spoke of last; None if of none."""
    table = captured_sessions.c
    query = (
        select(captured_sessions)
        .where(
            table.host == host,
            table.process_pid == process.pid,
            table.process_start_time == process.start_time,
            ~table.native_id.contains(SUBAGENT_MARK),
        )
        .order_by(table.last_event_at.desc())
        .limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _captured(row)


def captured_of_session(connection: Connection, session_id: str) -> Captured | None:
    """Return the host's session that a session records; None if it was not captured."""
    query = select(captured_sessions).where(captured_sessions.c.session_id == session_id).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _captured(row)


def newest_captured(connection: Connection, host: str) -> Captured | None:
    """Return the session of a host that something was heard of last."""
    table = captured_sessions.c
    query = select(captured_sessions).where(table.host == host).order_by(table.last_event_at.desc()).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _captured(row)


def add_captured(connection: Connection, captured: Captured) -> None:
    """Record a host's session."""
    connection.execute(
        insert(captured_sessions).values(
            **{name: getattr(captured, name) for name in _PLAIN},
            is_fresh=int(captured.is_fresh),
            process_pid=None if captured.process is None else captured.process.pid,
            process_start_time=None if captured.process is None else captured.process.start_time,
        )
    )


def update_captured(connection: Connection, captured: Captured) -> None:
    """Bring the row of a host's session up to date."""
    table = captured_sessions.c
    connection.execute(
        update(captured_sessions)
        .where(table.host == captured.host, table.native_id == captured.native_id)
        .values(
            **{name: getattr(captured, name) for name in _PLAIN[4:]},
            is_fresh=int(captured.is_fresh),
            process_pid=None if captured.process is None else captured.process.pid,
            process_start_time=None if captured.process is None else captured.process.start_time,
        )
    )


def note_event(connection: Connection, host: str, name: str, moment: str, *, is_live: bool) -> None:
    """Count an event that was recorded."""
    table = captured_hosts.c
    done = connection.execute(
        update(captured_hosts)
        .where(table.host == host)
        .values(
            last_event_at=moment,
            last_event=name,
            events=table.events + 1,
            spooled=table.spooled + (0 if is_live else 1),
        )
    )
    if done.rowcount == 0:
        connection.execute(
            insert(captured_hosts).values(
                host=host,
                first_event_at=moment,
                last_event_at=moment,
                last_event=name,
                events=1,
                late=0,
                spooled=0 if is_live else 1,
                refused=0,
            )
        )


def count_trouble(connection: Connection, host: str, *, late: int = 0, refused: int = 0) -> None:
    """Count answers that came too late, and events that could not be recorded."""
    table = captured_hosts.c
    connection.execute(
        update(captured_hosts).where(table.host == host).values(late=table.late + late, refused=table.refused + refused)
    )


def note_version(connection: Connection, host: str, version: str) -> None:
    """Record which version of a host was seen last."""
    connection.execute(update(captured_hosts).where(captured_hosts.c.host == host).values(version=version))


def find_host(connection: Connection, host: str) -> HostRecord | None:
    """Return what came of a host's hooks so far; None if nothing."""
    row = connection.execute(select(captured_hosts).where(captured_hosts.c.host == host)).mappings().one_or_none()
    return None if row is None else HostRecord(**{name: row[name] for name in _HOST})


def _captured(row: Any) -> Captured:
    process = None
    if row["process_pid"] is not None:
        process = ProcessIdentity(row["process_pid"], row["process_start_time"])
    return Captured(**{name: row[name] for name in _PLAIN}, is_fresh=bool(row["is_fresh"]), process=process)
