"""Verify, root, recall, export and lineage as a person types them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from io import BytesIO

import pytest

from bridge.transcripts.portable_reading import check


@pytest.fixture
def session(bridge_cli):
    started = bridge_cli("session", "new", "--label", "talk", "--json").ok().json()["id"]
    for text in ("look at POL-358", "don't forget it"):
        bridge_cli("append", started, "--kind", "user.message", "--text", text).ok()
    return started


def test_verify_root_and_damage(bridge_cli, session, bridge_home):
    found = bridge_cli("verify", "--json").ok().json()
    assert found["status"] == "healthy"
    assert [one["session_id"] for one in found["sessions"]] == [session]
    root = bridge_cli("root", session, "--json").ok().json()
    assert root == {"session_id": session, "session_root": found["sessions"][0]["session_root"], "sequence": 2}
    assert bridge_cli("root", session).ok().stdout.strip() == root["session_root"]
    with closing(sqlite3.connect(bridge_home / "bridge.db", isolation_level=None)) as behind:
        behind.execute("DROP TRIGGER session_entries_no_update")
        behind.execute('UPDATE session_entries SET payload = \'{"text":"other"}\' WHERE sequence = 2')
    faulty = bridge_cli("verify", session, "--json")
    assert faulty.status == 1
    (one,) = faulty.json()["sessions"]
    assert one["findings"][0]["code"] == "payload_altered"
    assert one["findings"][0]["subject"] == f"{session}-000002"
    shown = bridge_cli("verify")
    assert shown.status == 1
    assert "payload_altered" in shown.stdout


def test_verify_without_a_store_has_nothing_to_say_and_makes_none(bridge_cli, bridge_home):
    assert bridge_cli("verify", "--json").ok().json() == {
        "status": "healthy",
        "sessions": [],
        "chains": [],
        "stored": [],
        "log": None,
        "index": None,
    }
    assert not bridge_home.exists()
    assert bridge_cli("verify", "nope").status == 46


def test_recall_takes_any_text(bridge_cli, session):
    found = bridge_cli("recall", "POL-358", "--session", session, "--json").ok().json()
    assert [hit["sequence"] for hit in found["hits"]] == [1]
    assert found["hasMore"] is False
    assert found["hits"][0]["active"] is True
    assert "don't forget it" in bridge_cli("recall", "don't", "--session", session).ok().stdout
    empty = bridge_cli("recall", ' "* ', "--session", session).ok()
    assert empty.stdout == ""
    assert "no word" in empty.stderr
    assert bridge_cli("recall", "--session", session, "--", "-x").ok().stdout == ""


def test_export_to_stdout_and_to_a_file(bridge_cli, session):
    data = bridge_cli("export", session).ok().stdout_bytes
    lines = data.splitlines(keepends=True)
    assert check(BytesIO(data)).tally.entries == 3
    told = bridge_cli("export", session, "--format", "jsonl", "-o", "talk.jsonl", "--json").ok().json()
    assert (told["entries"], told["session_id"]) == (3, session)
    written = (bridge_cli.directory / "talk.jsonl").read_bytes()
    assert json.loads(written.splitlines()[-1]) == json.loads(lines[-1])
    again = bridge_cli("export", session, "-o", "talk.jsonl", "--json")
    assert (again.status, again.error()["code"]) == (2, "usage")
    assert (bridge_cli.directory / "talk.jsonl").read_bytes() == written
    assert bridge_cli("export", session, "-o", "no/such/folder", "--json").error()["code"] == "output_failed"


def test_a_failed_export_leaves_no_file(bridge_cli, session):
    assert bridge_cli("export", "nope", "-o", "talk.jsonl").status == 46
    assert not (bridge_cli.directory / "talk.jsonl").exists()


def test_lineage_is_drawn(bridge_cli, session):
    child = bridge_cli("session", "new", "--parent", session, "--json").ok().json()["id"]
    fork = bridge_cli("session", "new", "--from", f"{session}-000001", "--json").ok().json()["id"]
    found = bridge_cli("session", "lineage", session, "--json").ok().json()
    assert found["id"] == session
    assert {one["id"]: one["parent_relation"] for one in found["children"]} == {child: "continued", fork: "forked"}
    assert [one["id"] for one in bridge_cli("session", "lineage", child, "--json").ok().json()["ancestors"]] == [
        session
    ]
    drawn = bridge_cli("session", "lineage", child).ok().stdout.splitlines()
    assert drawn[0].startswith(session[-4:])
    assert "<- this one" in drawn[1]
