"""Tables of the agent tree (owner: ``bridge.agents``)."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index
from sqlmodel import Field

from bridge.storage.tables.base import Row


class AgentRow(Row, table=True):
    """A node of the agent tree. ``session_id`` is a value: the trees share no keys."""

    __tablename__ = "agents"
    __table_args__ = (
        ForeignKeyConstraint(["parent_agent_id"], ["agents.id"], name="fk_agents_parent_agent_id"),
        CheckConstraint("depth >= 0", name="depth"),
        CheckConstraint("(depth = 0) = (parent_agent_id IS NULL)", name="parent"),
        Index("ix_agents_parent_agent_id", "parent_agent_id"),
        Index("ix_agents_session_id", "session_id"),
    )

    id: str = Field(primary_key=True)
    parent_agent_id: str | None = None
    session_id: str | None = None
    role: str
    depth: int
    harness: str | None = None
    status: str
    created_at: str
    updated_at: str
