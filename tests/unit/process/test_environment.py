"""What a child inherits, and what it must not."""

from __future__ import annotations

import pytest

from bridge.process.environment import KEPT_GIT_VARIABLES, child_environment, worker_environment


def test_variables_that_misdirect_git_or_betray_the_controller_are_left_out() -> None:
    base = {
        "PATH": "/bin",
        "GIT_DIR": "/elsewhere/.git",
        "GIT_INDEX_FILE": "/elsewhere/index",
        "GIT_WORK_TREE": "/elsewhere",
        "GIT_CONFIG_COUNT": "1",
        "BRIDGE_TOKEN": "secret",
        "BRIDGE_DATABASE_URL": "postgresql://user:password@host/db",
        "BRIDGE_TASK": "/the/enclosing/task.json",
    }
    assert child_environment(base, {}) == {"PATH": "/bin"}


def test_who_commits_is_inherited_but_not_when() -> None:
    base = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z"}
    assert child_environment(base, {}) == {"GIT_AUTHOR_NAME": "A"}


def test_no_kept_variable_names_a_repository() -> None:
    locating = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"}
    assert not KEPT_GIT_VARIABLES & (locating | {"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_PREFIX"})


def test_additions_win_and_are_not_stripped() -> None:
    base = {"BRIDGE_TASK": "old", "LANG": "C"}
    assert child_environment(base, {"BRIDGE_TASK": "new", "LANG": "en"}) == {"BRIDGE_TASK": "new", "LANG": "en"}
    assert base == {"BRIDGE_TASK": "old", "LANG": "C"}


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN", "DB_PASSWORD", "api_key", "MY_PAT", "X_AUTH_Y", "KEY"),
        *("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "GOOGLE_CREDENTIALS"),
    ],
)
def test_a_worker_does_not_inherit_what_opens_something(name: str) -> None:
    assert worker_environment({name: "x"}) == {}
    assert worker_environment({name: "x"}, [name]) == {name: "x"}


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "PWD", "OLDPWD", "KEYBOARD", "TOKENIZERS_PARALLELISM", "GIT_ASKPASS", "MONKEY", "AUTHOR"]
)
def test_a_worker_inherits_the_rest(name: str) -> None:
    assert worker_environment({name: "x"}) == {name: "x"}


def test_a_worker_reaches_its_model_and_its_proxy() -> None:
    base = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "https_proxy": "http://u:p@proxy", "CODEX_TOKEN": "t"}
    assert worker_environment(base) == base


def test_a_url_with_a_password_is_left_out_and_one_without_is_not() -> None:
    assert worker_environment({"STORE": "postgresql://u:p@h/d"}) == {}
    assert worker_environment({"STORE": "postgresql://u@h/d"}) == {"STORE": "postgresql://u@h/d"}


def test_patterns_let_a_family_pass() -> None:
    base = {"AWS_SECRET_ACCESS_KEY": "a", "OTHER_SECRET": "b"}
    assert worker_environment(base, ["AWS_*"]) == {"AWS_SECRET_ACCESS_KEY": "a"}
