"""Sessions from one store into another, over the portable file: the same ids, hashes and trees, or nothing."""

from __future__ import annotations

import json
import os
import tracemalloc
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.control.checks.verification import read_root, verify
from bridge.control.controller import Controller
from bridge.control.errors import ImportSourceChanged
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionDiffers, SessionNotFound
from bridge.conversations.models import ENTRY_FIELDS, EntryDraft, NewSession
from bridge.conversations.paths import active_path
from bridge.conversations.store import get_head, get_session, iterate_entries, label_target, list_labels
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.integrity.store import iterate_events
from bridge.lineage.errors import LineageCycle
from bridge.semantics.stamps import UnknownReason
from bridge.transcripts.errors import TranscriptInvalid, TranscriptPartial
from bridge.transcripts.portable import line_of
from bridge.workspaces.errors import StateDamaged
from bridge.workspaces.store import load_manifest, load_state, save_state

NOWHERE = Standpoint()
#: Hidden, eligible, odd and long texts; whatever may stand in a payload.
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.sampled_from(["\u2028\u0085\u2029", "</script>", "\x1b[31mred\x00", "\u202eevil", "x" * 20_000]),
)


@contextmanager
def opened(home: Path, url: str | None = None):
    environment = {"BRIDGE_HOME": str(home)} | ({} if url is None else {"BRIDGE_DATABASE_URL": url})
    with Controller(load_settings(environment), clock=SystemClock(), environment=os.environ) as controller:
        yield controller


@pytest.fixture
def here(tmp_path, database_url):
    """A store on the database under test."""
    with opened(tmp_path / "here", database_url) as controller:
        yield controller


@pytest.fixture
def there(tmp_path):
    """Another store, a file."""
    with opened(tmp_path / "there") as controller:
        yield controller


def exported(controller, session, **request) -> bytes:
    pieces: list[bytes] = []
    done = export_session(controller, NOWHERE, ExportRequest(session=session, **request), pieces.append)
    data = b"".join(pieces)
    assert done.bytes == len(data)
    return data


def imported(controller, data: bytes, **options):
    return import_session(controller, BytesIO(data), **options)


def entry_lines(data: bytes) -> list[bytes]:
    return [line for line in data.split(b"\n") if b'"type":"entry"' in line]


def say(controller, session, text, **fields):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text}, **fields))


def talk(controller, *texts, **new):
    session = controller.recorder.create_session(NewSession(**new)).id
    return session, [say(controller, session, text) for text in texts]


def rows(controller, session):
    with controller.store.read() as connection:
        return [tuple(getattr(entry, name) for name in ENTRY_FIELDS) for entry in iterate_entries(connection, session)]


def path(controller, session):
    with controller.store.read() as connection:
        return [(entry.id, entry.entry_hash, entry.created_at) for entry in active_path(connection, session)]


def session_row(controller, session):
    with controller.store.read() as connection:
        return get_session(connection, session)


def events(controller, chain):
    with controller.store.read() as connection:
        return [(event.event_type, json.loads(event.body)["body"]) for event in iterate_events(connection, chain)]


def assert_healthy(controller):
    found = verify(controller, NOWHERE, None)
    assert found.is_healthy, found.to_json()


