"""``bridge hooks`` with the installed program, and the line in a host's settings run as the host would run it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bridge.rpc.resident.endpoint import Endpoint
from tests.serving import end_by_pid, resident, until


class Claude:
    """Runs what stands in the settings, through a shell, as the host does."""

    def __init__(self, repository, home: Path) -> None:
        self.repository = repository
        self.path = home / ".claude" / "settings.json"

    def fire(self, event: str, **fields) -> bytes:
        hook = json.loads(self.path.read_text())["hooks"][event][0]["hooks"][0]
        raw = {"hook_event_name": event, "session_id": "native", "cwd": str(self.repository.path), **fields}
        done = subprocess.run(
            ["sh", "-c", hook["command"]], input=json.dumps(raw).encode(), capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout


@pytest.fixture
def claude(repository, bridge_home, hermetic_environment):
    bridge_home.mkdir()
    # A busy machine takes longer than a person should wait; the limits are tested elsewhere.
    (bridge_home / "config.toml").write_text("hook_patience_seconds = 4\n")
    yield Claude(repository, hermetic_environment)
    end_by_pid(Endpoint(str(bridge_home)))


def test_install_record_warn_status_uninstall(bridge_cli, repository, claude, bridge_home):
    bridge_cli("init", cwd=repository.path).ok()
    planned = bridge_cli("hooks", "install", "claude-code", "--dry-run", "--json").ok().json()
    assert (planned["changed"], claude.path.exists()) == (True, False)
    assert "+++" in planned["diff"]
    bridge_cli("hooks", "install", "claude-code").ok()
    assert bridge_cli("hooks", "install", "claude-code", "--json").ok().json()["changed"] is False
    silent = bridge_cli("hooks", "status", "claude-code", "--json")
    assert silent.status == 1
    assert [one["code"] for one in silent.json()["problems"]] == ["nothing_recorded"]
    doctor = bridge_cli("doctor", "--json")
    checks = {check["name"]: check["status"] for check in doctor.json()["checks"]}
    assert (doctor.status, checks["hooks_claude_code"]) == (1, "failed")

    with resident({**os.environ, "BRIDGE_CONTROLLER": "auto"}):
        assert claude.fire("SessionStart", source="startup") == b""
        assert claude.fire("UserPromptSubmit", prompt="edit") == b""
        assert claude.fire("Stop", last_assistant_message="Done.") == b""
        until(lambda: "turn.completed" in bridge_cli("log", cwd=repository.path).ok().stdout)
        repository.commit("by somebody else", a_txt="changed\n")
        told = json.loads(claude.fire("UserPromptSubmit", prompt="again"))
        assert set(told) == {"hookSpecificOutput", "systemMessage"}
        assert "moved forward by 1 commit" in told["hookSpecificOutput"]["additionalContext"]
    found = bridge_cli("hooks", "status", "claude-code", "--json").ok().json()
    assert (found["events"], found["lost"], found["problems"]) == (4, 0, [])
    assert {c["name"]: c["status"] for c in bridge_cli("doctor", "--json").json()["checks"]}[
        "hooks_claude_code"
    ] == "ok"

    (bridge_home / "hooks" / "lost-claude-code").write_bytes(b"...")
    lost = bridge_cli("hooks", "status")
    assert lost.status == 1
    assert "3 events of claude-code were not recorded." in lost.stdout
    bridge_cli("hooks", "uninstall", "claude-code").ok()
    assert not claude.path.exists()
    assert bridge_cli("hooks", "status").ok().stdout.splitlines()[0] == "claude-code: not installed"


def test_without_a_controller_one_is_started_and_takes_in_what_was_kept(bridge_cli, repository, claude, bridge_home):
    bridge_cli("init", cwd=repository.path).ok()
    bridge_cli("hooks", "install", "claude-code").ok()
    assert claude.fire("SessionStart", source="startup") == b""
    until(
        lambda: (
            (bridge_home / "run" / "controller.json").exists() and not list((bridge_home / "hooks" / "spool").iterdir())
        )
    )
    found = bridge_cli("hooks", "status", "claude-code", "--json").ok().json()
    assert (found["events"], found["taken_in_later"], found["waiting"]) == (1, 1, 0)
    assert "session.status" in bridge_cli("log", cwd=repository.path).ok().stdout


def test_a_store_that_is_newer_costs_no_event(bridge_cli, repository, claude, bridge_home):
    import sqlite3

    bridge_cli("init", cwd=repository.path).ok()
    bridge_cli("hooks", "install", "claude-code").ok()
    with sqlite3.connect(bridge_home / "bridge.db") as connection:
        connection.execute("UPDATE schema_version SET version_num = '99'")
    connection.close()
    assert claude.fire("SessionStart", source="startup") == b""
    assert claude.fire("UserPromptSubmit", prompt="x") == b""
    assert len(list((bridge_home / "hooks" / "spool").glob("*.json"))) == 2


def test_the_line_ends_well_with_the_client_gone_or_its_python(bridge_cli, repository, claude, bridge_home):
    bridge_cli("init", cwd=repository.path).ok()
    bridge_cli("hooks", "install", "claude-code").ok()
    client = bridge_home / "hooks" / "bridge-hook"
    client.write_text("#!/no/such/python -IS\n")
    assert claude.fire("PreToolUse", tool_name="x") == b""
    status = bridge_cli("hooks", "status", "claude-code", "--json")
    assert [one["code"] for one in status.json()["problems"]] == ["client_missing", "nothing_recorded"]
    client.unlink()
    assert claude.fire("PreToolUse", tool_name="x") == b""


def test_a_project_of_its_own(bridge_cli, repository, claude):
    bridge_cli("hooks", "install", "gemini", "--scope", "project", cwd=repository.path).ok()
    assert (repository.path / ".gemini" / "settings.json").exists()
    bridge_cli("hooks", "uninstall", "gemini", "--scope", "project", cwd=repository.path).ok()
    assert not (repository.path / ".gemini").exists()


@pytest.mark.parametrize("words", [("other",), ("codex", "--scope", "machine"), ("codex", "--scope", "project")])
def test_what_there_is_not_is_said(bridge_cli, bridge_home, words, tmp_path):
    assert bridge_cli("hooks", "install", *words, cwd=tmp_path).status == 2


def test_settings_that_are_broken_are_named_with_their_line(bridge_cli, claude, repository):
    claude.path.parent.mkdir()
    claude.path.write_text('{\n  "a": \n}')
    done = bridge_cli("hooks", "install", "claude-code", "--json")
    assert (done.status, done.error()["code"], done.error()["details"]["line"]) == (234, "host_settings_unreadable", 3)
    assert claude.path.read_text() == '{\n  "a": \n}'
