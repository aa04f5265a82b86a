"""Uncommitted work of the parent, and where a worker writes."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.bases import MAX_NAMED_PATHS
from bridge.control.errors import AdoptionConflict, UncommittedWork
from bridge.control.plans import scheduling
from bridge.control.plans.scheduling import run_plan
from bridge.git.errors import CheckoutBlocked

MODES = {"refuse": "", "ignore": 'dirty = "ignore"\n', "carry": 'dirty = "carry"\n'}


def request_of(world: Any, name: str) -> dict[str, Any]:
    return dict(world.entry(world.task(name).request_entry_id).payload["request"])


def test_uncommitted_work_is_refused_by_name_and_nothing_starts(world: Any) -> None:
    for number in range(MAX_NAMED_PATHS + 1):
        world.repo.write(f"new{number:02}.txt")
    with pytest.raises(UncommittedWork) as caught:
        world.run(world.shell("a", "true"))
    assert caught.value.details["count"] == MAX_NAMED_PATHS + 1
    assert len(caught.value.details["paths"]) == MAX_NAMED_PATHS
    assert [world.count(table) for table in ("sessions", "plans", "delegations")] == [0, 0, 0]


def test_work_that_appears_during_a_run_is_refused_then(world: Any) -> None:
    class Editing(list[Any]):
        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_finished" and report.task == "a":
                world.repo.write("a.txt", "meanwhile\n")

    outcome = world.run(world.shell("a", "true") + world.shell("b", "true", needs=["a"]), reports=Editing())
    assert outcome.delegations[1].status == "rejected"
    assert world.details("b")["decision"]["reason"] == "uncommitted_work"


def test_ignored_work_is_left_out_with_a_notice(world: Any) -> None:
    world.repo.write("a.txt", "edited\n")
    world.repo.write("new.txt")
    world.run(MODES["ignore"] + world.shell("a", "cat a.txt; ls"))
    assert world.result("a")["summary"].split() == ["alpha", "a.txt", "b.txt"]
    base = request_of(world, "a")["base"]
    assert base["uncommitted"] == {"mode": "ignore", "count": 2, "paths": ["a.txt", "new.txt"]}
    assert base["notice"].startswith("2 uncommitted paths")
    assert base["commit"] == world.repo.head()


def test_carried_work_is_seen_and_only_the_workers_change_is_adopted(world: Any) -> None:
    world.repo.write("a.txt", "edited\n")
    world.repo.write("new.txt", "untracked\n")
    world.repo.git("add", "new.txt")
    before = world.everything()
    world.run(MODES["carry"] + world.shell("a", "cat a.txt new.txt; echo more >> b.txt"))
    result = world.result("a")
    assert result["summary"].split() == ["edited", "untracked"]
    assert result["files_changed"] == ["b.txt"]
    assert world.everything() == before
    head = world.repo.head()
    adopt(world.controller, world.task("a"))
    assert world.repo.git("diff", "--name-only", head, "HEAD").split() == ["b.txt"]
    assert world.repo.git("log", "--format=%ce %p", f"{head}..HEAD").split() == [
        "committer@example.invalid",
        world.repo.git("rev-parse", "--short", head).strip(),
    ]
    after = world.everything()
    assert (after["a.txt"], after["new.txt"], after["b.txt"]) == (b"edited\n", b"untracked\n", b"beta\nmore\n")
    assert world.repo.git("diff", "--cached", "--name-only").split() == ["new.txt"]


def test_own_commits_on_carried_work_do_not_bring_the_carried_work(world: Any) -> None:
    world.repo.write("a.txt", "edited\n")
    world.run(MODES["carry"] + world.shell("a", "echo more >> b.txt; git commit -qam own"))
    head = world.repo.head()
    adopt(world.controller, world.task("a"))
    assert world.repo.git("diff", "--name-only", head, "HEAD").split() == ["b.txt"]
    assert (world.repo.path / "a.txt").read_text() == "edited\n"


def test_a_change_to_carried_work_is_never_adopted_over_it(world: Any) -> None:
    world.repo.write("a.txt", "edited\n")
    world.run(MODES["carry"] + world.shell("a", "echo more >> a.txt"))
    before = world.everything()
    with pytest.raises((AdoptionConflict, CheckoutBlocked)):
        adopt(world.controller, world.task("a"))
    assert world.everything() == before


def test_carrying_an_index_that_differs_alone_carries_nothing(world: Any) -> None:
    """Staged and taken back in the file: the snapshot is HEAD itself, and the worker's commits fast-forward."""
    world.repo.write("a.txt", "staged\n")
    world.repo.git("add", "a.txt")
    world.repo.write("a.txt", "alpha\n")
    head = world.repo.head()
    world.run(MODES["carry"] + world.shell("a", "echo more >> b.txt; git commit -qam own"))
    task = world.task("a")
    assert task.base_commit == head
    assert adopt(world.controller, task).commit == task.result_commit
    assert world.repo.git("show", ":a.txt") == "staged\n"


