"""bridge db copy: whatever a store holds is in the copy, on either database, or nothing is."""

from __future__ import annotations

import pytest
from sqlalchemy import insert

from bridge.control.checks.upkeep import copy_store_to
from bridge.conversations import paths
from bridge.conversations.models import EntryDraft, NewSession
from bridge.storage.copying import copied_tables, copy_store, digest_table
from bridge.storage.errors import CopyRefused
from bridge.storage.store import Store
from bridge.storage.tables import audit_events, manifest_pages, workspaces
from bridge.workspaces.store import save_state

TEXTS = ["plain", "ümlaut  日本 🎉", "tab\tand\nline", "quote ' \" \\ %s %(x)s ?", "\x00 and \x1f", "long …" * 5000]


@pytest.fixture
def filled(controller, repository):
    """A store with branches, a fork, labels, cursors, states with bytes, and workspaces below each other."""
    recorder = controller.recorder
    (repository.path / "a.txt").write_text("changed\n")
    seen = controller.observer.observe(repository.path)
    s = recorder.create_session(NewSession(label="main")).id
    for number in range(30):
        draft = EntryDraft(
            kind="user.message", payload={"text": TEXTS[number % len(TEXTS)], "provider_meta": {"n": 1e3}}
        )
        entry = recorder.append_now(
            s, draft, seen.stamp, first=lambda recording: save_state(recording.tx, seen, recording.moment)
        )
    recorder.append_now(s, EntryDraft(kind="note", payload={"text": "aside"}, parent_entry_id=f"{s}-000003"))
    recorder.label(s, entry.id, "here")
    recorder.transact(lambda r: r.open_cursor(s, "turn"))
    recorder.fork(entry.id, NewSession(parent_session_id=s, parent_relation="forked"))
    common = {"path": "", "status": "active", "created_at": "t", "updated_at": "t"}
    places = [("a2", "worker", "z1"), ("z1", "task", "m0"), ("m0", "repository", None)]

    def add(tx):
        for identity, kind, parent in reversed(places):
            row = {**common, "id": identity, "kind": kind, "parent_id": parent, "path": f"/{identity}"}
            tx.execute(insert(workspaces).values(**row))

    controller.store.write(add)
    return s


def digests(store):
    with store.read() as connection:
        return [digest_table(connection, table) for table in copied_tables()]


def test_a_copy_is_equal_and_goes_on(controller, filled, tmp_path):
    url = f"sqlite:///{tmp_path}/copy/bridge.db"
    done = copy_store_to(controller, url)
    assert done.verification.is_healthy
    assert {table.table: table.rows for table in done.tables}["session_entries"] == 33
    assert {table.table: table.rows for table in done.tables}["manifest_pages"] == 1
    with Store.open(url, create=False) as copy:
        assert digests(copy) == list(done.tables) == digests(controller.store)
        with copy.read() as connection, controller.store.read() as original:
            assert paths.active_path(connection, filled) == paths.active_path(original, filled)


def test_to_a_server_and_back_to_a_file(controller, filled, postgresql_server, tmp_path):
    with postgresql_server.database("template0") as url:
        done = copy_store_to(controller, url)
        assert done.verification.is_healthy
        assert list(done.tables) == digests(controller.store)
        with Store.open(url) as there, Store.open(f"sqlite:///{tmp_path}/back/bridge.db") as back:
            assert copy_store(there, back) == list(done.tables) == digests(back)


def test_a_target_with_rows_is_refused_and_stays(controller, filled, tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/other/bridge.db") as other:
        copy_store(controller.store, other)
        before = digests(other)
        with pytest.raises(CopyRefused, match="Nothing was written"):
            copy_store(controller.store, other)
        with pytest.raises(CopyRefused):
            copy_store(controller.store, controller.store)
        assert digests(other) == before


def test_a_copy_that_differs_is_undone(controller, filled, tmp_path, monkeypatch):
    real = digest_table
    calls = []

    def digest(connection, table):
        calls.append(table.name)
        found = real(connection, table)
        return found if calls.count("audit_events") < 2 else type(found)(found.table, found.rows, "0" * 64)

    monkeypatch.setattr("bridge.storage.copying.digest_table", digest)
    with Store.open(f"sqlite:///{tmp_path}/other/bridge.db") as other:
        with pytest.raises(CopyRefused, match="audit_events"):
            copy_store(controller.store, other)
        monkeypatch.undo()
        assert all(table.rows == 0 for table in digests(other))


def test_the_digest_sees_each_value(controller, filled):
    before = digests(controller.store)
    names = {audit_events.name, manifest_pages.name}
    assert len({table.digest for table in before if table.table in names}) == 2
    controller.recorder.append_now(filled, EntryDraft(kind="note", payload={"text": "more"}))
    after = digests(controller.store)
    changed = {a.table for a, b in zip(after, before, strict=True) if a != b}
    assert changed == {"session_entries", "session_heads", "audit_events", "branch_cursors"}
