"""A watch vouches for nothing but silence: what it hears, and each way in which it falls back."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.git import inotify, meaning, mounts, watching, watchtree
from bridge.git.inotify import IN_CREATE, Inotify, WatchFailed
from bridge.git.repository import discover
from bridge.git.watching import ClockReading, WorktreeWatch, read_clocks, sweep


@pytest.fixture(autouse=True)
def settings_are_settled(monkeypatch):
    """The settings of a test's repository are younger than a watch would trust."""
    monkeypatch.setattr(meaning, "SETTLING_SECONDS", 0.0)


@pytest.fixture
def cookies(tmp_path):
    return tmp_path / "state" / "watch"


@pytest.fixture
def watch_of(cookies):
    made = []

    def make(repository, **options):
        watch = WorktreeWatch(discover(repository.path), cookie_folder=cookies, **options)
        made.append(watch)
        return watch

    yield make
    for watch in made:
        watch.close()


def marked(watch):
    mark = watch.mark(timeout_seconds=30)
    assert mark is not None, watch.failure
    return mark


class Clocks:
    """The machine's clocks, moved as a test says."""

    def __init__(self):
        self.sleep = self.step = self.wait = 0.0

    def __call__(self):
        now = read_clocks()
        return ClockReading(
            now.monotonic + self.wait, now.boot + self.wait + self.sleep, now.wall + self.wait + self.sleep + self.step
        )


# -- what rests on the kernel ------------------------------------------------------------------------------------


def test_events_of_all_folders_stand_in_one_order(tmp_path):
    """What was done in other folders, by other processes, comes before our own file that was made after it."""
    folders = [tmp_path / f"f{number}" for number in range(4)]
    own = tmp_path / "own"
    for folder in (*folders, own):
        folder.mkdir()
    queue = Inotify()
    try:
        numbers = {queue.add(os.fsencode(folder), watchtree.MASK) for folder in folders}
        own_number = queue.add(os.fsencode(own), IN_CREATE)
        script = 'i=0; while [ $i -lt 100 ]; do : > "$0/$1-$i"; i=$((i+1)); done'
        for round_number in range(5):
            children = [subprocess.Popen(["sh", "-c", script, str(folder), str(round_number)]) for folder in folders]
            assert [child.wait() for child in children] == [0] * 4
            (own / str(round_number)).touch()
            created = set()
            while True:
                events = queue.read()
                assert events, "our own event is in the queue as soon as the file is made"
                for event in events:
                    if event.watch == own_number:
                        assert event.name == str(round_number).encode()
                    elif event.mask & IN_CREATE:
                        assert event.watch in numbers
                        created.add((event.watch, event.name))
                if events[-1].watch == own_number:
                    break
            assert len(created) == 400
    finally:
        queue.close()


# -- silence -----------------------------------------------------------------------------------------------------


def test_nothing_happened_is_said_again_and_again(repository, watch_of):
    watch = watch_of(repository)
    mark = marked(watch)
    assert all(watch.is_quiet_since(mark) for _ in range(50))
    assert watch.failure is None
    assert watch.folder_count > 3


def test_reading_and_a_users_status_are_no_change(repository, watch_of):
    for name in ("a.txt", "b.txt"):
        os.utime(repository.path / name, (1_000_000_000, 1_000_000_000))
    repository.git("status")  # writes the index; from here on there is nothing to write
    watch = watch_of(repository)
    mark = marked(watch)
    (repository.path / "a.txt").read_text()
    repository.git("status")  # takes and gives back index.lock
    repository.git("log", "-1")
    (repository.path / ".git" / "FETCH_HEAD").write_text("")
    assert watch.is_quiet_since(mark)


def test_nothing_is_written_into_the_repository(repository, watch_of, cookies, bytes_below):
    before = bytes_below(repository.path)
    watch = watch_of(repository)
    mark = marked(watch)
    assert watch.is_quiet_since(mark)
    watch.close()
    assert bytes_below(repository.path) == before
    assert list(cookies.iterdir()) == []


