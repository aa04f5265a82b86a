"""The deep search against models that answer well, invent, keep silent, break and want too much; all real parts."""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest

from bridge.adapters.models.library import LibraryModel
from bridge.adapters.models.port import Trouble
from bridge.adapters.models.toolfree import TOOL_FREE, ToolFreeModel
from bridge.control.controller import Controller
from bridge.control.search.deep.asking import Depth, ask_deep, find_deep
from bridge.control.search.deep.lookups import CARD_TOKENS, MAX_LOOKUP_TOKENS
from bridge.control.search.deep.starting import EXPIRY_SECONDS, Prestarted
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import iterate_entries, list_sessions
from bridge.conversations.tokens import estimate_tokens
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.foundation.redaction import Redaction
from tests.scriptedmodel import ModelServer, answer, call, calls, say

NOWHERE = Standpoint()
#: Both fit, so that the index is not sure.
QUESTION = "deployment trouble"
#: A secret in a well-known format, put together so that no file holds one.
SECRET = "ghp_" + "Ab1" * 12


@pytest.fixture
def controller(bridge_home):
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def chats(controller):
    """Return ids of chats by what they are about; two of them hold the words of the question."""
    found = {}
    for name, words in {
        "staging": "the deployment to staging has trouble with a certificate " + "and more words " * 60,
        "production": "trouble: the deployment to production was slow",
        "gardening": "how to grow tomatoes on a balcony in the north",
    }.items():
        session = controller.recorder.create_session(NewSession(label=None)).id
        for kind in ("user.message", "assistant.message"):
            controller.recorder.append_now(session, EntryDraft(kind=kind, payload={"text": words}))
        found[name] = session
    return found


def asked(controller, server, question=QUESTION, **options):
    model = LibraryModel("openai:scripted", base_url=server.url)
    return anyio.run(partial(ask_deep, controller, NOWHERE, question, model, all_workspaces=True, **options))


def shown(body):
    """Return what a model was shown, as one text."""
    return "\n".join(str(message.get("content")) for message in body["messages"])


def mark_of(body, words):
    return re.search(rf"^(c\d+) \|.*{words}", shown(body), re.MULTILINE)[1]


def usage_entries(controller):
    with controller.store.read() as connection:
        hidden = list_sessions(connection, kinds=("hidden",))
        assert len(hidden) <= 1
        return [entry.payload for one in hidden for entry in iterate_entries(connection, one.id)][1:]


def test_a_good_answer_names_chats_in_its_order(controller, chats):
    with ModelServer(lambda body: answer(mark_of(body, "staging"), why="word " * 40)) as server:
        done = asked(controller, server)
    assert (done.depth, done.trouble) == (Depth.ANSWERED, None)
    assert [one.chat.session.id for one in done.picks] == [chats["staging"]]
    assert done.picks[0].why == " ".join(["word"] * 15)
    assert [chat.session.id for chat in done.chats] == [chats["staging"], chats["production"]]
    (body,) = server.bodies
    assert {tool["function"]["name"] for tool in body["tools"]} == {
        "find_chats",
        "peek_chat",
        "chat_outline",
        "final_result",
    }
    cards = [line for line in shown(body).splitlines() if re.match(r"c\d+ \|", line)]
    assert len(cards) == 2
    assert max(map(estimate_tokens, cards)) <= CARD_TOKENS
    # Figures, and nothing that was asked or said.
    (usage,) = usage_entries(controller)
    assert usage["tokens"] == {"input": 100, "output": 10}
    assert usage["provider_meta"]["task_family"] == "chat_search"
    assert "deployment" not in json.dumps(usage)


def test_look_ups_are_run_and_what_they_show_may_be_named(controller, chats):
    steps = (
        call("find_chats", argument="tomatoes"),
        lambda body: calls(
            ("peek_chat", {"argument": f"{mark_of(body, 'tomatoes')} balcony"}),
            ("chat_outline", {"argument": mark_of(body, "tomatoes")}),
        ),
        lambda body: answer(mark_of(body, "tomatoes")),
    )
    with ModelServer(*steps) as server:
        done = asked(controller, server)
    assert [one.chat.session.id for one in done.picks] == [chats["gardening"]]
    assert done.lookups == 3
    assert 0 < done.lookup_tokens <= MAX_LOOKUP_TOKENS
    results = [message["content"] for message in server.bodies[-1]["messages"] if message["role"] == "tool"]
    assert any("user.message: how to grow tomatoes on a balcony" in result for result in results)
    assert any(result.startswith("- how to grow") for result in results)


