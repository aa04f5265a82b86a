"""Many calls over one connection: at once and in order, cancelled, too late, too many, and closed amid all that."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionNotFound
from bridge.rpc.connection import Connection, Limits
from bridge.rpc.messages import MAX_DEADLINE_MS
from bridge.rpc.methods.method import Method, Mode
from bridge.rpc.methods.shapes import param
from bridge.rpc.methods.table import METHODS
from bridge.rpc.roles import EVERYONE, Caller, Role

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str = param("Its name.")


class Scene:
    """A connection with methods that wait until they are let go on, and a record of what began and was answered."""

    def __init__(self, controller: Any) -> None:
        self.controller = controller
        self.begun: list[str] = []
        self.done: list[str] = []
        self.answers: list[Any] = []
        self.gates: dict[str, threading.Event] = {}
        self.open_at_once = False
        self.stalled: asyncio.Event | None = None

    def connect(self, **limits: int) -> Connection:
        caller = Caller(Role.OPERATOR, Standpoint())
        self.connection = Connection(self.controller, caller, self.keep, limits=Limits(**limits))
        return self.connection

    async def keep(self, message: bytes) -> None:
        if self.stalled is not None:
            await self.stalled.wait()
        self.answers.append(json.loads(message))

    def block(self, _call: Any, params: Named) -> dict[str, Any]:
        self.begun.append(params.name)
        if not self.open_at_once:
            assert self.gate(params.name).wait(30)
        self.done.append(params.name)
        return {"name": params.name}

    async def wait(self, _call: Any, params: Named) -> dict[str, Any]:
        self.begun.append(params.name)
        await asyncio.Event().wait()
        return {}

    async def start(self, call: Any, params: Named) -> dict[str, Any]:
        return await asyncio.get_running_loop().run_in_executor(None, self.block, call, params)

    def gate(self, name: str) -> threading.Event:
        return self.gates.setdefault(name, threading.Event())

    def methods(self) -> dict[str, Method]:
        made = {}
        for mode in (Mode.READ, Mode.CHANGE, Mode.ACT):
            made[f"test/{mode}"] = Method(f"test/{mode}", "", Named, {}, self.block, EVERYONE, (), mode)
        made["test/start"] = Method("test/start", "", Named, {}, self.start, EVERYONE, (), Mode.START)
        made["test/wait"] = Method("test/wait", "", Named, {}, self.wait, EVERYONE, (), Mode.WAIT)
        return made

    async def send(self, mode: str, name: str | None, *, meta: Any = None, **more: Any) -> None:
        request = request_of(f"test/{mode}", name, name=name)
        if meta is not None:
            request["meta"] = meta
        await self.connection.receive(json.dumps({**request, **more}).encode())

    async def cancel(self, identity: Any) -> str:
        request = request_of("$/cancel", "cancel", id=identity)
        before = len(self.answers)
        await self.connection.receive(json.dumps(request).encode())
        assert self.answers[before]["id"] == "cancel", "told at once, before the answer of what was cancelled"
        return self.answers.pop(before)["result"]["state"]

    async def until(self, condition: Any) -> None:
        with anyio.fail_after(30):
            while not condition():  # noqa: ASYNC110 - what is waited for happens in threads
                await asyncio.sleep(0.002)

    def answered(self) -> list[Any]:
        return [one["id"] for one in self.answers]


def request_of(method: str, identity: Any, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


@pytest.fixture
async def scene(controller, monkeypatch):
    made = Scene(controller)
    monkeypatch.setattr("bridge.rpc.dispatch.METHODS", {**METHODS, **made.methods()})
    yield made
    made.open_at_once = True
    for gate in made.gates.values():
        gate.set()
    await made.connection.aclose()


async def test_answers_come_as_they_are_ready(scene):
    scene.connect()
    await scene.send("read", "slow")
    await scene.send("read", "quick")
    await scene.until(lambda: len(scene.begun) == 2)
    scene.gate("quick").set()
    await scene.until(lambda: scene.answered() == ["quick"])
    scene.gate("slow").set()
    await scene.connection.drain()
    assert scene.answered() == ["quick", "slow"]


async def test_changes_are_made_in_order_and_seen_by_what_was_sent_after_them(scene):
    scene.connect()
    await scene.send("read", "before")
    for name in ("one", "two"):
        await scene.send("change", name)
    await scene.send("act", "act")
    await scene.send("read", "after")
    await scene.until(lambda: sorted(scene.begun) == ["before", "one"])
    await asyncio.sleep(0.05)
    assert sorted(scene.begun) == ["before", "one"], "nothing overtakes a change, but for what was sent before it"
    for name in ("after", "act", "before", "two"):
        scene.gate(name).set()
    scene.gate("one").set()
    await scene.connection.drain()
    assert [name for name in scene.done if name in ("one", "two")] == ["one", "two"]
    assert scene.begun.index("after") > scene.begun.index("two")
    assert scene.begun.index("act") > scene.begun.index("two")


async def test_a_change_that_waits_is_cancelled_and_the_next_still_waits_its_turn(scene):
    scene.connect()
    for name in ("one", "two", "three"):
        await scene.send("change", name)
    await scene.until(lambda: scene.begun == ["one"])
    assert await scene.cancel("two") == "cancelled"
    await scene.until(lambda: scene.answered() == ["two"])
    error = scene.answers[0]["error"]
    assert (error["code"], error["data"]["code"]) == (226, "call_cancelled")
    assert scene.begun == ["one"], "the third waits for the first all the same"
    scene.gate("three").set()
    scene.gate("one").set()
    await scene.connection.drain()
    assert scene.done == ["one", "three"]


@pytest.mark.parametrize("mode", ["change", "act", "start"])
async def test_a_change_that_has_begun_is_finished_and_says_so(scene, mode):
    scene.connect()
    await scene.send(mode, "one", meta={"deadline_ms": 20})
    await scene.until(lambda: scene.begun == ["one"])
    assert await scene.cancel("one") == "finishing"
    await asyncio.sleep(0.05)
    assert scene.answers == []
    scene.gate("one").set()
    await scene.connection.drain()
    assert scene.answers == [{"jsonrpc": "2.0", "id": "one", "result": {"name": "one"}}]
    assert await scene.cancel("one") == "unknown"


@pytest.mark.parametrize("mode", ["read", "wait"])
async def test_what_only_looks_is_given_up_at_any_time(scene, mode):
    scene.connect()
    await scene.send(mode, "one")
    await scene.send(mode, "two", meta={"deadline_ms": 30})
    await scene.until(lambda: len(scene.begun) == 2)
    assert await scene.cancel("one") == "cancelled"
    await scene.until(lambda: len(scene.answers) == 2)
    told = {one["id"]: one["error"]["data"] for one in scene.answers}
    assert told["one"]["code"] == "call_cancelled"
    assert told["two"]["code"] == "deadline_exceeded"
    assert told["two"]["details"] == {"deadline_ms": 30}


async def test_cancelling_what_is_not_there(scene):
    scene.connect()
    await scene.send("read", None)
    await scene.until(lambda: scene.begun == [None] or scene.answers)
    for identity in ("one", 1, "1"):
        assert await scene.cancel(identity) == "unknown"


async def test_ids_are_told_apart_as_json_does(scene):
    scene.connect()
    await scene.send("wait", "x", id=1)
    await scene.until(lambda: scene.begun)
    assert await scene.cancel("1") == "unknown"
    assert await scene.cancel(1) == "cancelled"
    await scene.until(lambda: scene.answered() == [1])


@pytest.mark.parametrize("meta", [{"deadline_ms": 0}, {"deadline_ms": MAX_DEADLINE_MS + 1}, {"deadline_ms": True}])
async def test_a_deadline_beyond_its_limits_is_refused(scene, meta):
    scene.connect()
    await scene.send("read", "one", meta=meta)
    assert scene.answers[0]["error"]["data"]["details"]["reason"] == "deadline"
    assert scene.begun == []


@pytest.mark.parametrize("meta", [[], {"deadline": 1}, None, 5])
async def test_a_meta_of_another_form_is_refused(scene, meta):
    scene.connect()
    await scene.connection.receive(json.dumps({**request_of("admin/ping", 1), "meta": meta}).encode())
    assert scene.answers[0]["error"]["data"]["details"]["reason"] == "meta"


async def test_the_longest_deadline_is_taken(scene):
    scene.connect()
    scene.open_at_once = True
    await scene.send("read", "one", meta={"deadline_ms": MAX_DEADLINE_MS})
    await scene.connection.drain()
    assert "result" in scene.answers[0]


async def test_at_the_limit_of_calls_it_is_not_read_on(scene):
    scene.connect(in_flight=2)
    await scene.send("read", "one")
    await scene.send("read", "two")
    third = asyncio.ensure_future(scene.send("read", "three"))
    await scene.until(lambda: len(scene.begun) == 2)
    await asyncio.sleep(0.03)
    assert not third.done()
    scene.gate("one").set()
    await third
    for name in ("two", "three"):
        scene.gate(name).set()
    await scene.connection.drain()
    assert sorted(scene.answered()) == ["one", "three", "two"]


async def test_waiting_calls_take_no_place_and_have_a_limit_of_their_own(scene):
    scene.connect(in_flight=1, waiting=2)
    scene.open_at_once = True
    for name in ("w1", "w2", "w3"):
        await scene.send("wait", name)
    await scene.until(lambda: scene.answered() == ["w3"])
    assert scene.answers[0]["error"]["data"]["code"] == "too_many_calls"
    await scene.send("read", "one")
    await scene.until(lambda: scene.answered() == ["w3", "one"])
    assert await scene.cancel("w1") == "cancelled"
    await scene.until(lambda: scene.answered() == ["w3", "one", "w1"])
    await scene.send("wait", "w4")
    await scene.until(lambda: scene.begun[-1] == "w4")


async def test_who_does_not_read_is_not_read_and_holds_up_nobody(scene, controller):
    scene.connect(in_flight=2)
    scene.open_at_once = True
    scene.stalled = asyncio.Event()
    for name in ("one", "two"):
        await scene.send("read", name)
    third = asyncio.ensure_future(scene.send("read", "three"))
    await scene.until(lambda: len(scene.done) == 2)
    await asyncio.sleep(0.03)
    assert not third.done()
    other = Scene(controller)
    other.connect()
    await other.connection.receive(json.dumps(request_of("sessions/list", 1)).encode())
    await other.connection.drain()
    assert "result" in other.answers[0]
    await other.connection.aclose()
    scene.stalled.set()
    await third
    await scene.connection.drain()
    assert sorted(scene.answered()) == ["one", "three", "two"]


async def test_a_batch_larger_than_the_limit_of_calls_is_answered_in_its_order(scene):
    scene.connect(in_flight=2, threads=1, batches=1)
    scene.open_at_once = True
    names = [f"c{number}" for number in range(20)]
    requests = [request_of("test/read", name, name=name) for name in names]
    await scene.connection.receive(json.dumps([*requests, 5]).encode())
    await scene.connection.receive(json.dumps(requests[:2]).encode())
    await scene.connection.drain()
    assert [one["id"] for one in scene.answers[0]] == [*names, None]
    assert [one["id"] for one in scene.answers[1]] == names[:2]


async def test_one_of_a_batch_is_cancelled(scene):
    scene.connect()
    requests = [request_of("test/wait", "one", name="one"), request_of("test/read", "two", name="two")]
    await scene.connection.receive(json.dumps(requests).encode())
    await scene.until(lambda: len(scene.begun) == 2)
    assert await scene.cancel("one") == "cancelled"
    scene.gate("two").set()
    await scene.connection.drain()
    (answers,) = scene.answers
    assert [("error" in one) for one in answers] == [True, False]


async def test_closing_gives_up_what_waits_and_finishes_what_has_begun(scene):
    connection = scene.connect()
    for name in ("one", "two"):
        await scene.send("change", name)
    await scene.send("read", "three")
    await scene.send("wait", "four")
    await scene.until(lambda: "one" in scene.begun)
    closing = asyncio.ensure_future(connection.aclose())
    await asyncio.sleep(0.03)
    assert not closing.done()
    scene.gate("one").set()
    with anyio.fail_after(10):
        await closing
    await connection.aclose()
    assert scene.done == ["one"]
    assert "two" not in scene.begun
    assert scene.answers == []
    await scene.send("change", "late")
    assert "late" not in scene.begun


async def test_closing_does_not_wait_for_somebody_who_does_not_read(scene):
    connection = scene.connect()
    scene.open_at_once = True
    scene.stalled = asyncio.Event()
    await scene.send("change", "one")
    await connection.receive(json.dumps([request_of("test/read", 1, name="two")]).encode())
    await scene.until(lambda: len(scene.done) == 2)
    await asyncio.sleep(0.02)
    with anyio.fail_after(10):
        await connection.aclose()


async def test_who_is_gone_is_sent_nothing_more(scene):
    connection = scene.connect()
    scene.open_at_once = True

    async def gone(_message: bytes) -> None:
        raise BrokenPipeError

    connection._send_message = gone
    await scene.send("read", "one")
    await connection.drain()
    assert connection.is_closed


async def test_errors_and_faults_of_calls_end_these_calls_only(scene, monkeypatch):
    scene.connect()

    def fail(_call: Any, params: Named) -> dict[str, Any]:
        raise SessionNotFound("no") if params.name == "typed" else RuntimeError("fault")

    monkeypatch.setattr(scene, "block", fail)
    monkeypatch.setattr("bridge.rpc.dispatch.METHODS", {**METHODS, **scene.methods()})
    for name in ("typed", "fault"):
        await scene.send("change", name)
    await scene.connection.drain()
    assert [one["error"]["data"]["code"] for one in scene.answers] == ["session_not_found", "internal_error"]


async def test_a_large_message_is_read_without_holding_up_the_loop(scene):
    scene.connect()
    scene.open_at_once = True
    await scene.send("read", "n" * 400_000, id=1)
    await scene.connection.drain()
    assert len(scene.answers[0]["result"]["name"]) == 400_000


async def test_a_result_has_a_limit(scene, monkeypatch):
    scene.connect()
    scene.open_at_once = True
    monkeypatch.setattr("bridge.rpc.messages.MAX_RESULT_BYTES", len(b'{"name":"1234"}'))
    for name in ("1234", "12345"):
        await scene.send("read", name)
    await scene.connection.drain()
    told = {one["id"]: one for one in scene.answers}
    assert "result" in told["1234"]
    assert told["12345"]["error"]["data"]["code"] == "result_too_large"
