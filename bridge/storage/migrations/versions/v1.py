"""The linear history: one table of untyped events (a reconstruction)."""

from __future__ import annotations

from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE TABLE agent_events (session TEXT, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT)")
