"""What cannot be read is refused by name through this door as well."""

from __future__ import annotations

import pytest

from bridge.control.checks.upkeep import check_store
from bridge.conversations.models import EntryDraft, NewSession
from tests.databases import behind

pytestmark = pytest.mark.usefixtures("database_url")

READERS = ["sessions/show", "sessions/log", "sessions/tree", "sessions/context", "integrity/root"]
#: Readers that need the meaning of the entries, not their rows alone.
OF_MEANING = {"sessions/context"}


@pytest.fixture
def spoken(controller):
    made = [controller.recorder.create_session(NewSession()).id for _ in range(2)]
    for session_id in made:
        for text in ("one", "two"):
            controller.recorder.append_now(session_id, EntryDraft(kind="user.message", payload={"text": text}))
    return made


def change(controller, *statements):
    with behind(controller.store.url) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("method", READERS)
def test_a_damaged_session_is_refused(call, controller, spoken, method):
    damaged, sibling = spoken
    change(controller, f"UPDATE session_heads SET next_sequence = 1 WHERE session_id = '{damaged}'")
    assert check_store(controller).quarantined == (damaged,)
    assert call(method, fails=True, session=damaged)["data"]["code"] == "session_quarantined"
    call(method, session=sibling)


@pytest.mark.parametrize("method", READERS)
def test_an_entry_of_an_unknown_version(call, controller, spoken, method):
    damaged, sibling = spoken
    change(
        controller,
        f"UPDATE session_entries SET semantic_schema_version = 9 WHERE id = '{damaged}-000001'",
    )
    if method in OF_MEANING:
        refused = call(method, fails=True, session=damaged)["data"]
        assert refused["code"] == "unsupported_semantic_version"
        assert refused["details"] == {"entry": f"{damaged}-000001", "found": 9, "supported": [1, 2]}
    else:
        call(method, session=damaged)
    call(method, session=sibling)