def everything(controller) -> str:
    """Whatever the store holds of conversations, in a form that can be compared."""
    with controller.store.read() as connection:
        tables = ("sessions", "session_heads", "session_entries", "entry_labels", "audit_events", "repository_states")
        return repr([sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {name}"))) for name in tables])


@contextmanager
def nothing_written(controller):
    before = everything(controller)
    yield
    assert everything(controller) == before


def test_a_session_comes_out_as_it_went_in(here, there, repository):
    (repository.path / "new.txt").write_text("uncommitted")
    session, (first, *_) = talk(there, "one", "two", label="a talk", harness="codex", kind="worker", status="ended")
    seen = there.observer.observe(repository.path)
    there.recorder.append_now(
        session,
        EntryDraft(kind="note", payload_text='{"text":"x","provider_meta":{"n":1.50}}', context_visibility="hidden"),
        seen.stamp,
        first=lambda recording: save_state(recording.tx, seen, recording.moment),
    )
    say(there, session, "aside", parent_entry_id=first.id, external_id="x1", external_source="elsewhere")
    there.recorder.label(session, first.id, "start")
    there.recorder.move_head(session, first.id)
    data = exported(there, session)
    done = imported(here, data)
    assert [(one.status, one.added, one.complete) for one in done.sessions] == [("created", 5, True)]
    assert rows(here, session) == rows(there, session)
    assert path(here, session) == path(there, session)
    row, original = session_row(here, session), session_row(there, session)
    assert row == original
    with here.store.read() as connection:
        assert [(one.name, one.entry_id) for one in list_labels(connection, session)] == [("start", first.id)]
        state = load_state(connection, seen.state.state_digest)
        assert state == seen.state
        assert load_manifest(connection, state.dirty_hash) == seen.manifest
    assert exported(here, session).splitlines()[1:] == data.splitlines()[1:]
    assert_healthy(here)
    assert read_root(here, NOWHERE, session).session_root == read_root(there, NOWHERE, session).session_root


def test_the_chain_begins_with_the_import_and_pins_file_and_root(here, there):
    session, said = talk(there, "one", "two")
    data = exported(there, session)
    imported(here, data)
    ((kind, body),) = events(here, session)
    assert kind == "session.imported"
    assert body["digest"] == json.loads(data.splitlines()[-1])["digest"]
    assert body["session_root"] == read_root(there, NOWHERE, session).session_root
    assert (body["head"], body["sequence"], body["added"]) == (said[-1].id, 2, 3)
    say(here, session, "three")
    assert [kind for kind, _ in events(here, session)] == ["session.imported", "entry.appended"]
    assert_healthy(here)


@pytest.mark.one_database("a file is damaged behind the store's back")
@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE session_entries SET payload = \'{"text":"x"}\' WHERE sequence = 1',
        "DELETE FROM session_entries WHERE sequence = 2",
        "UPDATE session_heads SET next_sequence = 9",
        "UPDATE sessions SET kind = 'worker'",
        "UPDATE session_entries SET entry_hash = replace(entry_hash, 'a', 'b') WHERE sequence = 2",
    ],
)
def test_verify_sees_damage_to_what_was_imported(there, tmp_path, statement):
    import sqlite3

    session, _ = talk(there, "one", "two")
    with opened(tmp_path / "here") as here:
        imported(here, exported(there, session))
        file = str(here.store.url.database)
    with sqlite3.connect(file, isolation_level=None) as behind:
        for (name,) in behind.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            behind.execute(f"DROP TRIGGER {name}")
        behind.execute(statement)
    behind.close()
    with opened(tmp_path / "here") as here:
        assert not verify(here, NOWHERE, session).is_healthy


def test_fc_24_a_copy_imported_twice_or_in_pieces_counts_once(here, there):
    session, _ = talk(there, "one", "two")
    short = exported(there, session)
    say(there, session, "three")
    say(there, session, "four")
    long = exported(there, session)
    imported(here, short)
    done = imported(here, long)
    assert [(one.status, one.added) for one in done.sessions] == [("continued", 2)]
    assert path(here, session) == path(there, session)
    assert_healthy(here)
    with nothing_written(here):
        for copy in (short, long, short):
            assert [(one.status, one.added) for one in imported(here, copy).sessions] == [("unchanged", 0)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 0, 1, 0)])
def test_fc_06_fc_24_a_fork_and_its_origin_in_any_order(here, there, order):
    origin, (first, *_) = talk(there, "u1", "u2", "u3")
    aside = say(there, origin, "aside", parent_entry_id=first.id)
    say(there, origin, "more", parent_entry_id=aside.id)
    fork = there.recorder.fork(aside.id, NewSession(parent_session_id=origin, parent_relation="forked")).id
    say(there, fork, "u9")
    files = [exported(there, origin), exported(there, fork)]
    assert b"u2" not in files[1]
    for number in order:
        imported(here, files[number])
        assert_healthy(here)
        read_root(here, NOWHERE, origin)
    for session in (origin, fork):
        assert rows(here, session) == rows(there, session)
        assert exported(here, session).splitlines()[1:] == exported(there, session).splitlines()[1:]
    assert path(here, fork) == path(there, fork)
    with nothing_written(here):
        for data in files:
            assert imported(here, data).added == 0


