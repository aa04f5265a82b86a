"""The parent of a new session is checked in the transaction that makes it."""

from __future__ import annotations

import sqlite3

import pytest

from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import NewSession
from bridge.lineage.errors import LineageCycle
from tests.databases import raw_connection

pytestmark = pytest.mark.usefixtures("database_url")


def drop_guards(connection):
    """Take away what keeps the database itself from circles."""
    for name in ("sessions_acyclic", "sessions_stay_acyclic"):
        on = "" if isinstance(connection, sqlite3.Connection) else " ON sessions"
        connection.execute(f"DROP TRIGGER {name}{on}")


def tie(connection, session_id, parent_id):
    connection.execute(
        "UPDATE sessions SET parent_session_id = ?, parent_relation = 'continued' WHERE id = ?", (parent_id, session_id)
    )


def test_the_database_itself_refuses_a_circle(controller):
    line = [controller.recorder.create_session(NewSession()).id]
    for _ in range(3):
        new = NewSession(parent_session_id=line[-1], parent_relation="continued")
        line.append(controller.recorder.create_session(new).id)
    with raw_connection(controller.store.url) as connection:
        for child, parent in ((line[0], line[-1]), (line[1], line[1]), (line[0], line[1])):
            with pytest.raises(Exception, match="cannot descend from itself"):
                tie(connection, child, parent)
        # A session that is named as a parent before it is there, as an import may have it.
        tie(connection, line[0], "later")
        columns = "id, kind, status, created_at, updated_at, parent_session_id, parent_relation"
        for identity, parent in (("later", line[-1]), ("own", "own")):
            with pytest.raises(Exception, match="cannot descend from itself"):
                connection.execute(
                    f"INSERT INTO sessions ({columns}) VALUES"
                    f" ('{identity}', 'chat', 'open', 'x', 'x', '{parent}', 'continued')"
                )
        tie(connection, line[3], line[1])


def test_a_parent_whose_line_was_tied_into_a_circle_is_refused(controller):
    first = controller.recorder.create_session(NewSession())
    second = controller.recorder.create_session(
        NewSession(parent_session_id=first.id, parent_relation="continued"),
    )
    with raw_connection(controller.store.url) as connection:
        drop_guards(connection)
        tie(connection, first.id, second.id)
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
