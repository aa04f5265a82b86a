"""The file fails under the store: typed errors, nothing half-written, and what can be read is read."""

from __future__ import annotations

import pytest

from bridge.storage.errors import DatabaseFailed
from bridge.storage.store import Store
from tests.rows import Gate, insert_plan, plan_ids

pytestmark = pytest.mark.one_database("the file system is what fails")


@pytest.fixture
def store(url):
    with Store.open(url) as opened:
        yield opened


def test_a_full_disk_is_a_typed_error_nothing_is_half_written_and_the_store_goes_on(store):
    def shrink(tx):
        pages = tx.connection.exec_driver_sql("PRAGMA page_count").scalar()
        tx.connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")

    store.write(shrink)
    gate = Gate(store)
    small = store.submit(lambda tx: insert_plan(tx, "small"))
    large = store.submit(lambda tx: (insert_plan(tx, "x"), insert_plan(tx, "y" * 1_000_000)))
    after = store.submit(lambda tx: insert_plan(tx, "after"))
    gate.open.set()
    with pytest.raises(DatabaseFailed, match="full"):
        large.result(20)
    # SQLite undoes the whole transaction when the disk is full: then nobody in it may believe to be stored.
    outcomes = {name: future.exception(20) for name, future in (("small", small), ("after", after))}
    stored = plan_ids(store)
    assert stored == [name for name, error in outcomes.items() if error is None]
    assert all(isinstance(error, DatabaseFailed) for error in outcomes.values() if error is not None)
    assert "after" in stored
