"""Long texts out of line: kept once, never changed, never missed while an entry refers to them."""

from __future__ import annotations

import hashlib

import pytest

from bridge.storage.errors import StoredTextDamaged
from bridge.storage.longtexts import LONG_TEXT_BYTES, body_of, long_size, put_text, remove_unused
from tests.databases import unguarded
from tests.entries import REFUSED, rows

TEXT = "x" * (LONG_TEXT_BYTES + 1)
SIZE = len(TEXT)
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()
BLOB = "INSERT INTO blobs (digest, size, body) VALUES (?, ?, ?)"
ENTRY = (
    "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, created_at, payload_hash, entry_hash, blob_digest, payload_bytes,"
    " payload_outline, payload) VALUES ('s', 's-000002', 's-000000', 2, 2, 'note', 'eligible', 'unstamped', 't',"
    " ?, ?, ?, ?, ?, ?)"
)


def entry(*, hashed=DIGEST, blob=DIGEST, size=SIZE, head="x", payload=None):
    return ENTRY, (hashed, DIGEST, blob, size, head, payload)


@pytest.fixture
def kept(raw):
    """The raw connection; a long text is kept, and an entry refers to it."""
    raw.execute(BLOB, (DIGEST, len(TEXT), TEXT))
    raw.execute(*entry())
    return raw


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("x" * LONG_TEXT_BYTES, None),
        ("x" * (LONG_TEXT_BYTES + 1), LONG_TEXT_BYTES + 1),
        ("é" * (LONG_TEXT_BYTES // 2), None),
        ("é" * (LONG_TEXT_BYTES // 2 + 1), LONG_TEXT_BYTES + 2),
        ("🎉" * (LONG_TEXT_BYTES // 4), None),
        ("🎉" * (LONG_TEXT_BYTES // 4 + 1), LONG_TEXT_BYTES + 4),
    ],
)
@pytest.mark.one_database("no database is involved")
def test_a_text_is_long_by_its_bytes(text, size):
    assert long_size(text) == size


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blobs SET body = 'y'",
        "UPDATE blobs SET size = size",
        "DELETE FROM blobs",
        f"INSERT INTO blobs (digest, size, body) VALUES ('{DIGEST}', 1, 'y')",
        f"INSERT INTO blobs VALUES ('{DIGEST}', 1, 'y') ON CONFLICT (digest) DO UPDATE SET body = 'y'",
    ],
)
def test_what_an_entry_refers_to_cannot_be_changed(kept, statement):
    before = rows(kept, "blobs")
    with pytest.raises(REFUSED):
        kept.execute(statement)
    assert rows(kept, "blobs") == before


@pytest.mark.parametrize("conflict", ["OR REPLACE", "OR ABORT", "OR FAIL"])
def test_sqlites_own_ways_to_write_over_it_are_refused(store, kept, conflict):
    if store.database != "sqlite":
        conflict = ""
    before = rows(kept, "blobs")
    with pytest.raises(REFUSED):
        kept.execute(f"INSERT {conflict} INTO blobs (digest, size, body) VALUES ('{DIGEST}', 1, 'y')")
    assert rows(kept, "blobs") == before


def test_what_nothing_refers_to_can_be_removed_and_nothing_else(store, kept):
    other = hashlib.sha256(b"other").hexdigest()
    kept.execute(BLOB, (other, 5, "other"))
    with pytest.raises(REFUSED):
        kept.execute(f"UPDATE blobs SET body = 'y' WHERE digest = '{other}'")
    assert store.write(remove_unused) == 1
    assert store.write(remove_unused) == 0
    assert [row[0] for row in rows(kept, "blobs")] == [DIGEST]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"hashed": "b" * 64, "blob": "b" * 64}, id="no such text"),
        pytest.param({"hashed": "b" * 64}, id="a text that is not its payload"),
        pytest.param({"payload": "{}"}, id="both ways at once"),
        pytest.param({"blob": None, "size": None, "head": None}, id="no payload at all"),
        pytest.param({"size": None}, id="no size"),
        pytest.param({"head": None}, id="no beginning"),
    ],
)
def test_an_entry_has_its_payload_in_exactly_one_place(store, raw, values):
    if store.database == "sqlite":
        raw.execute("PRAGMA foreign_keys=ON")
    raw.execute(BLOB, (DIGEST, len(TEXT), TEXT))
    with pytest.raises(REFUSED):
        raw.execute(*entry(**values))


def test_the_same_text_is_kept_once(store):
    for _ in range(2):
        store.write(lambda tx: put_text(tx, DIGEST, len(TEXT), TEXT))
    with store.read() as connection:
        assert body_of(connection, DIGEST) == TEXT
        assert connection.exec_driver_sql("SELECT count(*) FROM blobs").scalar() == 1
        assert body_of(connection, "0" * 64) is None


def test_nothing_is_recorded_upon_a_damaged_text(store):
    store.write(lambda tx: put_text(tx, DIGEST, len(TEXT), TEXT))
    with unguarded(store.url) as connection:
        connection.execute("UPDATE blobs SET body = 'something else'")
    with pytest.raises(StoredTextDamaged) as caught:
        store.write(lambda tx: put_text(tx, DIGEST, len(TEXT), TEXT))
    assert caught.value.details == {"digest": DIGEST, "reason": "altered"}
