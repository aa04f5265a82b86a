"""The main job with real agents: one delegates, others work in worktrees, and what they hand in can be relied on."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
from typing import Any

import pytest

from tests.e2e.agents import AGENTS, Installed, orchestrator_of
from tests.e2e.conducting import CONDUCT, Company
from tests.e2e.modelserver import ModelServer
from tests.e2e.stage import PATIENCE_SECONDS, Stage, until

#: Without a word for so long a worker counts as stalled: above what an honest one needs on a busy machine.
SILENCE_SECONDS = 45.0


def wanted() -> list[str]:
    return os.environ.get("BRIDGE_E2E_AGENTS", "").split()


@pytest.mark.parametrize("name", [name for name in AGENTS if name in wanted()])
@pytest.mark.timeout(400)
def test_an_agent_delegates_to_agents(
    name: str, installed: dict[str, Installed], stage: Stage, server: ModelServer
) -> None:
    orchestrator = orchestrator_of(name)
    company = Company(name, has_tools=orchestrator == name)
    server.add(*company.scenarios())
    stage.configure([installed[one] for one in {name, orchestrator}], silence_seconds=SILENCE_SECONDS)
    stage.bridge("init")
    with stage.controller():
        chat = stage.start("chat", "--new", "--harness", orchestrator, "--json", stdin=f"Please {CONDUCT} now.\n")
        killer = threading.Thread(target=kill_when_it_works, args=(stage, server), daemon=True)
        killer.start()
        try:
            out, err = chat.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            chat.terminate()
            pytest.fail(f"it took too long\n{describe(stage, server)}")
        assert chat.returncode == 0, f"{err}\n{out}\n{describe(stage, server)}"
        killer.join(PATIENCE_SECONDS)
        tasks = stage.tasks()
        assert {key: (task["status"], failure(stage, key)) for key, task in tasks.items()} == {
            "first": ("completed", None),
            "second": ("completed", None),
            "big": ("completed", None),
            "sibling_a": ("completed", None),
            "sibling_b": ("completed", None),
            "reader": ("completed", None),
            "rubbish": ("invalid", "invalid_result"),
            "outside": ("blocked", "outside_owned_paths"),
            "killed": ("failed", "crashed"),
            "stalled": ("failed", "stalled"),
        }, describe(stage, server)
        assert sorted(company.met) == ["first", "second"]
        check_evidence(stage, server, tasks)
        adopt_all(stage)
    stage.bridge("verify")


def kill_when_it_works(stage: Stage, server: ModelServer) -> None:
    """End one worker by a signal from outside, once its model was asked."""
    until(lambda: server.requests("TASK-killed"), "the worker to be killed did not begin")
    os.kill(stage.task("killed")["attempts"][-1]["pid"], signal.SIGKILL)


def check_evidence(stage: Stage, server: ModelServer, tasks: dict[str, Any]) -> None:
    """Check that siblings were given the exact stored bytes, and that what they wrote follows from these."""
    written = {}
    for source, marker, file, task in (
        ("first", "TASK-sibling", "derived-a.txt", "sibling_a"),
        ("second", "TASK-sibling", "derived-b.txt", "sibling_b"),
        ("big", "TASK-reader", "derived-big.txt", "reader"),
    ):
        raw = subprocess.run(
            [*stage._program, "result", tasks[source]["result_entry_id"], "--raw"],
            cwd=stage.repo,
            env=stage.environment(),
            check=True,
            capture_output=True,
        ).stdout
        digest = hashlib.sha256(raw).hexdigest()
        told = [seen.asked.text for seen in server.requests(marker)]
        if source == "big":
            assert not any(raw.decode() in text for text in told)
            assert any(digest in text for text in told)
        else:
            assert any(raw.decode() in text for text in told), "the payload does not stand contiguous"
        commit = stage.task(task)["result"]["result_commit"]
        written[file] = stage.git("show", f"{commit}:{file}").strip()
        assert written[file] == digest
    assert len(set(written.values())) == 3


def adopt_all(stage: Stage) -> None:
    """Take over what was done; a write outside of its paths stays where it is."""
    for name in ("first", "second", "sibling_a", "reader"):
        stage.bridge("task", "adopt", name)
    files = stage.git("ls-files").split()
    assert set(files) == {"readme.txt", "first.txt", "second.txt", "derived-a.txt", "derived-big.txt"}
    assert (stage.repo / "first.txt").read_text() == "by first\n"


def failure(stage: Stage, name: str) -> str | None:
    result = stage.task(name)["result"] or {}
    return result.get("failure_class")


def describe(stage: Stage, server: ModelServer) -> str:
    """Say what happened, for a test that failed."""
    lines = [f"{seen.at - server.seen[0].at:6.1f} {seen.scenario} {str(seen.step)[:120]}" for seen in server.seen]
    for name in stage.tasks():
        found = stage.task(name)
        result = found.get("result") or {}
        lines.append(f"{name}: {found['status']} {result.get('failure_class')} {str(result.get('summary'))[:300]}")
    return "\n".join(lines)
