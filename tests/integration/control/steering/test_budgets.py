"""Tokens of single delegations: a worker that uses more is stopped, and what it did is kept."""

from __future__ import annotations

import pytest

from bridge.control.delegations.choosing import request_notices
from bridge.control.delegations.model import AdoptionStatus, DelegationStatus, Request
from tests.integration.control.steering.conftest import result

pytestmark = pytest.mark.anyio


async def test_a_worker_that_uses_more_than_its_budget_is_stopped_and_its_work_kept(steered):
    asked = await steered.ask("w", f"!write a.txt kept\n!usage 500 20\n!sleep 60\n{result()}", tokens=400)
    ended = await steered.ended(asked)
    assert ended.status is DelegationStatus.FAILED
    found = steered.world.result("w")
    assert found["failure_class"] == "tokens_exhausted"
    assert "used 500 tokens, and had 400" in found["summary"]
    assert found["files_changed"] == ["a.txt"]
    assert ended.adoption_status is AdoptionStatus.PENDING
    assert (steered.world.worktree("w") / "a.txt").read_text() == "kept\n"


async def test_one_that_stays_within_it_is_not(steered):
    ended = await steered.ended(await steered.ask("w", f"!usage 300 100\n{result()}", tokens=400))
    assert ended.status is DelegationStatus.COMPLETED
    assert not [risk for risk in steered.world.result("w")["risks"] if "tokens" in risk]


async def test_attempts_share_one_budget(steered):
    steered.configure("[policy.retries]\nagent_error = 3\n")
    # Two thirds of it go into each attempt, so that the second one is the last.
    asked = await steered.ask("w", "!usage 60 5\n!fail it went wrong", tokens=100)
    ended = await steered.ended(asked)
    assert ended.status is DelegationStatus.FAILED
    assert len(steered.world.details("w")["attempts"]) == 2


async def test_that_nothing_was_reported_is_told_of_the_result(steered):
    await steered.ended(await steered.ask("w", result(), tokens=400))
    assert steered.world.result("w")["risks"] == [
        "The harness did not report what it used, so the budget of 400 tokens was not kept."
    ]


@pytest.mark.parametrize(("harness", "tokens", "count"), [("command", 5, 1), ("command", 0, 0), ("scripted", 5, 0)])
def test_who_asks_is_told_where_a_budget_may_not_be_kept(world, harness, tokens, count):
    request = Request(name="w", objective="x", harness=harness, tokens=tokens)
    assert len(request_notices(world.controller, request)) == count