@pytest.mark.parametrize(
    ("steps", "trouble"),
    [
        ([answer("c99", "20260101-000000-abcd")], Trouble.INVENTED),
        ([500], Trouble.FAILED),
        ([429], Trouble.QUOTA),
        ([say("It is the one about staging.")], Trouble.BROKEN),
        ([call("final_result", response="nonsense")], Trouble.BROKEN),
        ([call("rm_rf", argument="/")], Trouble.BROKEN),
        ([call("find_chats", argument="trouble")] * 4, Trouble.GREEDY),
        ([calls(*[("find_chats", {"argument": "trouble"})] * 4)], Trouble.GREEDY),
    ],
    ids=["invented", "failed", "quota", "words", "nonsense", "own-tool", "greedy", "greedy-at-once"],
)
def test_whatever_goes_wrong_the_answer_is_the_indexs_and_says_so(controller, chats, steps, trouble):
    with ModelServer(*steps) as server:
        done = asked(controller, server)
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, trouble), done.message
    assert done.lookups <= 3
    assert {chat.session.id for chat in done.chats} == {chats["staging"], chats["production"]}
    deep = done.to_json()["deep"]
    assert (deep["status"], deep["reason"]) == ("fell_back", str(trouble))
    assert [one["provider_meta"]["status"] for one in usage_entries(controller)] == ["fell_back"]


def test_a_model_that_keeps_silent_is_given_up(controller, chats):
    with ModelServer(60.0) as server:
        done = asked(controller, server, model_seconds=0.3)
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.TIMED_OUT)
    assert 0.25 < done.model_seconds < 5
    assert done.elapsed_seconds >= done.model_seconds


def test_nobody_who_listens_is_no_error(controller, chats):
    with ModelServer(500) as server:
        url = server.url
    model = LibraryModel("openai:scripted", base_url=url)
    done = find_deep(controller, NOWHERE, QUESTION, model, all_workspaces=True)
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.FAILED)


def test_a_sure_index_starts_no_model(controller, chats):
    with ModelServer(answer("c1")) as server:
        done = asked(controller, server, "tomatoes balcony")
    assert done.depth is Depth.NOT_NEEDED
    assert server.bodies == []
    assert usage_entries(controller) == []


def test_without_a_model_the_answer_says_so(controller, chats):
    done = find_deep(controller, NOWHERE, QUESTION, None, all_workspaces=True)
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.UNAVAILABLE)
    assert len(done.chats) == 2


def test_secrets_are_masked_before_anything_is_cut(controller, chats, monkeypatch):
    from bridge.control import recording

    # As if recorded by an importer that masks nothing: the secret crosses the end of what a look-up shows.
    monkeypatch.setattr(recording, "redact", unmasked)
    text = "x" * 100 + f" {SECRET} trouble with the deployment"
    session = controller.recorder.create_session(NewSession()).id
    controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text}))
    steps = (
        lambda body: calls(
            ("chat_outline", {"argument": mark_of(body, "xxx")}),
            ("peek_chat", {"argument": f"{mark_of(body, 'xxx')} trouble"}),
        ),
        lambda body: answer(mark_of(body, "xxx")),
    )
    with ModelServer(*steps) as server:
        asked(controller, server, f"{QUESTION} {SECRET}")
    seen = json.dumps(server.bodies)
    assert "ghp_" not in seen
    assert "[redacted:" in seen


def unmasked(value):
    return Redaction(value, 0, (), canonical_bytes(value))


# A program of the user's


