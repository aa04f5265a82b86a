"""The door over HTTP, through real sockets, with clients of other makers."""

from __future__ import annotations

import asyncio
import json
import os
import stat

import anyio
import httpx
import pytest
import websockets

from bridge.control.controller import Controller
from bridge.control.resident import end_resident
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.rpc.messages import MAX_MESSAGE_BYTES
from bridge.web.binding import Binding
from bridge.web.errors import DoorNotOpened
from bridge.web.serving import DOOR_FILE, serve_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def controller(bridge_home):
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def session(controller):
    return controller.recorder.create_session(NewSession(label="web")).id


class Door:
    def __init__(self, controller):
        self.controller = controller
        self.file = controller.settings.home / "run" / DOOR_FILE

    async def open(self, **how):
        opened = asyncio.Event()
        self.task = asyncio.ensure_future(serve_http(self.controller, ready=lambda _url: opened.set(), **how))
        waiting = asyncio.ensure_future(opened.wait())
        await asyncio.wait([self.task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            waiting.cancel()
            await self.task
        self.told = json.loads(self.file.read_bytes())
        self.url = self.told["url"]
        return self

    async def close(self):
        self.task.cancel()
        with anyio.fail_after(20):
            await asyncio.wait([self.task])

    def client(self, token="operator", **headers):
        value = self.told.get(token, token)
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {value}", **headers}, trust_env=False, timeout=30
        )

    def socket(self, token="operator", **how):
        how.setdefault("additional_headers", {"Authorization": f"Bearer {self.told.get(token, token)}"})
        return websockets.connect(self.url.replace("http", "ws") + "/rpc", proxy=None, **how)


@pytest.fixture
async def door(controller):
    opened = await Door(controller).open()
    yield opened
    await opened.close()
    await end_resident(controller)


def request(identity, method, **params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def say(controller, session, text="x"):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text})).id


async def test_calls_by_post(door, session):
    async with door.client() as client:
        answer = await client.post("/rpc", json=request(1, "sessions/list", everywhere=True))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert [one["id"] for one in answer.json()["result"]["sessions"]] == [session]
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        batch = await client.post("/rpc", json=[request(1, "admin/ping"), request(2, "no/such")])
        assert [one["id"] for one in batch.json()] == [1, 2]
        quiet = await client.post("/rpc", json={"jsonrpc": "2.0", "method": "admin/ping"})
        assert (quiet.status_code, quiet.content) == (204, b"")
        broken = await client.post("/rpc", content=b"{", headers={"content-type": "application/json"})
        assert broken.json()["error"]["code"] == -32700
        refused = await client.post("/rpc", json=request(1, "events/subscribe"))
        assert refused.json()["error"]["data"]["code"] == "too_many_calls"


async def test_the_file_tells_only_its_owner_where_the_door_is(door):
    assert stat.S_IMODE(door.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(door.file.parent.stat().st_mode) == 0o700
    assert door.url.startswith("http://127.0.0.1:")
    assert door.told["operator"] != door.told["observer"]
    await door.close()
    assert not door.file.exists()
    assert [one.name for one in door.file.parent.iterdir()] == []


async def test_roles_go_by_token(controller, session):
    door = await Door(controller).open(agents={"agent-token": session})
    other = controller.recorder.create_session(NewSession()).id
    async with door.client("observer") as client:
        answer = await client.post("/rpc", json=request(1, "sessions/new"))
        assert answer.json()["error"]["data"]["details"]["reason"] == "not_permitted"
    async with door.client("agent-token") as client:
        assert (await client.post("/rpc", json=request(1, "sessions/show"))).json()["result"]["id"] == session
        answer = await client.post("/rpc", json=request(1, "sessions/show", session=other))
        assert answer.json()["error"]["data"]["code"] == "session_not_found"
    await door.close()
    await end_resident(controller)


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({"Host": "evil.example"}, 421, "host"),
        ({"Origin": "http://evil.example"}, 403, "origin"),
        ({"Origin": "null"}, 403, "origin"),
        ({"Authorization": "Bearer wrong"}, 401, "token"),
        ({"Authorization": ""}, 401, "token"),
        ({"Content-Type": "text/plain"}, 415, "content_type"),
    ],
)
async def test_who_is_not_let_in(door, headers, status, reason):
    body = json.dumps(request(1, "admin/ping")).encode()
    async with door.client() as client:
        answer = await client.post("/rpc", content=body, headers={"Content-Type": "application/json", **headers})
        assert (answer.status_code, answer.json()["error"]["reason"]) == (status, reason)
        if reason != "content_type":
            answer = await client.get("/events", headers=headers)
            assert answer.status_code == status
            sent = {"Authorization": f"Bearer {door.told['operator']}", **headers}
            with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
                async with door.socket(additional_headers=sent):
                    pass
            # The library sends its own Host besides; two of them are no request at all.
            assert refused.value.response.status_code in (status, 400)


