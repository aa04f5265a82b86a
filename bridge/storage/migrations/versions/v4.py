"""The order of arrival as a column, and events that belong to their session (a reconstruction).

The table is rebuilt by hand rather than in Alembic's batch mode, because the order of arrival has to come from the
old row numbers. Rebuilding drops triggers and indexes silently, so they are made anew.
"""

from __future__ import annotations

from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    # A program of version 3 may have written events of a session that it never recorded.
    op.execute(
        "INSERT INTO agent_sessions (session, created_at) SELECT session, min(created_at) FROM agent_events"
        " WHERE session IS NOT NULL AND session NOT IN (SELECT session FROM agent_sessions WHERE session IS NOT NULL)"
        " GROUP BY session"
    )
    op.execute(
        "CREATE TABLE agent_events_new (id INTEGER PRIMARY KEY, session TEXT REFERENCES agent_sessions (session)"
        " ON DELETE CASCADE, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT)"
    )
    op.execute(
        "INSERT INTO agent_events_new (id, session, ordinal, type, json, created_at)"
        " SELECT rowid, session, ordinal, type, json, created_at FROM agent_events ORDER BY rowid"
    )
    op.execute("DROP TABLE agent_events")
    op.execute("ALTER TABLE agent_events_new RENAME TO agent_events")
    op.execute("CREATE INDEX ix_agent_events_session ON agent_events (session, ordinal)")
    op.execute(
        "CREATE TRIGGER agent_events_no_update BEFORE UPDATE ON agent_events"
        " BEGIN SELECT RAISE(ABORT, 'agent_events are append-only'); END"
    )
