"""The main job with real agents: one delegates, others work in worktrees, and what they hand in can be relied on."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import threading
from typing import Any

import pytest

from tests.e2e.agents import AGENTS, Installed, wanted
from tests.e2e.conducting import CONDUCT, Company
from tests.e2e.modelserver import ModelServer
from tests.e2e.stage import PATIENCE_SECONDS, Stage, until

#: Without a word for so long a worker counts as stalled: above what an honest one needs on a busy machine.
SILENCE_SECONDS = 45.0


#: What becomes of those that go wrong.
FAULTS = {
    "rubbish": ("invalid", "invalid_result"),
    "outside": ("blocked", "outside_owned_paths"),
    "killed": ("failed", "crashed"),
    "stalled": ("failed", "stalled"),
}


@pytest.mark.parametrize("name", [name for name in AGENTS if name in wanted()])
@pytest.mark.timeout(600)
def test_an_agent_delegates_to_agents(
    name: str, installed: dict[str, Installed], stage: Stage, server: ModelServer
) -> None:
    company = Company(name)
    server.add(*company.scenarios())
    stage.configure([installed[name]], silence_seconds=SILENCE_SECONDS)
    stage.bridge("init")
    with stage.controller():
        chat = stage.start("chat", "--new", "--harness", name, "--json", stdin=f"Please {CONDUCT} now.\n")
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
        assert {key: task["status"] for key, task in tasks.items()} == {
            **dict.fromkeys(("first", "second", "big", "sibling_a", "sibling_b", "reader"), "completed"),
            **{key: status for key, (status, _) in FAULTS.items()},
        }, describe(stage, server)
        for key, (_, failure) in FAULTS.items():
            assert stage.task(key)["result"]["failure_class"] == failure
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
        commit = tasks[task]["result_commit"]
        written[file] = stage.git("show", f"{commit}:{file}").strip()
        assert written[file] == digest
    assert len(set(written.values())) == 3


def adopt_all(stage: Stage) -> None:
    """Take over what was done; a write outside of its paths stays where it is."""
    stage.bridge("task", "adopt", "first", "second", "sibling_a", "reader")
    files = stage.git("ls-files").split()
    assert set(files) == {"readme.txt", "first.txt", "second.txt", "derived-a.txt", "derived-big.txt"}
    assert (stage.repo / "first.txt").read_text() == "by first\n"


def describe(stage: Stage, server: ModelServer) -> str:
    """Say what happened, for a test that failed."""
    lines = [
        f"{seen.at - server.seen[0].at:6.1f} {seen.scenario} {str(seen.step)[:120]} after "
        f"{str(seen.asked.results[-1:])[:200]}"
        for seen in server.seen
    ]
    for name in stage.tasks():
        found = stage.task(name)
        result = found.get("result") or {}
        told = {key: value for key, value in result.items() if key not in ("data", "stamp", "summary")}
        lines.append(f"{name}: {found['status']} {str(result.get('summary'))[:200]!r} {told}")
    return "\n".join(lines)
