"""Queries over the rows of running chats: their agents' processes. All take an open connection."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from bridge.process.identity import ProcessIdentity
from bridge.storage.tables import chat_agents


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
