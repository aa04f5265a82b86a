"""Tables of ``bridge.control``: the rows in which the three trees meet. Ids of the trees are values here."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Float, ForeignKeyConstraint, Index, Text, UniqueConstraint
from sqlmodel import Field

from bridge.storage.tables.base import Row


class ControllerRow(Row, table=True):
    """A running (or crashed) process that owns delegations; found again by pid and start time."""

    __tablename__ = "controllers"

    id: str = Field(primary_key=True)
    pid: int
    process_start_time: float = Field(sa_type=Float)
    host: str
    build: str
    started_at: str
    ended_at: str | None = None


class PlanRow(Row, table=True):
    """One run of a plan file; ``text`` is the file as it was read."""

    __tablename__ = "plans"
    __table_args__ = (Index("ix_plans_session_id", "session_id"),)

    id: str = Field(primary_key=True)
    label: str | None = None
    session_id: str
    path: str | None = None
    status: str
    created_at: str
    updated_at: str
    finished_at: str | None = None
    text: str = Field(sa_type=Text)


class DelegationRow(Row, table=True):
    """One request to a worker: joins agent, workspace and conversation.

    ``request`` is what was asked; ``decision`` is what policy answered, together with its whole input.
    """

    __tablename__ = "delegations"
    __table_args__ = (
        ForeignKeyConstraint(["plan_id"], ["plans.id"], name="fk_delegations_plan_id"),
        ForeignKeyConstraint(["controller_id"], ["controllers.id"], name="fk_delegations_controller_id"),
        UniqueConstraint("plan_id", "name", name="uq_delegations_plan_id_name"),
        Index("ix_delegations_parent_session_id", "parent_session_id"),
        Index("ix_delegations_status", "status"),
    )

    id: str = Field(primary_key=True)
    plan_id: str | None = None
    name: str | None = None
    position: int = 0
    parent_session_id: str
    request_entry_id: str | None = None
    result_entry_id: str | None = None
    worker_session_id: str | None = None
    worker_agent_id: str | None = None
    workspace_id: str | None = None
    controller_id: str | None = None
    status: str
    base_commit: str | None = None
    result_commit: str | None = None
    worker_commit: str | None = None
    result_ref: str | None = None
    adoption_status: str | None = None
    adoption_commit: str | None = None
    kept_reason: str | None = None
    #: When somebody asked for its end; the controller that runs it looks now and then.
    cancel_requested_at: str | None = None
    created_at: str
    updated_at: str
    finished_at: str | None = None
    request: str = Field(sa_type=Text)
    decision: str | None = Field(default=None, sa_type=Text)


class AttemptRow(Row, table=True):
    """One try at a delegation: a child process with its identity, and how it ended."""

    __tablename__ = "attempts"
    __table_args__ = (
        ForeignKeyConstraint(["delegation_id"], ["delegations.id"], name="fk_attempts_delegation_id"),
        CheckConstraint("number >= 1", name="number"),
    )

    delegation_id: str = Field(primary_key=True)
    number: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    status: str
    pid: int | None = None
    process_start_time: float | None = Field(default=None, sa_type=Float)
    started_at: str
    finished_at: str | None = None
    exit_status: int | None = None
    failure_class: str | None = None