def test_several_threads_may_ask(repository, watch_of):
    watch = watch_of(repository)
    mark = marked(watch)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: watch.is_quiet_since(mark), range(200)))


# -- changes -----------------------------------------------------------------------------------------------------


def append(path, text="more\n"):
    with path.open("a") as file:
        file.write(text)


CHANGES = {
    "content": lambda repo: append(repo.path / "a.txt"),
    "same content": lambda repo: (repo.path / "a.txt").write_text("alpha\n"),
    "mode": lambda repo: (repo.path / "a.txt").chmod(0o755),
    "deleted": lambda repo: (repo.path / "a.txt").unlink(),
    "renamed over": lambda repo: (repo.path / "b.txt").rename(repo.path / "a.txt"),
    "moved in": lambda repo: (repo.path.parent / "elsewhere").rename(repo.path / "c.txt"),
    "deep file": lambda repo: append(repo.path / "deep" / "er" / "file"),
    "new folder": lambda repo: (repo.path / "new").mkdir(),
    "new folder and file at once": lambda repo: repo.write("n/e/w/file"),
    "symlink": lambda repo: (repo.path / "link").symlink_to("a.txt"),
    "bytes in a name": lambda repo: Path(os.fsdecode(os.fsencode(repo.path) + b"/\xff")).touch(),
    "index": lambda repo: repo.git("update-index", "--chmod=+x", "a.txt"),
    "index bit": lambda repo: repo.git("update-index", "--assume-unchanged", "a.txt"),
    "commit": lambda repo: repo.git("commit", "-q", "--allow-empty", "-m", "x"),
    "ref": lambda repo: repo.git("update-ref", "refs/heads/main", "other"),
    "packed refs": lambda repo: repo.git("pack-refs", "--all"),
    "new branch folder": lambda repo: repo.git("update-ref", "refs/heads/a/b/c", "HEAD"),
    "switch": lambda repo: repo.git("switch", "-q", "other"),
    "detached": lambda repo: repo.git("checkout", "-q", "--detach"),
    "symbolic ref": lambda repo: repo.git("symbolic-ref", "HEAD", "refs/heads/none"),
    "exclude": lambda repo: append(repo.path / ".git" / "info" / "exclude", "*.o\n"),
    "attributes": lambda repo: (repo.path / ".git" / "info" / "attributes").write_text("* text\n"),
    "config": lambda repo: repo.git("config", "core.fileMode", "false"),
    "worktree config": lambda repo: (repo.path / ".git" / "config.worktree").write_text("[core]\n"),
    "merge": lambda repo: repo.git("merge", "--no-commit", "--no-ff", "side"),
    "cherry-pick": lambda repo: (repo.path / ".git" / "CHERRY_PICK_HEAD").write_text(repo.head()),
    "bisect": lambda repo: repo.git("bisect", "start"),
    "sequencer": lambda repo: (repo.path / ".git" / "sequencer").mkdir(),
    "replaced object": lambda repo: repo.git("replace", "HEAD", "other"),
    "global excludes": lambda repo: append(Path(os.environ["HOME"]) / ".config" / "git" / "ignore", "*.x\n"),
    "named excludes": lambda repo: append(Path(os.environ["HOME"]) / "my-ignore", "*.x\n"),
    "target of linked excludes": lambda repo: append(Path(os.environ["HOME"]) / "dotfiles-attributes", "* text\n"),
    "included config": lambda repo: append(Path(os.environ["HOME"]) / "included", "[core]\n"),
    "config that was not there": lambda repo: (Path(os.environ["HOME"]) / ".config" / "git" / "config").touch(),
    "in a nested repository": lambda repo: append(repo.path / "nested" / "file"),
    "head of a nested repository": lambda repo: type(repo)(repo.path / "nested").commit(),
    "exclude of a nested repository": lambda repo: append(repo.path / "nested" / ".git" / "info" / "exclude", "y\n"),
    "head of a submodule": lambda repo: type(repo)(repo.path / "sub").git("update-ref", "HEAD", "HEAD~1"),
    "config of a submodule": lambda repo: type(repo)(repo.path / "sub").git("config", "core.fileMode", "false"),
    "nested gone": lambda repo: shutil.rmtree(repo.path / "nested"),
    "environment": lambda repo: os.environ.__setitem__("XDG_CONFIG_HOME", str(repo.path.parent)),
    "top level mode": lambda repo: repo.path.chmod(0o750),
    "git folder mode": lambda repo: (repo.path / ".git").chmod(0o750),
}


