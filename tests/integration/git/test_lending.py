"""A worker's own shared directory: the repository borrows its objects while it works, and then has them, never half."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.git import lending
from bridge.git.errors import GitFailed, ObjectsNotTaken
from bridge.git.lending import is_lent, lend, take_back
from bridge.git.process import run_git, unpin
from bridge.git.repository import discover
from bridge.git.worktrees import add_detached

BLOB = "content of the worker\n"


@pytest.fixture
def lent(repository, tmp_path):
    """A worktree whose git writes into a lent folder; the fixture runs git there."""
    location = discover(repository.path)
    made = add_detached(location, tmp_path / "tree", repository.head())
    folder = tmp_path / "lent: folder"
    lend(made, folder)

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=made.root, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    git.location, git.folder, git.objects, git.root = made, folder, folder / "objects", made.root
    yield git
    unpin(made.root)


def commit(git, name="new.txt", text=BLOB):
    (git.root / name).write_text(text)
    git("add", "-A")
    git("commit", "-qm", f"add {name}")
    return git("rev-parse", "HEAD")


def own_objects(repository):
    return {path for path in (repository.path / ".git/objects").rglob("*") if path.is_file()}


def test_new_objects_go_into_the_private_folder_and_the_repository_sees_them(lent, repository):
    before = own_objects(repository)
    made = commit(lent)
    assert own_objects(repository) - before <= {
        repository.path / ".git/objects/info/alternates",
        repository.path / ".git/objects/info/bridge-alternates.lock",
    }
    assert repository.git("log", "--format=%s", "-1", made).strip() == "add new.txt"
    assert "missing" not in repository.git("fsck", "--no-dangling")
    repository.git("gc", "-q", "--prune=now")
    assert repository.git("cat-file", "-p", f"{made}:new.txt") == BLOB


def test_taking_back_leaves_all_objects_and_no_trace(lent, repository):
    made = commit(lent)
    assert take_back(lent.location, lent.folder) == lending.Taken(3, 0)
    assert not lent.folder.exists()
    assert not (repository.path / ".git/objects/info/alternates").exists()
    assert repository.git("cat-file", "-p", f"{made}:new.txt") == BLOB
    repository.git("fsck", "--strict")
    # Once more, as after a crash, it finds nothing to do.
    assert take_back(lent.location, lent.folder) == lending.Taken(0, 0)


def test_many_objects_and_packs_come_over_as_one_pack(lent, repository, monkeypatch):
    commit(lent)
    lent("repack", "-adlq")
    made = commit(lent, "other.txt", "other\n")
    assert take_back(lent.location, lent.folder).packs == 1
    assert repository.git("cat-file", "-p", f"{made}:new.txt") == BLOB
    repository.git("fsck", "--strict")
    monkeypatch.setattr(lending, "MAX_COPIED_OBJECTS", 2)
    lend(lent.location, lent.folder)
    assert lent("rev-parse", "--git-common-dir") == str(lent.folder)
    made = commit(lent, "third.txt", "third\n")
    assert take_back(lent.location, lent.folder).packs == 1
    assert repository.git("cat-file", "-p", f"{made}:third.txt") == "third\n"


def test_what_the_user_added_meanwhile_is_not_lost_with_the_folder(lent, repository):
    # git writes no object that it finds in an alternate: the user's blob is in the worker's folder alone.
    (lent.root / "x").write_text(BLOB)
    blob = lent("hash-object", "-w", "x")
    repository.write("mine.txt", BLOB)
    repository.git("add", "mine.txt")
    assert not (repository.path / ".git/objects" / blob[:2] / blob[2:]).exists()
    take_back(lent.location, lent.folder)
    assert repository.git("cat-file", "-p", ":mine.txt") == BLOB


@pytest.mark.parametrize("is_packed", [False, True], ids=["copied", "packed"])
def test_a_forged_object_is_refused_and_everything_stays(lent, repository, monkeypatch, is_packed):
    made = commit(lent)
    blob = lent("rev-parse", "HEAD:new.txt")
    forged = lent.objects / blob[:2] / blob[2:]
    tree = lent("rev-parse", "HEAD^{tree}")
    forged.chmod(0o600)
    shutil.copyfile(lent.objects / tree[:2] / tree[2:], forged)
    if is_packed:
        monkeypatch.setattr(lending, "MAX_COPIED_OBJECTS", 0)
    with pytest.raises(GitFailed):
        take_back(lent.location, lent.folder)
    assert is_lent(lent.location, lent.folder)
    assert repository.git("cat-file", "-t", made).strip() == "commit"


@pytest.mark.parametrize(
    "content", [b"", b"rubbish", b"\x78\x9c\x03\x00\x00\x00\x00\x01"], ids=["empty", "no zlib", "nothing packed"]
)
def test_a_damaged_object_is_refused(lent, content):
    commit(lent)
    blob = lent("rev-parse", "HEAD:new.txt")
    damaged = lent.objects / blob[:2] / blob[2:]
    damaged.chmod(0o600)
    damaged.write_bytes(content)
    with pytest.raises(ObjectsNotTaken, match=blob):
        take_back(lent.location, lent.folder)


def test_a_symlink_in_place_of_an_object_is_not_followed(lent, tmp_path):
    commit(lent)
    blob = lent("rev-parse", "HEAD:new.txt")
    file = lent.objects / blob[:2] / blob[2:]
    shutil.copy(file, tmp_path / "elsewhere")
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ObjectsNotTaken):
        take_back(lent.location, lent.folder)


def test_alternates_of_the_users_own_stay(lent, repository, tmp_path):
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "-q", "--bare", str(other)], check=True)
    alternates = repository.path / ".git/objects/info/alternates"
    alternates.write_text(alternates.read_text() + f"{other}/objects")
    second = add_detached(discover(repository.path), tmp_path / "second", repository.head())
    lend(second, tmp_path / "lent two")
    take_back(lent.location, lent.folder)
    take_back(second, tmp_path / "lent two")
    assert alternates.read_text() == f"{other}/objects\n"


def test_a_name_that_git_cannot_list_is_refused(lent, tmp_path):
    with pytest.raises(ObjectsNotTaken):
        lend(lent.location, tmp_path / "two\nlines")


def test_many_objects_in_a_repository_with_a_colon_in_its_name(tmp_path, repository, monkeypatch):
    odd = tmp_path / "a:b"
    shutil.copytree(repository.path, odd)
    made = add_detached(discover(odd), tmp_path / "tree", repository.head())
    lend(made, tmp_path / "c:d")
    (made.root / "x").write_text(BLOB)
    subprocess.run(["git", "add", "x"], cwd=made.root, check=True)
    monkeypatch.setattr(lending, "MAX_COPIED_OBJECTS", 0)
    assert take_back(made, tmp_path / "c:d").packs == 1
    assert run_git(["show", ":x"], cwd=made.root).text == BLOB.strip()


def test_the_worktree_is_known_as_before_while_its_pointer_leads_elsewhere(lent, repository):
    assert discover(lent.root) == lent.location
    assert lent("rev-parse", "--git-common-dir") == str(lent.folder)
    assert str(lent.root) in repository.git("worktree", "list")
    take_back(lent.location, lent.folder)
    assert lent("rev-parse", "--git-common-dir") == str(repository.path / ".git")


def test_bridges_git_does_not_obey_a_configuration_of_the_workers_making(lent, tmp_path):
    # With the shared directory the worker chooses the configuration, and with it programs that git runs.
    trap = tmp_path / "trap"
    shutil.copytree(lent.folder, trap, symlinks=True)
    (trap / "config").unlink()
    mark = tmp_path / "ran"
    (trap / "config").write_text(f'[core]\n\trepositoryformatversion = 0\n[filter "x"]\n\tclean = touch {mark}; cat\n')
    (lent.root / ".gitattributes").write_text("* filter=x\n")
    (lent.location.git_dir / "commondir").write_text(f"{trap}\n")
    (lent.root / "a.txt").write_text("ALPHA\n")
    run_git(["add", "-A"], cwd=lent.root)
    assert not mark.exists()
    lent("add", "-A", "--renormalize")
    assert mark.exists(), "the trap does not work, so that it proves nothing"
    take_back(lent.location, lent.folder)
    assert (lent.location.git_dir / "commondir").read_text() == "../..\n"


#: Takes back, and ends itself as hard as SIGKILL before the call of the system with that number.
KILLED = """
import os, pathlib, sys
number = int(sys.argv[3])
count = 0
for name in ("open", "rename", "replace", "fsync", "unlink", "rmdir", "mkdir"):
    def wrapped(*words, _call=getattr(os, name), **more):
        global count
        count += 1
        if count == number:
            os._exit(77)
        return _call(*words, **more)
    setattr(os, name, wrapped)
from bridge.git.lending import take_back
from bridge.git.process import run_git, unpin
from bridge.git.repository import discover
take_back(discover(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2]))
"""


def test_killed_at_any_step_nothing_is_lost(lent, repository):
    made = commit(lent)
    step, killed = 1, 0
    while True:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(repository.path), str(lent.folder), str(step)],
            env={**os.environ, "PYTHONPATH": str(Path(lending.__file__).parents[2])},
            check=False,
        )
        # At every moment the commit is whole, with or without the private folder.
        assert repository.git("cat-file", "-p", f"{made}:new.txt") == BLOB, f"step {step}"
        assert "missing" not in repository.git("fsck", "--no-dangling"), f"step {step}"
        if done.returncode == 0:
            break
        assert done.returncode == 77
        killed += 1
        step += 3
    assert killed > 3
    assert not lent.folder.exists()
    assert not (repository.path / ".git/objects/info/alternates").exists()
