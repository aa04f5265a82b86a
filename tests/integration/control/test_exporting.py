"""Sessions from a real store into the portable form and back."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from bridge.control.exporting import export_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.paths import path_to
from bridge.conversations.store import iterate_entries
from bridge.transcripts.portable import read_lines
from bridge.workspaces.store import save_state

NOWHERE = Standpoint()


def say(controller, session, text, **fields):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text}, **fields))


def exported(controller, session):
    lines: list[bytes] = []
    done = export_session(controller, NOWHERE, session, lines.append)
    assert (done.entries, done.bytes) == (len(lines) - 2, sum(map(len, lines)))
    return read_lines(lines)


def test_every_stored_field_comes_back(controller, repository):
    session = controller.recorder.create_session(NewSession(label="exported")).id
    seen = controller.observer.observe(repository.path)
    first = say(controller, session, "one", external_id="x1", external_source="elsewhere")
    controller.recorder.append_now(
        session,
        EntryDraft(kind="note", payload_text='{"text":"two","provider_meta":{"n":1.50}}', context_visibility="hidden"),
        seen.stamp,
        first=lambda recording: save_state(recording.tx, seen, recording.moment),
    )
    say(controller, session, "aside", parent_entry_id=first.id)
    controller.recorder.label(session, first.id, "start")
    found = exported(controller, session)
    assert found.header.session["id"] == session
    assert found.header.labels == {"start": first.id}
    with controller.store.read() as connection:
        stored = list(iterate_entries(connection, session))
    assert len(stored) == 4
    for portable, entry in zip(found.entries, stored, strict=True):
        for name in ("id", "parent_entry_id", "sequence", "payload_text", "entry_hash", "state_digest", "external_id"):
            assert getattr(portable, name) == getattr(entry, name)


def test_a_fork_is_whole_with_what_it_shares(controller):
    session = controller.recorder.create_session(NewSession()).id
    origin = say(controller, session, "one")
    say(controller, session, "not shared")
    fork = controller.recorder.fork(origin.id, NewSession(parent_session_id=session, parent_relation="forked")).id
    own = say(controller, fork, "own")
    found = exported(controller, fork)
    with controller.store.read() as connection:
        path = [entry.id for entry in path_to(connection, own.id, include_roots=True)]
    assert [entry.id for entry in found.entries] == path


def test_an_entry_of_a_later_version_is_carried_as_it_is(controller):
    session = controller.recorder.create_session(NewSession()).id
    entry = say(controller, session, "one")
    with closing(sqlite3.connect(str(controller.store.url.database), isolation_level=None)) as behind:
        for name in ("session_entries_no_update",):
            behind.execute(f"DROP TRIGGER {name}")
        hashed = entry.__class__.from_row(
            [3 if name == "semantic_schema_version" else value for name, value in _row(entry)]
        )
        with controller.store.read() as connection:
            root = next(iterate_entries(connection, session))
        behind.execute(
            "UPDATE session_entries SET semantic_schema_version = 3, entry_hash = ? WHERE id = ?",
            (hashed.compute_hash(root.entry_hash), entry.id),
        )
    assert exported(controller, session).entries[-1].semantic_schema_version == 3


def _row(entry):
    from bridge.conversations.models import ENTRY_FIELDS

    return [(name, getattr(entry, name)) for name in ENTRY_FIELDS]


def test_an_unknown_session_is_a_typed_error(controller):
    with pytest.raises(SessionNotFound):
        export_session(controller, NOWHERE, "nope", lambda line: None)
