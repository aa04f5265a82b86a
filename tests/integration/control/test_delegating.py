"""Single delegations in a long-lived process: asked for, waited for, cancelled, ended with the process."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from datetime import timedelta
from functools import partial

import anyio
import pytest

from bridge.agents.policy_model import DEFAULT_MAX_RUNNING
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.delegating import Wanted, delegator_of, end_delegations
from bridge.control.delegations.model import DelegationStatus, Request
from bridge.control.delegations.orchestrating import Start, begin
from bridge.control.delegations.requesting import MAX_SEEN_SECONDS, _seen
from bridge.control.errors import ControllerStopping, ReferenceNotFound, UncommittedWork
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import NewSession
from bridge.git.errors import NotARepository

pytestmark = pytest.mark.anyio

#: Waits for a file beside it, so that a test decides when it ends.
WAITING = """
import pathlib, sys, time
until = time.monotonic() + 60
while not pathlib.Path(sys.argv[1]).exists():
    if time.monotonic() > until:
        sys.exit("nobody came")
    time.sleep(0.01)
"""


def wanted(name="one", command=("sh", "-c", "echo new > new.txt"), session=None, dirty=DirtyMode.REFUSE, **more):
    request = Request(name=name, objective="do it", command=command, timeout_seconds=60.0, **more)
    return Wanted(request=request, session=session, dirty=dirty)


@pytest.fixture
def held(tmp_path):
    """A command that ends when its file appears."""

    def make(name):
        return (sys.executable, "-c", WAITING, str(tmp_path / name))

    make.let_go = lambda name: (tmp_path / name).touch()
    return make


@pytest.fixture
async def delegator(controller):
    yield delegator_of(controller)
    await end_delegations(controller)


@pytest.fixture
def here(world):
    return Standpoint(directory=world.repo.path)


async def until_running(delegator, world, *names):
    with anyio.fail_after(60):
        for name in names:
            while world.task(name).status is not DelegationStatus.RUNNING:  # noqa: ASYNC110 - it happens in the store
                await asyncio.sleep(0.01)


async def test_one_is_asked_for_run_and_waited_for(delegator, world, here):
    session = world.session("hello")
    asked = await delegator.request(here, wanted(session=session))
    assert asked.status is DelegationStatus.QUEUED
    assert delegator.open_delegations == (asked.id,)
    with anyio.fail_after(60):
        ended = await delegator.wait(asked.id)
    assert ended.status is DelegationStatus.COMPLETED
    assert world.result("one")["files_changed"] == ["new.txt"]
    assert delegator.open_delegations == ()
    kinds = world.kinds(session)
    assert kinds[-3:] == ["delegation.requested", "delegation.approved", "worker.result"]
    steps = [kind for kind, _ in world.events(session) if kind.startswith("delegation.")]
    assert steps[0] == "delegation.queued"
    assert "delegation.ended" in steps
    # Once ended it is told at once, to anybody.
    assert (await delegator.wait(asked.id, timeout_seconds=0)).status is DelegationStatus.COMPLETED


async def test_waiting_for_a_time_returns_it_as_it_is(delegator, world, here, held):
    asked = await delegator.request(here, wanted(session=world.session(), command=held("a")))
    found = await delegator.wait(asked.id, timeout_seconds=0.05)
    assert not found.status.is_final
    held.let_go("a")
    with anyio.fail_after(60):
        assert (await delegator.wait(asked.id)).status.is_final


async def test_so_many_run_at_once_and_the_next_when_one_ends(delegator, world, here, held):
    session = world.session()
    names = [f"w{number}" for number in range(DEFAULT_MAX_RUNNING + 1)]
    for name in names:
        await delegator.request(here, wanted(name, command=held(name), session=session))
    await until_running(delegator, world, *names[:-1])
    assert world.task(names[-1]).status is DelegationStatus.QUEUED
    held.let_go(names[0])
    await until_running(delegator, world, names[-1])
    for name in names:
        held.let_go(name)
    for name in names:
        with anyio.fail_after(60):
            assert (await delegator.wait(world.task(name).id)).status is DelegationStatus.COMPLETED


async def test_another_process_is_waited_for_as_well(delegator, world, here, held, another_controller):
    asked = await delegator.request(here, wanted(session=world.session(), command=held("a")))
    other = delegator_of(another_controller())
    assert not (await other.wait(asked.id, timeout_seconds=0.05)).status.is_final
    held.let_go("a")
    with anyio.fail_after(60):
        assert (await other.wait(asked.id)).status is DelegationStatus.COMPLETED


async def test_what_runs_and_what_waits_is_cancelled(delegator, world, here, held):
    session = world.session()
    shared = {"write_mode": "shared", "session": session}
    first = await delegator.request(here, wanted("a", command=held("a"), **shared))
    await until_running(delegator, world, "a")
    second = await delegator.request(here, wanted("b", **shared))
    assert (await delegator.cancel(second)).status is DelegationStatus.CANCELLED
    with anyio.fail_after(60):
        assert (await delegator.wait(second.id)).status is DelegationStatus.CANCELLED
        await delegator.cancel(first)
        assert (await delegator.wait(first.id)).status is DelegationStatus.CANCELLED
    while delegator.open_delegations:  # noqa: ASYNC110 - the lane notices in its own time
        await asyncio.sleep(0.01)
    assert "delegation.requested" in world.kinds(session)


async def test_the_end_of_the_process_ends_workers_and_closes_what_waits(world, here, held):
    delegator = delegator_of(world.controller)
    session = world.session()
    shared = {"write_mode": "shared", "session": session}
    await delegator.request(here, wanted("a", command=held("a"), **shared))
    await until_running(delegator, world, "a")
    await delegator.request(here, wanted("b", **shared))
    waiting = asyncio.ensure_future(delegator.wait(world.task("b").id))
    with anyio.fail_after(60):
        await end_delegations(world.controller)
        assert (await waiting).status is DelegationStatus.CANCELLED
    assert world.open_tasks() == []
    assert world.result("a")["status"] == "cancelled"
    with pytest.raises(ControllerStopping):
        await delegator.request(here, wanted(session=session))


async def test_what_cannot_start_is_refused_and_not_recorded(delegator, world, here):
    session = world.session()
    (world.repo.path / "loose.txt").write_text("x")
    with pytest.raises(UncommittedWork):
        await delegator.request(here, wanted(session=session))
    with pytest.raises(ReferenceNotFound):
        await delegator.request(here, wanted(session=session, dirty=DirtyMode.IGNORE, evidence=("nope",)))
    with pytest.raises(SessionNotFound):
        await delegator.request(here, wanted(session="nope"))
    homeless = world.controller.recorder.create_session(NewSession()).id
    with pytest.raises(NotARepository):
        await delegator.request(Standpoint(), wanted(session=homeless))
    assert world.count("delegations") == 0
    assert delegator.open_delegations == ()


async def test_a_worker_does_not_delegate_further(delegator, world, here):
    asked = await delegator.request(here, wanted(session=world.session()))
    with anyio.fail_after(60):
        ended = await delegator.wait(asked.id)
        inner = await delegator.request(here, wanted("inner", session=ended.worker_session_id, dirty=DirtyMode.CARRY))
        refused = await delegator.wait(inner.id)
    assert refused.status is DelegationStatus.REJECTED
    assert refused.decision["reason"] == "depth_exceeded"


async def test_a_fault_ends_one_delegation_and_is_logged(delegator, world, here, monkeypatch):
    async def fail(*_args, **_kwargs):
        raise RuntimeError("fault")

    monkeypatch.setattr("bridge.control.delegations.carrying.work", fail)
    session = world.session()
    asked = await delegator.request(here, wanted(session=session))
    with anyio.fail_after(60):
        ended = await delegator.wait(asked.id)
    assert ended.status is DelegationStatus.FAILED
    monkeypatch.undo()
    again = await delegator.request(here, wanted("two", session=session))
    with anyio.fail_after(60):
        assert (await delegator.wait(again.id)).status is DelegationStatus.COMPLETED


def test_one_delegator_per_controller(controller, another_controller):
    assert delegator_of(controller) is delegator_of(controller)
    assert delegator_of(another_controller()) is not delegator_of(controller)
    anyio.run(partial(end_delegations, controller))


async def test_what_a_request_was_checked_on_is_what_its_entry_carries_only_while_it_is_fresh(world):
    start = Start(workspace=world.workspace, session_id=world.session(), label=None, dirty=DirtyMode.REFUSE)
    orchestration = begin(world.controller, start)
    checked = orchestration.checked
    assert checked is not None
    assert _seen(orchestration) is checked
    too_old = replace(checked, observed_at=checked.observed_at - timedelta(seconds=MAX_SEEN_SECONDS))
    assert _seen(replace(orchestration, checked=too_old)) is not too_old
    from_tomorrow = replace(checked, observed_at=checked.observed_at + timedelta(days=1))
    assert _seen(replace(orchestration, checked=from_tomorrow)) is not from_tomorrow
    assert orchestration.later().checked is None
    assert orchestration.of_plan("p1").checked is None


async def test_one_that_waited_starts_from_the_head_of_its_turn(delegator, world, here, held):
    session = world.session("hello")
    world.repo.commit("policy", bridge_toml="[policy]\nmax_running = 1\n")
    await delegator.request(here, wanted("first", command=held("go"), session=session))
    await until_running(delegator, world, "first")
    second = await delegator.request(here, wanted("second", session=session))
    head = world.repo.commit("meanwhile")
    held.let_go("go")
    with anyio.fail_after(60):
        assert (await delegator.wait(second.id)).base_commit == head
