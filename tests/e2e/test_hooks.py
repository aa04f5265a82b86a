"""The real claude-code, codex and gemini-cli with Bridge's hooks, against the scripted model server.

What each of them is told stands in the request that its model gets; what it did is in the recorded conversation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import agents
from modelserver import ModelServer, Say, Scenario

from bridge.hooks.hosts import HOST_SETTINGS, hook_line
from bridge.hooks.trust import snake_case, trusted_hash
from tests.serving import MAIN, ROOT, resident, until

HOSTS = ("claude-code", "codex", "gemini")
#: Seconds that one run of an agent may take on a busy machine.
RUN_SECONDS = 240
NOTE = "[Bridge note as of "


class Bench:
    """One agent, one repository, one state directory with a controller, and a model server."""

    def __init__(self, host: str, repository: Any, home: Path, state: Path, server: ModelServer) -> None:
        self.host = host
        self.repository = repository
        self.state = state
        self.server = server
        found = agents.install([host])[host]
        variables = agents.set_up(host, home, server.url)
        self.agent_home = home
        self.program = str(found.cli)
        kept = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
        self.environment = {**kept, **variables, "PATH": f"{found.path}:{os.environ['PATH']}", "TZ": "UTC"}
        self.bridge_environment = {**os.environ, **variables, "BRIDGE_HOME": str(state), "PYTHONPATH": str(ROOT)}
        self.session: str | None = None

    def bridge(self, *words: str, status: int | None = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words, "--json"],
            cwd=self.repository.path,
            env=self.bridge_environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert status is None or done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def trust(self) -> None:
        """Do what a person does in the host's own dialogue: trust every hook as it stands."""
        host = HOST_SETTINGS[self.host]
        if not host.needs_trust:
            return
        path = self.agent_home / ".codex" / "hooks.json"
        line = hook_line(self.state, self.host)
        with (self.agent_home / ".codex" / "config.toml").open("a") as file:
            for event in host.events:
                file.write(f'\n[hooks.state."{path}:{snake_case(event)}:0:0"]\n')
                file.write(f'trusted_hash = "{trusted_hash(host, event, line)}"\n')
        tomllib.loads((self.agent_home / ".codex" / "config.toml").read_text())

    def run(self, prompt: str, *, resume: bool = False, fork: bool = False) -> None:
        """Have the agent work on a prompt to its end."""
        words = _COMMANDS[self.host](prompt, resume, fork)
        done = subprocess.run(
            [self.program, *words],
            cwd=self.repository.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])

    def sessions(self) -> list[dict[str, Any]]:
        return [one for one in self.bridge("session", "list") if one["harness"] == self.host]

    def entries(self, session_id: str) -> list[dict[str, Any]]:
        found = self.bridge("log", session_id)
        return list(found["entries"] if isinstance(found, dict) else found)

    def turns(self) -> int:
        return sum(entry["kind"] == "turn.completed" for one in self.sessions() for entry in self.entries(one["id"]))

    def wait_for_turns(self, count: int) -> None:
        until(lambda: self.turns() >= count)

    def told(self, marker: str) -> str:
        """The first request under a marker, as it came: hosts put what hooks say into messages of any role."""
        return json.dumps(self.server.requests(marker)[0].asked.body, ensure_ascii=False)


