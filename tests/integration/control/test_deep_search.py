"""The deep search against models that answer well, invent, keep silent, break and want too much; all real parts."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest

from bridge.adapters.models.library import LibraryModel
from bridge.adapters.models.port import ModelTrouble, Trouble, Usage
from bridge.adapters.models.toolfree import REFUSED, TOOL_FREE, ToolFreeModel
from bridge.control.controller import Controller
from bridge.control.search.deep import lookups, starting
from bridge.control.search.deep.asking import Depth, ask_deep, find_deep
from bridge.control.search.deep.lookups import CARD_TOKENS, MAX_LOOKUP_TOKENS, Desk
from bridge.control.search.deep.starting import EXPIRY_SECONDS, Prestarted
from bridge.control.search.finding import find_chats
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import iterate_entries, list_sessions
from bridge.conversations.tokens import estimate_tokens
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.foundation.redaction import Redaction
from bridge.storage.errors import DatabaseBusy
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


def test_a_model_that_used_up_what_it_may_look_up_is_given_up(controller, chats, monkeypatch):
    monkeypatch.setattr(lookups, "MAX_LOOKUP_TOKENS", 20)
    with ModelServer(*[lambda body: call("chat_outline", argument=mark_of(body, "staging"))] * 2) as server:
        done = asked(controller, server)
    assert (done.depth, done.trouble, done.lookups) == (Depth.FELL_BACK, Trouble.GREEDY, 1)
    assert usage_entries(controller)[0]["tokens"] == {"input": 200, "output": 20}


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


@pytest.mark.parametrize("place", [100, 190], ids=["message", "card"])
def test_secrets_are_masked_before_anything_is_cut(controller, chats, monkeypatch, place):
    from bridge.control import recording

    # As if recorded by an importer that masks nothing: the secret crosses the end of what a look-up, or a card, shows.
    monkeypatch.setattr(recording, "redact", unmasked)
    text = "x" * place + f" {SECRET} trouble with the deployment"
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


def test_of_several_look_ups_at_once_none_is_lost_and_no_time_is_left_out_twice(controller, chats, monkeypatch):
    looked = Desk.look_up
    running = []

    def slow(self, name, argument):
        running.append(1)
        assert len(running) == 1
        time.sleep(0.1)
        running.pop()
        return looked(self, name, argument)

    monkeypatch.setattr(Desk, "look_up", slow)
    wanted = [("find_chats", {"argument": word}) for word in ("tomatoes", "trouble", "balcony")]
    with ModelServer(calls(*wanted), lambda body: answer(mark_of(body, "tomatoes"))) as server:
        done = asked(controller, server)
    assert (done.depth, done.lookups) == (Depth.ANSWERED, 3), done.message
    assert done.model_seconds > 0
    assert done.elapsed_seconds > done.model_seconds + 0.3


def test_a_card_that_there_is_no_room_for_was_not_shown(controller, chats):
    find = partial(find_chats, controller, NOWHERE, all_workspaces=True)
    desk = Desk(controller, find)
    desk.tokens = MAX_LOOKUP_TOKENS - CARD_TOKENS - 1
    text = desk.look_up("find_chats", "deployment trouble")
    assert len(text.splitlines()) == len(desk.shown) == 1
    assert desk.tokens <= MAX_LOOKUP_TOKENS
    assert desk.look_up("find_chats", "tomatoes") == "there is no room left for a card"
    desk.tokens = MAX_LOOKUP_TOKENS - 1
    assert estimate_tokens(desk.look_up("chat_outline", "c1")) == 1
    assert (len(desk.shown), desk.tokens, desk.lookups) == (1, MAX_LOOKUP_TOKENS, 3)
    desk.lookups = 2
    with pytest.raises(ModelTrouble):
        desk.look_up("chat_outline", "c1")


def test_of_the_chats_that_are_named_only_those_count_that_were_shown(controller, chats):
    with ModelServer(lambda body: answer("c77", mark_of(body, "staging"), chats["gardening"])) as server:
        done = asked(controller, server)
    assert [one.chat.session.id for one in done.picks] == [chats["staging"]]
    assert chats["gardening"] not in {chat.session.id for chat in done.chats}


def test_nothing_is_written_but_what_it_used(controller, chats):
    def stored():
        with controller.store.read() as connection:
            sessions = list_sessions(connection, kinds=("chat", "worker"))
            return [(one, list(iterate_entries(connection, one.id))) for one in sessions]

    before = stored()
    with ModelServer(call("find_chats", argument="tomatoes"), lambda body: answer(mark_of(body, "staging"))) as server:
        asked(controller, server)
        asked(controller, server)
    assert stored() == before
    assert len(usage_entries(controller)) == 2


def test_an_answer_stands_though_what_it_used_cannot_be_recorded(controller, chats, monkeypatch):
    def refuse(_write):
        raise DatabaseBusy("Busy.")

    monkeypatch.setattr(controller.recorder, "transact", refuse)
    with ModelServer(lambda body: answer(mark_of(body, "staging"))) as server:
        done = asked(controller, server)
    assert (done.depth, done.is_recorded) == (Depth.ANSWERED, False)
    assert done.to_json()["deep"]["recorded"] is False


class Pondering:
    """A model that goes on for ever, and has used something when it is given up."""

    name = "pondering"
    usage = Usage(1, 100, 10)
    is_closed = False

    async def start(self):
        return self

    async def ask(self, _question, _lookup):
        await anyio.sleep_forever()

    async def close(self):
        self.is_closed = True


def test_what_a_model_used_until_it_was_given_up_is_recorded(controller, chats):
    model = Pondering()
    done = anyio.run(partial(ask_deep, controller, NOWHERE, QUESTION, model, all_workspaces=True, model_seconds=0.01))
    assert (done.trouble, model.is_closed) == (Trouble.TIMED_OUT, True)
    assert usage_entries(controller)[0]["tokens"] == {"input": 100, "output": 10}


class Odd:
    """A model that goes wrong in a way that nobody foresaw."""

    name = "odd"

    async def start(self):
        raise ZeroDivisionError("odd")


def test_whatever_a_model_raises_as_it_starts_is_no_error(controller, chats):
    done = find_deep(controller, NOWHERE, QUESTION, Odd(), all_workspaces=True)
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.START_FAILED)


# A program of the user's


SCRIPT = """\
import json, sys
steps = json.loads(sys.argv[-1])
for line in sys.stdin:
    if json.loads(line)["type"] == "control_request":
        print("a word beside the protocol", flush=True)
        response = {"subtype": steps[0].get("ready", "success"), "error": "not today"}
        print(json.dumps({"type": "control_response", "response": response}), flush=True)
        continue
    step = steps.pop(0)
    text = json.loads(line)["message"]["content"][0]["text"]
    print("a word beside the protocol", flush=True)
    if step.get("init", True):
        print(json.dumps({"type": "system", "subtype": "init", "tools": step.get("tools", []), "mcp_servers": []}))
    called = [{"type": "tool_use", "name": name} for name in step.get("calls", [])]
    print(json.dumps({"type": "assistant", "message": {"content": called}, "error": step.get("trouble")}))
    marks = [word for word in text.split() if word[:1] == "c" and word[1:].isdigit()]
    say = step["say"].replace("MARK", marks[0] if marks else "")
    print(json.dumps({"type": "result", "result": say, "is_error": step.get("error", False),
                      "api_error_status": step.get("status"),
                      "usage": {"input_tokens": step.get("tokens", 5), "output_tokens": 2}}), flush=True)
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
        return ToolFreeModel("claude-code", tmp_path / "empty", dict(os.environ), str(run))

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
        ([{"say": '{"lookup": "find_chats", "argument": "x"}', "tokens": 30_000}], Trouble.GREEDY),
        ([{"say": "{}", "calls": ["Bash"]}], Trouble.BROKEN),
        ([{"say": "no more", "error": True, "status": 429}], Trouble.QUOTA),
        ([{"say": "no more", "error": True, "trouble": "rate_limit"}], Trouble.QUOTA),
        ([{"say": "the limit of what I can do", "error": True}], Trouble.FAILED),
        ([{"ready": "error"}], Trouble.START_FAILED),
        ([], Trouble.START_FAILED),
    ],
    ids=[
        *("tools", "silent-about-tools", "words", "invented", "greedy", "many-tokens", "calls-a-tool"),
        *("quota", "account", "failed", "not-ready", "ends"),
    ],
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
        assert REFUSED.get(name, "nobody has tried") in done.message
    assert not (tmp_path / "empty").exists()