def test_a_fork_alone_stands_on_a_part_of_its_origin(here, there):
    origin, (first, *_) = talk(there, "u1", "u2")
    there.recorder.label(origin, first.id, "start")
    aside = say(there, origin, "aside", parent_entry_id=first.id)
    fork = there.recorder.fork(aside.id, NewSession(parent_session_id=origin, parent_relation="forked")).id
    say(there, fork, "u9")
    done = imported(here, exported(there, fork))
    assert [(one.session_id, one.complete) for one in done.sessions] == [(origin, False), (fork, True)]
    assert path(here, fork) == path(there, fork)
    assert session_row(here, origin).active_entry_id == aside.id
    assert session_row(here, origin).next_sequence == 4
    with here.store.read() as connection:
        assert label_target(connection, origin, "start") == first.id
    # What goes on here takes no number that the origin has handed out.
    assert say(here, origin, "here").sequence == 4
    assert_healthy(here)


def test_a_fork_of_a_fork_travels(here, there):
    session, said = talk(there, "u1", "u2")
    for text in ("a", "b"):
        fork = there.recorder.fork(said[-1].id, NewSession(parent_session_id=session, parent_relation="forked")).id
        said = [say(there, fork, text)]
        session = fork
    imported(here, exported(there, session))
    assert path(here, session) == path(there, session)
    assert_healthy(here)


def test_a_session_that_went_on_differently_becomes_a_fork_and_stays_itself(here, there):
    session, _ = talk(there, "one")
    imported(here, exported(there, session))
    say(here, session, "mine")
    say(there, session, "theirs")
    data = exported(there, session)
    with nothing_written(here):
        assert "forked" in {one.status for one in imported(here, data, dry_run=True).sessions}
    (fork,) = (one.session_id for one in imported(here, data).sessions if one.status == "forked")
    with here.store.read() as connection:
        said = {one: [e.payload.get("text") for e in active_path(connection, one)] for one in (session, fork)}
    assert said == {session: ["one", "mine"], fork: ["one", "theirs"]}
    assert_healthy(here)


def test_another_session_of_the_same_id_is_refused(here, there):
    session, _ = talk(there, "one")
    here.recorder.create_session(NewSession(id=session))
    with nothing_written(here), pytest.raises(SessionDiffers) as caught:
        imported(here, exported(there, session))
    assert caught.value.details["entry_id"] == f"{session}-000000"


def test_a_fork_is_taken_in_with_all_it_needs_or_not_at_all(here, there):
    origin, (first, *_) = talk(there, "u1")
    fork = there.recorder.fork(first.id, NewSession(parent_session_id=origin, parent_relation="forked")).id
    here.recorder.create_session(NewSession(id=origin))
    with nothing_written(here), pytest.raises(SessionDiffers):
        imported(here, exported(there, fork))


def test_a_dry_run_says_what_would_be_and_writes_nothing(here, there):
    session, _ = talk(there, "one")
    with nothing_written(here):
        done = imported(here, exported(there, session), dry_run=True)
    assert (done.is_dry_run, done.added, done.sessions[0].status) == (True, 2, "created")


def test_the_head_follows_along_its_branch_and_is_left_where_somebody_put_it(here, there):
    session, (first, *_) = talk(there, "one", "two")
    imported(here, exported(there, session))
    # Untouched here: wherever it is over there.
    there.recorder.move_head(session, first.id)
    aside = say(there, session, "aside")
    imported(here, exported(there, session))
    assert session_row(here, session).active_entry_id == aside.id
    # Moved here: it stays, since what came does not go on from there.
    here.recorder.move_head(session, f"{session}-000002")
    say(there, session, "more")
    imported(here, exported(there, session))
    assert session_row(here, session).active_entry_id == f"{session}-000002"
    # And it follows what does.
    there.recorder.move_head(session, f"{session}-000002")
    last = say(there, session, "three")
    imported(here, exported(there, session))
    assert session_row(here, session).active_entry_id == last.id
    assert_healthy(here)


