"""Two delegations are two, whatever they are called; and a result goes to the branch that asked, however late."""

from __future__ import annotations

import asyncio

import pytest

from bridge.control.delegations.model import DelegationStatus
from bridge.control.delegations.steering.store import list_approvals
from bridge.conversations.models import EntryDraft
from tests.integration.control.steering.conftest import result

pytestmark = pytest.mark.anyio


def held(gate, line="true"):
    return ("sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done; {line}")


def kinds(steered):
    return steered.world.kinds(steered.session)


async def running(steered, task):
    await steered.until(lambda: steered.world.task(task.id).status is DelegationStatus.RUNNING)


async def test_fc_32_two_of_one_name_at_once_are_two(steered, tmp_path):
    gate = tmp_path / "gate"
    one = await steered.ask("same", command=held(gate, "echo 1 > f.txt"))
    two = await steered.ask("same", command=held(gate, "echo 2 > f.txt"))
    await running(steered, one)
    await running(steered, two)
    gate.touch()
    await steered.ended(one)
    await steered.ended(two)
    places = [steered.world.worktree(task.id) for task in (one, two)]
    assert places[0] != places[1]
    assert [(place / "f.txt").read_text() for place in places] == ["1\n", "2\n"]
    assert kinds(steered).count("worker.result") == 2


async def test_two_workers_whose_tool_calls_have_one_id_do_not_mix(steered):
    steered.configure('[policy.approvals]\ndefault = "ask"\ntimeout_seconds = 0.2\n')
    for name in ("one", "two"):
        await steered.ended(await steered.ask(name, f"!ask {name}\n" + result(name)))
    calls = {}
    for name in ("one", "two"):
        found = steered.entries(name)
        calls[name] = [payload["tool_call_id"] for kind, payload in found if kind == "approval.requested"]
        assert [payload["action"] for kind, payload in found if kind == "approval.requested"] == [name]
    assert calls["one"] == calls["two"] != []
    with steered.world.controller.store.read() as connection:
        approvals = list_approvals(connection)
    assert [(one.title, one.tool_call_id) for one in approvals] == [(name, calls[name][0]) for name in ("one", "two")]
    assert len({one.id for one in approvals}) == 2


async def test_fc_40_sibling_branches_have_workers_and_results_of_their_own(steered, tmp_path):
    gate = tmp_path / "gate"
    root = steered.world.say(steered.session, "begin")
    one = await steered.ask("same", command=held(gate, "echo 1 > f.txt"))
    await running(steered, one)
    first_request = steered.world.task(one.id).request_entry_id
    await asyncio.to_thread(steered.world.controller.recorder.move_head, steered.session, root)
    two = await steered.ask("same", command=held(gate, "echo 2 > f.txt"))
    await running(steered, two)
    gate.touch()
    ended = [await steered.ended(task) for task in (one, two)]
    assert steered.world.worktree(one.id) != steered.world.worktree(two.id)
    # The active branch has its own result and not the other's.
    path = [entry.id for entry in steered.world.path(steered.session)]
    assert ended[1].result_entry_id in path
    assert ended[0].result_entry_id not in path
    assert first_request not in path
    await asyncio.to_thread(steered.world.controller.recorder.move_head, steered.session, ended[0].result_entry_id)
    path = [entry.id for entry in steered.world.path(steered.session)]
    assert first_request in path
    assert ended[1].result_entry_id not in path


async def test_fc_38_a_result_comes_after_a_compaction_and_a_rewind_to_where_it_was_asked(steered, tmp_path):
    gate = tmp_path / "gate"
    root = steered.world.say(steered.session, "begin")
    task = await steered.ask("a", command=held(gate))
    await running(steered, task)
    asked = steered.world.head(steered.session)
    payload = {"summary": "so far", "first_retained_entry_id": asked, "tokens_before": 10, "reason": "manual"}
    compaction = steered.world.controller.recorder.append_now(
        steered.session, EntryDraft(kind="compaction", payload=payload)
    )
    await asyncio.to_thread(steered.world.controller.recorder.move_head, steered.session, root)
    elsewhere = steered.world.say(steered.session, "something else")
    gate.touch()
    ended = await steered.ended(task)
    # Nothing of it on the way that the conversation took since, and the head stays where a person put it.
    assert steered.world.head(steered.session) == elsewhere
    assert "worker.result" not in kinds(steered)
    await asyncio.to_thread(steered.world.controller.recorder.move_head, steered.session, ended.result_entry_id)
    path = [entry.id for entry in steered.world.path(steered.session)]
    assert compaction.id in path or asked in path
    assert path[-1] == ended.result_entry_id
