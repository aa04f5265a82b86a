"""Appending, reading along branches, going elsewhere, names."""

from __future__ import annotations

import json
import os

import pytest
from sqlalchemy.engine import make_url

from bridge.control.controller import Controller
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.paths import ancestors, parent_of
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from tests.conftest import settings_here
from tests.databases import behind

pytestmark = pytest.mark.usefixtures("database_url")


@pytest.fixture
def controller(bridge_home):
    with Controller(load_settings(os.environ), clock=SystemClock(), environment={}) as opened:
        yield opened


def ids(entries) -> list[int]:
    return [entry["sequence"] for entry in entries]


def test_an_append_is_stamped_and_shown_whole(here, repository, session):
    repository.write("a.txt", "edited\n")
    appended = here.json("append", session, "--kind", "user.message", "--text", "Hello")
    assert appended["sequence"] == 1
    assert appended["parent_entry_id"] == f"{session}-000000"
    assert appended["payload"] == {"text": "Hello"}
    assert appended["active_entry_id"] == appended["id"]
    stamp = appended["stamp"]
    assert stamp["head"] == repository.head()
    assert stamp["ref"] == "refs/heads/main"
    assert len(stamp["dirty_hash"]) == 64
    shown = here.json("show", "1")
    assert {key: value for key, value in appended.items() if key not in {"active_entry_id", "recorded"}} == shown
    assert shown["active"] is True
    assert json.loads(shown["payload_text"]) == shown["payload"]
    assert "Hello" in here("show", f"{session[-4:]}.1").ok().stdout


def test_payloads_come_from_a_file_or_standard_input(here, repository, session):
    payload = b'{"tool_call_id": "c1", "name": "shell", "input": {"n": 1.50}}'
    path = repository.write("payload.json", payload)
    for options, stdin in ((("--payload", path), b""), (("--payload", "-"), payload)):
        entry = here.json("append", session, "--kind", "tool.started", *options, stdin=stdin)
        assert entry["payload_text"] == '{"input":{"n":1.50},"name":"shell","tool_call_id":"c1"}'


@pytest.mark.parametrize(
    ("kind", "text", "payload"),
    [
        ("note", "n", {"text": "n"}),
        ("error", "it broke", {"message": "it broke"}),
        ("model.changed", "m-1", {"model": "m-1"}),
        ("session.status", "waiting", {"status": "waiting"}),
        ("compaction.requested", "full", {"reason": "full"}),
    ],
)
def test_text_goes_into_the_kinds_main_field(here, session, kind, text, payload):
    assert here.json("append", session, "--kind", kind, "--text", text)["payload"] == payload


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--kind", "tool.started", "--text", "x"), "kind_without_text"),
        (("--kind", "checkpoint", "--text", "x"), "invalid_payload"),
        (("--kind", "no.such.kind", "--text", "x"), "unknown_kind"),
        (("--kind", "assistant.message.delta", "--text", "x"), "transient_kind"),
        (("--kind", "note", "--payload", "-"), "not_canonical"),
        (("--kind", "note", "--payload", "missing.json"), "usage"),
        (
            (
                "--kind",
                "note",
            ),
            "usage",
        ),
        (("--kind", "note", "--text", "x", "--payload", "-"), "usage"),
        (("--kind", "note", "--text", "x", "--parent", "1", "--cursor", "me"), "usage"),
        (("--kind", "note", "--text", "x", "--cursor", "me"), "cursor_not_found"),
        (("--kind", "note", "--text", "x", "--parent", "77"), "entry_not_found"),
    ],
)
def test_what_cannot_be_appended_is_a_typed_error(here, session, options, code):
    refused = here("append", session, *options, "--json")
    assert refused.status != 0
    assert refused.error()["code"] == code
    assert here.json("log", session) == []


def test_an_expected_head_that_moved_writes_nothing(here, session, say):
    first = say(session, "one")
    second = say(session, "two", "--expect-head", first)
    refused = here("append", session, "--kind", "note", "--text", "late", "--expect-head", "1", "--json")
    error = refused.error()
    assert (refused.status, error["code"]) == (50, "head_moved")
    assert (error["details"]["expected"], error["details"]["actual"]) == (first, second)
    assert ids(here.json("log", session)) == [1, 2]