def test_what_a_fork_brings_of_its_origin_does_not_carry_the_origins_head_away(here, there):
    origin, (first, second) = talk(there, "one", "two")
    imported(here, exported(there, origin))
    aside = say(there, origin, "aside", parent_entry_id=first.id)
    fork = there.recorder.fork(aside.id, NewSession(parent_session_id=origin, parent_relation="forked")).id
    imported(here, exported(there, fork))
    assert session_row(here, origin).active_entry_id == second.id
    assert path(here, fork) == path(there, fork)
    assert_healthy(here)


def test_labels_are_added_and_those_that_name_something_else_here_stay(here, there):
    session, (first, second) = talk(there, "one", "two")
    there.recorder.label(session, first.id, "a")
    imported(here, exported(there, session))
    here.recorder.label(session, second.id, "b")
    there.recorder.label(session, first.id, "b")
    there.recorder.label(session, first.id, "c")
    say(there, session, "three")
    done = imported(here, exported(there, session))
    assert done.sessions[0].kept_labels == ("b",)
    with here.store.read() as connection:
        assert {one.name: one.entry_id for one in list_labels(connection, session)} == {
            "a": first.id,
            "b": second.id,
            "c": first.id,
        }


def test_an_unknown_workspace_is_left_out_and_remembered_by_the_chain(here, there):
    session, _ = talk(there, "one", workspace_id="w-of-another-machine")
    imported(here, exported(there, session))
    assert session_row(here, session).workspace_id is None
    assert events(here, session)[0][1]["workspace_id"] == "w-of-another-machine"


def test_a_parent_that_is_not_here_is_kept_and_a_circle_is_refused(here, there):
    parent, _ = talk(there, "one")
    child, _ = talk(there, "two", parent_session_id=parent, parent_relation="continued")
    data = exported(there, child)
    imported(here, data)
    assert session_row(here, child).parent_session_id == parent
    lines = exported(there, parent).split(b"\n")
    header = json.loads(lines[0])
    header["sessions"][0].update(parent_session_id=child, parent_relation="continued")
    with nothing_written(here), pytest.raises(LineageCycle):
        imported(here, b"\n".join([line_of(header)[:-1], *lines[1:]]))


def test_the_active_path_with_hidden_entries_is_a_part_that_can_be_made_whole(here, there):
    session, (first, *_) = talk(there, "one", "two")
    there.recorder.move_head(session, first.id)
    say(there, session, "aside", context_visibility="hidden")
    say(there, session, "last")
    data = exported(there, session, scope="active", hidden=True)
    assert [json.loads(line)["sequence"] for line in entry_lines(data)] == [0, 1, 3, 4]
    imported(here, data)
    assert path(here, session) == path(there, session)
    assert_healthy(here)
    imported(here, exported(there, session))
    assert rows(here, session) == rows(there, session)
    assert_healthy(here)


def test_the_active_path_without_hidden_entries_is_for_reading_only(here, there):
    session, _ = talk(there, "one")
    say(there, session, "secret", context_visibility="hidden")
    say(there, session, "two")
    data = exported(there, session, scope="active")
    assert b"secret" not in data
    assert json.loads(data.splitlines()[0])["hidden"] is False
    with nothing_written(here), pytest.raises(TranscriptPartial):
        imported(here, data)
    assert b"secret" in exported(there, session)


def test_damage_is_named_and_nothing_is_written(here, there):
    session, _ = talk(there, "one", "two", "three")
    data = exported(there, session)
    lines = data.splitlines(keepends=True)
    for broken in (data[:-1], data[:-200], b"".join(lines[:2] + lines[3:]), data.replace(b"two", b"owt"), b"", b"\n\n"):
        with nothing_written(here), pytest.raises(TranscriptInvalid) as caught:
            imported(here, broken)
        assert {"line", "offset", "reason"} <= set(caught.value.details)


def test_a_manifest_that_is_not_what_its_hash_says_undoes_all(here, there, repository):
    (repository.path / "new.txt").write_text("uncommitted")
    session, _ = talk(there, "one")
    seen = there.observer.observe(repository.path)
    there.recorder.append_now(
        session,
        EntryDraft(kind="note", payload={"text": "x"}),
        seen.stamp,
        first=lambda recording: save_state(recording.tx, seen, recording.moment),
    )
    lines = exported(there, session).splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b'"type":"manifest"' in line)
    value = json.loads(lines[place])
    value["dirty_hash"] = "0" * 64
    lines[place] = line_of(value)
    with nothing_written(here), pytest.raises(StateDamaged):
        imported(here, b"".join(lines))


