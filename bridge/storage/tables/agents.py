"""Tables of the agent tree (owner: ``bridge.agents``)."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Integer, Table

from bridge.storage.tables.base import key, metadata, optional, required

#: A node of the agent tree. ``session_id`` is a value: the trees share no keys.
agents = Table(
    "agents",
    metadata,
    key("id"),
    optional("parent_agent_id"),
    optional("session_id"),
    required("role"),
    required("depth", Integer),
    optional("harness"),
    required("status"),
    required("created_at"),
    required("updated_at"),
    ForeignKeyConstraint(["parent_agent_id"], ["agents.id"], name="fk_agents_parent_agent_id"),
    CheckConstraint("depth >= 0", name="depth"),
    CheckConstraint("(depth = 0) = (parent_agent_id IS NULL)", name="parent"),
    Index("ix_agents_parent_agent_id", "parent_agent_id"),
    Index("ix_agents_session_id", "session_id"),
)