def furnish(repository, source):
    """Make a repository with a bit of everything that a status reads, nested ones included."""
    repository.write("deep/er/file")
    repository.commit("second")
    source.path.mkdir()
    source.git("init", "-q", "-b", "main")
    source.commit("one", file="1\n")
    source.commit("two", file="2\n")
    repository.git("submodule", "--quiet", "add", str(source.path), "sub")
    repository.commit("submodule")
    repository.git("branch", "other", "HEAD~1")
    side = repository.git("commit-tree", "-p", "HEAD", "-m", "side", "HEAD^{tree}").strip()
    repository.git("branch", "side", side)
    nested = type(repository)(repository.path / "nested")
    nested.path.mkdir()
    nested.git("init", "-q", "-b", "main")
    nested.commit("inner", file="x\n")


@pytest.fixture(scope="module")
def furnished_template(tmp_path_factory):
    """Where the furnished repository is kept once it was made (which takes as long as ten tests)."""
    return tmp_path_factory.mktemp("template") / "repository"


@pytest.fixture
def furnished(repository, tmp_path, monkeypatch, furnished_template):
    """A repository, and a home, with a bit of everything that a status reads."""
    home = Path(os.environ["HOME"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "ignore").write_text("*.tmp\n")
    (home / "my-ignore").write_text("*.bak\n")
    (home / "included").write_text("[core]\n\tignoreCase = false\n")
    (home / "dotfiles-attributes").write_text("*.bin binary\n")
    (home / "attributes").symlink_to("dotfiles-attributes")
    append(home / ".gitconfig", "[core]\n\texcludesFile = ~/my-ignore\n\tattributesFile = ~/attributes\n")
    append(home / ".gitconfig", "[include]\n\tpath = included\n")
    if not furnished_template.exists():
        furnish(repository, type(repository)(tmp_path / "source"))
        shutil.copytree(repository.path, furnished_template, symlinks=True)
    shutil.rmtree(repository.path)
    shutil.copytree(furnished_template, repository.path, symlinks=True)
    (tmp_path / "elsewhere").write_text("moved\n")
    return repository


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_heard(furnished, watch_of, name):
    watch = watch_of(furnished)
    mark = marked(watch)
    assert watch.is_quiet_since(mark)
    CHANGES[name](furnished)
    assert not watch.is_quiet_since(mark)
    assert not watch.is_quiet_since(mark)


LINKED_CHANGES = {
    "content": lambda main, linked: append(linked.path / "a.txt"),
    "own index": lambda main, linked: linked.git("update-index", "--chmod=+x", "a.txt"),
    "own head": lambda main, linked: linked.git("checkout", "-q", "--detach", "other"),
    "shared ref": lambda main, linked: main.git("update-ref", "refs/heads/work", "other"),
    "shared exclude": lambda main, linked: append(main.path / ".git" / "info" / "exclude", "z\n"),
    "shared config": lambda main, linked: main.git("config", "core.fileMode", "false"),
    "shared packed refs": lambda main, linked: main.git("pack-refs", "--all"),
    "own merge": lambda main, linked: linked.git("merge", "--no-commit", "--no-ff", "other"),
}


@pytest.mark.parametrize("name", LINKED_CHANGES)
def test_a_change_to_a_linked_worktree_is_heard(repository, watch_of, tmp_path, name):
    repository.git("switch", "-q", "-c", "other")
    repository.commit("other", c_txt="c\n")
    repository.git("switch", "-q", "main")
    repository.git("worktree", "add", "-q", "-b", "work", tmp_path / "linked")
    linked = type(repository)(tmp_path / "linked")
    watch = watch_of(linked)
    mark = marked(watch)
    append(repository.path / "a.txt")
    repository.git("add", "a.txt")
    assert watch.is_quiet_since(mark), "what happens in the main worktree is none of its business"
    LINKED_CHANGES[name](repository, linked)
    assert not watch.is_quiet_since(mark)


def test_what_a_new_folder_held_before_it_was_watched_and_gets_later_is_heard(repository, watch_of):
    watch = watch_of(repository)
    marked(watch)
    repository.write("n/e/w/file")
    mark = marked(watch)
    assert watch.is_quiet_since(mark)
    append(repository.path / "n" / "e" / "w" / "file")
    assert not watch.is_quiet_since(mark)


def test_a_folder_is_followed_when_it_moves(repository, watch_of):
    repository.write("one/deep/file")
    watch = watch_of(repository)
    marked(watch)
    count = watch.folder_count
    (repository.path / "one").rename(repository.path / "two")
    (repository.path / "two").rename(repository.path / "three")
    (repository.path / "one").mkdir()
    mark = marked(watch)
    assert watch.folder_count == count + 1
    (repository.path / "three" / "deep" / "more").mkdir()
    assert not watch.is_quiet_since(mark)
    mark = marked(watch)
    append(repository.path / "three" / "deep" / "more" / "file")
    assert not watch.is_quiet_since(mark)


def test_a_folder_that_moved_out_is_forgotten(repository, watch_of, tmp_path):
    repository.write("one/deep/file")
    watch = watch_of(repository)
    marked(watch)
    count = watch.folder_count
    (repository.path / "one").rename(tmp_path / "outside")
    mark = marked(watch)
    assert watch.folder_count == count - 2
    append(tmp_path / "outside" / "deep" / "file")
    assert watch.is_quiet_since(mark)


def test_a_repository_that_comes_to_be_is_followed(repository, watch_of):
    (repository.path / "inner").mkdir()
    watch = watch_of(repository)
    marked(watch)
    inner = type(repository)(repository.path / "inner")
    inner.git("init", "-q", "-b", "main")
    inner.commit("x", file="x\n")
    mark = marked(watch)
    inner.git("commit", "-q", "--allow-empty", "-m", "y")
    assert not watch.is_quiet_since(mark)
    mark = marked(watch)
    shutil.rmtree(inner.path)
    assert not watch.is_quiet_since(mark)
    assert watch.is_quiet_since(marked(watch))


def test_a_half_made_repository_is_followed_when_it_becomes_one(repository, watch_of):
    (repository.path / "inner" / ".git").mkdir(parents=True)
    watch = watch_of(repository)
    marked(watch)
    inner = type(repository)(repository.path / "inner")
    inner.git("init", "-q", "-b", "main")
    mark = marked(watch)
    inner.git("symbolic-ref", "HEAD", "refs/heads/x")
    assert not watch.is_quiet_since(mark)


def test_many_new_folders_at_once_are_followed(repository, watch_of):
    watch = watch_of(repository)
    marked(watch)
    for number in range(watchtree.MAX_PENDING + 10):
        (repository.path / f"d{number}").mkdir()
    mark = marked(watch)
    for number in range(watchtree.MAX_PENDING + 10):
        (repository.path / f"d{number}" / "x").touch()
        assert not watch.is_quiet_since(mark)
        mark = marked(watch)


# -- each way to fall back ---------------------------------------------------------------------------------------


def test_an_overflow_is_a_change_and_everything_is_walked_anew(repository, watch_of):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the queue is too long to be filled here")
    watch = watch_of(repository)
    mark = marked(watch)
    files = [os.fsencode(repository.path / name) for name in ("a.txt", "b.txt")]
    for number in range(limit + 10):
        os.chmod(files[number % 2], 0o644)
    repository.write("late/and/unheard", "x")
    assert not watch.is_quiet_since(mark)
    mark = marked(watch)
    assert watch.is_quiet_since(mark)
    append(repository.path / "late" / "and" / "unheard")
    assert not watch.is_quiet_since(mark)


class Library:
    """The system's calls, one of which fails with an error of the test's choice."""

    def __init__(self, real, name, number):
        self._real, self._name, self._number = real, name, number

    def __getattr__(self, name):
        def fail(*_):
            ctypes.set_errno(self._number)
            return -1

        return fail if name == self._name else getattr(self._real, name)


@pytest.mark.parametrize(
    ("call", "number", "words"),
    [
        ("inotify_init1", errno.EMFILE, "max_user_instances"),
        ("inotify_init1", errno.ENFILE, "open files"),
        ("inotify_add_watch", errno.ENOSPC, "max_user_watches"),
        ("inotify_add_watch", errno.EACCES, "Permission denied"),
    ],
)
def test_a_limit_of_the_system_is_no_answer(repository, watch_of, cookies, monkeypatch, call, number, words):
    real = inotify._library()
    monkeypatch.setattr(inotify, "_library", lambda: Library(real, call, number))
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert words in watch.failure
    assert list(cookies.iterdir()) == []


def test_a_limit_that_is_met_later_ends_the_watch(repository, watch_of, monkeypatch):
    watch = watch_of(repository)
    mark = marked(watch)
    real = inotify._library()
    monkeypatch.setattr(inotify, "_library", lambda: Library(real, "inotify_add_watch", errno.ENOSPC))
    (repository.path / "new").mkdir()
    assert watch.mark(timeout_seconds=30) is None
    assert not watch.is_quiet_since(mark)
    assert watch.folder_count == 0


def test_a_system_without_events_is_no_answer(repository, watch_of, monkeypatch):
    def none():
        raise WatchFailed("this system has no inotify")

    monkeypatch.setattr(inotify, "_library", none)
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert watch.failure == "this system has no inotify"


def test_our_own_limit_of_folders(repository, watch_of):
    watch = watch_of(repository)
    marked(watch)
    count = watch.folder_count
    at_limit = watch_of(repository, max_folders=count)
    assert at_limit.is_quiet_since(marked(at_limit))
    beyond = watch_of(repository, max_folders=count - 1)
    assert beyond.mark(timeout_seconds=30) is None
    assert f"more than {count - 1} folders" in beyond.failure


def test_our_own_limit_of_repositories(furnished, watch_of, monkeypatch):
    monkeypatch.setattr(watchtree, "MAX_REPOSITORIES", 2)
    assert watch_of(furnished).mark(timeout_seconds=30) is not None
    monkeypatch.setattr(watchtree, "MAX_REPOSITORIES", 1)
    assert watch_of(furnished).mark(timeout_seconds=30) is None


def test_a_walk_that_takes_too_long_is_given_up(repository, watch_of):
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=0) is None
    assert "in time" in watch.failure


