"""Sessions with a name and a harness; events are only ever added (a reconstruction)."""

from __future__ import annotations

from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    op.execute("CREATE TABLE agent_sessions (session TEXT PRIMARY KEY, label TEXT, harness TEXT, created_at TEXT)")
    op.execute(
        "INSERT INTO agent_sessions (session, created_at)"
        " SELECT session, min(created_at) FROM agent_events WHERE session IS NOT NULL GROUP BY session"
    )
    op.execute(
        "CREATE TRIGGER agent_events_no_update BEFORE UPDATE ON agent_events"
        " BEGIN SELECT RAISE(ABORT, 'agent_events are append-only'); END"
    )
    op.execute(
        "CREATE TRIGGER agent_sessions_no_delete BEFORE DELETE ON agent_sessions"
        " BEGIN SELECT RAISE(ABORT, 'agent_sessions are kept'); END"
    )
