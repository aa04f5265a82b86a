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
from bridge.storage.tables.lifecycle import known_statuses

#: A running (or crashed) process that owns delegations; found again by machine, pid and start time.
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
    # Which process table its pid is in; and until when it is certainly there, renewed as long as it is.
    optional("machine"),
    optional("lease_expires_at"),
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
    # The delegation that this one tries again.
    optional("retry_of"),
    # Harness and name of what it works with, never a secret.
    optional("credential"),
    # Why it does not go on now, in policy's words, and until when, where that is known.
    optional("waiting_reason"),
    optional("waiting_until"),
    required("request", Text),
    optional("decision", Text),
    ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_delegations_plan_id"),
    ForeignKeyConstraint(["controller_id"], ["controllers.id"], name="fk_delegations_controller_id"),
    UniqueConstraint("plan_id", "name", name="uq_delegations_plan_id_name"),
    CheckConstraint(known_statuses(), name="status"),
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
    # Renewed by its controller as long as it watches over the worker.
    optional("lease_expires_at"),
    ForeignKeyConstraint(["delegation_id"], ["delegations.id"], name="fk_attempts_delegation_id"),
    CheckConstraint("number >= 1", name="number"),
)

#: What an agent handed in while it worked: each try of an attempt, taken or not. ``text`` is what is judged, after
#: redaction; ``field_errors`` says what is wrong with one that was not taken.
submissions = Table(
    "submissions",
    metadata,
    key("delegation_id"),
    key("attempt", BigInteger),
    key("number", BigInteger),
    required("status"),
    required("received_at"),
    required("text", Text),
    optional("field_errors", Text),
    ForeignKeyConstraint(
        ["delegation_id", "attempt"],
        ["attempts.delegation_id", "attempts.number"],
        name="fk_submissions_attempt",
    ),
    CheckConstraint("status IN ('accepted', 'refused')", name="status"),
    CheckConstraint("number >= 1", name="number"),
)

#: Something that a worker wants allowed and that the operator is asked about.
approvals = Table(
    "approvals",
    metadata,
    key("id"),
    required("delegation_id"),
    required("attempt", BigInteger),
    required("status"),
    required("title", Text),
    required("tool_kind"),
    required("tool_call_id"),
    # As the events of the worker's session name it.
    required("approval_id"),
    # JSON: the files concerned, the call's input (known secrets masked), the answers that the agent offers.
    required("paths", Text),
    required("details", Text),
    required("options", Text),
    required("requested_at"),
    required("expires_at"),
    optional("decided_at"),
    optional("decided_by"),
    optional("option_id"),
    optional("reason", Text),
    ForeignKeyConstraint(["delegation_id"], ["delegations.id"], name="fk_approvals_delegation_id"),
    CheckConstraint("status IN ('pending', 'allowed', 'denied', 'timed_out', 'lapsed')", name="status"),
    Index("ix_approvals_delegation_id", "delegation_id"),
    Index("ix_approvals_status", "status"),
)

#: A credential whose quota is used up: nothing is started with it until the reset, or until somebody lifts the pause.
quota_pauses = Table(
    "quota_pauses",
    metadata,
    key("credential"),
    required("paused_at"),
    required("resets_at"),
    # Whether the harness told the reset, or it is a guess.
    required("is_reset_known", Integer),
    required("delegation_id"),
    optional("lifted_at"),
    optional("lifted_by"),
)

#: What somebody says to a running worker; handed over between two of its turns.
task_messages = Table(
    "task_messages",
    metadata,
    key("delegation_id"),
    key("number", BigInteger),
    required("text", Text),
    required("entry_id"),
    required("sent_at"),
    optional("handed_over_at"),
    ForeignKeyConstraint(["delegation_id"], ["delegations.id"], name="fk_task_messages_delegation_id"),
    CheckConstraint("number >= 1", name="number"),
)

#: Proof of an agent's process that it may act for one session. Only the digest of the secret is kept; ``process_…``
#: is set once the process runs, and the token is worth nothing after it.
agent_tokens = Table(
    "agent_tokens",
    metadata,
    key("id"),
    required("digest"),
    required("session_id"),
    optional("delegation_id"),
    required("purpose"),
    required("created_at"),
    required("expires_at"),
    optional("revoked_at"),
    optional("host"),
    optional("pid", Integer),
    optional("process_start_time", Float),
    CheckConstraint("length(digest) = 64", name="digest"),
    Index("ix_agent_tokens_session_id", "session_id"),
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

#: A session of a host that people start by themselves, or a sub-agent of one, as its hooks report it.
#:
#: ``base_entry_id`` is the last entry whose stamp the agent saw, ``told_key`` the change it was told of last, and
#: ``owed_text`` what it could not be told in time. ``process_…`` is the host's own process.
captured_sessions = Table(
    "captured_sessions",
    metadata,
    key("host"),
    # The host's id of the session; a sub-agent's has its own behind a slash.
    key("native_id"),
    required("session_id"),
    optional("workspace_id"),
    optional("agent_id"),
    optional("base_entry_id"),
    optional("turn_id"),
    optional("told_key"),
    optional("told_person_key"),
    optional("owed_text", Text),
    optional("transcript"),
    Column("transcript_offset", BigInteger, nullable=False, default=0),
    # 1 while a session that goes on has not been compared with the files.
    Column("is_fresh", Integer, nullable=False, default=0),
    optional("process_pid", Integer),
    optional("process_start_time", Float),
    required("started_at"),
    required("last_event_at"),
    Index("ix_captured_sessions_session_id", "session_id"),
)

#: What came of a host's hooks so far. ``late`` events were recorded, but their answer was too late for the host;
#: ``spooled`` ones were taken in afterwards, without a file state; ``refused`` ones could not be recorded.
captured_hosts = Table(
    "captured_hosts",
    metadata,
    key("host"),
    required("first_event_at"),
    required("last_event_at"),
    required("last_event"),
    optional("version"),
    Column("events", BigInteger, nullable=False, default=0),
    Column("late", BigInteger, nullable=False, default=0),
    Column("spooled", BigInteger, nullable=False, default=0),
    Column("refused", BigInteger, nullable=False, default=0),
)
