"""Workspaces, agents, delegations, repository states, search: all else that stands beside the forest."""

from __future__ import annotations

from alembic import op

from bridge.storage.migrations.statements import statements_of

revision = "7"
down_revision = "6"


def upgrade() -> None:
    for statement in statements_of("v7.sql"):
        op.execute(statement)
