"""A long text through every reader, from one table: whole, cut to a line, left alone; and what they say without it."""

from __future__ import annotations

import hashlib
import json

import anyio
import pytest
from sqlalchemy.engine import make_url

from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft
from bridge.rpc.roles import Caller, Role
from bridge.storage.longtexts import LONG_TEXT_BYTES
from tests.databases import unguarded
from tests.rpcclient import exchange

BEGINNING, END = "needle", "haystackend"
TEXT = f"{BEGINNING} first line\n" + "straw " * (LONG_TEXT_BYTES // 6) + END
DAMAGED, QUARANTINE = "stored_text_damaged", "session_quarantined"
WHOLE, LINE, NOTHING = (BEGINNING, END), (BEGINNING,), ()
#: Reader; what of the text it shows; its error once the text is gone, and once the session is set aside for it.
#: {s} is the session, {e} the entry with the long text.
READERS = [
    (("context", "{s}"), WHOLE, DAMAGED, QUARANTINE),
    (("recall", END, "--session", "{s}"), (END,), DAMAGED, QUARANTINE),
    (("show", "{e}"), WHOLE, DAMAGED, DAMAGED),
    (("show", "{e}", "--raw"), WHOLE, DAMAGED, DAMAGED),
    (("export", "{s}"), WHOLE, DAMAGED, QUARANTINE),
    (("log", "{s}"), LINE, None, QUARANTINE),
    (("log", "{s}", "--all"), LINE, None, QUARANTINE),
    (("log", "{s}", "--limit", "50"), LINE, None, QUARANTINE),
    (("tree", "{s}"), LINE, None, QUARANTINE),
    (("branches", "{s}"), LINE, None, QUARANTINE),
    (("session", "show", "{s}"), NOTHING, None, QUARANTINE),
    (("session", "lineage", "{s}"), NOTHING, None, QUARANTINE),
    (("session", "list"), NOTHING, None, None),
    (("status", "{s}"), NOTHING, None, QUARANTINE),
    (("root", "{s}"), NOTHING, None, QUARANTINE),
    (("label", "{e}", "name"), NOTHING, None, QUARANTINE),
    (("goto", "{s}", "{e}"), NOTHING, None, QUARANTINE),
]


@pytest.fixture
def here(here, database_url, monkeypatch):
    monkeypatch.setenv("BRIDGE_DATABASE_URL", database_url)
    return here


@pytest.fixture
def spoken(here):
    """A session in which a long message is a branch's first word, and a sibling with one of its own."""
    made = [here.json("session", "new")["id"] for _ in range(2)]
    for session_id, text in zip(made, (TEXT, f"{TEXT} too"), strict=True):
        here("append", session_id, "--kind", "user.message", "--text", "one").ok()
        payload = json.dumps({"text": text}).encode()
        here("append", session_id, "--kind", "user.message", "--payload", "-", stdin=payload).ok()
        here("append", session_id, "--kind", "user.message", "--text", "aside", "--parent", f"{session_id}-000001").ok()
        here("goto", session_id, f"{session_id}-000002").ok()
    return made


def ask(here, words, session_id, *more):
    return here(*[word.format(s=session_id, e=f"{session_id}-000002") for word in words], *more)


def lose_text(database_url, session_id):
    with unguarded(make_url(database_url)) as connection:
        connection.execute(
            "DELETE FROM blobs WHERE digest ="
            f" (SELECT blob_digest FROM session_entries WHERE id = '{session_id}-000002')"
        )


def test_every_reader_shows_as_much_as_the_table_says(here, spoken):
    session_id, _ = spoken
    for words, shown, *_ in READERS:
        answer = ask(here, words, session_id)
        assert answer.status == 0, (words, answer.stderr)
        assert [mark in answer.stdout for mark in (BEGINNING, END)] == [mark in shown for mark in (BEGINNING, END)], (
            words
        )


@pytest.mark.parametrize("state", ["lost", "set aside"])
def test_without_the_text_who_needs_it_says_so_and_the_sibling_goes_on(here, spoken, database_url, state):
    session_id, sibling = spoken
    lose_text(database_url, session_id)
    if state == "set aside":
        found = here("db", "check", "--json")
        assert found.status == 1
        assert found.json()["quarantined"] == [session_id]
        assert [flaw["code"] for flaw in found.json()["flaws"]] == ["text_missing"]
    for words, _, lost, aside in READERS:
        code = lost if state == "lost" else aside
        answer = ask(here, words, session_id, "--json")
        if code is None:
            assert answer.status == 0, (words, answer.stderr)
        else:
            assert answer.error()["code"] == code, words
        answer = ask(here, words, sibling, "--json")
        assert answer.status == 0, (words, answer.stderr)


def test_verify_finds_it_and_goes_on(here, spoken, database_url):
    session_id, sibling = spoken
    assert here("verify").status == 0
    lose_text(database_url, session_id)
    verdicts = {one["session_id"]: one for one in here("verify", "--json").json()["sessions"]}
    assert [(one["code"], one["subject"]) for one in verdicts[session_id]["findings"]] == [
        ("payload_missing", f"{session_id}-000002")
    ]
    assert verdicts[sibling]["status"] == "healthy"
    here("append", session_id, "--kind", "note", "--text", "more", "--parent", f"{session_id}-000001").ok()


def test_the_exact_text_is_shown_and_exported(here, spoken):
    session_id, _ = spoken
    stored = here("show", f"{session_id}-000002", "--raw").ok().stdout
    assert json.loads(stored) == {"text": TEXT}
    shown = here.json("show", f"{session_id}-000002")
    assert shown["payload_text"] == stored
    assert shown["payload_hash"] == hashlib.sha256(stored.encode()).hexdigest()
    lines = [json.loads(line) for line in here("export", session_id).ok().stdout.splitlines()]
    entry = next(line for line in lines if line.get("id") == f"{session_id}-000002")
    assert entry["payload"] == {"text": TEXT}


def test_a_list_as_json_says_how_long_it_is(here, spoken):
    session_id, _ = spoken
    one, two = here.json("log", session_id)
    assert one["payload"] == {"text": "one"}
    assert "payload_bytes" not in one
    assert (two["payload"], two["payload_bytes"], two["readable"]) == (None, len(json.dumps({"text": TEXT})) - 1, True)


def test_a_list_knows_what_stands_behind_a_long_field(here, spoken, controller):
    session_id, _ = spoken
    payload = {"tool_call_id": "t", "name": "shell", "output": TEXT, "status": "failed"}
    entry = controller.recorder.append_now(session_id, EntryDraft(kind="tool.completed", payload=payload))
    assert [one["id"] for one in here.json("log", session_id, "--problems")] == [entry.id]
    assert here("log", session_id, "--limit", "1").ok().stdout.rstrip().endswith("shell failed")


def test_the_same_through_json_rpc(here, spoken, controller):
    session_id, _ = spoken
    standpoint = Standpoint(directory=here.directory, session=session_id)
    caller = Caller(Role.OPERATOR, standpoint, None)

    def call(method):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"session": session_id}}
        return anyio.run(exchange, controller, caller, json.dumps(request).encode())["result"]

    two = call("sessions/log")["entries"][1]
    assert two["payload"] is None
    assert two["payload_bytes"] > LONG_TEXT_BYTES
    tree = call("sessions/tree")
    assert BEGINNING in tree["nodes"][1]["text"]
    assert END not in json.dumps(tree)
    assert call("sessions/context")["messages"][1]["payload"] == {"text": TEXT}


def test_a_long_result_is_cited_by_its_exact_bytes(here, spoken, database_url, controller):
    session_id, _ = spoken
    payload = {"delegation_id": "d0", "status": "completed", "summary": TEXT}
    entry = controller.recorder.append_now(session_id, EntryDraft(kind="worker.result", payload=payload))
    assert here("result", entry.id, "--raw").ok().stdout == entry.payload_text
    lose_text(database_url, session_id)
    here("result", entry.id, "--raw").ok()
    with unguarded(make_url(database_url)) as connection:
        connection.execute("DELETE FROM blobs")
    assert here("result", entry.id, "--json").error()["code"] == DAMAGED