def test_a_state_that_is_not_in_the_file_is_unavailable_and_not_guessed(here, there, repository):
    session, _ = talk(there, "one")
    seen = there.observer.observe(repository.path)
    entry = there.recorder.append_now(session, EntryDraft(kind="note", payload={"text": "x"}), seen.stamp)
    imported(here, exported(there, session))
    with here.store.read() as connection:
        assert load_state(connection, entry.state_digest) is UnknownReason.BASE_UNAVAILABLE


def test_a_file_that_changes_while_it_is_read_is_refused(here, there):
    session, _ = talk(there, "one")
    other, _ = talk(there, "one")

    class Changing(BytesIO):
        def seek(self, *args):
            super().seek(0)
            self.truncate()
            self.write(exported(there, other))
            return super().seek(*args)

    with nothing_written(here), pytest.raises(ImportSourceChanged):
        import_session(here, Changing(exported(there, session)))


def test_an_unknown_session_is_a_typed_error(there):
    with pytest.raises(SessionNotFound):
        exported(there, "nope")


class Forest:
    """Sessions made by random steps."""

    def __init__(self, controller) -> None:
        self.controller = controller
        self.sessions = [controller.recorder.create_session(NewSession()).id]
        self.entries: list[tuple[str, str]] = []

    def step(self, action: str, number: int, text: str) -> None:
        session = self.sessions[number % len(self.sessions)]
        own = [entry for owner, entry in self.entries if owner == session]
        recorder = self.controller.recorder
        if action == "say":
            self.entries.append((session, say(self.controller, session, text).id))
        elif action == "hide":
            self.entries.append((session, say(self.controller, session, text, context_visibility="hidden").id))
        elif own and action == "branch":
            parent = own[number % len(own)]
            self.entries.append((session, say(self.controller, session, text, parent_entry_id=parent).id))
        elif own and action == "goto":
            recorder.move_head(session, own[number % len(own)])
        elif own and action == "label":
            recorder.label(session, own[number % len(own)], f"l{number}")
        elif own and action == "fork":
            new = NewSession(parent_session_id=session, parent_relation="forked")
            self.sessions.append(recorder.fork(own[number % len(own)], new).id)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "hide", "branch", "branch", "goto", "label", "fork"]),
        st.integers(0, 50),
        TEXTS,
    ),
    min_size=1,
    max_size=25,
)


@given(steps=STEPS, order=st.randoms(use_true_random=False))
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_random_forests_are_the_same_in_another_database(here, there, steps, order):
    forest = Forest(there)
    for step in steps:
        forest.step(*step)
    files = {session: exported(there, session) for session in forest.sessions}
    for session in order.sample(forest.sessions, len(forest.sessions)):
        imported(here, files[session])
    for session, data in files.items():
        assert exported(here, session).splitlines()[1:] == data.splitlines()[1:]
        assert path(here, session) == path(there, session)
        assert imported(here, data).added == 0
        assert imported(there, exported(here, session)).added == 0
        assert verify(here, NOWHERE, session).is_healthy
        with here.store.read() as connection, there.store.read() as other:
            assert get_head(connection, session) == get_head(other, session)


@pytest.mark.one_database("memory of the process, not of the database")
def test_memory_does_not_grow_with_the_session(tmp_path):
    peaks = []
    for count in (400, 4000):
        with opened(tmp_path / f"from{count}") as source, opened(tmp_path / f"to{count}") as target:
            session = source.recorder.create_session(NewSession()).id
            source.recorder.transact(
                lambda recording, session=session, count=count: [
                    recording.append(session, EntryDraft(kind="note", payload={"text": f"{number}" + "x" * 5000}))
                    for number in range(count)
                ]
            )
            file = tmp_path / f"{count}.jsonl"
            tracemalloc.start()
            with file.open("wb") as out:
                export_session(source, NOWHERE, ExportRequest(session=session), out.write)
            with file.open("rb") as data:
                import_session(target, data)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert file.stat().st_size > 5000 * count
    # Ten times the entries, 20 MB of them, and a few kilobytes more of memory for the index.
    assert peaks[1] < peaks[0] + 3_000_000
