"""A process that is killed between any two steps of an adoption leaves what adopting again finishes, or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.model import Wish
from bridge.control.errors import NothingToAdopt

#: Adopts two tasks and kills itself in the moment that is named: before or after a function of a module is called.
_KILLED = """\
import importlib, os, signal, sys
from bridge.control.controller import Controller
from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.model import Wish
from bridge.control.delegations.tasks import find_task
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

when, module, name = sys.argv[1:]
module = importlib.import_module("bridge." + module)
original = getattr(module, name)

def die(*arguments, **keywords):
    if when == "after":
        original(*arguments, **keywords)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(module, name, die)
with Controller(load_settings(os.environ), clock=SystemClock(), environment=os.environ) as controller:
    with controller.store.read() as connection:
        tasks = [find_task(connection, name) for name in ("a", "b")]
    adopt(controller, *tasks, wish=Wish(check="true"))
"""

_ADOPTING = "control.delegations.adoption.adopting"
#: Moment, and whether the branch has the work by then.
MOMENTS = {
    "in the scratch worktree": ("before", _ADOPTING, "run_check", False),
    "once the commit was named": ("before", _ADOPTING, "fast_forward_checkout", False),
    "once the branch moved": ("after", _ADOPTING, "fast_forward_checkout", True),
    "once it was recorded": ("before", _ADOPTING, "release_worktree", True),
    "once the worktrees were released": ("before", _ADOPTING, "_files", True),
}


@pytest.mark.parametrize("moment", list(MOMENTS))
def test_a_kill_leaves_what_adopting_again_finishes(world: Any, moment: str) -> None:
    when, module, name, has_moved = MOMENTS[moment]
    world.run(world.shell("a", "echo 1 >> a.txt; git commit -qam own") + world.shell("b", "echo 1 >> b.txt"))
    world.repo.write("mine.txt", "in progress\n")
    before = world.everything()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, when, module, name], env=environment, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    if not has_moved:
        assert world.everything() == before
    head = world.repo.head()
    for task in ("a", "b"):
        try:
            adopt(world.controller, *(world.task(name) for name in ("a", "b")), wish=Wish(check="true"))
        except NothingToAdopt:
            # Recorded by the one that was killed: what it left behind goes with the first refusal of each task.
            with pytest.raises(NothingToAdopt):
                adopt(world.controller, world.task(task))
    assert (world.repo.head() == head) is has_moved
    assert [(world.repo.path / name).read_text() for name in ("a.txt", "b.txt", "mine.txt")] == [
        "alpha\n1\n",
        "beta\n1\n",
        "in progress\n",
    ]
    for task in ("a", "b"):
        details = world.details(task)
        assert (details["adoption_status"], details["worktree_status"]) == ("adopted", "removed")
    assert world.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert [path.name for path in world.controller.settings.scratch.glob("*/*")] == []
    notes = [entry for entry in world.path(world.task("a").parent_session_id) if entry.kind == "note"]
    assert len(notes) == 1