def test_a_queue_that_died_is_no_answer(repository, watch_of):
    watch = watch_of(repository)
    mark = marked(watch)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, watch._standing.queue._descriptor)
    os.close(null)
    assert not watch.is_quiet_since(mark)
    assert "did not come" in watch.failure


def test_a_queue_that_cannot_be_read_is_no_answer(repository, watch_of, tmp_path):
    watch = watch_of(repository)
    mark = marked(watch)
    folder = os.open(tmp_path, os.O_RDONLY)
    os.dup2(folder, watch._standing.queue._descriptor)
    os.close(folder)
    assert not watch.is_quiet_since(mark)
    assert "cannot be read" in watch.failure


def test_a_failed_watch_is_tried_again_after_a_while_and_old_marks_do_not_hold(repository, watch_of, cookies):
    clocks = Clocks()
    watch = watch_of(repository, clocks=clocks)
    mark = marked(watch)
    shutil.rmtree(cookies)
    assert not watch.is_quiet_since(mark)
    assert watch.mark(timeout_seconds=30) is None, "too early"
    clocks.wait += watching.RETRY_SECONDS + 0.1
    again = marked(watch)
    assert watch.is_quiet_since(again)
    assert not watch.is_quiet_since(mark)


def test_the_pause_grows_with_each_failure_in_a_row(repository, watch_of):
    clocks = Clocks()
    watch = watch_of(repository, max_folders=1, clocks=clocks)
    pauses = []
    for _ in range(12):
        clocks.wait = max(clocks.wait, watch._retry_at - read_clocks().boot) + 0.01
        watch.mark(timeout_seconds=30)
        pauses.append(watch._retry_at - clocks().boot)
    assert pauses[0] == pytest.approx(watching.RETRY_SECONDS, abs=0.5)
    assert pauses[3] == pytest.approx(8 * watching.RETRY_SECONDS, abs=0.5)
    assert pauses[-1] == pytest.approx(watching.MAX_RETRY_SECONDS, abs=0.5)


