"""Queries of the agent tree. Every function takes an open connection."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, tuple_, update

from bridge.agents.models import Agent
from bridge.storage.tables import agents

_COLUMNS = (
    agents.c.id,
    agents.c.parent_agent_id,
    agents.c.session_id,
    agents.c.role,
    agents.c.depth,
    agents.c.harness,
    agents.c.status,
    agents.c.created_at,
    agents.c.updated_at,
)


def add_agent(connection: Connection, agent: Agent) -> None:
    """Record an agent; its parent, if any, is recorded already."""
    connection.execute(
        insert(agents).values(
            id=agent.id,
            parent_agent_id=agent.parent_agent_id,
            session_id=agent.session_id,
            role=agent.role,
            depth=agent.depth,
            harness=agent.harness,
            status=agent.status,
            created_at=agent.created_at,
            updated_at=agent.updated_at,
        )
    )


def update_agent(connection: Connection, agent_id: str, *, updated_at: str, **changes: str | None) -> None:
    """Change columns of an agent."""
    connection.execute(update(agents).where(agents.c.id == agent_id).values(updated_at=updated_at, **changes))


def agent_by_id(connection: Connection, agent_id: str) -> Agent | None:
    """Return one agent, or None."""
    row = connection.execute(select(*_COLUMNS).where(agents.c.id == agent_id)).one_or_none()
    return None if row is None else Agent(*row)


def agent_of_session(connection: Connection, session_id: str) -> Agent | None:
    """Return the agent that a session belongs to; the oldest where there are several."""
    query = select(*_COLUMNS).where(agents.c.session_id == session_id).order_by(agents.c.created_at, agents.c.id)
    row = connection.execute(query.limit(1)).one_or_none()
    return None if row is None else Agent(*row)


def list_agents(
    connection: Connection,
    *,
    after: Agent | None = None,
    limit: int | None = None,
    parent: str | None = None,
    session_id: str | None = None,
) -> list[Agent]:
    """Return agents in the order of their creation; each condition narrows, none means all."""
    query = select(*_COLUMNS).order_by(agents.c.created_at, agents.c.id)
    if after is not None:
        query = query.where(tuple_(agents.c.created_at, agents.c.id) > (after.created_at, after.id))
    if parent is not None:
        query = query.where(agents.c.parent_agent_id == parent)
    if session_id is not None:
        query = query.where(agents.c.session_id == session_id)
    return [Agent(*row) for row in connection.execute(query if limit is None else query.limit(limit))]
