"""A mood for each session, and the moods of entries: a step that no Bridge ships."""

from __future__ import annotations

from alembic import op

from bridge.storage.migrations.statements import statements_of

revision = "8"
down_revision = "7"


def upgrade() -> None:
    for statement in statements_of(f"v8_{op.get_context().dialect.name}.sql"):
        op.execute(statement)
