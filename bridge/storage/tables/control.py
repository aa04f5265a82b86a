"""Tables of ``bridge.control``: the rows in which the three trees meet. Ids of the trees are values here."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from bridge.storage.tables.base import key, metadata, optional, required

#: A running (or crashed) process that owns delegations; found again by pid and start time.
controllers = Table(
    "controllers",
    metadata,
    key("id"),
    required("pid", Integer),
    required("process_start_time", Float),
    required("host"),
    required("build"),
    required("started_at"),
    optional("ended_at"),
)

#: One run of a plan file; ``text`` is the file as it was read.
plans = Table(
    "plans",
    metadata,
    key("id"),
    optional("label"),
    required("session_id"),
    optional("path"),
    required("status"),
    required("created_at"),
    required("updated_at"),
    optional("finished_at"),
    required("text", Text),
    Index("ix_plans_session_id", "session_id"),
)

#: One request to a worker: joins agent, workspace and conversation.
#:
#: ``request`` is what was asked; ``decision`` is what policy answered, together with its whole input.
delegations = Table(
    "delegations",
    metadata,
    key("id"),
    optional("plan_id"),
    optional("name"),
    Column("position", Integer, nullable=False, default=0),
    required("parent_session_id"),
    optional("request_entry_id"),
    optional("result_entry_id"),
    optional("worker_session_id"),
    optional("worker_agent_id"),
    optional("workspace_id"),
    optional("controller_id"),
    required("status"),
    optional("base_commit"),
    optional("result_commit"),
    optional("worker_commit"),
    optional("result_ref"),
    optional("adoption_status"),
    optional("adoption_commit"),
    optional("kept_reason"),
    # When somebody asked for its end; the controller that runs it looks now and then.
    optional("cancel_requested_at"),
    required("created_at"),
    required("updated_at"),
    optional("finished_at"),
    required("request", Text),
    optional("decision", Text),
    ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_delegations_plan_id"),
    ForeignKeyConstraint(["controller_id"], ["controllers.id"], name="fk_delegations_controller_id"),
    UniqueConstraint("plan_id", "name", name="uq_delegations_plan_id_name"),
    Index("ix_delegations_parent_session_id", "parent_session_id"),
    Index("ix_delegations_status", "status"),
)

#: One try at a delegation: a child process with its identity, and how it ended.
attempts = Table(
    "attempts",
    metadata,
    key("delegation_id"),
    key("number", BigInteger),
    required("status"),
    optional("pid", Integer),
    optional("process_start_time", Float),
    required("started_at"),
    optional("finished_at"),
    optional("exit_status", Integer),
    optional("failure_class"),
    ForeignKeyConstraint(["delegation_id"], ["delegations.id"], name="fk_attempts_delegation_id"),
    CheckConstraint("number >= 1", name="number"),
)

#: An agent process that a chat talks to, and the chat's own: what a killed chat left running is found by it.
chat_agents = Table(
    "chat_agents",
    metadata,
    # Also the owner of the running turn's cursor, and the marker in the agent's environment.
    key("id"),
    required("session_id"),
    required("harness"),
    required("host"),
    required("owner_pid", Integer),
    required("owner_start_time", Float),
    # NULL until the process is known; it is found by its marker then.
    optional("pid", Integer),
    optional("process_start_time", Float),
    optional("turn_id"),
    required("started_at"),
    Index("ix_chat_agents_session_id", "session_id"),
)