def test_an_external_id_is_recorded_once(here, session):
    words = ("append", session, "--kind", "note", "--text", "x", "--external-id", "e1", "--external-source", "cli")
    first, second = here.json(*words), here.json(*words)
    assert (first["recorded"], second["recorded"]) == (True, False)
    assert first["id"] == second["id"]
    assert ids(here.json("log", session)) == [1]


def test_hidden_entries_are_recorded_but_not_restored(here, session, say):
    say(session, "seen")
    say(session, "unseen", "--hidden")
    assert ids(here.json("log", session)) == [1, 2]
    assert [message["payload"]["text"] for message in here.json("context", session)["messages"]] == ["seen"]


def test_explicit_parents_never_carry_the_head_away(here, session, say):
    first = say(session, "u1")
    head = say(session, "a1", kind="assistant.message")
    side = say(session, "late", "--parent", first, kind="assistant.message")
    say(session, "later", "--parent", side)
    assert here.json("session", "show", session)["active_entry_id"] == head
    head = say(session, "u2")
    assert here.json("session", "show", session)["active_entry_id"] == head
    assert ids(here.json("log", session)) == [1, 2, 5]
    assert ids(here.json("log", session, "--all")) == [1, 2, 3, 4, 5]
    assert ids(here.json("log", session, "--limit", "2")) == [2, 5]
    assert ids(here.json("log", session, "--all", "-n", "2")) == [4, 5]


def test_goto_and_back(here, session, say):
    for text in ("u1", "a1", "u2"):
        say(session, text)
    moved = here.json("goto", session, "1")
    assert (moved["active_entry_id"], moved["moved"]) == (f"{session}-000001", True)
    assert moved["previous_entry_id"] == f"{session}-000003"
    assert here.json("goto", "@", "1")["moved"] is False
    assert here.json("back")["active_entry_id"] == f"{session}-000000"
    assert here("back", session, "--json").error()["code"] == "nothing_before"
    assert here.json("log", session) == []
    assert here("goto", session, "3", "--expect-head", "2", "--json").error()["code"] == "head_moved"
    assert here.json("goto", session, f"{session[-4:]}.3", "--expect-head", "0")["moved"] is True
    say(session, "u3")
    assert ids(here.json("log", session)) == [1, 2, 3, 4]


def test_labels(here, session, say):
    first, second = say(session, "u1"), say(session, "u2")
    assert here.json("label", "1", "start")["previous_entry_id"] is None
    assert here.json("show", "start")["id"] == first
    assert here.json("label", second, "start")["previous_entry_id"] == first
    assert here.json("show", f"{session[-4:]}.start")["labels"] == ["start"]
    assert "[start] u2" in here("log").ok().stdout
    assert "[start] u2" in here("tree").ok().stdout
    assert here("label", first, "start", "--remove", "--json").error()["code"] == "entry_not_found"
    assert here.json("label", "start", "start", "--remove")["removed"] is True
    assert here("show", "start", "--json").error()["code"] == "entry_not_found"
    assert here("label", first, "12", "--json").error()["code"] == "invalid_label"


def test_a_label_of_another_session_is_found_if_it_is_the_only_one(here, session, say):
    first = say(session, "u1")
    here("label", first, "start").ok()
    here.json("session", "new")
    assert here.json("show", "start")["id"] == first


def test_short_references(here, session, say):
    first = say(session, "u1")
    tail = session[-4:]
    for reference in (first, f"{tail}.1", "1", "@", f"{tail}.@", "@.1", f"{session[9:]}.1"):
        assert here.json("show", reference)["id"] == first, reference
    assert here("show", f"{tail}.9", "--json").error()["code"] == "entry_not_found"
    assert here("log", "ffff-nope", "--json").error()["code"] == "session_not_found"


