"""Turns with a real agent process, recorded on both databases."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.adapters.acp.harness import AcpHarness
from bridge.adapters.conversation import Limits
from bridge.control.contexts.building import build_context
from bridge.control.controller import Controller
from bridge.control.conversing import store as rows
from bridge.control.conversing.chatting import Chat, ChatOptions, Recorded, TurnBegan, TurnEnded
from bridge.control.conversing.sweeping import REASON, sweep
from bridge.control.errors import TurnRunning
from bridge.control.sessions import SessionRequest, start_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import HeadMoved
from bridge.conversations.models import Entry, EntryDraft
from bridge.conversations.paths import active_path
from bridge.conversations.store import iterate_entries, list_cursors
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.process.identity import Marker, ProcessIdentity, marked_processes

ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(silence_seconds=60, start_seconds=60, cancel_seconds=30, grace_seconds=0.3)
pytestmark = pytest.mark.anyio


@pytest.fixture
def controller(database_url: str, bridge_home: Path) -> Iterator[Controller]:
    settings = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": database_url})
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    with Controller(settings, clock=SystemClock(), environment=environment) as opened:
        yield opened


@pytest.fixture
def session_id(controller: Controller, repository: Any) -> str:
    return start_session(controller, Standpoint(directory=repository.path), SessionRequest()).session.id


@pytest.fixture
def make(controller: Controller, session_id: str, tmp_path: Path) -> Callable[..., Chat]:
    command = (sys.executable, "-m", "bridge.adapters.scripted", "--state", str(tmp_path / "sessions"))

    def chat(**options: Any) -> Chat:
        harness = AcpHarness("scripted", command, allowed=frozenset({"fs", "resume", "load"}))
        settings = {"directory": tmp_path, "limits": LIMITS} | options
        return Chat(controller, session_id, harness, ChatOptions(**settings))

    return chat


def path(controller: Controller, session_id: str) -> list[Entry]:
    with controller.store.read() as connection:
        return active_path(connection, session_id)


async def said(chat: Chat, text: str, **options: Any) -> tuple[TurnBegan, TurnEnded, list[str]]:
    began: TurnBegan | None = None
    texts: list[str] = []
    async for report in chat.send(text, **options):
        match report:
            case TurnBegan():
                began = report
            case Recorded(entry):
                texts += [entry.payload["text"]] if entry.kind == "assistant.message" else []
            case TurnEnded():
                ended = report
    assert began is not None
    return began, ended, texts


async def test_the_ways_in_which_an_agent_knows(make, controller, session_id):
    chat = make()
    assert (await said(chat, "one"))[0].mode == "fresh"
    assert (await said(chat, "two"))[0].mode == "hot"
    # What no agent is told makes no difference; what it is told does.
    controller.recorder.append_now(session_id, EntryDraft(kind="usage.updated", payload={"tokens": {"input": 1}}))
    assert (await said(chat, "three"))[0].mode == "hot"
    controller.recorder.append_now(session_id, EntryDraft(kind="note", payload={"text": "mind the gap"}))
    began, _, texts = await said(chat, "!context")
    assert began.mode == "fresh"
    assert "mind the gap" in texts[0]
    await chat.close()
    again = make()
    assert (await said(again, "four"))[0].mode == "native_resume"
    first = next(entry for entry in path(controller, session_id) if entry.kind == "turn.completed")
    controller.recorder.move_head(session_id, first.id)
    began, _, texts = await said(again, "!context")
    assert began.mode == "fresh"
    assert "two" not in texts[0]
    await again.close()


async def test_the_model_is_recorded_where_it_changes_and_told_in_the_context(make, controller, session_id):
    for options in ({}, {"model": "scripted-2"}):
        chat = make(**options)
        await said(chat, "one")
        await said(chat, "two")
        await chat.close()
    changes = [entry.payload for entry in path(controller, session_id) if entry.kind == "model.changed"]
    assert [(change["model"], change.get("previous")) for change in changes] == [
        ("scripted-1", None),
        ("scripted-2", "scripted-1"),
    ]
    report = build_context(controller, Standpoint(session=session_id), session_id)
    assert report.projection.model == "scripted-2"
    assert "Model: scripted-2." in report.text()
    # Where one went back to, the model is the one of that place, and what answers there next is another.
    first = next(entry for entry in path(controller, session_id) if entry.kind == "turn.completed")
    controller.recorder.move_head(session_id, first.id)
    assert build_context(controller, Standpoint(session=session_id), session_id).projection.model == "scripted-1"


async def test_nothing_is_sent_where_the_conversation_is_not(make, controller, session_id):
    chat = make()
    await said(chat, "one")
    before = path(controller, session_id)[-1].id
    controller.recorder.append_now(session_id, EntryDraft(kind="note", payload={"text": "meanwhile"}))
    count = len(path(controller, session_id))
    with pytest.raises(HeadMoved):
        await said(chat, "two", expected_head=before)
    assert [entry.kind for entry in path(controller, session_id)][count:] in ([], ["session.status"])
    await chat.close()


async def test_a_second_turn_is_refused_where_one_runs_and_taken_elsewhere(make, controller, session_id):
    one, two = make(), make()
    await said(one, "start")
    start = path(controller, session_id)[-1].id
    refused = False
    reports = one.send("!plan a\n!sleep 600")
    async for report in reports:
        if isinstance(report, Recorded) and report.entry.kind == "plan.updated":
            with pytest.raises(TurnRunning):
                await said(two, "me too")
            refused = True
            controller.recorder.move_head(session_id, start)
            await said(two, "elsewhere")
            await one.cancel()
    assert refused
    await one.close()
    await two.close()
    active = [entry.payload["text"] for entry in path(controller, session_id) if entry.kind == "user.message"]
    assert active == ["start", "elsewhere"]
    with controller.store.read() as connection:
        every = list(iterate_entries(connection, session_id))
        assert list_cursors(connection, session_id) == []
        assert rows.list_agents(connection) == []
    asked = next(entry for entry in every if entry.payload.get("text") == "!plan a\n!sleep 600")
    ended = next(entry for entry in every if entry.payload.get("status") == "cancelled")
    by_id = {entry.id: entry for entry in every}
    above: Entry | None = ended
    while above is not None and above.id != asked.id:
        above = by_id.get(above.parent_entry_id or "")
    assert above is asked


async def test_a_turn_that_is_left_is_closed(make, controller, session_id):
    chat = make()
    with anyio.move_on_after(60) as scope:
        async for report in chat.send("!plan a\n!sleep 600"):
            if isinstance(report, Recorded):
                scope.cancel()
    await chat.close()
    last = path(controller, session_id)[-1]
    assert (last.kind, last.payload["status"]) == ("turn.completed", "cancelled")
    assert list(controller.settings.chats.iterdir()) == []


async def test_what_no_entry_can_hold_is_kept_in_words(make, controller, session_id):
    chat = make()
    _, ended, _ = await said(chat, "!result " + '{"deep": ' + "[" * 300 + "]" * 300 + "}\n!say fine")
    assert ended.status == "completed"
    await chat.close()


async def test_a_harness_that_fails_to_start_records_nothing(make, controller, session_id):
    chat = make()
    chat.harness = replace(chat.harness, command=("no-such-program",))
    before = path(controller, session_id)
    with pytest.raises(Exception, match="not found"):
        await said(chat, "hello")
    assert path(controller, session_id) == before
    with controller.store.read() as connection:
        assert rows.list_agents(connection) == []
    assert list(controller.settings.chats.iterdir()) == []


async def test_after_a_killed_chat_its_agent_is_ended_and_its_turn_closed_once(make, controller, session_id):
    chat = make()
    gone = ProcessIdentity(2**22 + 1, 1.0)
    async with aclosing(chat.send("!plan a\n!stall")) as reports:
        async for report in reports:
            if isinstance(report, Recorded):
                break
    # As if this process had been killed: its row names one that is gone, and nothing was closed.
    marker = Marker(chat._agent_id or "")
    assert sweep(controller) == []
    await chat.close()
    agent = rows.ChatAgent(marker.value, session_id, "scripted", platform.node(), gone, None, "t9", controller.now())
    controller.store.write(lambda tx: rows.add_agent(tx.connection, agent))
    controller.recorder.transact(lambda recording: recording.open_cursor(session_id, marker.value))
    stamp = path(controller, session_id)[-1].stamp
    swept = sweep(controller, grace_seconds=0.3)
    assert [(item.session_id, item.turn_entry_id is not None) for item in swept] == [(session_id, True)]
    assert sweep(controller) == []
    assert marked_processes(marker) == []
    error, last = path(controller, session_id)[-2:]
    assert (error.kind, error.payload["code"]) == ("error", "chat_killed")
    assert (last.payload["reason"], last.stamp) == (REASON, stamp)
