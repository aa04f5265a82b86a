"""Subscriptions over a connection: order, filters, cursors over reconnects, slow readers, and what an agent sees."""

from __future__ import annotations

import asyncio
import json

import anyio
import pytest

from bridge.control import feed as feeds
from bridge.control.resident import end_resident
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.rpc.connection import Connection, Limits
from bridge.rpc.roles import Caller, Role

pytestmark = pytest.mark.anyio


class Client:
    """One connection, with what came over it."""

    def __init__(self, controller, role=Role.OPERATOR, session=None, **limits):
        caller = Caller(role, Standpoint(session=session), session if role is Role.AGENT else None)
        self.received = []
        self.stalled = None
        self.connection = Connection(controller, caller, self.keep, limits=Limits(**limits))
        self.calls = 0

    async def keep(self, message):
        if self.stalled is not None:
            await self.stalled.wait()
        self.received.append(json.loads(message))

    async def call(self, method, **params):
        self.calls += 1
        request = {"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params}
        identity = self.calls
        await self.connection.receive(json.dumps(request).encode())
        await self.until(lambda: any(one.get("id") == identity for one in self.received))
        (answer,) = [one for one in self.received if one.get("id") == identity]
        return answer.get("result") or answer["error"]

    async def until(self, condition):
        with anyio.fail_after(60):
            while not condition():  # noqa: ASYNC110 - what is waited for happens in threads
                await asyncio.sleep(0.002)

    def events(self, name="events/event"):
        told = [one for one in self.received if isinstance(one, dict)]
        return [one["params"] for one in told if one.get("method") == name]

    async def some(self, count):
        await self.until(lambda: len(self.events()) >= count)
        return self.events()


@pytest.fixture
async def connect(controller):
    made = []

    def go(**how):
        made.append(Client(controller, **how))
        return made[-1]

    yield go
    for one in made:
        if one.stalled is not None:
            one.stalled.set()
        await one.connection.aclose()
    await end_resident(controller)


@pytest.fixture
def session(controller):
    return controller.recorder.create_session(NewSession()).id


def say(controller, session, text="x"):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text})).id


async def test_events_follow_the_answer_and_each_other(connect, controller, session):
    client = connect()
    cursor = (await client.call("sessions/snapshot", session=session))["event_cursor"]
    entries = [say(controller, session, str(number)) for number in range(50)]
    subscribed = await client.call("events/subscribe", session=session, cursor=cursor)
    found = await client.some(50)
    assert [one["event"]["facts"]["entry_id"] for one in found] == entries
    assert {one["subscription"] for one in found} == {subscribed["subscription"]}
    kinds = [one.get("method") for one in client.received]
    assert kinds.index("events/event") > [one.get("id") for one in client.received].index(2)


async def test_in_a_batch_events_follow_the_answer_as_well(connect, controller, session):
    client = connect()
    say(controller, session)
    requests = [
        {"jsonrpc": "2.0", "id": "s", "method": "events/subscribe", "params": {"cursor": "0"}},
        {"jsonrpc": "2.0", "id": "l", "method": "sessions/list", "params": {"everywhere": True}},
    ]
    await client.connection.receive(json.dumps(requests).encode())
    await client.some(2)
    assert isinstance(client.received[0], list)


async def test_a_cursor_carries_on_over_a_reconnect(connect, controller, session):
    first = connect()
    subscribed = await first.call("events/subscribe", session=session)
    say(controller, session, "one")
    await first.some(1)
    ended = await first.call("events/unsubscribe", subscription=subscribed["subscription"])
    assert ended["cursor"] == first.events()[0]["cursor"]
    again = await first.call("events/unsubscribe", subscription=subscribed["subscription"])
    assert again["data"]["code"] == "subscription_not_found"
    missed = say(controller, session, "missed")
    assert len(first.events()) == 1
    second = connect()
    await second.call("events/subscribe", session=session, cursor=ended["cursor"])
    (found,) = await second.some(1)
    assert found["event"]["facts"]["entry_id"] == missed
    unknown = await second.call("events/subscribe", cursor="7.00000000")
    assert unknown["data"]["code"] == "event_cursor_unknown"


