"""Find a session's events without reading the others (a reconstruction)."""

from __future__ import annotations

from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    op.execute("CREATE INDEX ix_agent_events_session ON agent_events (session, ordinal)")
