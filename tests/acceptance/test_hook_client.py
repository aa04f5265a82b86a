"""The hook client with the real program, a real repository and a recorded conversation."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import bridge.hooks

CLIENT = Path(bridge.hooks.__file__).with_name("client.py")


@pytest.fixture
def hook(bridge_cli, repository, tmp_path):
    """Return a function that fires a session's start and gives back what the host gets."""
    program = tmp_path / "bridge-program"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(bridge_cli.command)} "$@"\n')
    program.chmod(0o755)

    def fire(session: str | None) -> bytes:
        event = {"hook_event_name": "SessionStart", "source": "resume", "cwd": str(repository.path)}
        source = CLIENT.read_text(encoding="utf-8")
        # A busy machine may need longer than an agent's user should wait.
        for short in ("ANSWER_SECONDS = 4.0", "LIFE_SECONDS = 5.0"):
            assert short in source
            source = source.replace(short, short.partition("=")[0] + "= 60.0")
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", source, "claude-code", str(program)],
            input=json.dumps(event).encode(),
            capture_output=True,
            env={**bridge_cli.environment({"BRIDGE_SESSION": session})},
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    return fire


def test_the_agent_is_told_what_changed_and_nothing_when_nothing_did(bridge_cli, repository, hook):
    session = bridge_cli("session", "new", "--json", cwd=repository.path).ok().json()["id"]
    bridge_cli("append", session, "--kind", "user.message", "--text", "hello", cwd=repository.path).ok()
    assert hook(session) == b""
    (repository.path / "a.txt").write_text("edited behind its back\n")
    told = json.loads(hook(session))["hookSpecificOutput"]
    assert told["hookEventName"] == "SessionStart"
    assert '"a.txt"' in told["additionalContext"]
    status = bridge_cli("status", session, "--agent", "--json", cwd=repository.path).ok().json()
    assert told["additionalContext"] == status["agent_text"]


def test_it_is_inert_without_a_conversation_and_for_one_that_does_not_exist(repository, hook, bridge_home):
    (repository.path / "a.txt").write_text("edited\n")
    assert hook(None) == b""
    assert hook("20260101-000000-ffff") == b""
    assert not bridge_home.exists()


def test_a_conversation_without_a_repository_says_nothing(bridge_cli, hook):
    session = bridge_cli("session", "new", "--no-workspace", "--json").ok().json()["id"]
    assert hook(session) == b""
    assert os.environ.get("BRIDGE_SESSION") is None
