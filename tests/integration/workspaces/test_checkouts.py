"""A worker's worktree from its reservation to its end, with real git and a real database."""

from __future__ import annotations

import os

import pytest

from bridge.foundation.errors import InvalidId
from bridge.git.errors import CommitMissing, WorktreePathTaken
from bridge.git.removal import Obstacle, ObstacleReason
from bridge.git.repository import discover
from bridge.git.worktrees import find_worktree, require_registered
from bridge.storage.store import Store
from bridge.workspaces import checkouts
from bridge.workspaces.errors import IncludeRefused, WorkspacePathTaken
from bridge.workspaces.inclusion import copy_included
from bridge.workspaces.models import WorkspaceKind, WorkspaceStatus
from bridge.workspaces.registration import register
from bridge.workspaces.store import get_workspace
from bridge.workspaces.wording import kept_line, kept_reason

MOMENT = "2026-01-02T03:04:05.000000Z"


class Bench:
    """A registered repository and the steps of a worktree's life."""

    def __init__(self, store, repository, worktrees):
        self.store = store
        self.repository = repository
        self.worktrees = worktrees
        self.location = discover(repository.path)
        self.parent = store.write(lambda tx: register(tx, self.location, moment=MOMENT)).workspace

    def reserve(self, name="d1", base=None):
        return self.store.write(
            lambda tx: checkouts.reserve(
                tx,
                self.parent,
                worktrees=self.worktrees,
                name=name,
                base_commit=base or self.repository.head(),
                label="web",
                moment=MOMENT,
            )
        )

    def made(self, name="d1"):
        reserved = self.reserve(name)
        location = checkouts.create(self.location, reserved)
        return self.store.write(lambda tx: checkouts.activate(tx, reserved, location, MOMENT))


@pytest.fixture
def bench(bridge_home, repository):
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as store:
        yield Bench(store, repository, bridge_home / "worktrees")


def inside(repository, workspace):
    return type(repository)(workspace.folder)


def test_a_path_is_reserved_before_anything_is_on_the_disk(bench):
    reserved = bench.reserve()
    assert (reserved.kind, reserved.status) == (WorkspaceKind.WORKER, WorkspaceStatus.RESERVED)
    assert reserved.folder == bench.worktrees / bench.parent.repository_id[:12] / "d1"
    assert not bench.worktrees.exists()
    with pytest.raises(WorkspacePathTaken):
        bench.reserve()


@pytest.mark.parametrize("name", ["..", "a/b", "", "x" * 65, ".git"])
def test_a_name_that_could_leave_the_folder_is_refused(bench, name):
    with pytest.raises(InvalidId):
        bench.reserve(name)


def test_a_worktree_stands_at_its_base_commit_detached(bench, repository):
    repository.commit("later", a_txt="2\n")
    active = bench.made()
    location = require_registered(active.folder)
    assert active.status is WorkspaceStatus.ACTIVE
    assert active.worktree_id == location.worktree_id
    assert inside(repository, active).head() == repository.head()
    assert find_worktree(bench.location, active.folder).branch is None


def test_a_base_that_is_gone_leaves_nothing(bench):
    reserved = bench.reserve(base="1" * 40)
    with pytest.raises(CommitMissing):
        checkouts.create(bench.location, reserved)
    assert not reserved.folder.exists()
    bench.store.write(lambda tx: checkouts.free(tx, reserved, MOMENT))
    assert bench.reserve().path == reserved.path


def test_a_folder_in_the_way_is_not_touched(bench):
    reserved = bench.reserve()
    reserved.folder.mkdir(parents=True)
    (reserved.folder / "mine").write_text("x\n")
    with pytest.raises(WorktreePathTaken):
        checkouts.create(bench.location, reserved)
    assert (reserved.folder / "mine").read_text() == "x\n"


def test_a_worktree_without_work_is_removed(bench):
    active = bench.made()
    released = checkouts.release(active)
    assert released.kept_because is None
    assert not active.folder.exists()
    assert find_worktree(bench.location, active.folder) is None


def test_work_that_is_kept_nowhere_else_keeps_the_worktree(bench, repository):
    active = bench.made()
    worker = inside(repository, active)
    worker.commit("work", new="1\n")
    worker.write("loose", "1\n")
    worker.write("a.txt", "2\n")
    released = checkouts.release(active)
    assert released.kept_because == "2 uncommitted files, 1 unmerged commit"
    assert (active.folder / "loose").exists()
    kept = bench.store.write(lambda tx: checkouts.keep(tx, active, released.kept_because, MOMENT))
    assert (kept.status, kept.kept_reason) == (WorkspaceStatus.KEPT, released.kept_because)
    assert kept_line("web", kept.kept_reason) == (
        "kept: worktree of web: 2 uncommitted files, 1 unmerged commit. "
        "Adopt, discard, or open it: bridge task path web"
    )
    with bench.store.read() as connection:
        assert get_workspace(connection, active.id) == kept


def test_commits_that_another_ref_keeps_do_not_hold_the_worktree(bench, repository):
    active = bench.made()
    tip = inside(repository, active).commit("work", new="1\n")
    assert checkouts.release(active).kept_because == "1 unmerged commit"
    repository.git("update-ref", "refs/bridge/tasks/d1/result", tip)
    assert checkouts.release(active, kept_in=("refs/bridge/tasks/d1/result",)).kept_because is None
    assert not active.folder.exists()


