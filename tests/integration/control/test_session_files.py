"""Sessions as session files, and session files as sessions."""

from __future__ import annotations

import json
import os
from io import BytesIO

import pytest

from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import ExternalIdConflict
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.paths import active_path
from bridge.conversations.store import get_session, iterate_entries
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.transcripts.sessionfile import SessionFile, SessionTree
from bridge.transcripts.sessionfile.errors import SessionInvalidJson, SessionLineTooLarge
from tests.sessionfiles import calling, create, entry_line, header_line, result, user


@pytest.fixture
def store(tmp_path, database_url):
    environment = {"BRIDGE_HOME": str(tmp_path / "home"), "BRIDGE_DATABASE_URL": database_url}
    with Controller(load_settings(environment), clock=SystemClock(), environment=os.environ) as controller:
        yield controller


def exported(store, session_id, **how):
    pieces = []
    request = ExportRequest(session=session_id, format="session-file", **how)
    export_session(store, Standpoint(), request, pieces.append)
    return b"".join(pieces)


def add(store, session_id, kind, parent=None, **payload):
    return store.recorder.append_now(session_id, EntryDraft(kind=kind, payload=payload, parent_entry_id=parent)).id


def taken_in(store, data, **how):
    return import_session(store, BytesIO(data), **how)


def shape(store, session_id):
    with store.store.read() as connection:
        entries = [entry for entry in iterate_entries(connection, session_id) if not entry.is_root]
        known = {entry.id: number for number, entry in enumerate(entries)}
        path = [known[entry.id] for entry in active_path(connection, session_id) if not entry.is_root]
        return [
            (
                entry.kind,
                entry.payload_text,
                entry.context_visibility,
                known.get(entry.parent_entry_id),
                entry.created_at,
            )
            for entry in entries
        ], path


def forest(store):
    session = store.recorder.create_session(NewSession(label="talk"))
    one = add(store, session.id, "user.message", text="one\u2028", author="me")
    call = add(store, session.id, "tool.started", tool_call_id="t", name="grep", input={"x": 1.5})
    add(store, session.id, "tool.completed", tool_call_id="t", name="grep", output=["a"], status="completed")
    add(store, session.id, "tool.completed", tool_call_id="other", name="grep", output="a")
    add(store, session.id, "usage.updated", tokens={"input": 1})
    left = add(store, session.id, "assistant.message", text="left")
    right = add(store, session.id, "assistant.message", one, text="right")
    return session.id, one, call, left, right


def test_a_session_goes_out_and_comes_back(store, tmp_path):
    session_id, _, _, left, right = forest(store)
    for head in (left, right):
        store.recorder.move_head(session_id, head)
        data = exported(store, session_id)
        (tmp_path / "x").write_bytes(data)
        tree = SessionTree(SessionFile.load(tmp_path / "x"))
        assert tree.active_leaf_id == head
        assert len(tree.entries) == 7
        assert tree.active_entries[0].role == "user"
    done = taken_in(store, data)
    assert (done.sessions[0].status, done.added) == ("created", 7)
    there, path = shape(store, done.session_id)
    here, way = shape(store, session_id)
    assert sorted(one[:3] for one in there) == sorted(one[:3] for one in here)
    assert sorted(one[4] for one in there) == sorted(one[4] for one in here)
    assert [there[at][:3] for at in path] == [here[at][:3] for at in way]
    with store.store.read() as connection:
        ids = {entry.external_id for entry in iterate_entries(connection, done.session_id)}
    assert {left, right} < ids


def test_a_head_that_is_no_leaf_is_kept(store):
    session_id, one, _, _, _ = forest(store)
    store.recorder.move_head(session_id, one)
    data = exported(store, session_id)
    assert json.loads(data.splitlines()[-1])["message"] == {"role": "event", "kind": "session.position"}
    done = taken_in(store, data)
    assert done.added == 7
    there, path = shape(store, done.session_id)
    assert [there[at][0] for at in path] == ["user.message"]


def test_the_same_again_adds_nothing_and_what_has_grown_is_continued(store, tmp_path):
    tree = SessionTree(create(tmp_path / "x"))
    first = tree.append(user("one"))
    tree.append(calling(("t", "grep"), ("u", "sed")))
    tree.append(result("u", "sed", {"n": 1.50}))
    data = (tmp_path / "x").read_bytes()
    assert taken_in(store, data, dry_run=True).added == 4
    done = taken_in(store, data)
    assert (done.sessions[0].status, done.added) == ("created", 4)
    again = taken_in(store, data)
    assert (again.session_id, again.added, again.sessions[0].status) == (done.session_id, 0, "unchanged")
    tree.append(user("two"))
    tree.move_to(first.id)
    tree.append({"role": "system", "content": "three"})
    grown = taken_in(store, (tmp_path / "x").read_bytes())
    assert (grown.session_id, grown.added, grown.sessions[0].status) == (done.session_id, 2, "continued")
    entries, path = shape(store, done.session_id)
    kinds = ["user.message", "tool.started", "tool.started", "tool.completed", "user.message", "provider.unknown"]
    assert [entry[0] for entry in entries] == kinds
    assert [entry[3] for entry in entries] == [None, 0, 1, 2, 3, 0]
    assert path == [0, 1, 2, 3, 4]
    assert entries[3][1] == '{"name":"sed","output":{"n":1.5},"tool_call_id":"u"}'


def test_an_entry_with_other_content_is_refused_and_nothing_is_written(store):
    lines = [header_line(), entry_line("a", None, user("one"))]
    done = taken_in(store, b"\n".join(lines))
    lines[1:] = [entry_line("a", None, user("two")), entry_line("b", "a", user("three"))]
    with pytest.raises(ExternalIdConflict):
        taken_in(store, b"\n".join(lines))
    assert len(shape(store, done.session_id)[0]) == 1
    for changed in (entry_line("a", None, user("two")), entry_line("a", None, {"role": "system", "content": "one"})):
        with pytest.raises(ExternalIdConflict):
            taken_in(store, header_line() + b"\n" + changed, dry_run=True)


def test_an_entry_below_another_one_is_refused(store):
    lines = [header_line(), entry_line("a"), entry_line("b", "a")]
    taken_in(store, b"\n".join(lines))
    with pytest.raises(ExternalIdConflict):
        taken_in(store, b"\n".join([*lines[:2], entry_line("b")]))


def test_a_damaged_file_is_refused_whole(store):
    for tail in (b"not-json\n", b'{"type":"entry","id":"cut'):
        with pytest.raises(SessionInvalidJson):
            taken_in(store, header_line() + b"\n" + entry_line("a") + b"\n" + tail)


def test_an_entry_that_no_line_holds_is_refused_by_its_id(store):
    session = store.recorder.create_session(NewSession())
    long = add(store, session.id, "user.message", text="x" * 70_000)
    with pytest.raises(SessionLineTooLarge) as caught:
        exported(store, session.id)
    assert caught.value.details["id"] == long


def test_a_fork_brings_its_path_and_an_empty_session_its_header(store):
    _, one, _, _, right = forest(store)
    fork = store.recorder.fork(right, NewSession())
    mine = add(store, fork.id, "user.message", text="mine")
    records = [json.loads(line) for line in exported(store, fork.id).splitlines()]
    assert [record["id"] for record in records] == [fork.id, one, right, mine]
    assert [record.get("parentId") for record in records[1:]] == [None, one, right]
    empty = store.recorder.create_session(NewSession())
    done = taken_in(store, exported(store, empty.id))
    assert (done.added, done.sessions[0].status) == (0, "created")
    with store.store.read() as connection:
        assert get_session(connection, done.session_id) is not None
