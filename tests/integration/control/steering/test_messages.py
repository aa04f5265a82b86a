"""Saying something to a running worker: its turn goes on, and what was said is its next prompt."""

from __future__ import annotations

import asyncio

import pytest

from bridge.control.delegations.model import DelegationStatus
from bridge.control.delegations.steering.messages import send_message
from bridge.control.delegations.steering.store import list_messages
from bridge.control.errors import HarnessTakesNoMessages, TaskAlreadyEnded, TaskNotRunning
from tests.integration.control.steering.conftest import result

pytestmark = pytest.mark.anyio


async def send(steered, name, text):
    return await asyncio.to_thread(send_message, steered.world.controller, steered.world.task(name), text)


async def test_it_is_told_when_its_turn_is_over(steered, tmp_path):
    gate = tmp_path / "gate"
    working = f"!run sh -c 'while [ ! -e {gate} ]; do sleep 0.05; done; echo first > first.txt'"
    task = await steered.ask("a", working)
    await steered.until(lambda: [kind for kind, _ in _entries(steered) if kind == "tool.started"])
    sent = await send(steered, "a", "!write told.txt told\n" + result("heard it"))
    assert sent.handed_over_at is None
    assert any(payload.get("text") == sent.text for kind, payload in _entries(steered) if kind == "user.message")
    gate.touch()
    ended = await steered.ended(task)
    assert ended.status is DelegationStatus.COMPLETED
    found = steered.world.result("a")
    assert (found["summary"], found["attempt"]) == ("heard it", 1)
    # The turn was not ended: what it was at is done, and then what it was told.
    assert found["files_changed"] == ["first.txt", "told.txt"]
    said = [payload for kind, payload in _entries(steered) if kind == "user.message"]
    assert [one["author"] for one in said] == ["bridge", "operator"]
    with steered.world.controller.store.read() as connection:
        [kept] = list_messages(connection, task.id)
    assert kept.handed_over_at is not None
    with pytest.raises(TaskAlreadyEnded):
        await send(steered, "a", "too late")
    steps = [kind for kind, _ in steered.world.events(steered.session) if "message" in kind]
    assert steps == ["delegation.message_sent", "delegation.message_handed_over"]


async def test_a_command_cannot_be_told_anything(steered, tmp_path):
    gate = tmp_path / "gate"
    task = await steered.ask("a", command=("sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done"))
    await steered.until(lambda: steered.world.task("a").status is DelegationStatus.RUNNING)
    with pytest.raises(HarnessTakesNoMessages) as caught:
        await send(steered, "a", "hurry up")
    assert "retry" in caught.value.hint
    gate.touch()
    await steered.ended(task)
    with steered.world.controller.store.read() as connection:
        assert list_messages(connection, task.id) == []


async def test_who_has_not_begun_is_not_told(steered, tmp_path):
    steered.configure("[policy]\nmax_running = 0\n")
    task = await steered.ask("a", result())
    with pytest.raises(TaskNotRunning):
        await send(steered, "a", "hello")
    await steered.delegator.cancel(steered.world.task("a"))
    await steered.ended(task)


def _entries(steered):
    return steered.entries("a") if steered.world.task("a").worker_session_id else []