def _claude(prompt: str, resume: bool, fork: bool) -> list[str]:
    words = ["-p", prompt, "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]
    return [*words, *(["--continue"] if resume else []), *(["--fork-session"] if fork else [])]


def _codex(prompt: str, resume: bool, _fork: bool) -> list[str]:
    return ["exec", *(["resume", "--last"] if resume else []), "--json", "--skip-git-repo-check", prompt]


def _gemini(prompt: str, resume: bool, _fork: bool) -> list[str]:
    words = ["--yolo", "--output-format", "stream-json", "-m", "gemini-2.5-flash"]
    return [*words, *(["--resume", "latest"] if resume else []), "-p", prompt]


_COMMANDS = {"claude-code": _claude, "codex": _codex, "gemini": _gemini}


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(host: str, repository: Any, tmp_path: Path) -> Iterator[Bench]:
    """A bench with hooks installed and trusted, and a controller that runs."""
    state = tmp_path / "state"
    with ModelServer() as server:
        # A busy machine takes longer over everything than an agent's user should wait; limits are tested elsewhere.
        state.mkdir()
        (state / "config.toml").write_text("hook_patience_seconds = 4\n")
        made = Bench(host, repository, tmp_path / "agent-home", state, server)
        made.bridge("init")
        made.bridge("hooks", "install", host)
        made.trust()
        with resident({**made.bridge_environment, "BRIDGE_CONTROLLER": "auto"}):
            yield made


def _edit_by_itself(bench: Bench, name: str, text: str) -> agents.Call:
    return agents.shell_call(bench.host, f"cat {name}; printf '{text}' > {name}")


def test_the_warning_arrives_in_the_models_request_once_and_only_for_what_others_did(bench: Bench) -> None:
    path = bench.repository.path
    bench.server.add(Scenario("FIRSTTASK", [_edit_by_itself(bench, "a.txt", "by-the-agent"), Say("Edited.")]))
    bench.run("FIRSTTASK")
    bench.wait_for_turns(1)
    assert (path / "a.txt").read_text() == "by-the-agent"
    assert NOTE not in bench.told("FIRSTTASK")

    # The agent's own edit is no news to it.
    bench.server.add(Scenario("SECONDTASK", [Say("Nothing to do.")]))
    bench.run("SECONDTASK", resume=True)
    bench.wait_for_turns(2)
    assert NOTE not in bench.told("SECONDTASK")

    # Somebody else's is, in the very request, and once.
    bench.repository.commit("behind its back", a_txt="by-somebody-else\n")
    bench.server.add(Scenario("THIRDTASK", [Say("I see.")]))
    bench.run("THIRDTASK", resume=True)
    bench.wait_for_turns(3)
    told = bench.told("THIRDTASK")
    assert told.count(NOTE) == 1, told[-3000:]
    assert "it moved forward by 1 commit" in told

    bench.server.add(Scenario("FOURTHTASK", [Say("Fine.")]))
    bench.run("FOURTHTASK", resume=True)
    bench.wait_for_turns(4)
    # Old notes may stay in a resumed request; a new one there is not.
    assert bench.told("FOURTHTASK").count(NOTE) <= 1

    sessions = bench.sessions()
    assert len(sessions) == 1
    entries = bench.entries(sessions[0]["id"])
    kinds = [entry["kind"] for entry in entries]
    assert kinds.count("user.message") == 4
    assert {"tool.started", "tool.completed", "assistant.message"} <= set(kinds)
    texts = [entry["payload"]["text"] for entry in entries if entry["kind"] in {"user.message", "assistant.message"}]
    assert not any(NOTE in text for text in texts), texts
    assert all("TASK" in text for text in texts[::2])
    found = bench.bridge("hooks", "status", bench.host)
    assert (found["lost"], found["refused"], found["problems"]) == (0, 0, [])
    assert found["events"] >= 12
    assert found["transcript_readable"] is True


def test_a_formatter_that_runs_as_a_hook_of_its_own_is_no_news(bench: Bench) -> None:
    path = bench.repository.path
    formatter = bench.agent_home / "format.sh"
    formatter.write_text(f"#!/bin/sh\nsleep 0.7\nprintf '%s' \"$(tr a-z A-Z < {path}/a.txt)\" > {path}/a.txt\n")
    formatter.chmod(0o755)
    host = HOST_SETTINGS[bench.host]
    settings = host.path({"HOME": str(bench.agent_home)}, "user", Path("/"))
    known = json.loads(settings.read_text())
    stop = "AfterAgent" if bench.host == "gemini" else "Stop"
    entry = {
        "hooks": [{"type": "command", "command": str(formatter), "timeout": 10 if bench.host != "gemini" else 10000}]
    }
    known["hooks"][stop].append({**entry, "matcher": "*"} if bench.host == "gemini" else entry)
    settings.write_text(json.dumps(known))
    if bench.host == "codex":
        _trust_foreign(bench, str(formatter))
    bench.server.add(Scenario("FORMATTED", [_edit_by_itself(bench, "a.txt", "lower"), Say("Edited.")]))
    bench.run("FORMATTED")
    bench.wait_for_turns(1)
    assert (path / "a.txt").read_text() == "LOWER"
    bench.server.add(Scenario("AFTERWARDS", [Say("Fine.")]))
    bench.run("AFTERWARDS", resume=True)
    assert NOTE not in bench.told("AFTERWARDS")


def _trust_foreign(bench: Bench, command: str) -> None:
    import hashlib

    path = bench.agent_home / ".codex" / "hooks.json"
    hook = {"async": False, "command": command, "timeout": 10, "type": "command"}
    text = json.dumps({"event_name": "stop", "hooks": [hook]}, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    with (bench.agent_home / ".codex" / "config.toml").open("a") as file:
        file.write(f'\n[hooks.state."{path}:stop:1:0"]\ntrusted_hash = "sha256:{digest}"\n')


@pytest.mark.parametrize("host", ["claude-code"], indirect=True)
def test_a_forked_session_goes_on_from_the_old_one_and_is_told_under_its_own_name(bench: Bench) -> None:
    bench.server.add(Scenario("ORIGINAL", [_edit_by_itself(bench, "a.txt", "one"), Say("Edited.")]))
    bench.run("ORIGINAL")
    bench.wait_for_turns(1)
    bench.repository.commit("behind its back", a_txt="two\n")
    bench.server.add(Scenario("FORKEDTASK", [Say("I see.")]))
    bench.run("FORKEDTASK", resume=True, fork=True)
    bench.wait_for_turns(2)
    assert bench.told("FORKEDTASK").count(NOTE) == 1
    by_parent: Mapping[Any, dict[str, Any]] = {one["parent_session_id"]: one for one in bench.sessions()}
    assert len(by_parent) == 2
    original = by_parent[None]
    fork = by_parent[original["id"]]
    assert fork["parent_relation"] == "forked"
    texts = [entry["payload"]["text"] for entry in bench.entries(fork["id"]) if entry["kind"] == "user.message"]
    assert texts == ["ORIGINAL", "FORKEDTASK"]
    assert [entry["payload"]["text"] for entry in bench.entries(original["id"]) if entry["kind"] == "user.message"] == [
        "ORIGINAL"
    ]


@pytest.mark.parametrize("host", ["codex"], indirect=True)
def test_hooks_that_are_not_trusted_are_a_problem(bench: Bench) -> None:
    shutil.copy(bench.agent_home / ".codex" / "config.toml", bench.agent_home / "trusted.toml")
    agents.set_up("codex", bench.agent_home, bench.server.url)
    bench.server.add(Scenario("UNSEEN", [Say("Done.")]))
    bench.run("UNSEEN")
    found = bench.bridge("hooks", "status", "codex", status=1)
    assert (found["trusted"], found["to_trust"]) == (0, len(HOST_SETTINGS["codex"].events))
    assert [one["code"] for one in found["problems"]] == ["not_trusted", "nothing_recorded"]
    shutil.copy(bench.agent_home / "trusted.toml", bench.agent_home / ".codex" / "config.toml")
    bench.server.add(Scenario("SEENTASK", [Say("Done.")]))
    bench.run("SEENTASK")
    bench.wait_for_turns(1)
    assert bench.bridge("hooks", "status", "codex")["problems"] == []