def test_an_ambiguous_tail_lists_its_matches(here, controller):
    for name in ("x-same", "y-same"):
        controller.recorder.create_session(NewSession(id=name))
    error = here("log", "same", "--json").error()
    assert error["code"] == "ambiguous_reference"
    assert set(error["details"]["matches"]) == {"x-same", "y-same"}


def test_the_tree_collapses_its_root_and_what_says_nothing(here, session, say):
    say(session, "u1")
    for number in range(3):
        here(
            "append", session, "--kind", "turn.started", "--payload", "-", stdin=f'{{"turn_id":"{number}"}}'.encode()
        ).ok()
    say(session, "a1", kind="assistant.message")
    say(session, "other", "--parent", "1")
    nodes = here.json("tree", session)
    assert ids(nodes) == [1, 2, 3, 4, 5, 6]
    assert [node["active"] for node in nodes] == [True, True, True, True, True, False]
    assert [node["id"] for node in nodes if node["is_head"]] == [f"{session}-000005"]
    assert nodes[0]["children"] == 2
    tail = session[-4:]
    drawn = here("tree", session).ok().stdout.splitlines()
    assert drawn == [
        tail,
        f"● {tail}.1  user.message  u1",
        f"├─○ {tail}.6  user.message  other",
        "⋮ 3 more",
        f"● {tail}.5  assistant.message  a1  ◀ head",
    ]
    assert len(here("tree", session, "--all").ok().stdout.splitlines()) == 7


def test_branches_of_a_conversation(here, session, say):
    assert here.json("branches", session) == []
    say(session, "u1")
    assert [branch["leaf_entry_id"][-1] for branch in here.json("branches", session)] == ["1"]
    here("append", session, "--kind", "turn.started", "--payload", "-", "--parent", "1", stdin=b'{"turn_id":"t"}').ok()
    here(
        "append", session, "--kind", "turn.completed", "--payload", "-", "--parent", "1", stdin=b'{"turn_id":"t"}'
    ).ok()
    assert len(here.json("branches", session)) == 1
    assert len(here.json("branches", session, "--all")) == 2


def test_fc_05_order_comes_from_parent_links_alone(here, controller):
    """The path goes from a small session id to a great one, and back in time."""
    recorder = controller.recorder
    recorder.create_session(NewSession(id="z9"))
    root = recorder.append_now(
        "z9", EntryDraft(kind="note", payload={"text": "root"}, created_at="2031-01-01T00:00:00Z")
    )
    recorder.fork(root.id, NewSession(id="a1", parent_session_id="z9", parent_relation="forked"))
    child = recorder.append_now(
        "a1", EntryDraft(kind="note", payload={"text": "child"}, created_at="2030-01-01T00:00:00Z")
    )
    recorder.fork(child.id, NewSession(id="m5", parent_session_id="a1", parent_relation="forked"))
    grandchild = recorder.append_now(
        "m5", EntryDraft(kind="note", payload={"text": "grandchild"}, created_at="2029-01-01T00:00:00Z")
    )
    wanted = [grandchild.id, child.id, root.id]
    assert [entry["id"] for entry in here.json("log", "m5")] == wanted[::-1]
    with controller.store.read() as connection:
        assert [entry.id for entry in ancestors(connection, grandchild.id, limit=10)] == wanted
        paged, here_now = [], grandchild.id
        while here_now is not None:
            (entry,) = ancestors(connection, here_now, limit=1)
            paged.append(entry.id)
            here_now = parent_of(connection, entry)
        assert paged == wanted


def test_fc_06_a_fork_shares_what_came_before_and_nothing_after(here, session, say):
    for text in ("u1", "a1", "u2", "a2", "u3", "a3"):
        say(session, text)
    source = here.json("log", session)
    fork = here.json("session", "new", "--from", f"{session[-4:]}.2")
    assert (fork["parent_session_id"], fork["parent_relation"]) == (session, "forked")
    say(fork["id"], "u9")
    path = here.json("log", fork["id"])
    assert [entry["payload"]["text"] for entry in path] == ["u1", "a1", "u9"]
    assert path[:2] == source[:2]
    assert here.json("session", "show", fork["id"])["forked_from"]["entry_id"] == source[1]["id"]
    assert f"forked from {session[-4:]}.2" in here("tree", fork["id"]).ok().stdout
    texts = [message["payload"]["text"] for message in here.json("context", fork["id"])["messages"]]
    assert texts == ["u1", "a1", "u9"]
    assert here.json("log", session) == source
    assert here("goto", fork["id"], source[0]["id"], "--json").error()["code"] == "entry_shared"


