"""Queries over the rows of running chats: agent processes, and harnesses' own sessions. All take an open connection."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from bridge.process.identity import ProcessIdentity
from bridge.storage.tables import chat_agents, native_sessions


@dataclass(frozen=True, slots=True)
class ChatAgent:
    """An agent process of a chat.

    Parameters
    ----------
    id
        Also the owner of its turns' cursor, and its marker.
    owner
        The process of the chat itself.
    agent
        The agent's process; None if it was never recorded.
    turn_id
        The turn that runs.
    """

    id: str
    session_id: str
    harness: str
    host: str
    owner: ProcessIdentity
    agent: ProcessIdentity | None
    turn_id: str | None
    started_at: str


def add_agent(connection: Connection, found: ChatAgent) -> None:
    """Record that an agent is about to be started."""
    connection.execute(
        insert(chat_agents).values(
            id=found.id,
            session_id=found.session_id,
            harness=found.harness,
            host=found.host,
            owner_pid=found.owner.pid,
            owner_start_time=found.owner.start_time,
            started_at=found.started_at,
        )
    )


def note_process(connection: Connection, agent_id: str, identity: ProcessIdentity) -> None:
    """Record the agent's process."""
    connection.execute(
        update(chat_agents)
        .where(chat_agents.c.id == agent_id)
        .values(pid=identity.pid, process_start_time=identity.start_time)
    )


def note_turn(connection: Connection, agent_id: str, turn_id: str | None) -> None:
    """Record the turn that runs, or that none does."""
    connection.execute(update(chat_agents).where(chat_agents.c.id == agent_id).values(turn_id=turn_id))


def remove_agent(connection: Connection, agent_id: str) -> bool:
    """Forget an agent; return whether it was there: of several who clean up, one gets True."""
    return connection.execute(delete(chat_agents).where(chat_agents.c.id == agent_id)).rowcount > 0


def list_agents(connection: Connection, *, host: str | None = None, session_id: str | None = None) -> list[ChatAgent]:
    """Return the recorded agents of a host, or of a session, the oldest first."""
    query = select(chat_agents).order_by(chat_agents.c.started_at, chat_agents.c.id)
    if host is not None:
        query = query.where(chat_agents.c.host == host)
    if session_id is not None:
        query = query.where(chat_agents.c.session_id == session_id)
    return [
        ChatAgent(
            id=row.id,
            session_id=row.session_id,
            harness=row.harness,
            host=row.host,
            owner=ProcessIdentity(row.owner_pid, row.owner_start_time),
            agent=None if row.pid is None else ProcessIdentity(row.pid, row.process_start_time),
            turn_id=row.turn_id,
            started_at=row.started_at,
        )
        for row in connection.execute(query)
    ]


def put_native(
    connection: Connection,
    session_id: str,
    harness: str,
    native_session_id: str,
    *,
    directory: str,
    leaf_entry_id: str | None,
    moment: str,
) -> None:
    """Record up to which entry a harness's own session knows the conversation; None: nobody can say."""
    which = (
        native_sessions.c.session_id == session_id,
        native_sessions.c.harness == harness,
        native_sessions.c.native_session_id == native_session_id,
    )
    changed = {"directory": directory, "leaf_entry_id": leaf_entry_id, "updated_at": moment}
    if connection.execute(update(native_sessions).where(*which).values(**changed)).rowcount == 0:
        key = {"session_id": session_id, "harness": harness, "native_session_id": native_session_id}
        connection.execute(insert(native_sessions).values(**key, **changed))


def natives_at(
    connection: Connection, session_id: str, harness: str, *, directory: str, leaf_entry_ids: list[str]
) -> dict[str, str]:
    """Return the harness's own sessions that know the conversation up to exactly one of these entries, by entry."""
    if not leaf_entry_ids:
        return {}
    query = (
        select(native_sessions.c.leaf_entry_id, native_sessions.c.native_session_id)
        .where(
            native_sessions.c.session_id == session_id,
            native_sessions.c.harness == harness,
            native_sessions.c.directory == directory,
            native_sessions.c.leaf_entry_id.in_(leaf_entry_ids),
        )
        .order_by(native_sessions.c.updated_at)
    )
    return {row.leaf_entry_id: row.native_session_id for row in connection.execute(query)}
