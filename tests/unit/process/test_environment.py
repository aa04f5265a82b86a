"""What a child inherits, and what it must not."""

from __future__ import annotations

from bridge.process.environment import KEPT_GIT_VARIABLES, child_environment


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