async def test_types_and_sessions_are_chosen(connect, controller, session):
    other = controller.recorder.create_session(NewSession()).id
    client = connect()
    await client.call("events/subscribe", session=session, types=["label.set"])
    entry = say(controller, session)
    controller.recorder.label(other, say(controller, other), "elsewhere")
    controller.recorder.label(session, entry, "here")
    (found,) = await client.some(1)
    assert (found["event"]["type"], found["event"]["facts"]["name"]) == ("label.set", "here")


async def test_an_agent_sees_its_own_session_only(connect, controller, session):
    other = controller.recorder.create_session(NewSession()).id
    client = connect(role=Role.AGENT, session=session)
    await client.call("events/subscribe", cursor="0")
    say(controller, other)
    entry = say(controller, session)
    found = await client.some(2)
    assert [one["event"]["type"] for one in found] == ["session.created", "entry.appended"]
    assert found[1]["event"]["facts"]["entry_id"] == entry
    refused = await client.call("events/subscribe", session=other)
    assert refused["data"]["code"] == "session_not_found"
    await client.some(3)
    assert client.events()[2]["event"]["type"] == "access.refused"


async def test_subscriptions_are_bounded(connect):
    client = connect(subscriptions=2)
    for _ in range(2):
        await client.call("events/subscribe")
    refused = await client.call("events/subscribe")
    assert refused["data"]["code"] == "too_many_calls"
    await client.call("events/unsubscribe", subscription="s1")
    assert "subscription" in await client.call("events/subscribe")


async def test_who_does_not_read_is_told_and_loses_nothing(connect, controller, session, monkeypatch):
    monkeypatch.setattr(feeds, "KEPT_EVENTS", 20)
    monkeypatch.setattr(feeds, "PAGE", 10)
    slow, quick = connect(), connect()
    for client in (slow, quick):
        await client.call("events/subscribe", session=session)
    say(controller, session, "first")
    for client in (slow, quick):
        await client.some(1)
    slow.stalled = asyncio.Event()
    entries = []
    for number in range(100):
        entries.append(await anyio.to_thread.run_sync(say, controller, session, str(number)))
        await quick.some(number + 2)
    slow.stalled.set()
    found = await slow.some(101)
    assert [one["event"]["facts"]["entry_id"] for one in found[1:]] == entries
    (lagged,) = slow.events("events/lagged")
    assert lagged["subscription"] == "s1"
    assert lagged["behind"] > 20
    assert quick.events("events/lagged") == []


async def test_closing_ends_subscriptions_also_of_who_does_not_read(connect, controller, session):
    client = connect()
    await client.call("events/subscribe")
    client.stalled = asyncio.Event()
    say(controller, session)
    await asyncio.sleep(0.1)
    with anyio.fail_after(10):
        await client.connection.aclose()
    assert feeds.feed_of(controller)._subscriptions == set()


async def test_a_delegation_is_followed_from_request_to_end(connect, controller, repository):
    client = connect()
    workspace = await client.call("workspaces/init", path=str(repository.path))
    session = (await client.call("sessions/new", workspace=workspace["id"]))["id"]
    await client.call("events/subscribe", session=session)
    asked = await client.call("delegations/request", session=session, objective="x", command=["true"], name="one")
    assert asked["status"] == "queued"
    ended = await client.call("delegations/wait", task=asked["id"], timeout_ms=60_000)
    assert (ended["ended"], ended["status"]) == (True, "completed")
    await client.until(lambda: any(one["event"]["type"] == "delegation.ended" for one in client.events()))
    steps = [one["event"]["type"] for one in client.events() if one["event"]["type"].startswith("delegation.")]
    assert steps[:2] == ["delegation.queued", "delegation.decided"]