def test_a_program_that_never_gets_ready_is_ended(controller, chats, tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "START_SECONDS", 0.3)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o700)
    done = found_with(controller, ToolFreeModel("claude-code", tmp_path / "e", dict(os.environ), str(program)))
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.TIMED_OUT)
    assert done.elapsed_seconds >= 0.3
    assert done.model_seconds == 0
    if (tmp_path / "pid").exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_program_that_is_not_there_is_no_error(controller, chats, tmp_path):
    done = found_with(controller, ToolFreeModel("claude-code", tmp_path / "e", {"PATH": "/nowhere"}))
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, Trouble.START_FAILED)


# Started ahead


class Counted:
    """A model that counts what is started and closed."""

    name = "counted"

    def __init__(self, trouble=None):
        self.started = self.closed = 0
        self.trouble = trouble

    async def start(self):
        self.started += 1
        if self.trouble is not None:
            raise self.trouble
        return self

    async def close(self):
        self.closed += 1


class MovedClock(SystemClock):
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.moment


async def until(condition):
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - the model that is watched knows nobody to tell
            await anyio.sleep(0.002)


@pytest.mark.anyio
async def test_a_model_is_started_ahead_once_used_once_and_expires():
    clock = MovedClock()
    model, ahead = Counted(), Prestarted(clock)
    ahead.offer(model)
    ahead.offer(model)
    other = Counted()
    other.name = "another"
    assert await ahead.take(other) is None
    assert await ahead.take(model) is model
    assert await ahead.take(model) is None
    assert (model.started, model.closed) == (1, 0)
    ahead.offer(model)
    clock.moment += timedelta(seconds=EXPIRY_SECONDS - 0.001)
    assert await ahead.take(model) is model
    ahead.offer(model)
    await until(lambda: model.started == 3)
    clock.moment += timedelta(seconds=EXPIRY_SECONDS)
    assert await ahead.take(model) is None
    assert model.closed == 1
    await ahead.close()
    assert model.closed == 1


@pytest.mark.anyio
async def test_a_model_that_nobody_asks_is_given_up_by_itself():
    model, ahead = Counted(), Prestarted(SystemClock(), expiry_seconds=0.01)
    ahead.offer(model)
    await until(lambda: model.closed)
    assert await ahead.take(model) is None
    # And another may be started then.
    ahead.offer(model)
    await until(lambda: model.closed == 2)
    assert model.started == 2
    assert EXPIRY_SECONDS == 180


@pytest.mark.anyio
async def test_a_model_that_does_not_start_ahead_is_started_again_by_the_question():
    model, ahead = Counted(RuntimeError("no")), Prestarted(SystemClock())
    ahead.offer(model)
    assert await ahead.take(model) is None
    ahead.offer(model)
    await until(lambda: model.started == 2)
    await ahead.close()
    assert model.closed == 0
