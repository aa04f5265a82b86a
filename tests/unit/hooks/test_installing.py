"""Hooks in the settings of hosts: what is foreign stays, and comes back byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bridge.foundation.config import Settings
from bridge.hooks.errors import HostSettingsChanged, HostSettingsUnreadable
from bridge.hooks.hosts import HOST_SETTINGS, TIMEOUT_SECONDS, Scope, hook_line
from bridge.hooks.installing import inspect, install, plan_install, plan_uninstall, uninstall
from bridge.hooks.trust import Trust, trust_of, trusted_hash

FOREIGN = """{
  // mine
  "model": "x",
  "hooks": {
    "Stop": [
      { "hooks": [ { "type": "command", "command": "make fmt", "timeout": 60 } ] }
    ],
    "Notification": []
  }, // keep
  "env": {"A": "1"}
}
"""


@pytest.fixture
def settings(tmp_path):
    home = tmp_path / "state"
    return Settings(home=home, database_url=f"sqlite:///{home}/bridge.db")


@pytest.fixture(params=sorted(HOST_SETTINGS))
def host(request):
    return HOST_SETTINGS[request.param]


@pytest.fixture
def path(host, tmp_path):
    return host.path({"HOME": str(tmp_path / "home")}, Scope.USER, Path("/"))


def put(settings, host, path):
    change = plan_install(settings, host, path)
    install(settings, change)
    return change


def take(settings, host, path):
    change = plan_uninstall(settings, host, path)
    uninstall(settings, change)
    return change


def test_the_line_never_changes():
    """A host trusts this very text; another one would silence every installation there is."""
    home = Path("/home/me/.local/state/bridge")
    assert {name: hook_line(home, name) for name in HOST_SETTINGS} == {
        "claude-code": "/home/me/.local/state/bridge/hooks/bridge-hook claude-code 2>/dev/null || true",
        "codex": "/home/me/.local/state/bridge/hooks/bridge-hook codex 2>/dev/null || true",
        "gemini": "/home/me/.local/state/bridge/hooks/bridge-hook gemini 2>/dev/null || true",
    }
    assert hook_line(Path("/a b"), "codex") == "'/a b/hooks/bridge-hook' codex 2>/dev/null || true"


def test_each_host_gets_its_time_in_its_own_unit():
    units = {name: host.entry("x")["hooks"][0]["timeout"] for name, host in HOST_SETTINGS.items()}
    assert units == {"claude-code": TIMEOUT_SECONDS, "codex": TIMEOUT_SECONDS, "gemini": TIMEOUT_SECONDS * 1000}


def test_settings_lie_where_the_host_looks(tmp_path):
    home = {"HOME": "/h"}
    places = {name: str(host.path(home, Scope.USER, tmp_path)) for name, host in HOST_SETTINGS.items()}
    assert places == {
        "claude-code": "/h/.claude/settings.json",
        "codex": "/h/.codex/hooks.json",
        "gemini": "/h/.gemini/settings.json",
    }
    named = {"HOME": "/h", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/d"}
    assert str(HOST_SETTINGS["codex"].path(named, Scope.USER, tmp_path)) == "/c/hooks.json"
    assert str(HOST_SETTINGS["claude-code"].path(named, Scope.USER, tmp_path)) == "/d/settings.json"
    assert HOST_SETTINGS["gemini"].path(home, Scope.PROJECT, tmp_path) == tmp_path / ".gemini/settings.json"


def test_where_there_was_nothing_nothing_is_left(settings, host, path):
    put(settings, host, path)
    assert set(json.loads(path.read_text())["hooks"]) == set(host.events)
    assert take(settings, host, path).is_exact
    assert not path.exists()
    assert not path.parent.exists()


@pytest.mark.parametrize("text", [FOREIGN, "{}", "", '{"hooks": {}}', "// only this\n", FOREIGN.replace("\n", "\r\n")])
def test_what_was_there_comes_back_byte_for_byte(settings, host, path, text):
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    put(settings, host, path)
    found = inspect(settings, host, path)
    assert (set(found.events), found.missing) == (set(host.events), ())
    if "make fmt" in text:
        assert all(line in path.read_text() for line in ("  // mine", "  }, // keep", '"command": "make fmt"'))
    assert path.stat().st_mode & 0o777 == 0o640
    take(settings, host, path)
    assert path.read_bytes() == text.encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert not list((settings.home / "hooks" / "backups").glob("*")) if text else True


def test_foreign_hooks_keep_their_places(settings, path, host):
    path.parent.mkdir(parents=True)
    path.write_text(FOREIGN)
    put(settings, host, path)
    plain = inspect(settings, host, path)
    if "Stop" in host.events:
        assert plain.events["Stop"] == (1, 0)


def test_installing_again_changes_nothing(settings, host, path):
    put(settings, host, path)
    before = path.read_bytes()
    assert not put(settings, host, path).is_change
    assert path.read_bytes() == before
    take(settings, host, path)
    assert not path.exists()
    assert not take(settings, host, path).is_change


def test_changed_since_only_what_is_bridges_goes(settings, host, path):
    path.parent.mkdir(parents=True)
    path.write_text(FOREIGN)
    put(settings, host, path)
    path.write_text(path.read_text().replace('"model": "x"', '"model": "y"'))
    assert not take(settings, host, path).is_exact
    assert path.read_text() == FOREIGN.replace('"model": "x"', '"model": "y"')


def test_an_entry_of_an_earlier_release_is_brought_up_to_date_and_the_original_still_comes_back(settings, host, path):
    path.parent.mkdir(parents=True)
    path.write_text(FOREIGN)
    put(settings, host, path)
    text = path.read_text().replace(f'"timeout": {host.timeout}', '"timeout": 1')
    path.write_text(text)
    assert set(inspect(settings, host, path).missing) == set(host.events)
    put(settings, host, path)
    assert inspect(settings, host, path).missing == ()
    assert path.read_text().count("bridge-hook") == len(host.events)
    take(settings, host, path)
    assert "bridge-hook" not in path.read_text()
    assert "make fmt" in path.read_text()


def test_planning_alone_writes_nothing(settings, host, path):
    change = plan_install(settings, host, path)
    assert change.is_change
    assert change.diff().startswith("---")
    assert not path.exists()
    assert not settings.home.exists()


def test_settings_that_are_a_link_stay_one(settings, host, path, tmp_path):
    real = tmp_path / "dotfiles" / "settings"
    real.parent.mkdir()
    real.write_text("{}")
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    put(settings, host, path)
    assert path.is_symlink()
    assert "bridge-hook" in real.read_text()
    take(settings, host, path)
    assert (path.is_symlink(), real.read_text()) == (True, "{}")


@pytest.mark.parametrize(
    ("data", "line"),
    [(b'{\n"a" 1}', 2), (b"[]", 1), (b'{"hooks": []}', 1), (b"\xff", 1), (b'{"hooks": {"Stop": 1}}', 1)],
)
def test_settings_that_the_host_would_not_read_are_left_alone(settings, host, path, data, line):
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(HostSettingsUnreadable) as raised:
        plan_install(settings, host, path)
    assert raised.value.details["line"] == line
    assert path.read_bytes() == data


def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(settings, host, path):
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    change = plan_install(settings, host, path)
    path.write_text('{"a": 1}')
    with pytest.raises(HostSettingsChanged):
        install(settings, change)
    assert path.read_text() == '{"a": 1}'


def test_trust_is_read_as_the_host_writes_it(settings, tmp_path):
    host = HOST_SETTINGS["codex"]
    path = host.path({"HOME": str(tmp_path)}, Scope.USER, Path("/"))
    put(settings, host, path)
    line = hook_line(settings.home, host.name)
    found = inspect(settings, host, path)
    assert trust_of(host, found, line, path) == Trust(0, len(host.events))
    config = path.with_name("config.toml")
    real = os.path.realpath(path)
    tables = [
        f'[hooks.state."{real}:session_start:0:0"]\ntrusted_hash = "{trusted_hash(host, "SessionStart", line)}"\n',
        f'[hooks.state."{real}:stop:0:0"]\ntrusted_hash = "sha256:{"0" * 64}"\n',
        f'[hooks.state."{real}:user_prompt_submit:0:0"]\nenabled = false',
        f'trusted_hash = "{trusted_hash(host, "UserPromptSubmit", line)}"\n',
    ]
    config.write_text("\n".join(tables))
    assert trust_of(host, found, line, path) == Trust(1, len(host.events))
    config.write_text("not toml [")
    assert trust_of(host, found, line, path) == Trust(0, len(host.events))
    assert trust_of(HOST_SETTINGS["gemini"], found, line, path) is None


def test_the_digest_of_a_trusted_hook_is_the_hosts_own():
    """As codex 0.171.0 stored it for this very line, time and event."""
    host = HOST_SETTINGS["codex"]
    line = hook_line(Path("/opt/bridge"), "codex")
    assert host.timeout == 5
    assert trusted_hash(host, "Stop", line) == (
        "sha256:49702a844df63ae4091d3e1fc94ad9e63eb081870e0fb3c994909c326c7db1e5"
    )
    assert trusted_hash(host, "SubagentStop", line) == (
        "sha256:d0faffc8f017bc4053fded7ef000eac7b3b61d16114fc72c8be4f09e978050c9"
    )
