"""Names and other short texts with a NUL or a lone surrogate are refused alike on both databases."""

from __future__ import annotations

import pytest

from bridge.conversations.errors import InvalidLabel, InvalidReference
from bridge.conversations.references import resolve_entry_id, resolve_session
from bridge.foundation.errors import InvalidId, InvalidText, NotCanonical
from bridge.workspaces.store import find_workspace

pytestmark = pytest.mark.parametrize("text", ["a\0b", "\0", "a\udcffb", "\ud83d"])


def count(forest) -> list[int]:
    with forest.store.read() as connection:
        return [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("sessions", "session_entries", "audit_events", "branch_cursors", "entry_labels")
        ]


@pytest.mark.parametrize("field", ["label", "harness", "status", "agent_id", "workspace_id"])
def test_a_new_session(forest, text, field):
    before = count(forest)
    with pytest.raises(InvalidText) as caught:
        forest.session(**{field: text})
    assert caught.value.details == {"field": field}
    assert count(forest) == before


@pytest.mark.parametrize("field", ["label", "harness", "status", "agent_id", "workspace_id"])
def test_a_changed_session(forest, text, field):
    s = forest.session()
    before = count(forest)
    with pytest.raises(InvalidText):
        forest.recorder.transact(lambda recording: recording.update_session(s, **{field: text}))
    assert count(forest) == before


def test_a_parent_session(forest, text):
    with pytest.raises(InvalidId):
        forest.session(parent_session_id=text, parent_relation="continued")


@pytest.mark.parametrize("field", ["external_id", "external_source"])
def test_an_external_id(forest, text, field):
    s = forest.session()
    before = count(forest)
    with pytest.raises(InvalidText) as caught:
        forest.say(s, "u1", **({"external_id": "1", "external_source": "x"} | {field: text}))
    assert caught.value.details == {"field": field}
    assert count(forest) == before


def test_a_cursor(forest, text):
    s = forest.session()
    before = count(forest)
    with pytest.raises(InvalidText):
        forest.recorder.transact(lambda recording: recording.open_cursor(s, text))
    with pytest.raises(InvalidText):
        forest.say(s, "u1", cursor=text)
    assert count(forest) == before


def test_a_label(forest, text):
    s = forest.session()
    before = count(forest)
    with pytest.raises(InvalidLabel):
        forest.recorder.label(s, f"{s}-000000", text)
    assert count(forest) == before


def test_a_payload_keeps_a_nul_and_refuses_a_lone_surrogate(forest, text):
    s = forest.session()
    if "\0" in text:
        assert forest.append(s, "note", text=text).payload == {"text": text}
        assert forest.texts(s) == [text]
    else:
        with pytest.raises(NotCanonical):
            forest.append(s, "note", text=text)


def test_what_nothing_can_be_called_is_not_looked_for(forest, text):
    forest.session()
    with forest.store.read() as connection:
        with pytest.raises(InvalidReference):
            resolve_session(connection, text)
        with pytest.raises(InvalidReference):
            resolve_entry_id(connection, text)
        assert find_workspace(connection, text) is None
