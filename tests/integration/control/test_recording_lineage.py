"""The parent of a new session is checked in the transaction that makes it."""

from __future__ import annotations

import pytest

from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import NewSession
from bridge.lineage.errors import LineageCycle
from tests.databases import raw_connection

pytestmark = pytest.mark.usefixtures("database_url")


def test_a_parent_whose_line_was_tied_into_a_circle_is_refused(controller):
    first = controller.recorder.create_session(NewSession())
    second = controller.recorder.create_session(
        NewSession(parent_session_id=first.id, parent_relation="continued"),
    )
    with raw_connection(controller.store.url) as connection:
        connection.execute(
            "UPDATE sessions SET parent_session_id = ?, parent_relation = 'continued' WHERE id = ?",
            (second.id, first.id),
        )
    with pytest.raises(LineageCycle):
        controller.recorder.create_session(NewSession(parent_session_id=second.id, parent_relation="continued"))


def test_a_session_cannot_name_itself(controller):
    with pytest.raises(LineageCycle):
        controller.recorder.create_session(
            NewSession(id="20260101-000000-abcd", parent_session_id="20260101-000000-abcd", parent_relation="continued")
        )


def test_a_parent_that_is_not_there_is_refused(controller):
    with pytest.raises(SessionNotFound):
        controller.recorder.create_session(
            NewSession(parent_session_id="20260101-000000-abcd", parent_relation="continued")
        )