@pytest.mark.parametrize("what", ["sleep", "step"])
def test_a_jump_of_the_clocks_is_a_change(repository, watch_of, what):
    clocks = Clocks()
    watch = watch_of(repository, clocks=clocks)
    mark = marked(watch)
    setattr(clocks, what, 0.5)
    assert watch.is_quiet_since(mark)
    setattr(clocks, what, 30.0)
    assert not watch.is_quiet_since(mark)
    assert watch.is_quiet_since(marked(watch))
    if what == "step":
        mark = marked(watch)
        clocks.step = -30.0
        assert not watch.is_quiet_since(mark)


def test_a_top_level_that_was_replaced_is_a_change(repository, watch_of):
    watch = watch_of(repository)
    mark = marked(watch)
    copy = repository.path.with_name("copy")
    shutil.copytree(repository.path, copy)
    assert watch.is_quiet_since(mark)
    repository.path.rename(repository.path.with_name("old"))
    assert not watch.is_quiet_since(mark)
    copy.rename(repository.path)
    assert not watch.is_quiet_since(mark)


@pytest.mark.parametrize("asked_between", [True, False])
def test_a_folder_above_that_was_replaced_is_a_change(repository, watch_of, tmp_path, asked_between):
    above = tmp_path / "above"
    above.mkdir()
    moved = type(repository)(above / "repository")
    repository.path.rename(moved.path)
    watch = watch_of(moved)
    mark = marked(watch)
    shutil.copytree(above, tmp_path / "copy")
    above.rename(tmp_path / "old")
    (tmp_path / "copy").rename(above)
    if asked_between:
        assert not watch.is_quiet_since(mark)
    mark = marked(watch)
    assert watch.is_quiet_since(mark)
    append(moved.path / "a.txt")
    assert not watch.is_quiet_since(mark)


