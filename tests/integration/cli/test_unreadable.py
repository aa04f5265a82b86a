"""What cannot be read, reader by reader, from one table: another contract, a broken payload, a damaged session.

An entry of an unknown semantic version fails closed where its meaning is needed and is shown as it is where it is not.
A broken payload (the older history has such) is an entry without meaning, and disturbs nobody. A damaged session is
refused by every reader of sessions.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy.engine import make_url

from tests.conftest import settings_here
from tests.databases import behind

pytestmark = pytest.mark.usefixtures("database_url")

VERSION, QUARANTINE = "unsupported_semantic_version", "session_quarantined"
#: Reader, and what it answers: with an entry of version 3 on the path, with a broken payload, in a damaged session.
#: None stands for an ordinary answer. {s} is the session, {e} the entry.
READERS = [
    (("context", "{s}"), VERSION, None, QUARANTINE),
    (("recall", "three", "--session", "{s}"), VERSION, None, QUARANTINE),
    (("show", "{e}"), None, None, None),
    (("log", "{s}"), None, None, QUARANTINE),
    (("log", "{s}", "--all"), None, None, QUARANTINE),
    (("tree", "{s}"), None, None, QUARANTINE),
    (("branches", "{s}"), None, None, QUARANTINE),
    (("session", "show", "{s}"), None, None, QUARANTINE),
    (("session", "lineage", "{s}"), None, None, QUARANTINE),
    (("session", "list"), None, None, None),
    (("export", "{s}"), None, None, QUARANTINE),
    (("export", "{s}", "--format", "markdown"), None, None, QUARANTINE),
    (("export", "{s}", "--scope", "active"), VERSION, None, QUARANTINE),
    (("export", "{s}", "--scope", "active", "--format", "markdown"), VERSION, None, QUARANTINE),
    (("export", "{s}", "--scope", "active", "--format", "html"), VERSION, None, QUARANTINE),
    (("status", "{s}"), None, None, QUARANTINE),
    (("root", "{s}"), None, None, QUARANTINE),
    (("append", "{s}", "--kind", "note", "--text", "more"), None, None, QUARANTINE),
    (("goto", "{s}", "{e}"), None, None, QUARANTINE),
    (("label", "{e}", "name"), None, None, QUARANTINE),
    (("session", "new", "--from", "{e}"), None, None, QUARANTINE),
]


@pytest.fixture
def spoken(here, say):
    """A session and a sibling, with three messages each."""
    made = [here.json("session", "new")["id"] for _ in range(2)]
    for session_id in made:
        for text in ("one", "two", "three"):
            say(session_id, text)
    return made


def spoil(here, bridge_home, how: str, session_id: str) -> None:
    entry_id = f"{session_id}-000002"
    change = {
        "version": f"UPDATE session_entries SET semantic_schema_version = 3 WHERE id = '{entry_id}'",
        "payload": (
            'UPDATE session_entries SET semantic_schema_version = 1, payload = \'{"text":"cut o\''
            f" WHERE id = '{entry_id}'"
        ),
        "damage": f"UPDATE session_heads SET next_sequence = 1 WHERE session_id = '{session_id}'",
    }[how]
    with behind(make_url(settings_here().database_url)) as connection:
        connection.execute(change)
    assert here("db", "check").status == (1 if how == "damage" else 0)


@pytest.mark.parametrize("how", ["version", "payload", "damage"])
def test_every_reader_answers_as_the_table_says(here, bridge_home, spoken, how):
    session_id, sibling = spoken
    spoil(here, bridge_home, how, session_id)
    for words, *codes in READERS:
        expected = codes[["version", "payload", "damage"].index(how)]
        told = [word.format(s=session_id, e=f"{session_id}-000002") for word in words]
        answer = here(*told, "--json")
        if expected is None:
            assert answer.status == 0, (words, answer.stderr)
        else:
            assert answer.error()["code"] == expected, words
            if expected == VERSION:
                assert answer.error()["details"] == {"entry": f"{session_id}-000002", "found": 3, "supported": [1, 2]}
        healthy = [word.format(s=sibling, e=f"{sibling}-000002") for word in words]
        assert here(*healthy).status == 0, words


@pytest.mark.parametrize(("how", "reason"), [("version", "semantic schema version 3"), ("damage", "bad_head")])
def test_doctor_names_what_is_unreadable_and_why(here, bridge_home, spoken, how, reason):
    session_id, sibling = spoken
    spoil(here, bridge_home, how, session_id)
    checks = {check["name"]: check for check in here.json("doctor")["checks"]}
    assert checks["unreadable_sessions"]["status"] == "warning"
    assert checks["unreadable_sessions"]["facts"]["sessions"] == [{"session_id": session_id, "reason": reason}]
    assert sibling not in checks["unreadable_sessions"]["detail"]


@pytest.mark.parametrize(
    ("how", "unreadable", "mark"),
    [
        (
            "version",
            {"code": "unsupported_semantic_version", "found": [3], "supported": [1, 2]},
            "[unreadable: semantic schema 3]",
        ),
        ("payload", None, None),
        ("damage", {"code": "session_quarantined", "reason": "bad_head"}, "[set aside: bad_head]"),
    ],
)
def test_the_list_of_sessions_marks_what_cannot_be_read(here, bridge_home, spoken, how, unreadable, mark):
    session_id, sibling = spoken
    spoil(here, bridge_home, how, session_id)
    listed = {one["id"]: one for one in here.json("session", "list")}
    assert (listed[session_id]["readable"], listed[session_id]["unreadable"]) == (unreadable is None, unreadable)
    assert (listed[sibling]["readable"], listed[sibling]["unreadable"]) == (True, None)
    lines = here("session", "list").ok().stdout.splitlines()
    assert [line.endswith("]") for line in lines].count(True) == (mark is not None)
    if mark is not None:
        assert mark in next(line for line in lines if session_id[-4:] in line)


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.one_database("each planner has its own words; the index is the same")
def test_looking_for_unreadable_entries_reads_no_others(here, bridge_home, spoken):
    """The list of sessions stays flat however many entries there are: the question is answered from a small index."""
    with closing(sqlite3.connect(bridge_home / "bridge.db")) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT DISTINCT session_id, semantic_schema_version FROM session_entries WHERE"
            " semantic_schema_version <> 2 AND (semantic_schema_version < 1 OR semantic_schema_version > 2)"
        ).fetchall()
    assert "COVERING INDEX ix_session_entries_other_versions" in plan[0][3]


def test_a_branch_beside_an_unreadable_entry_stays_usable(here, bridge_home, spoken):
    session_id, _ = spoken
    spoil(here, bridge_home, "version", session_id)
    here("goto", session_id, f"{session_id}-000001").ok()
    here("append", session_id, "--kind", "user.message", "--text", "beside").ok()
    shown = here("context", session_id).ok().stdout
    assert "beside" in shown
    assert "two" not in shown


@pytest.mark.parametrize("how", ["version", "payload", "damage"])
def test_verify_reports_and_goes_on(here, bridge_home, spoken, how):
    session_id, sibling = spoken
    spoil(here, bridge_home, how, session_id)
    verdicts = {one["session_id"]: one for one in here("verify", "--json").json()["sessions"]}
    assert set(verdicts) == {session_id, sibling}
    assert here("verify", sibling).status == 0
    assert here("verify", session_id).status == 1
