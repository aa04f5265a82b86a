"""A used-up quota: it pauses its credential for everybody, the tasks wait, and others with another one go on."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from bridge.control.delegations.model import DelegationStatus
from bridge.control.delegations.steering.quotas import credential_of, lift, list_pauses, pause
from bridge.control.errors import QuotaNotPaused
from bridge.foundation.clock import format_timestamp, parse_timestamp
from bridge.foundation.config import HarnessSettings
from tests.integration.control.steering.conftest import result

pytestmark = pytest.mark.anyio


def attempts(steered, name):
    return [(one["number"], one["failure_class"]) for one in steered.world.details(name)["attempts"]]


async def test_a_task_waits_for_the_reset_and_goes_on_in_its_worktree(steered):
    steered.configure("[policy.retries]\nquota_exhausted = 1\n")
    await steered.ended(await steered.ask("a", "!write part.txt begun\n!limit 0.5"))
    # The agent meets the limit in each of its attempts; the second one is the last that the policy allows.
    assert attempts(steered, "a") == [(1, "quota_exhausted"), (2, "quota_exhausted")]
    second = steered.world.details("a")["attempts"][1]
    found = steered.world.result("a")
    assert (found["status"], found["failure_class"], found["attempt"]) == ("failed", "quota_exhausted", 2)
    assert found["files_changed"] == ["part.txt"]
    faults = [payload for kind, payload in steered.entries("a") if kind == "error"]
    assert [fault["code"] for fault in faults] == ["quota_exhausted", "quota_exhausted"]
    # However long it took until the first attempt was closed.
    assert parse_timestamp(second["started_at"]) >= parse_timestamp(faults[0]["details"]["resets_at"])


async def test_what_waits_for_a_quota_takes_no_place_and_holds_up_nobody(steered):
    steered.configure("[policy]\nmax_running = 1\n")
    waiting = await steered.ask("a", "!limit 3600")
    await steered.until(lambda: steered.world.task("a").waiting_reason == "quota_paused")
    task = steered.world.task("a")
    assert (task.status, task.credential) == (DelegationStatus.RUNNING, "scripted/default")
    [held] = list_pauses(steered.world.controller)
    assert (held.credential, held.is_reset_known, held.delegation_id) == ("scripted/default", True, waiting.id)
    assert task.waiting_until == held.resets_at
    # Another worker of the same credential is not started; one without it takes the only place.
    second = await steered.ask("b", result())
    other = await steered.ask("c", command=("sh", "-c", "echo x > x.txt"))
    assert (await steered.ended(other)).status is DelegationStatus.COMPLETED
    await steered.until(lambda: steered.world.task("b").waiting_reason == "quota_paused")
    assert steered.world.task("b").status is DelegationStatus.QUEUED
    assert steered.world.task("b").worker_session_id is None
    # The first one would only meet the limit again.
    await steered.delegator.cancel(steered.world.task("a"))
    assert (await steered.ended(waiting)).status is DelegationStatus.CANCELLED
    lifted = await asyncio.to_thread(lift, steered.world.controller, "scripted/default", by="operator")
    assert [one.credential for one in lifted] == ["scripted/default"]
    assert (await steered.ended(second)).status is DelegationStatus.COMPLETED
    assert steered.world.task("b").waiting_reason is None


async def test_a_pause_outlives_a_restart_and_ends_by_itself(steered, another_controller):
    task = await steered.ended(await steered.ask("a", command=("true",)))
    controller = steered.world.controller
    until = format_timestamp(controller.clock.now() + timedelta(seconds=2))
    pause(controller, task, "scripted/default", until, unknown_seconds=900)
    again = another_controller()
    assert [one.resets_at for one in list_pauses(again)] == [until]
    # A limit that is told later for an earlier time does not shorten it.
    pause(controller, task, "scripted/default", format_timestamp(controller.clock.now()), unknown_seconds=900)
    assert [one.resets_at for one in list_pauses(again)] == [until]
    asked = await steered.ask("b", result())
    await steered.until(lambda: steered.world.task("b").waiting_reason == "quota_paused")
    assert (await steered.ended(asked)).status is DelegationStatus.COMPLETED
    assert controller.now() >= until
    assert list_pauses(again) == []
    with pytest.raises(QuotaNotPaused):
        lift(again, None, by="operator")


async def test_an_unknown_reset_is_a_guess_and_says_so(steered):
    task = await steered.ended(await steered.ask("a", command=("true",)))
    made = pause(steered.world.controller, task, "agent/work", None, unknown_seconds=60)
    assert not made.is_reset_known
    assert parse_timestamp(made.resets_at) - parse_timestamp(made.paused_at) > timedelta(seconds=59)


def test_a_credential_is_a_harness_and_a_name_and_no_secret(world):
    settings = world.controller.settings
    assert credential_of(settings, "codex") == "codex/default"
    object.__setattr__(settings, "harness", {"codex": HarnessSettings(("x",), {"KEY": "s3cret"}, None, "work")})
    assert credential_of(settings, "codex") == "codex/work"