def test_a_git_directory_that_was_replaced_is_a_change(repository, watch_of, tmp_path):
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    watch = watch_of(type(repository)(tmp_path / "linked"))
    mark = marked(watch)
    shutil.copytree(repository.path, tmp_path / "copy")
    repository.path.rename(tmp_path / "old")
    (tmp_path / "copy").rename(repository.path)
    assert not watch.is_quiet_since(mark)


def test_a_vanished_top_level_is_no_answer(repository, watch_of):
    watch = watch_of(repository)
    mark = marked(watch)
    shutil.rmtree(repository.path)
    assert not watch.is_quiet_since(mark)
    assert watch.mark(timeout_seconds=30) is None


def test_a_mount_within_the_worktree_is_a_change(repository, watch_of, monkeypatch):
    watch = watch_of(repository)
    mark = marked(watch)
    table = watch._standing.mounts
    listed = table.read()
    monkeypatch.setattr(table, "has_changed", lambda: True)
    assert watch.is_quiet_since(mark), "mounts elsewhere do not matter"
    within = mounts.Mount(99_999, os.fsencode(repository.path / "x"), "tmpfs")
    monkeypatch.setattr(table, "read", lambda: (*listed, within))
    assert not watch.is_quiet_since(mark)
    mark = marked(watch)
    assert watch.is_quiet_since(mark)
    foreign = mounts.Mount(99_999, os.fsencode(repository.path / "x"), "nfs4")
    monkeypatch.setattr(table, "read", lambda: (*listed, foreign))
    assert not watch.is_quiet_since(mark)
    assert "nfs4" in watch.failure


