"""Rows of a table that asks for little, for tests of the store itself."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import insert

from bridge.storage.store import Store
from bridge.storage.tables import plans
from bridge.storage.transaction import Transaction


def insert_plan(tx: Transaction, identity: str) -> str:
    values = {"id": identity, "session_id": "s", "status": "n", "created_at": "t", "updated_at": "t", "text": ""}
    tx.execute(insert(plans).values(**values))
    return identity


def plan_ids(store: Store) -> list[Any]:
    """Return the ids in the order in which they were inserted."""
    place = "rowid" if store.database == "sqlite" else "ctid"
    with store.read() as connection:
        return list(connection.exec_driver_sql(f"SELECT id FROM plans ORDER BY {place}").scalars())


class Gate:
    """Holds the writer in a job, so that what is submitted meanwhile becomes one batch."""

    def __init__(self, store):
        self.inside, self.open = threading.Event(), threading.Event()
        self.future = store.submit(self._wait)
        assert self.inside.wait(20)

    def _wait(self, _tx):
        self.inside.set()
        assert self.open.wait(20)
