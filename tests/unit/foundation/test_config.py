"""Settings: from a given environment and config.toml, refused rather than guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.foundation.config import load_settings
from bridge.foundation.errors import InvalidConfiguration


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


def test_everything_follows_from_the_state_directory(home: Path) -> None:
    settings = load_settings({"BRIDGE_HOME": str(home)})

    assert settings.home == home
    assert settings.database_url == f"sqlite:///{home}/bridge.db"
    assert settings.git_timeout_seconds == 30.0
    assert (settings.worktrees, settings.tasks) == (home / "worktrees", home / "tasks")


def test_the_state_directory_need_not_exist(tmp_path: Path) -> None:
    assert load_settings({"BRIDGE_HOME": str(tmp_path / "new")}).home == tmp_path / "new"


def test_the_default_is_the_state_directory_of_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bridge.foundation.config.platformdirs.user_state_dir", lambda *_, **__: str(tmp_path))

    assert load_settings({}).home == tmp_path
    assert load_settings({"BRIDGE_HOME": ""}).home == tmp_path


def test_a_database_url_is_taken_as_it_stands(home: Path) -> None:
    url = "postgresql+psycopg://localhost/bridge?connect_timeout=5"
    assert load_settings({"BRIDGE_HOME": str(home), "BRIDGE_DATABASE_URL": url}).database_url == url


def test_a_relative_state_directory_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="absolute"):
        load_settings({"BRIDGE_HOME": "state"})


def test_a_state_directory_that_a_url_cannot_hold_is_refused_unless_the_database_is_elsewhere(tmp_path: Path) -> None:
    environment = {"BRIDGE_HOME": str(tmp_path / "why?")}
    with pytest.raises(InvalidConfiguration, match="question mark"):
        load_settings(environment)
    assert load_settings({**environment, "BRIDGE_DATABASE_URL": "sqlite:////x.db"}).database_url == "sqlite:////x.db"


def test_config_file_sets_the_time_limit(home: Path) -> None:
    (home / "config.toml").write_text("git_timeout_seconds = 5\n")
    assert load_settings({"BRIDGE_HOME": str(home)}).git_timeout_seconds == 5.0


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"git_timeout_seconds = 0", "positive"),
        (b"git_timeout_seconds = -1.5", "positive"),
        (b"git_timeout_seconds = nan", "positive"),
        (b"git_timeout_seconds = inf", "positive"),
        (b"git_timeout_seconds = true", "positive"),
        (b'git_timeout_seconds = "5"', "positive"),
        (b"auto_upgrade = 1", "true or false"),
        (b'auto_upgrade = "no"', "true or false"),
        (b"git_timeout = 5", "unknown key 'git_timeout'"),
        (b"[git]\ntimeout = 5", "unknown key 'git'"),
        (b"git_timeout_seconds =", "config.toml"),
        (b"\xff\xfe", "config.toml"),
    ],
)
def test_a_wrong_config_file_is_refused_by_name(home: Path, content: bytes, named: str) -> None:
    (home / "config.toml").write_bytes(content)
    with pytest.raises(InvalidConfiguration, match=named) as caught:
        load_settings({"BRIDGE_HOME": str(home)})
    assert "config.toml" in caught.value.message


def test_upgrades_at_opening_can_be_switched_off(home: Path) -> None:
    assert load_settings({"BRIDGE_HOME": str(home)}).auto_upgrade
    (home / "config.toml").write_text("auto_upgrade = false\n")
    assert not load_settings({"BRIDGE_HOME": str(home)}).auto_upgrade


def test_an_unreadable_config_file_is_refused(home: Path) -> None:
    (home / "config.toml").mkdir()
    with pytest.raises(InvalidConfiguration, match=r"config\.toml"):
        load_settings({"BRIDGE_HOME": str(home)})


def test_snapshots_are_off_unless_asked_for(home: Path) -> None:
    settings = load_settings({"BRIDGE_HOME": str(home)})
    assert settings.snapshots == "off"
    assert settings.objects == home / "objects"
    (home / "config.toml").write_text('snapshots = "dirty"\nsnapshot_limit_bytes = 1\n')
    settings = load_settings({"BRIDGE_HOME": str(home)})
    assert (settings.snapshots, settings.snapshot_limit_bytes) == ("dirty", 1)


@pytest.mark.parametrize("value", ['"on"', "true", "1", '""', '"DIRTY"', "[]"])
def test_any_other_word_for_snapshots_is_refused(home: Path, value: str) -> None:
    (home / "config.toml").write_text(f"snapshots = {value}\n")
    with pytest.raises(InvalidConfiguration, match='snapshots must be "off" or "dirty"'):
        load_settings({"BRIDGE_HOME": str(home)})


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "true", '"64M"'])
def test_a_snapshot_limit_that_is_no_number_of_bytes_is_refused(home: Path, value: str) -> None:
    (home / "config.toml").write_text(f"snapshot_limit_bytes = {value}\n")
    with pytest.raises(InvalidConfiguration, match="snapshot_limit_bytes must be a positive whole number"):
        load_settings({"BRIDGE_HOME": str(home)})


@pytest.mark.parametrize(("text", "expected"), [("", False), ("spark = true", True), ("spark = false", False)])
def test_workers_get_the_spark_where_that_is_asked_for(home: Path, text: str, expected: bool) -> None:
    (home / "config.toml").write_text(f"[worker]\n{text}\n")
    assert load_settings({"BRIDGE_HOME": str(home)}).worker.spark is expected


@pytest.mark.parametrize(
    "text", ["worker = true", "[worker]\nspark = 1", "[worker]\nspark = []", "[worker]\nother = true"]
)
def test_another_table_for_workers_is_refused(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text)
    with pytest.raises(InvalidConfiguration, match="worker must be a table with spark = true or false"):
        load_settings({"BRIDGE_HOME": str(home)})


def test_harnesses_are_read_from_tables(home: Path) -> None:
    (home / "config.toml").write_text(
        'chat_harness = "mine"\n[harness.mine]\ncommand = ["a", "--acp"]\nenv = {X = "1"}\ncapabilities = ["fs"]\n'
        '[harness.bare]\ncommand = ["b"]\n'
    )
    settings = load_settings({"BRIDGE_HOME": str(home)})

    assert settings.chat_harness == "mine"
    assert settings.harness["mine"].command == ("a", "--acp")
    assert settings.harness["mine"].env == {"X": "1"}
    assert settings.harness["mine"].capabilities == frozenset({"fs"})
    assert settings.harness["bare"].capabilities is None


@pytest.mark.parametrize(
    "content",
    [
        "harness = 3",
        "[harness]",
        "[harness.x]",
        '[harness.x]\ncommand = "a b"',
        "[harness.x]\ncommand = []",
        '[harness.x]\ncommand = ["a", 3]',
        '[harness.x]\ncommand = ["a"]\nenv = {X = 1}',
        '[harness.x]\ncommand = ["a"]\ncapabilities = ["fly"]',
        '[harness.x]\ncommand = ["a"]\nshell = true',
        '[harness."../x"]\ncommand = ["a"]',
        "chat_harness = 3",
        'chat_harness = "a b"',
    ],
)
def test_a_harness_that_cannot_be_is_refused(home: Path, content: str) -> None:
    (home / "config.toml").write_text(content)
    with pytest.raises(InvalidConfiguration, match="harness"):
        load_settings({"BRIDGE_HOME": str(home)})


def test_a_model_for_the_deep_search_is_one_of_a_library_or_a_program(home: Path) -> None:
    assert load_settings({"BRIDGE_HOME": str(home)}).deep_search is None
    (home / "config.toml").write_text('[deep_search]\nharness = "pi"\nprogram = "/opt/pi"\n')
    found = load_settings({"BRIDGE_HOME": str(home)}).deep_search
    assert found is not None
    assert (found.harness, found.program, found.model) == ("pi", "/opt/pi", None)
    (home / "config.toml").write_text('[deep_search]\nmodel = "openai:x"\nbase_url = "http://localhost"\n')
    found = load_settings({"BRIDGE_HOME": str(home)}).deep_search
    assert found is not None
    assert (found.harness, found.model, found.base_url) == (None, "openai:x", "http://localhost")


@pytest.mark.parametrize(
    "content",
    [
        "deep_search = 3",
        "[deep_search]",
        '[deep_search]\nprogram = "/opt/pi"',
        '[deep_search]\nharness = "pi"\nmodel = "openai:x"',
        '[deep_search]\nmodel = "openai:x"\nprogram = "/opt/pi"',
        '[deep_search]\nmodel = ""',
        "[deep_search]\nmodel = 3",
        '[deep_search]\nmodel = "openai:x"\napi_key = "no key belongs here"',
    ],
)
def test_another_table_for_the_deep_search_is_refused(home: Path, content: str) -> None:
    (home / "config.toml").write_text(content)
    with pytest.raises(InvalidConfiguration, match="deep_search"):
        load_settings({"BRIDGE_HOME": str(home)})
