"""The door for hooks on the controller's socket, with a real server, store and repository."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from bridge.control.capture import settling
from bridge.control.capture.health import health_of
from bridge.control.capture.model import Told
from bridge.control.capture.places import hooks_folder
from bridge.control.capture.taking import Capture
from bridge.control.sessions import initialise
from bridge.rpc.capture import door
from bridge.storage.errors import DatabaseBusy
from tests.serving import line_of, serving, until

GREETING = json.dumps(
    {"bridge": 1, "build": None, "role": door.ROLE, "token": None, "directory": None, "session": None}
).encode()


@pytest.fixture
def desk(controller, repository, monkeypatch):
    """A server with the door, and a way to send it lines."""
    monkeypatch.setattr(settling, "LEAST_SECONDS", 0.05)
    initialise(controller, repository.path)
    hooks = door.HookDoor(controller)
    with serving(controller, doors={door.ROLE: hooks}, end_work=hooks.close) as found:

        def send(line: bytes) -> Any:
            with found.raw() as peer:
                peer.sendall(GREETING + b"\n" + line + b"\n")
                welcome = line_of(peer)
                assert welcome is not None
                assert welcome["ok"] is True
                return line_of(peer)

        send.door = hooks  # type: ignore[attr-defined]
        send.serving = found  # type: ignore[attr-defined]
        yield send


def line(repository, name, number=1, **fields):
    event = {"hook_event_name": name, "session_id": "s", "cwd": str(repository.path), **fields}
    record = {"id": f"d{number}", "host": "claude-code", "at": 1.5, "parent": 1, "patience": 30.0, "event": event}
    return json.dumps(record).encode()


def test_an_event_is_taken_recorded_and_answered(desk, controller, repository):
    assert desk(line(repository, "SessionStart", 1, source="startup")) == {"taken": True}
    assert desk(line(repository, "UserPromptSubmit", 2, prompt="x")) == {"taken": True}
    assert desk(line(repository, "Stop", 3, last_assistant_message="ok")) == {"taken": True}
    repository.commit("by somebody else", a_txt="changed\n")
    until(lambda: desk.door.capture._find("claude-code", "s").turn_id is None)
    repository.commit("by somebody else, later", a_txt="changed again\n")
    answer = desk(line(repository, "UserPromptSubmit", 4, prompt="y"))
    assert answer["taken"] is True
    assert "moved forward by 1 commit" in answer["context"]
    assert answer["notice"].startswith("Bridge: HEAD moved forward")
    assert health_of(controller, "claude-code").to_json()["events"] == 4


BROKEN = [b"{", b"[]", b"null", b"{}", b'{"id": 1, "host": "x", "event": {}}', b'{"id": "", "host": "x", "event": {}}']


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_line_that_is_no_event_is_not_taken(desk, data):
    assert desk(data) == {"taken": False}


def test_a_host_that_nobody_knows_is_taken_and_ignored(desk, repository):
    raw = json.loads(line(repository, "SessionStart"))
    assert desk(json.dumps({**raw, "host": "other"}).encode()) == {"taken": True}


def test_what_takes_longer_than_the_client_waits_is_taken_all_the_same_and_owed(
    desk, controller, repository, monkeypatch
):
    desk(line(repository, "SessionStart", 1, source="startup"))
    desk(line(repository, "UserPromptSubmit", 2, prompt="x"))
    take = Capture.take

    def slow(self, delivery):
        taken = take(self, delivery)
        time.sleep(0.3)
        return type(taken)(Told("late news"), taken.captured)

    with monkeypatch.context() as patched:
        patched.setattr(Capture, "take", slow)
        impatient = json.loads(line(repository, "UserPromptSubmit", 3, prompt="y")) | {"patience": 0.1}
        assert desk(json.dumps(impatient).encode()) == {"taken": True}
        until(lambda: health_of(controller, "claude-code").to_json()["late"] == 1)
    assert desk(line(repository, "UserPromptSubmit", 4, prompt="z"))["context"] == "late news"


def test_what_the_store_cannot_take_now_is_kept_and_taken_with_the_next_event(
    desk, controller, repository, monkeypatch
):
    def busy(_self, _delivery):
        raise DatabaseBusy("The store is busy.")

    with monkeypatch.context() as patched:
        patched.setattr(Capture, "take", busy)
        assert desk(line(repository, "SessionStart", 1, source="startup")) == {"taken": True}
    spool = hooks_folder(controller.settings) / "spool"
    assert [path.name for path in spool.iterdir()] == ["d1.json"]
    assert desk(line(repository, "UserPromptSubmit", 2, prompt="x")) == {"taken": True}
    assert list(spool.iterdir()) == []
    found = health_of(controller, "claude-code").to_json()
    assert (found["events"], found["taken_in_later"]) == (2, 1)


def test_a_fault_of_its_own_leaves_the_event_to_its_client(desk, repository, monkeypatch):
    def broken(_self, _delivery):
        raise RuntimeError("a fault")

    monkeypatch.setattr(Capture, "take", broken)
    assert desk(line(repository, "SessionStart")) is None


def test_ending_the_controller_closes_turns_that_wait(controller, repository, monkeypatch):
    monkeypatch.setattr(settling, "LEAST_SECONDS", 60.0)
    initialise(controller, repository.path)
    hooks = door.HookDoor(controller)
    with serving(controller, doors={door.ROLE: hooks}, end_work=hooks.close) as found:
        for number, (name, fields) in enumerate(
            [("SessionStart", {}), ("UserPromptSubmit", {"prompt": "x"}), ("Stop", {"last_assistant_message": "ok"})]
        ):
            with found.raw() as peer:
                peer.sendall(GREETING + b"\n" + line(repository, name, number, **fields) + b"\n")
                assert line_of(peer) is not None
                assert line_of(peer) == {"taken": True}
        assert hooks.capture._find("claude-code", "s").turn_id is not None
    assert hooks.capture._find("claude-code", "s").turn_id is None
