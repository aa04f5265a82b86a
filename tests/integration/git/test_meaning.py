"""Settings read once for all worktrees of a repository, as long as nothing in them depends on which one it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.git import meaning
from bridge.git.history import upstream_distance
from bridge.git.meaning import is_known_untracking, meaning_settings, outside_files
from bridge.git.process import child_environment
from bridge.git.repository import discover
from bridge.git.worktrees import add_detached


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders in which git is asked for its configuration, in order."""
    found: list[Path] = []
    original = meaning.run_git

    def counted(arguments: Any, **keys: Any) -> Any:
        found.append(keys["cwd"])
        return original(arguments, **keys)

    monkeypatch.setattr(meaning, "run_git", counted)
    return found


def settings(path: Path) -> Any:
    return meaning_settings(discover(path), child_environment(), timeout_seconds=30)


@pytest.fixture
def settled(repository: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A repository whose settings are old enough to be remembered."""
    monkeypatch.setattr(meaning, "SETTLING_SECONDS", 0.0)
    return repository


def another(repository: Any, path: Path) -> Path:
    repository.commit("one", a_txt="a\n")
    add_detached(discover(repository.path), path, repository.head())
    return path


def test_a_new_worktree_is_told_what_its_repository_was(settled: Any, asked: list[Path], tmp_path: Path) -> None:
    other = another(settled, tmp_path / "other")
    first = settings(settled.path)
    assert settings(other) == first
    assert asked == [settled.path]
    assert outside_files(discover(other), child_environment(), timeout_seconds=30) is not None
    settled.git("config", "core.autocrlf", "input")
    assert settings(other) != first
    assert asked == [settled.path, other]


@pytest.mark.parametrize("name", ["extensions.worktreeConfig", "includeIf.gitdir:/nowhere/.path"])
def test_where_settings_may_differ_each_worktree_is_asked(
    settled: Any, asked: list[Path], tmp_path: Path, name: str
) -> None:
    other = another(settled, tmp_path / "other")
    settled.git("config", name, "true")
    settings(settled.path)
    settings(other)
    assert asked == [settled.path, other]


def test_a_branch_without_upstream_is_known_without_asking_and_one_with_is_not(settled: Any, tmp_path: Path) -> None:
    other = another(settled, tmp_path / "other")
    location = discover(settled.path)
    assert not is_known_untracking(location, "refs/heads/main", child_environment()), "nothing was read yet"
    settings(settled.path)
    assert is_known_untracking(location, "refs/heads/main", child_environment())
    settled.git("branch", "base")
    settled.git("branch", "--set-upstream-to=base", "main")
    assert not is_known_untracking(location, "refs/heads/main", child_environment())
    settings(settled.path)
    assert not is_known_untracking(location, "refs/heads/main", child_environment())
    distance = upstream_distance(location, "refs/heads/main", settled.head())
    assert distance is not None
    assert (distance.ahead, distance.behind) == (0, 0)
    assert settings(other) == settings(settled.path)