SCRIPT = """\
import json, sys
steps = json.loads(sys.argv[-1])
for line in sys.stdin:
    step = steps.pop(0)
    text = json.loads(line)["message"]["content"][0]["text"]
    print("a word beside the protocol", flush=True)
    if step.get("init", True):
        print(json.dumps({"type": "system", "subtype": "init", "tools": step.get("tools", []), "mcp_servers": []}))
    print(json.dumps({"type": "assistant", "message": {}}))
    marks = [word for word in text.split() if word[:1] == "c" and word[1:].isdigit()]
    say = step["say"].replace("MARK", marks[0] if marks else "")
    print(json.dumps({"type": "result", "result": say, "is_error": step.get("error", False),
                      "usage": {"input_tokens": 5, "output_tokens": 2}}), flush=True)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a program that answers by a script, in the place of the one that is known."""

    def make(*steps):
        path = tmp_path / "program.py"
        path.write_text(SCRIPT)
        run = tmp_path / "run"
        run.write_text(f"#!/bin/sh\nexec {sys.executable} {path} '{json.dumps(steps)}'\n")
        run.chmod(0o700)
        return ToolFreeModel("claude-code", tmp_path / "empty", dict(os.environ), (str(run),))

    return make


def found_with(controller, model):
    return find_deep(controller, NOWHERE, QUESTION, model, all_workspaces=True)


def test_a_program_without_tools_answers(controller, chats, program):
    model = program(
        {"say": 'Let me see: {"lookup": "find_chats", "argument": "tomatoes"}'},
        {"say": '{"chats": [{"mark": "MARK", "why": "tomatoes"}]}'},
    )
    done = found_with(controller, model)
    assert (done.depth, done.trouble) == (Depth.ANSWERED, None), done.message
    assert [one.chat.session.id for one in done.picks] == [chats["gardening"]]
    assert done.lookups == 1
    assert usage_entries(controller)[0]["tokens"] == {"input": 10, "output": 4}


@pytest.mark.parametrize(
    ("steps", "trouble"),
    [
        ([{"say": "{}", "tools": ["Bash"]}], Trouble.NOT_TOOL_FREE),
        ([{"say": "{}", "init": False}], Trouble.NOT_TOOL_FREE),
        ([{"say": "staging, I think"}], Trouble.BROKEN),
        ([{"say": '{"chats": [{"mark": "c77"}]}'}], Trouble.INVENTED),
        ([{"say": '{"lookup": "find_chats", "argument": "x"}'}] * 5, Trouble.GREEDY),
        ([{"say": "You have hit your limit", "error": True}], Trouble.QUOTA),
    ],
    ids=["tools", "silent-about-tools", "words", "invented", "greedy", "quota"],
)
def test_a_program_that_does_not_keep_to_it_is_given_up(controller, chats, program, steps, trouble):
    done = found_with(controller, program(*steps))
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, trouble), done.message
    assert len(done.chats) == 2


def test_a_program_that_cannot_be_held_to_it_is_refused(controller, chats, tmp_path):
    for name in ("codex", "gemini", "opencode", "one-of-mine"):
        assert name not in TOOL_FREE
        done = found_with(controller, ToolFreeModel(name, tmp_path / "empty", dict(os.environ)))
        assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.NOT_TOOL_FREE)
    assert not (tmp_path / "empty").exists()


def test_a_program_that_is_not_there_is_no_error(controller, chats, tmp_path):
    done = found_with(controller, ToolFreeModel("claude-code", tmp_path / "e", {"PATH": "/nowhere"}))
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.START_FAILED)


# Started ahead


class Counted:
    """A model that counts what is started and closed."""

    name = "counted"

    def __init__(self):
        self.started = self.closed = 0

    async def start(self):
        self.started += 1
        return self

    async def close(self):
        self.closed += 1


class MovedClock(SystemClock):
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.moment


@pytest.mark.anyio
async def test_a_model_is_started_ahead_once_used_once_and_expires():
    clock = MovedClock()
    model, ahead = Counted(), Prestarted(clock)
    assert await ahead.offer(model)
    assert await ahead.offer(model)
    assert model.started == 1
    assert await ahead.take(model) is model
    assert await ahead.take(model) is None
    assert await ahead.offer(model)
    clock.moment += timedelta(seconds=EXPIRY_SECONDS - 1)
    assert await ahead.offer(model)
    assert (model.started, model.closed) == (2, 0)
    clock.moment += timedelta(seconds=1)
    assert await ahead.take(model) is None
    assert model.closed == 1
    await ahead.close()
    assert model.closed == 1
