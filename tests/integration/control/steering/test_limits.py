"""Limits of a workspace's policy as workers meet them: places, waiting times, retries, and nobody held up."""

from __future__ import annotations

import pytest

from bridge.control.delegations.model import DelegationStatus
from tests.integration.control.steering.conftest import Steered

pytestmark = pytest.mark.anyio


def held(gate):
    return ("sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done")


async def waits(steered, name, reason):
    task = await steered.until(lambda: steered.world.task(name).waiting_reason and steered.world.task(name))
    assert (task.status, task.waiting_reason) == (DelegationStatus.QUEUED, reason)


async def test_a_wait_for_a_place_has_an_end(steered):
    steered.configure("[policy]\nmax_running = 0\nmax_queue_seconds = 0.5\n")
    ended = await steered.ended(await steered.ask("a", command=("true",)))
    assert ended.status is DelegationStatus.REJECTED
    assert ended.decision["reason"] == "queue_timed_out"
    assert "0 workers run, at most 0 may at once" in ended.decision["explanation"]
    assert steered.world.kinds(steered.session)[-2:] == ["delegation.requested", "delegation.rejected"]
    assert ended.waiting_reason is None


def test_a_plans_worker_waits_no_longer_either(world):
    world.repo.commit("policy", **{"bridge.toml": "[policy]\nmax_running = 1\nmax_queue_seconds = 0.5\n"})
    outcome = world.run(
        world.shell("a", "sleep 2.5") + world.shell("b", "true") + world.shell("c", "true", needs=["a"])
    )
    found = {task.name: (str(task.status), (task.decision or {}).get("reason")) for task in outcome.delegations}
    assert found["a"] == ("completed", "approved")
    assert found["b"] == ("rejected", "queue_timed_out")
    # Waiting for a need is no waiting for a place.
    assert found["c"] == ("completed", "approved")


async def test_places_of_a_harness_are_shared_by_all_sessions(steered, world, tmp_path):
    steered.configure("[policy.harness.command]\nmax_running = 1\n")
    other = Steered(world, steered.delegator)
    first = await steered.ask("a", command=held(tmp_path / "gate"))
    await steered.until(lambda: world.task("a").status is DelegationStatus.RUNNING)
    second = await other.ask("b", command=("true",))
    await waits(other, "b", "harness_concurrency_reached")
    (tmp_path / "gate").touch()
    assert (await steered.ended(first)).status is DelegationStatus.COMPLETED
    assert (await other.ended(second)).status is DelegationStatus.COMPLETED


async def test_what_is_blocked_holds_up_nobody(steered, tmp_path):
    first = await steered.ask("a", command=held(tmp_path / "gate"), owned_paths=("src",))
    await steered.until(lambda: steered.world.task("a").status is DelegationStatus.RUNNING)
    second = await steered.ask("b", command=("true",), owned_paths=("src/web",))
    await waits(steered, "b", "owned_paths_busy")
    third = await steered.ask("c", command=("true",), owned_paths=("docs",))
    assert (await steered.ended(third)).status is DelegationStatus.COMPLETED
    assert steered.world.task("b").status is DelegationStatus.QUEUED
    (tmp_path / "gate").touch()
    await steered.ended(first)
    assert (await steered.ended(second)).status is DelegationStatus.COMPLETED


async def test_a_failure_that_policy_names_is_tried_again_in_the_worktree(steered):
    steered.configure("[policy.retries]\nexit_nonzero = 1\n")
    line = "echo try >> tries.txt; test $(wc -l < tries.txt) -ge 2"
    ended = await steered.ended(await steered.ask("a", command=("sh", "-c", line)))
    assert ended.status is DelegationStatus.COMPLETED
    attempts = steered.world.details("a")["attempts"]
    assert [(one["number"], one["failure_class"]) for one in attempts] == [(1, "exit_nonzero"), (2, None)]
    assert steered.world.result("a")["attempt"] == 2
    never = await steered.ended(await steered.ask("b", command=("sh", "-c", "exit 3")))
    assert never.status is DelegationStatus.FAILED
    assert len(steered.world.details("b")["attempts"]) == 2


async def test_budgets_hold_over_a_sessions_life(steered):
    steered.configure("[policy]\nmax_tokens = 100\n")
    await steered.ended(await steered.ask("a", command=("true",), tokens=60))
    refused = await steered.ended(await steered.ask("b", command=("true",), tokens=60))
    assert (refused.status, refused.decision["reason"]) == (DelegationStatus.REJECTED, "token_budget_exhausted")
    assert (await steered.ended(await steered.ask("c", command=("true",), tokens=40))).status.is_final
