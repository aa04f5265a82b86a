"""A version that this Bridge does not read fails closed, reader by reader; what lies beside it goes on."""

from __future__ import annotations

import pytest

from bridge.conversations import paths, store
from bridge.conversations.projection import project
from bridge.conversations.references import resolve_entry
from bridge.integrity.verify import verify_session
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import interpret
from tests.databases import unguarded


@pytest.fixture
def damaged(forest):
    """Entries u1 a1 u2, where a1 becomes version 3; a branch u1b beside it; a healthy session."""
    s, healthy = forest.session(), forest.session()
    for text in ("u1", "a1", "u2"):
        forest.say(s, text)
    forest.say(s, "u1b", parent_entry_id=f"{s}-000001")
    forest.say(healthy, "u1")
    with unguarded(forest.store.url) as connection:
        connection.execute(f"UPDATE session_entries SET semantic_schema_version = 3 WHERE id = '{s}-000002'")
    return s, healthy


def test_projection_refuses_the_path_and_names_the_entry(forest, damaged):
    s, healthy = damaged
    with forest.store.read() as connection:
        path = paths.active_path(connection, s)
        with pytest.raises(UnsupportedSemanticVersion) as caught:
            project(path)
        assert caught.value.details == {"entry": f"{s}-000002", "found": 3, "supported": [1, 2]}
        assert [m.payload["text"] for m in project(paths.path_to(connection, f"{s}-000004")).messages] == ["u1", "u1b"]
        assert len(project(paths.active_path(connection, healthy)).messages) == 1


def test_raw_inspection_still_shows_the_row(forest, damaged):
    s, _ = damaged
    with forest.store.read() as connection:
        entry = resolve_entry(connection, f"{s}-000002")
        assert (entry.semantic_schema_version, entry.payload_text) == (3, '{"text":"a1"}')
        assert [node.semantic_schema_version for node in store.list_nodes(connection, s)] == [2, 2, 3, 2, 2]
        assert paths.branches(connection, s)[0].entry_id == f"{s}-000001"
        with pytest.raises(UnsupportedSemanticVersion):
            interpret(entry.semantic_schema_version, entry.kind, entry.payload_text)


def test_the_session_can_be_gone_on_with_elsewhere(forest, damaged):
    s, _ = damaged
    forest.recorder.move_head(s, f"{s}-000004")
    forest.say(s, "u5")
    assert forest.texts(s) == ["u1", "u1b", "u5"]


def test_verification_sees_the_altered_version(forest, damaged):
    s, healthy = damaged
    with forest.store.read() as connection:
        report = verify_session(connection, s)
        assert [(finding.code, finding.subject) for finding in report.findings] == [("entry_altered", f"{s}-000002")]
        assert verify_session(connection, healthy).is_valid
