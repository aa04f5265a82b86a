"""``bridge doctor`` on this machine."""

from __future__ import annotations


def by_name(report):
    return {check["name"]: check for check in report["checks"]}


def test_an_ordinary_machine_passes(bridge_cli):
    report = bridge_cli("doctor", "--json").ok().json()
    assert report["status"] in {"ok", "warning"}
    assert {"python", "git", "sqlite", "command_path", "encoding", "configuration"} <= set(by_name(report))
    for check in report["checks"]:
        assert set(check) == {"name", "status", "detail", "hint", "facts"}
        assert check["status"] == "ok" or check["hint"], check


def test_it_changes_nothing(bridge_cli, bridge_home):
    bridge_cli("doctor").ok()
    assert not bridge_home.exists()
    assert list(bridge_cli.directory.iterdir()) == []


def test_a_state_directory_that_is_a_file_fails_the_check(bridge_cli, bridge_home):
    bridge_home.write_text("not a directory")
    found = bridge_cli("doctor", "--json")
    assert found.status == 1
    assert found.json()["status"] == "failed"
    assert found.stderr == ""
    state = by_name(found.json())["state_directory"]
    assert state["status"] == "failed"
    assert "BRIDGE_HOME" in state["hint"]


def test_a_broken_configuration_is_a_finding(bridge_cli, bridge_home):
    bridge_home.mkdir(mode=0o700)
    (bridge_home / "config.toml").write_text("no_such_key = 1\n")
    found = bridge_cli("doctor", "--json")
    assert found.status == 1
    assert by_name(found.json())["configuration"]["status"] == "failed"


def test_another_program_called_bridge_in_front_is_a_warning(bridge_cli, tmp_path):
    other = tmp_path / "sbin" / "bridge"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 0\n")
    other.chmod(0o755)
    path = f"{other.parent}:{bridge_cli.environment()['PATH']}"
    check = by_name(bridge_cli("doctor", "--json", environment={"PATH": path}).ok().json())["command_path"]
    assert check["status"] == "warning"
    assert str(other) in check["detail"]


def test_a_missing_git_fails_the_check(bridge_cli, tmp_path):
    (tmp_path / "empty").mkdir()
    found = bridge_cli("doctor", "--json", environment={"PATH": str(tmp_path / "empty")})
    assert found.status == 1
    assert by_name(found.json())["git"]["status"] == "failed"


def test_harnesses_are_asked_when_somebody_wants_to_know(bridge_cli, bridge_home, tmp_path):
    bridge_home.mkdir(mode=0o700)
    silent = tmp_path / "silent-agent"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    (bridge_home / "config.toml").write_text(f'[harness.silent]\ncommand = ["{silent}"]\ncapabilities = ["mcp"]\n')
    path = {"PATH": "/usr/bin:/bin"}
    told = by_name(bridge_cli("doctor", "--json", environment=path).ok().json())["harnesses"]
    facts = {item["name"]: item for item in told["facts"]["harnesses"]}
    assert facts["silent"]["lacks"] == ["fs", "load", "resume", "terminal"]
    assert facts["pi"]["lacks"] == ["fs", "load", "terminal"]
    assert "version" not in facts["scripted"]
    told = by_name(bridge_cli("doctor", "--json", "--harnesses", environment=path).ok().json())["harnesses"]
    facts = {item["name"]: item for item in told["facts"]["harnesses"]}
    assert told["status"] == "warning"
    assert "silent" in told["detail"]
    assert "exit status 3" in facts["silent"]["problem"]
    assert facts["scripted"]["problem"] is None
    assert facts["scripted"]["version"]
