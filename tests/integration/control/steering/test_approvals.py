"""What workers want allowed: by rule, by the operator, in time or not; with the scripted agent as the worker."""

from __future__ import annotations

import asyncio

import pytest

from bridge.control.delegations.steering.approvals import decide, find_approval, list_approvals
from bridge.control.delegations.steering.model import ApprovalStatus
from bridge.control.delegations.steering.store import list_approvals as rows_of
from bridge.control.errors import ApprovalNotFound, ApprovalNotPending
from tests.integration.control.steering.conftest import result

pytestmark = pytest.mark.anyio

ASKING = "!ask run the tests\n" + result()
ASK = '[policy.approvals]\ndefault = "ask"\ntimeout_seconds = {seconds}\n'


def resolved(steered, name):
    return [payload for kind, payload in steered.entries(name) if kind == "approval.resolved"]


def all_of(steered):
    with steered.world.controller.store.read() as connection:
        return rows_of(connection)


async def asked_by(steered, name="a"):
    """Have a worker ask, and return its task and what it asks."""
    steered.configure(ASK.format(seconds=60))
    task = await steered.ask(name, ASKING)
    [approval] = await steered.until(lambda: list_approvals(steered.world.controller))
    return task, approval


async def test_a_rule_answers_without_asking_anybody(steered):
    steered.configure('[[policy.approvals.rule]]\npermission = "deny"\ntools = ["execute"]\n')
    await steered.ended(await steered.ask("a", ASKING))
    [answer] = resolved(steered, "a")
    assert (answer["decision"], answer["decided_by"]) == ("reject_once", "policy: rule 1")
    assert all_of(steered) == []


async def test_by_default_a_worker_may_work_in_its_own_worktree(steered):
    ended = await steered.ended(await steered.ask("a", ASKING))
    assert str(ended.status) == "completed"
    assert resolved(steered, "a")[0]["decision"] == "allow_once"


async def test_the_operator_allows_from_another_process(steered, another_controller):
    task, approval = await asked_by(steered)
    assert (approval.title, approval.tool_kind, approval.status) == ("run the tests", "execute", "pending")
    other = another_controller()
    with other.store.read() as connection:
        found = find_approval(connection, approval.id[:6])
    decided = await asyncio.to_thread(decide, other, found, allows=True, by="operator", reason="go on")
    assert decided.option_id == "yes"
    assert str((await steered.ended(task)).status) == "completed"
    [answer] = resolved(steered, "a")
    assert (answer["decision"], answer["decided_by"], answer["reason"]) == ("allow_once", "operator", "go on")
    events = [(kind, body.get("status")) for kind, body in steered.world.events(steered.session) if "approval" in kind]
    assert events == [("approval.requested", None), ("approval.decided", "allowed")]
    with pytest.raises(ApprovalNotPending) as caught:
        decide(other, found, allows=False, by="operator")
    assert caught.value.details["status"] == "allowed"


async def test_the_operator_denies(steered):
    task, approval = await asked_by(steered)
    await asyncio.to_thread(decide, steered.world.controller, approval, allows=False, by="operator")
    await steered.ended(task)
    assert resolved(steered, "a")[0]["decision"] == "reject_once"
    tools = [payload for kind, payload in steered.entries("a") if kind == "tool.completed"]
    assert tools[-1]["status"] == "denied"


async def test_what_nobody_answers_in_time_says_so_and_is_no_refusal(steered):
    steered.configure(ASK.format(seconds=0.3))
    await steered.ended(await steered.ask("a", ASKING))
    [answer] = resolved(steered, "a")
    assert (answer["decision"], answer["decided_by"]) == ("timed_out", "nobody")
    assert answer["reason"] == "Nobody answered within 0.3 seconds."
    [approval] = all_of(steered)
    assert (approval.status, approval.option_id) == (ApprovalStatus.TIMED_OUT, None)
    everything = str(steered.entries("a")) + str(steered.world.events(steered.session)) + str(approval.to_json())
    assert "denied" not in everything
    assert "'decision': 'reject" not in everything
    with pytest.raises(ApprovalNotPending) as caught:
        decide(steered.world.controller, approval, allows=True, by="operator")
    assert caught.value.details["status"] == "timed_out"
    assert list_approvals(steered.world.controller) == []


async def test_a_question_lapses_with_its_worker(steered):
    task, approval = await asked_by(steered)
    await steered.delegator.cancel(steered.world.task("a"))
    assert str((await steered.ended(task)).status) == "cancelled"
    [found] = all_of(steered)
    assert (found.id, found.status) == (approval.id, ApprovalStatus.LAPSED)


async def test_a_link_that_leads_out_of_the_worktree_is_asked_about(steered, tmp_path):
    (tmp_path / "outside").mkdir()
    (steered.world.repo.path / "way").symlink_to(tmp_path / "outside")
    steered.configure("[policy.approvals]\ntimeout_seconds = 0.2\n")
    script = tmp_path / "script.toml"
    script.write_text(
        '[[turn]]\n[[turn.step]]\nask = "write"\nkind = "edit"\npath = "way/x"\n'
        '[[turn.step]]\nask = "write here"\nkind = "edit"\npath = "a.txt"\n'
    )
    policy_asks = steered.world.controller.settings
    assert "rehearsal" not in policy_asks.harness
    object.__setattr__(policy_asks, "harness", {"rehearsal": rehearsal(script)})
    await steered.ended(await steered.ask("a", harness="rehearsal", attempts_permitted=1))
    [approval] = {one.title: one for one in all_of(steered)}.values()
    assert (approval.title, approval.tool_kind) == ("write", "edit")


def rehearsal(script):
    import sys

    from bridge.foundation.config import HarnessSettings

    return HarnessSettings((sys.executable, "-m", "bridge.adapters.scripted", "--script", str(script)))


async def test_what_names_nothing(steered):
    with steered.world.controller.store.read() as connection, pytest.raises(ApprovalNotFound):
        find_approval(connection, "q123")
