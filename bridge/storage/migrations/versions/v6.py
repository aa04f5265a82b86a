"""From the linear history to the forest: every event becomes an entry of semantic schema v1.

Order, text and times stay. What of an event no entry can hold is kept beside it (``legacy_events``), so that the
digest of the events can be computed from the entries; only if the two are equal are the old tables dropped.
"""

from __future__ import annotations

from alembic import op

from bridge.storage.migrations.legacy import Move
from bridge.storage.migrations.statements import statements_of
from bridge.storage.prepared import driver_of

revision = "6"
down_revision = "5"


def upgrade() -> None:
    for statement in statements_of("v6_tables.sql"):
        op.execute(statement)
    options = op.get_context().opts
    move = Move(driver_of(op.get_bind()), moment=options["moment"], report=options["report"])
    move.run()
    for statement in statements_of("v6_triggers.sql"):
        op.execute(statement)
    op.execute("DROP TABLE agent_events")
    op.execute("DROP TABLE agent_sessions")
