"""``db check``: what is damaged is found, set aside by name, and its siblings go on."""

from __future__ import annotations

import pytest

from bridge.control.checks.upkeep import check_store
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations import paths, references
from bridge.conversations.errors import SessionNotFound, SessionQuarantined
from bridge.conversations.forest import require_session
from bridge.conversations.models import EntryDraft, NewSession
from bridge.integrity.chain import verify_chain
from tests.databases import behind, raw_connection

pytestmark = pytest.mark.usefixtures("database_url")


def say(controller, session_id, text, **where):
    draft = EntryDraft(kind="user.message", payload={"text": text}, **where)
    return controller.recorder.append_now(session_id, draft)


@pytest.fixture
def sessions(controller):
    """A session that is going to be damaged, and a sibling."""
    made = [controller.recorder.create_session(NewSession()).id for _ in range(2)]
    for session_id in made:
        for text in ("one", "two", "three"):
            say(controller, session_id, text)
    return made


def damage(controller, *statements: str) -> None:
    """Do by hand what neither Bridge nor its triggers would let happen."""
    with behind(controller.store.url) as connection:
        for statement in statements:
            connection.execute(statement)


DAMAGE = [
    ("orphan", "DELETE FROM session_entries WHERE id = '{s}-000002'"),
    ("orphan", "UPDATE session_entries SET parent_entry_id = NULL WHERE id = '{s}-000002'"),
    ("root_missing", "DELETE FROM session_entries WHERE id = '{s}-000000'"),
    ("cross_session_parent", "UPDATE session_entries SET parent_entry_id = '{t}-000001' WHERE id = '{s}-000002'"),
    ("cycle", "UPDATE session_entries SET parent_entry_id = '{s}-000003' WHERE id = '{s}-000002'"),
    ("cycle", "UPDATE session_entries SET parent_entry_id = '{s}-000002' WHERE id = '{s}-000002'"),
    ("bad_head", "UPDATE session_heads SET active_entry_id = '{s}-000009' WHERE session_id = '{s}'"),
    ("bad_head", "UPDATE session_heads SET active_entry_id = '{t}-000001' WHERE session_id = '{s}'"),
    ("bad_head", "UPDATE session_heads SET next_sequence = 3 WHERE session_id = '{s}'"),
    ("head_missing", "DELETE FROM session_heads WHERE session_id = '{s}'"),
    ("session_missing", "DELETE FROM sessions WHERE id = '{s}'"),
]


@pytest.mark.parametrize(("code", "statement"), DAMAGE)
def test_a_damaged_session_is_set_aside_and_its_sibling_goes_on(controller, sessions, code, statement):
    damaged, sibling = sessions
    damage(controller, statement.format(s=damaged, t=sibling))
    found = check_store(controller)
    assert not found.is_sound
    assert code in {flaw.code for flaw in found.flaws}
    assert {flaw.session_id for flaw in found.flaws} == {damaged}
    assert found.quarantined == (damaged,)
    with controller.store.read() as connection:
        for read in (
            lambda: require_session(connection, damaged),
            lambda: paths.active_path(connection, damaged),
            lambda: paths.path_to(connection, f"{damaged}-000003"),
            lambda: paths.branches(connection, damaged),
            lambda: paths.lies_on_active_path(connection, damaged, f"{damaged}-000001"),
            lambda: references.resolve_entry_id(connection, "@", context_session_id=damaged),
        ):
            with pytest.raises(SessionQuarantined) as caught:
                read()
            assert caught.value.details["session_id"] == damaged
        assert len(paths.active_path(connection, sibling)) == 3
    for write in (
        lambda: say(controller, damaged, "four"),
        lambda: controller.recorder.move_head(damaged, f"{damaged}-000001"),
        lambda: controller.recorder.label(damaged, f"{damaged}-000001", "name"),
    ):
        with pytest.raises(SessionQuarantined):
            write()
    assert say(controller, sibling, "four").sequence == 4
    # The check says the same again, and records it once.
    assert check_store(controller) == found
    with controller.store.read() as connection:
        events = connection.exec_driver_sql(
            f"SELECT count(*) FROM audit_events WHERE chain_id = '{damaged}' AND event_type = 'session.quarantined'"
        ).scalar()
        assert events == 1
        assert verify_chain(connection, damaged).is_valid


def test_a_fork_of_a_damaged_session_says_where_it_ends(controller, sessions):
    damaged, _ = sessions
    fork = controller.recorder.fork(f"{damaged}-000002", NewSession()).id
    say(controller, fork, "on")
    damage(controller, f"UPDATE session_heads SET next_sequence = 1 WHERE session_id = '{damaged}'")
    assert check_store(controller).quarantined == (damaged,)
    with controller.store.read() as connection:
        require_session(connection, fork)
        with pytest.raises(SessionQuarantined) as caught:
            paths.active_path(connection, fork)
        assert caught.value.details["session_id"] == damaged
        assert [entry.payload["text"] for entry in paths.active_path(connection, fork, last=1)] == ["on"]


def test_a_mended_session_is_released(controller, sessions):
    damaged, _ = sessions
    damage(controller, f"UPDATE session_heads SET next_sequence = 1 WHERE session_id = '{damaged}'")
    check_store(controller)
    damage(controller, f"UPDATE session_heads SET next_sequence = 4 WHERE session_id = '{damaged}'")
    found = check_store(controller)
    assert (found.is_sound, found.quarantined, found.released) == (True, (), (damaged,))
    assert say(controller, damaged, "four").sequence == 4
    with controller.store.read() as connection:
        assert verify_chain(connection, damaged).is_valid


def test_a_sound_store_is_not_written_to(controller, sessions):
    with controller.store.read() as connection:
        before = connection.exec_driver_sql("SELECT count(*) FROM audit_events").scalar()
    found = check_store(controller)
    assert found.to_json() == {"sound": True, "problems": [], "flaws": [], "quarantined": [], "released": []}
    with controller.store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM audit_events").scalar() == before


def test_a_missing_guard_and_a_dangling_row_are_named(controller, sessions):
    session_id = sessions[0]
    is_file = controller.store.database == "sqlite"
    damage(controller, f"INSERT INTO entry_labels VALUES ('{session_id}', 'x', '{session_id}-000077', '2026')")
    with raw_connection(controller.store.url) as connection:
        connection.execute("DROP TRIGGER session_entries_no_update" + ("" if is_file else " ON session_entries"))
    found = check_store(controller)
    assert [(problem.code, problem.subject) for problem in found.problems] == [
        ("dangling", "entry_labels row 1" if is_file else "entry_labels"),
        ("trigger_missing", "session_entries_no_update"),
    ]
    assert found.quarantined == ()


def test_a_session_that_never_was_is_not_found(controller, sessions):
    with controller.store.read() as connection, pytest.raises(SessionNotFound):
        require_session(connection, "20260101-000000-0000")


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM recall_documents", "UPDATE recall_index_data SET block = x'00ff'"],
    ids=["places", "pages"],
)
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.one_database("there is no search index on PostgreSQL")
def test_fc_61_a_damaged_search_index_is_named_dropped_and_built_anew(controller, sessions, statement):
    session_id = sessions[0]
    assert len(recall(controller, Standpoint(), session_id, "two").hits) == 1
    assert check_store(controller).is_sound
    controller.store.write(lambda tx: tx.connection.exec_driver_sql(statement))
    found = check_store(controller)
    assert [problem.code for problem in found.problems] == ["index_damaged"]
    assert not found.flaws
    assert check_store(controller).is_sound
    assert len(recall(controller, Standpoint(), session_id, "two").hits) == 1
