"""Trying an ended task again: in its worktree or from HEAD, with what was wrong, and never twice in one place."""

from __future__ import annotations

import asyncio

import pytest

from bridge.control.delegations.model import AdoptionStatus, DelegationStatus
from bridge.control.delegations.steering.retrying import HEADING
from bridge.control.errors import RetryConflict, RetryRefused, TaskStillOpen
from bridge.control.plans.retrying import wanted_again

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9


async def again(steered, task, **how):
    wanted = await asyncio.to_thread(lambda: wanted_again(steered.world.controller, steered.world.task(task.id), **how))
    return await steered.delegator.request(steered.standpoint, wanted)


def folder(steered, task):
    return steered.world.worktree(task.id)


async def test_in_the_same_worktree_with_feedback(steered):
    work = 'n=$(ls | grep -c part); echo "$n" > part$n.txt; exit 1'
    first = await steered.ended(await steered.ask("a", "make parts", command=("sh", "-c", work)))
    assert first.status is DelegationStatus.FAILED
    second = await steered.ended(await again(steered, first, feedback="make another"))
    assert (second.retry_of, second.id != first.id) == (first.id, True)
    assert folder(steered, second) == folder(steered, first)
    assert steered.world.result(second.id)["files_changed"] == ["part0.txt", "part1.txt"]
    assert steered.world.result(first.id)["files_changed"] == ["part0.txt"]
    request = steered.world.details(second.id)["request"]
    before, _, told = request["objective"].partition(HEADING)
    assert before == "make parts"
    assert "it ended as failed" in told
    assert told.endswith("make another")
    # Both results stand; what waits for adoption is the later one, which holds the earlier one's work.
    assert steered.world.task(first.id).adoption_status is AdoptionStatus.SUPERSEDED
    assert steered.world.task(second.id).adoption_status is AdoptionStatus.PENDING
    third = await steered.ended(await again(steered, second, feedback="once more"))
    assert steered.world.details(third.id)["request"]["objective"].count(HEADING) == 1
    kinds = steered.world.kinds(steered.session)
    assert kinds.count("worker.result") == kinds.count("delegation.requested") == 3


async def test_onto_head_carries_the_work_as_uncommitted_changes(steered):
    repo = steered.world.repo
    repo.commit("base", **{"kept.txt": "1\n", "edited.txt": "1\n2\n3\n4\n5\n"})
    change = "sed -i s/1/one/ edited.txt; git add -A; git commit -qm own; echo new > new.txt"
    first = await steered.ended(await steered.ask("a", command=("sh", "-c", change)))
    repo.commit("on", **{"edited.txt": "1\n2\n3\n4\nfive\n", "kept.txt": "2\n"})
    second = await steered.ended(await again(steered, first, onto_head=True))
    assert folder(steered, second) != folder(steered, first)
    place = folder(steered, second)
    assert (place / "edited.txt").read_text() == "one\n2\n3\n4\nfive\n"
    assert ((place / "kept.txt").read_text(), (place / "new.txt").read_text()) == ("2\n", "new\n")
    assert steered.world.task(second.id).base_commit == repo.head()
    # Its own command made the change to edited.txt again and committed all that was carried.
    log = [line for line in repo.git("-C", place, "log", "--format=%an %s", "HEAD").splitlines() if "ridge" in line]
    assert log == [], "no commit of Bridge's own lies under the worker's work"
    assert steered.world.task(first.id).adoption_status is AdoptionStatus.SUPERSEDED
    assert steered.world.details(first.id)["worktree_status"] == "removed", "its work is in the later result"


async def test_a_conflict_refuses_before_anything_is_recorded(steered):
    repo = steered.world.repo
    repo.commit("base", **{"a.txt": "1\n"})
    first = await steered.ended(await steered.ask("a", command=("sh", "-c", "echo theirs > a.txt")))
    repo.commit("on", **{"a.txt": "ours\n"})
    head, tasks = steered.world.head(steered.session), steered.world.count("delegations")
    with pytest.raises(RetryConflict) as caught:
        await again(steered, first, onto_head=True)
    assert caught.value.details["paths"] == ["a.txt"]
    assert (steered.world.head(steered.session), steered.world.count("delegations")) == (head, tasks)
    # In its own worktree it can go on all the same.
    assert (await steered.ended(await again(steered, first))).status is DelegationStatus.COMPLETED


async def test_one_at_a_time_in_one_worktree(steered, tmp_path):
    gate = tmp_path / "gate"
    line = f"test -e first && while [ ! -e {gate} ]; do sleep 0.05; done; touch first"
    first = await steered.ended(await steered.ask("a", command=("sh", "-c", line)))
    second = await again(steered, first)
    with pytest.raises(TaskStillOpen):
        await again(steered, second)
    with pytest.raises(RetryRefused) as caught:
        await again(steered, first)
    assert caught.value.details["reason"] == "worktree_busy"
    gate.touch()
    await steered.ended(second)


async def test_a_request_with_a_masked_secret_is_not_guessed(steered):
    asked = await steered.ask("a", command=("true",), environment={"TOKEN": SECRET})
    first = await steered.ended(asked)
    with pytest.raises(RetryRefused) as caught:
        await again(steered, first)
    assert caught.value.details["reason"] == "masked"
    assert caught.value.details["masked"] == ["/environment/TOKEN"]


def test_a_masked_request_of_a_plan_is_read_from_its_file(world, tmp_path):
    text = world.shell("a", 'test "$TOKEN" = "$(cat /dev/null)" || exit 1', environment={"TOKEN": SECRET})
    (tmp_path / "plan.toml").write_text(text)
    world.run(text)
    made = wanted_again(world.controller, world.task("a")).request
    assert made.environment == {"TOKEN": SECRET}
    (tmp_path / "plan.toml").write_text(text.replace("exit 1", "exit 2"))
    with pytest.raises(RetryRefused) as caught:
        wanted_again(world.controller, world.task("a"))
    assert caught.value.details["reason"] == "masked"
    (tmp_path / "plan.toml").unlink()
    with pytest.raises(RetryRefused):
        wanted_again(world.controller, world.task("a"))


async def test_a_worktree_that_is_gone_is_not_made_up(steered):
    first = await steered.ended(await steered.ask("a", command=("sh", "-c", "echo x > x.txt")))
    steered.world.repo.git("worktree", "remove", "--force", folder(steered, first))
    with pytest.raises(Exception, match="worktree"):
        await again(steered, first)
    carried = await steered.ended(await again(steered, first, onto_head=True))
    assert (folder(steered, carried) / "x.txt").read_text() == "x\n"