def test_a_reader_that_writes_is_blocked(world: Any) -> None:
    world.run(world.shell("a", "cat a.txt", write="read_only") + world.shell("b", "echo x >> a.txt", write="read_only"))
    assert (world.result("a")["status"], world.details("a")["worktree_status"]) == ("completed", "removed")
    result = world.result("b")
    assert (result["status"], result["failure_class"]) == ("blocked", "write_in_read_only")
    assert result["risks"] == ["Changed although the task was read-only: a.txt"]


def test_a_shared_writer_works_in_the_checkout_itself(world: Any) -> None:
    world.repo.write("mine.txt", "the user's own\n")
    index = (world.repo.path / ".git/index").read_bytes()
    world.run(world.shell("a", "pwd; cat mine.txt; echo more >> a.txt; echo new > new.txt", write="shared"))
    result, task = world.result("a"), world.task("a")
    assert result["summary"].splitlines() == [str(world.repo.path), "the user's own"]
    assert (result["files_changed"], result["risks"]) == (["a.txt", "new.txt"], [])
    assert (task.status, task.adoption_status, task.kept_reason) == ("completed", "empty", None)
    assert (world.repo.path / "a.txt").read_text() == "alpha\nmore\n"
    assert (world.repo.path / ".git/index").read_bytes() == index
    assert world.repo.git("worktree", "list").count("\n") == 1


def test_a_shared_writers_commit_and_stray_write_are_judged_like_any(world: Any) -> None:
    world.run(world.shell("a", "echo x >> b.txt; git commit -qam own", write="shared", owned_paths=["src"]))
    result = world.result("a")
    assert (result["status"], result["failure_class"]) == ("blocked", "outside_owned_paths")
    assert result["files_changed"] == ["b.txt"]
    assert result["result_commit"] == world.repo.head()


def test_a_shared_writer_follows_another_in_one_plan(world: Any) -> None:
    """The first leaves uncommitted work, which the second sees; it is no reason to refuse it."""
    text = world.shell("a", "echo one >> a.txt", write="shared")
    outcome = world.run(text + world.shell("b", "tail -n 1 a.txt", write="shared", needs=["a"]))
    assert outcome.is_completed
    assert (world.result("b")["summary"], world.result("b")["files_changed"]) == ("one", [])


def test_shared_writers_of_two_runs_follow_one_another(
    world: Any, another_controller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "ELSEWHERE_POLL_SECONDS", 0.05)
    line = "echo begin $0 >> log; sleep 0.3; echo end $0 >> log"
    texts = [world.table(name, command=["/bin/sh", "-c", line, name], write="shared") for name in ("a", "b")]

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for controller, text in zip((world.controller, another_controller()), texts, strict=True):
                group.start_soon(partial(run_plan, controller, world.workspace, world.plan(text)))

    anyio.run(main)
    words = (world.repo.path / "log").read_text().split()
    assert words[::2] == ["begin", "end", "begin", "end"]
    assert words[1] == words[3] != words[5] == words[7]
    assert {world.task(name).status for name in ("a", "b")} == {"completed"}