def test_a_file_system_that_others_change_too_is_not_watched(repository, watch_of, monkeypatch):
    monkeypatch.setattr(mounts, "LOCAL_FILE_SYSTEMS", frozenset({"none"}))
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert "file system" in watch.failure


def test_a_system_without_a_mount_table_is_no_answer(repository, watch_of, cookies, monkeypatch):
    monkeypatch.setattr(watching, "MountTable", lambda: mounts.MountTable("/none"))
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert "/none" in watch.failure
    assert list(cookies.iterdir()) == []


def test_a_work_tree_elsewhere_is_not_watched(repository, watch_of, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    repository.git("config", "core.worktree", str(elsewhere))
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert "not where its .git is" in watch.failure


@pytest.mark.parametrize("name", ["info/exclude", "packed-refs"])
def test_a_symlink_in_a_git_directory_is_not_watched(repository, watch_of, tmp_path, name):
    (tmp_path / "target").touch()
    path = repository.path / ".git" / name
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "target")
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert "symlink" in watch.failure


def test_a_dot_git_that_is_a_symlink_is_not_watched(repository, watch_of, tmp_path):
    (repository.path / ".git").rename(tmp_path / "git")
    (repository.path / ".git").symlink_to(tmp_path / "git")
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert "symlink" in watch.failure


def test_settings_that_are_too_young_are_not_trusted(repository, watch_of, monkeypatch):
    monkeypatch.setattr(meaning, "SETTLING_SECONDS", 3_600.0)
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None
    assert "just now" in watch.failure


def test_settings_that_depend_on_the_branch_are_not_vouched_for(repository, watch_of):
    repository.git("config", "includeIf.onbranch:main.path", "other")
    watch = watch_of(repository)
    assert watch.mark(timeout_seconds=30) is None


def test_a_closed_watch_vouches_for_nothing(repository, watch_of):
    watch = watch_of(repository)
    mark = marked(watch)
    watch.close()
    watch.close()
    assert not watch.is_quiet_since(mark)
    assert watch.mark(timeout_seconds=30) is None


def test_a_watch_uses_no_thread(repository, watch_of):
    before = threading.active_count(), len(os.listdir("/proc/self/task"))
    marked(watch_of(repository))
    assert (threading.active_count(), len(os.listdir("/proc/self/task"))) == before


def test_descriptors_are_given_back(repository, watch_of):
    marked(watch_of(repository))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        watch = watch_of(repository)
        marked(watch)
        watch.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_dead_processes_left_is_swept_up(cookies):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    for name in (f"{child.pid}-x", f"{os.getpid()}-y", "foreign"):
        (cookies / name).mkdir(parents=True)
    sweep(cookies)
    assert sorted(path.name for path in cookies.iterdir()) == sorted([f"{os.getpid()}-y", "foreign"])
    sweep(cookies / "none")