def test_fc_07_an_edited_prompt_leaves_the_old_path_open(here, session, say):
    say(session, "u1")
    a1 = say(session, "a1", kind="assistant.message")
    say(session, "u2")
    a2 = say(session, "a2", kind="assistant.message")
    before = here.json("log", session, "--all")
    u2b = say(session, "u2b", "--parent", a1)
    here("goto", session, u2b).ok()
    a2b = say(session, "a2b", kind="assistant.message")
    branches = here.json("branches", session)
    assert [(branch["leaf_entry_id"], branch["active"]) for branch in branches] == [(a2, False), (a2b, True)]
    assert {branch["branch_point_entry_id"] for branch in branches} == {a1}
    assert [branch["text"] for branch in branches] == ["u2", "u2b"]
    assert [entry["payload"]["text"] for entry in here.json("log", session)] == ["u1", "a1", "u2b", "a2b"]
    here("goto", session, a2).ok()
    assert [entry["payload"]["text"] for entry in here.json("log", session)] == ["u1", "a1", "u2", "a2"]
    assert here.json("log", session, "--all")[:4] == before
    here("goto", session, a1).ok()
    assert not any(branch["active"] for branch in here.json("branches", session))


def rewrite_version(entry_id: str, version: int) -> None:
    """Do what no command does: alter a recorded row, as a newer Bridge would have written it."""
    with behind(make_url(settings_here().database_url)) as connection:
        connection.execute("UPDATE session_entries SET semantic_schema_version = ? WHERE id = ?", (version, entry_id))


def test_an_unsupported_version_fails_closed_where_meaning_is_asked_for(here, bridge_home, session, say):
    say(session, "u1")
    future = say(session, "a1", kind="assistant.message")
    say(session, "side", "--parent", "1")
    sibling = here.json("session", "new")["id"]
    say(sibling, "healthy")
    rewrite_version(future, 3)

    refused = here("context", session, "--json")
    error = refused.error()
    assert (refused.status, error["code"]) == (13, "unsupported_semantic_version")
    assert error["details"] == {"entry": future, "found": 3, "supported": [1, 2]}

    shown = here.json("show", future)
    assert (shown["readable"], shown["payload"], shown["payload_text"]) == (False, None, '{"text":"a1"}')
    assert shown["unreadable"]["code"] == "unsupported_semantic_version"
    text = here("show", future).ok().stdout
    assert "unreadable" in text
    assert '{"text":"a1"}' in text
    assert [entry["readable"] for entry in here.json("log", session)] == [True, False]
    assert "! " in here("log", session).ok().stdout
    assert "(unreadable: semantic schema version 3)" in here("tree", session).ok().stdout
    assert here.json("status", session)["divergence"] == "aligned"

    assert [message["payload"]["text"] for message in here.json("context", sibling)["messages"]] == ["healthy"]
    here("goto", session, "3").ok()
    assert [message["payload"]["text"] for message in here.json("context", session)["messages"]] == ["u1", "side"]


def test_version_1_is_read_and_shown(here, bridge_home, session, say):
    old = say(session, "from before")
    rewrite_version(old, 1)
    assert here.json("show", old)["readable"] is True
    assert "from before" in here("log", session).ok().stdout


def test_recorded_text_cannot_drive_the_terminal(here, session, say):
    say(session, "\x1b[31mred\x1b[0m\nsecond line \u202e")
    for words in (("log",), ("tree",), ("branches",), ("context",), ("show", "1")):
        shown = here(*words).ok().stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    (line,) = here("log").ok().stdout.splitlines()
    assert line.endswith(r"\x1b[31mred\x1b[0m second line \u202e")