def test_what_cannot_be_inspected_is_kept(bench):
    active = bench.made()
    (active.folder / ".git").unlink()
    released = checkouts.release(active)
    assert released.obstacles[0].reason is ObstacleReason.INSPECTION_FAILED
    assert released.kept_because.startswith("it could not be inspected (")
    assert (active.folder / "a.txt").exists()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_obstacle_has_words(count):
    for reason in ObstacleReason:
        words = kept_reason([Obstacle(reason, "It is so.", count)])
        assert words
        assert not words.endswith(".")


# .worktreeinclude


def test_named_files_that_git_ignores_are_copied(bench, repository):
    repository.commit("ignore", _gitignore=".env*\n/cache/\n*.key\n")
    repository.write(".worktreeinclude", "# needed to run\n.env*\n!.env.prod\ncache/\n")
    for name in (".env", ".env.prod", "sub/.env.test", "cache/deep/blob", "private.key"):
        repository.write(name, name)
    (repository.path / ".env").chmod(0o600)
    (repository.path / "cache" / "link").symlink_to("deep/blob")
    active = bench.made()
    found = {
        str(path.relative_to(active.folder))
        for path in active.folder.rglob("*")
        if path.is_symlink() or (path.is_file() and path.name != ".git")
    }
    assert found == {
        ".gitignore",
        "a.txt",
        "b.txt",
        ".env",
        "sub/.env.test",
        "cache/deep/blob",
        "cache/link",
    }
    assert (active.folder / ".env").stat().st_mode & 0o777 == 0o600
    assert (active.folder / "cache" / "link").readlink() == type(active.folder)("deep/blob")
    assert inside(repository, active).git("status", "--porcelain") == ""
    assert checkouts.release(active).kept_because is None


def test_untracked_work_is_not_copied(bench, repository):
    repository.write(".worktreeinclude", "notes.txt\n")
    repository.write("notes.txt", "mine\n")
    active = bench.made()
    assert not (active.folder / "notes.txt").exists()
    included = copy_included(bench.location, require_registered(active.folder))
    assert included.skipped == ((b"notes.txt", "git does not ignore it in the worktree"),)


@pytest.mark.parametrize("content", ["", "# nothing\n", "\n\n", "no-such-file\n"])
def test_patterns_that_match_nothing_copy_nothing(bench, repository, content):
    repository.write(".worktreeinclude", content)
    repository.write(".git/info/exclude", "*.log\n")
    repository.write("x.log", "1\n")
    active = bench.made()
    assert sorted(path.name for path in active.folder.iterdir()) == [".git", "a.txt", "b.txt"]


def test_nothing_in_the_base_commit_is_overwritten_or_followed(bench, repository, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    repository.commit("base", conf="from the commit\n")
    (repository.path / "dir").symlink_to(outside)
    repository.commit("symlink")
    base = repository.head()
    repository.git("rm", "-q", "conf", "dir")
    repository.commit("now ignored", _gitignore="conf\ndir/\n")
    repository.write("conf", "mine\n")
    repository.write("dir/file", "mine\n")
    repository.write(".worktreeinclude", "conf\ndir/\n")
    reserved = bench.reserve(base=base)
    made = checkouts.create(bench.location, reserved)
    assert (made.root / "conf").read_text() == "from the commit\n"
    assert list(outside.iterdir()) == []
    reasons = dict(copy_included(bench.location, made).skipped)
    assert set(reasons) == {b"conf", b"dir/file"}


def test_hostile_names_are_copied(bench, repository):
    repository.write(".git/info/exclude", "/secret*\n")
    repository.write(".worktreeinclude", "/secret*\n")
    names = [b"secret new\nline", b"secret\xff", b'secret"quote', b"secret\\n", b"secret -> x"]
    for name in names:
        repository.write(os.fsdecode(name), b"x" + name)
    active = bench.made()
    for name in names:
        assert (active.folder / os.fsdecode(name)).read_bytes() == b"x" + name


@pytest.mark.parametrize(("limits", "fits"), [((2, 6), True), ((1, 6), False), ((2, 5), False)])
def test_too_much_is_refused_at_the_limit(bench, repository, limits, fits):
    repository.write(".git/info/exclude", "*.log\n")
    active = bench.made()
    repository.write(".worktreeinclude", "*.log\n")
    for name in ("1.log", "2.log"):
        repository.write(name, "abc")
    made = require_registered(active.folder)
    if fits:
        copied = copy_included(bench.location, made, max_files=limits[0], max_bytes=limits[1]).copied
        assert copied == (b"1.log", b"2.log")
    else:
        with pytest.raises(IncludeRefused):
            copy_included(bench.location, made, max_files=limits[0], max_bytes=limits[1])
        assert not (active.folder / "1.log").exists()


def test_a_file_that_cannot_be_copied_leaves_no_worktree(bench, repository, monkeypatch):
    repository.write(".git/info/exclude", "*.log\n")
    repository.write(".worktreeinclude", "*.log\n")
    repository.write("1.log", "abc")

    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bridge.workspaces.inclusion.shutil.copy2", refuse)
    reserved = bench.reserve()
    with pytest.raises(IncludeRefused) as caught:
        checkouts.create(bench.location, reserved)
    assert caught.value.details == {"path": '"1.log"'}
    assert not reserved.folder.exists()
    assert find_worktree(bench.location, reserved.folder) is None
