"""The state of each session, and the programs that use the store (a reconstruction).

Batch mode rebuilds ``agent_sessions``, to which events refer. Where foreign keys were on, dropping the old table would
delete the events along with it. Its trigger is lost and made anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    # With foreign keys off, an event of a session that was never recorded could be written.
    op.execute(
        "INSERT INTO agent_sessions (session, created_at) SELECT session, min(created_at) FROM agent_events"
        " WHERE session IS NOT NULL AND session NOT IN (SELECT session FROM agent_sessions WHERE session IS NOT NULL)"
        " GROUP BY session"
    )
    with op.batch_alter_table("agent_sessions", recreate="always") as batch:
        batch.add_column(sa.Column("status", sa.Text(), nullable=False, server_default="open"))
    op.execute(
        "CREATE TRIGGER agent_sessions_no_delete BEFORE DELETE ON agent_sessions"
        " BEGIN SELECT RAISE(ABORT, 'agent_sessions are kept'); END"
    )
    op.execute(
        "CREATE TABLE clients (host VARCHAR NOT NULL, version VARCHAR NOT NULL, first_used_at VARCHAR NOT NULL,"
        " last_used_at VARCHAR NOT NULL, CONSTRAINT pk_clients PRIMARY KEY (host, version)) WITHOUT ROWID"
    )
