"""What Alembic runs for each upgrade: the caller's connection, the store's own version table, and nothing else.

One transaction per revision; the caller's check runs inside it, last, so that a revision whose outcome is not right
is undone as a whole. Everything comes through ``config.attributes``; there is no ``alembic.ini``.
"""

from __future__ import annotations

from alembic import context

from bridge.storage.schema_version import VERSION_TABLE

_attributes = context.config.attributes

context.configure(
    connection=_attributes["connection"],
    version_table=VERSION_TABLE,
    version_table_pk=False,
    # Alembic believes that SQLite cannot undo DDL. With an explicit BEGIN it can.
    transactional_ddl=True,
    transaction_per_migration=True,
    on_version_apply=_attributes["on_version_apply"],
    report=_attributes["report"],
    moment=_attributes["moment"],
)
with context.begin_transaction():
    context.run_migrations()
