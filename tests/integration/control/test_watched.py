"""What a resident observer recalls, what it looks at anew, and what it never recalls."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from bridge.control.watched import COOKIE_FOLDER, CachedObserver
from bridge.foundation.clock import FixedClock, SystemClock
from bridge.git import meaning
from bridge.git.observe import observe
from bridge.git.remembering import RememberingLook
from bridge.semantics.stamps import UnknownReason


class CountingLook:
    """Observes for real, counts, and lets a test do something before or after."""

    def __init__(self):
        self.count = 0
        self.before = self.after = lambda: None

    def __call__(self, path, **options):
        self.count += 1
        self.before()
        seen = observe(path, **options)
        self.after()
        return seen


@pytest.fixture
def look():
    return CountingLook()


@pytest.fixture
def make(bridge_home, look, monkeypatch):
    monkeypatch.setattr(meaning, "SETTLING_SECONDS", 0.0)
    made = []

    def make(*, clock=None, **options):
        memory = RememberingLook(bridge_home / COOKIE_FOLDER, look=look, **options)
        observer = CachedObserver(clock or SystemClock(), state_directory=bridge_home, memory=memory)
        made.append(observer)
        return observer

    yield make
    for observer in made:
        observer.close()


@pytest.fixture
def observer(make):
    return make(watch_at_request=1)


def test_an_unchanged_worktree_is_looked_at_once(observer, repository, look):
    first = observer.observe(repository.path)
    assert first.confirmed_at is None
    for _ in range(5):
        again = observer.observe(repository.path)
        assert (again.state, again.manifest) == (first.state, first.manifest)
    assert look.count == 1
    figures = observer.figures()
    assert (figures.recalled, figures.observed, figures.failures) == (5, 1, {})


def test_a_watch_begins_when_a_worktree_is_asked_about_again(make, repository, look):
    observer = make()
    for _ in range(4):
        observer.observe(repository.path)
    assert look.count == 2


def test_a_recalled_answer_says_when_the_files_were_looked_at_and_until_when_that_holds(make, repository):
    observer = make(watch_at_request=1, clock=FixedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    first = observer.observe(repository.path)
    second, third = observer.observe(repository.path), observer.observe(repository.path)
    assert first.observed_at == second.observed_at == third.observed_at
    assert first.observed_at < second.confirmed_at < third.confirmed_at
    assert second.stamp == first.stamp


def test_a_change_is_seen(observer, repository, look):
    observer.observe(repository.path)
    repository.write("a.txt", "edited\n")
    seen = observer.observe(repository.path)
    assert (seen.is_clean, seen.confirmed_at, look.count) == (False, None, 2)
    assert observer.observe(repository.path).confirmed_at is not None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_observation_during_which_something_changed_is_not_recalled(observer, repository, look, moment):
    setattr(look, moment, lambda: repository.write("a.txt", f"edited {moment}\n"))
    observer.observe(repository.path)
    setattr(look, moment, lambda: None)
    seen = observer.observe(repository.path)
    assert (seen.is_clean, seen.confirmed_at, look.count) == (False, None, 2)


def test_an_exact_look_never_recalls(observer, repository, look):
    observer.observe(repository.path)
    observer.observe(repository.path)
    repository.git("update-index", "--assume-unchanged", "a.txt")
    count = look.count
    for _ in range(3):
        seen = observer.observe_exactly(repository.path)
        assert seen.confirmed_at is None
        assert seen.unobserved == (b"a.txt",)
    assert look.count == count + 3


def test_an_exact_look_sees_what_gives_no_event(observer, repository):
    """A watch that says "nothing happened" although it did must not reach evidence."""
    observer.observe(repository.path)
    worktree = next(iter(observer._memory._worktrees.values()))
    worktree.watch.is_quiet_since = lambda _mark: True
    repository.write("a.txt", "edited\n")
    assert observer.observe(repository.path).is_clean
    assert not observer.observe_exactly(repository.path).is_clean


def test_subfolders_and_symlinks_share_what_is_known(observer, repository, look, tmp_path):
    repository.write("sub/file")
    (tmp_path / "link").symlink_to(repository.path)
    observer.observe(repository.path)
    paths = [repository.path / "sub", tmp_path / "link", tmp_path / "link" / "sub", repository.path / "sub" / "file"]
    states = {observer.observe(path).state.state_digest for path in paths for _ in range(2)}
    assert (len(states), look.count) == (1, 1)


def test_a_subfolder_that_became_a_repository_is_another_worktree(observer, repository):
    inner = type(repository)(repository.path / "inner")
    repository.write("inner/file")
    outer_state = observer.observe(inner.path).state
    assert observer.observe(inner.path).confirmed_at is not None
    inner.git("init", "-q", "-b", "main")
    observer.observe(repository.path)
    assert observer.observe(repository.path).confirmed_at is not None
    assert observer.observe(inner.path).state.repository_id != outer_state.repository_id
    assert observer.observe(inner.path).state.repository_id != outer_state.repository_id
    assert observer.observe(repository.path).state.repository_id == outer_state.repository_id


def test_a_link_that_leads_elsewhere_now_is_followed(observer, repository, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(repository.path, other)
    link = tmp_path / "link"
    link.symlink_to(repository.path)
    states = [observer.observe(link).state for _ in range(2)]
    link.unlink()
    link.symlink_to(other)
    states += [observer.observe(link).state for _ in range(2)]
    assert states[0] == states[1] != states[2] == states[3]


@pytest.mark.parametrize("kind", ["no repository", "bare", "unreadable"])
def test_what_is_unknown_is_never_recalled(observer, repository, look, tmp_path, kind):
    path = tmp_path
    if kind == "bare":
        path = tmp_path / "bare.git"
        repository.git("init", "-q", "--bare", path)
    elif kind == "unreadable":
        path = repository.path
        (path / ".git" / "index").write_bytes(b"broken")
    for _ in range(3):
        assert observer.observe(path).unknown is not None
    assert look.count == 3


def test_a_git_directory_from_outside_its_work_tree_is_looked_at_each_time(observer, repository, look, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repository.git("config", "core.worktree", str(elsewhere))
    for _ in range(3):
        observer.observe(repository.path)
    assert look.count == 3


def test_a_vanished_worktree_has_no_path(observer, repository):
    observer.observe(repository.path)
    shutil.rmtree(repository.path)
    assert observer.observe(repository.path).unknown is UnknownReason.NO_PATH
    assert observer.observe(None).unknown is UnknownReason.NO_PATH


def test_only_so_many_worktrees_are_watched(make, repository, look, tmp_path):
    observer = make(watch_at_request=1, max_worktrees=2)
    paths = [tmp_path / f"w{number}" for number in range(3)]
    for path in paths:
        repository.git("worktree", "add", "-q", "--detach", path)
    for path in paths:
        observer.observe(path)
    descriptors = len(os.listdir("/proc/self/fd"))
    assert observer.observe(paths[2]).confirmed_at is not None
    assert observer.observe(paths[1]).confirmed_at is not None
    assert observer.observe(paths[0]).confirmed_at is None
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert look.count == 4


def test_a_watch_that_fails_means_looking_each_time(make, repository, look):
    watch = SimpleNamespace(failure="broken", mark=lambda **_: None, is_quiet_since=lambda _: True, close=lambda: None)
    observer = make(watch_at_request=1, make_watch=lambda *_: watch)
    for _ in range(3):
        assert observer.observe(repository.path).is_clean
    assert look.count == 3
    assert list(observer.figures().failures.values()) == ["broken"]


def test_many_threads_get_right_answers(observer, repository, look):
    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            repository.write("a.txt", f"{number}\n")
            truth = observe(repository.path, clock=SystemClock()).state
            answers = list(pool.map(lambda _: observer.observe(repository.path).state, range(16)))
            assert answers == [truth] * 16
    assert look.count <= 10 * 16


def test_nothing_is_left_behind(observer, repository, bridge_home):
    observer.observe(repository.path)
    assert len(list((bridge_home / COOKIE_FOLDER).iterdir())) == 1
    observer.close()
    assert list((bridge_home / COOKIE_FOLDER).iterdir()) == []
    assert observer.observe(repository.path).is_clean