async def test_a_body_has_a_limit_whether_it_is_announced_or_not(door):
    padding = b" " * MAX_MESSAGE_BYTES
    body = json.dumps(request(1, "admin/ping")).encode()
    headers = {"Content-Type": "application/json"}
    async with door.client() as client:
        fits = await client.post("/rpc", content=body + padding[len(body) :], headers=headers)
        assert fits.status_code == 200
        answer = await client.post("/rpc", content=body + padding, headers=headers)
        assert (answer.status_code, answer.json()["error"]["reason"]) == (413, "too_large")

        async def pieces():
            for _ in range(10):
                yield padding[: MAX_MESSAGE_BYTES // 8]

        answer = await client.post("/rpc", content=pieces(), headers=headers)
        assert answer.status_code == 413


@pytest.fixture
def slow_rate(monkeypatch):
    # What refills the reserve while the test runs would depend on the machine.
    monkeypatch.setattr("bridge.web.guarding.CALLS_PER_SECOND", 0.0)
    monkeypatch.setattr("bridge.web.guarding.CALLS_AT_ONCE", 20)


async def test_calls_have_a_rate(slow_rate, door):
    async with door.client() as client:
        answers = [await client.post("/rpc", json=request(1, "admin/ping")) for _ in range(21)]
        assert [one.status_code for one in answers] == [200] * 20 + [429]
        assert (answers[-1].json()["error"]["reason"], answers[-1].headers["retry-after"]) == ("calls", "1")
    async with door.client("observer") as client:
        assert (await client.post("/rpc", json=request(1, "admin/ping"))).status_code == 200


async def test_other_paths_and_methods_do_not_exist(door):
    async with door.client() as client:
        for path in ("/", "/rpc/x", "/docs", "/openapi.json", "/../http.json"):
            assert (await client.get(path)).status_code == 404
        assert (await client.get("/rpc")).status_code == 405
        assert (await client.options("/rpc")).status_code == 405


async def test_a_websocket_answers_and_tells_events(door, controller, session):
    async with door.socket() as socket:
        await socket.send(json.dumps(request(1, "events/subscribe", session=session)))
        assert json.loads(await socket.recv())["result"]["subscription"] == "s1"
        entry = await anyio.to_thread.run_sync(say, controller, session)
        event = json.loads(await socket.recv())
        assert event["params"]["event"]["facts"]["entry_id"] == entry
        # As bytes as well, and many at once.
        for number in range(20):
            await socket.send(json.dumps(request(number, "admin/ping")).encode())
        answers = [json.loads(await socket.recv())["id"] for _ in range(20)]
        assert answers == list(range(20))


async def test_a_page_hands_its_token_over_as_a_protocol(door):
    own = {"Origin": door.url}
    protocols = ["bridge", f"bearer.{door.told['observer']}"]
    async with door.socket(additional_headers=own, subprotocols=protocols) as socket:
        assert socket.subprotocol == "bridge"
        await socket.send(json.dumps(request(1, "admin/ping")))
        assert "result" in json.loads(await socket.recv())
    with pytest.raises(websockets.exceptions.InvalidStatus):
        async with door.socket(additional_headers=own, subprotocols=["bridge", "bearer.wrong"]):
            pass


async def test_a_frame_has_a_limit(door):
    async with door.socket(max_size=None) as socket:
        await socket.send("x" * (MAX_MESSAGE_BYTES + 1))
        with pytest.raises(websockets.exceptions.ConnectionClosedError) as closed:
            await socket.recv()
        assert closed.value.rcvd.code == 1009


async def test_a_flood_is_ended(slow_rate, door):
    async with door.socket() as socket:
        for _ in range(20):
            await socket.send(json.dumps({"jsonrpc": "2.0", "method": "admin/ping"}))
        with pytest.raises(websockets.exceptions.ConnectionClosedError) as closed:
            await socket.recv()
        assert closed.value.rcvd.code == 1013


async def test_events_stream_and_go_on_from_the_last_id(door, controller, session):
    entries = [say(controller, session, str(number)) for number in range(3)]
    async with door.client() as client:
        found = await take(client, {"session": session, "cursor": "0", "types": "entry.appended"}, 3)
        assert [data["facts"]["entry_id"] for _, data in found] == entries
        later = say(controller, session, "later")
        again = await take(client, {"session": session}, 1, {"Last-Event-ID": found[1][0]})
        assert again[0][1]["facts"]["entry_id"] == entries[2]
        again = await take(client, {"session": session}, 1, {"Last-Event-ID": found[2][0]})
        assert again[0][1]["facts"]["entry_id"] == later
        refused = await client.get("/events", params={"session": "nope"})
        assert (refused.status_code, refused.json()["data"]["code"]) == (400, "session_not_found")
        refused = await client.get("/events", params={"unheard_of": "1"})
        assert refused.json()["data"]["code"] == "invalid_params"


async def take(client, params, count, headers=None):
    found, identity = [], None
    with anyio.fail_after(60):
        async with client.stream("GET", "/events", params=params, headers=headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            name = None
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    identity = value
                elif field == "event":
                    name = value
                elif field == "data" and name == "events/event":
                    found.append((identity, json.loads(value)))
                    if len(found) == count:
                        return found
    return found


async def test_a_quiet_stream_says_that_it_is_there(door, monkeypatch):
    monkeypatch.setattr("bridge.web.door.HEARTBEAT_SECONDS", 0.05)
    with anyio.fail_after(30):
        async with door.client() as client, client.stream("GET", "/events") as stream:
            async for line in stream.aiter_lines():
                if line == ": still here":
                    return


async def test_who_goes_away_leaves_nothing_behind(door, controller):
    from bridge.control.feed import feed_of

    async with door.client() as client, client.stream("GET", "/events"):
        pass
    async with door.socket() as socket:
        await socket.send(json.dumps(request(1, "events/subscribe")))
        await socket.recv()
    with anyio.fail_after(30):
        while feed_of(controller)._subscriptions:  # noqa: ASYNC110 - what is left
            await asyncio.sleep(0.01)


async def test_closing_the_door_ends_open_streams(controller, session):
    door = await Door(controller).open()
    async with door.socket() as socket, door.client() as client, client.stream("GET", "/events") as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        closing = asyncio.ensure_future(door.close())
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            await socket.recv()
        await closing
    await end_resident(controller)


async def test_nothing_listens_beyond_loopback_unless_told_to(controller):
    with pytest.raises(DoorNotOpened):
        await Door(controller).open(binding=Binding(host="0.0.0.0"))
    told = Binding(host="0.0.0.0", is_remote_allowed=True, names=frozenset({"127.0.0.1"}))
    door = await Door(controller).open(binding=told)
    door.url = door.url.replace("0.0.0.0", "127.0.0.1")
    async with door.client("wrong") as client:
        assert (await client.post("/rpc", json=request(1, "admin/ping"))).status_code == 401
    async with door.client() as client:
        assert (await client.post("/rpc", json=request(1, "admin/ping"))).status_code == 200
    await door.close()
    await end_resident(controller)
