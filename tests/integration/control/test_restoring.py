"""Restoring files: all or nothing, and never a byte outside the new place."""

from __future__ import annotations

import os

import pytest

import bridge.workspaces.materialising as module
from bridge.control.contents.keeping import content_store
from bridge.control.contents.restoring import restore_files
from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, SessionRequest, append_entry, start_session
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.applying import Blocked, apply_file, clear_path
from bridge.git.errors import GitFailed
from bridge.git.manifest import ContentKind, ManifestRow
from bridge.git.repository import discover
from bridge.workspaces.errors import DestinationUnusable, FilesNotWritten


@pytest.fixture
def controller(bridge_home):
    bridge_home.mkdir()
    (bridge_home / "config.toml").write_text('snapshots = "dirty"\n')
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def stamp(controller, repository):
    place = Standpoint(directory=repository.path)
    session = start_session(controller, place, SessionRequest()).session

    def run():
        return append_entry(controller, place, session.id, AppendRequest(kind="note", text="x")).entry.id

    return run


@pytest.fixture
def restore(controller, tmp_path):
    def run(entry, into=tmp_path / "restored"):
        return restore_files(controller, Standpoint(), entry, into).made

    return run


def leftovers(repository, bridge_home):
    return repository.git("worktree", "list").count("\n"), sorted(path.name for path in bridge_home.glob(".files-*"))


def test_fc_55_what_was_deleted_then_is_absent_and_what_is_edited_now_stays(repository, stamp, restore, tmp_path):
    repository.commit("files", keep="keep\n", **{"del": "del\n"})
    (repository.path / "del").unlink()
    entry = stamp()
    repository.git("checkout", "-q", "--", "del")
    repository.write("keep", "edited\n")
    made = restore(entry)
    assert made.missing == ()
    assert not (tmp_path / "restored" / "del").exists()
    assert (tmp_path / "restored" / "keep").read_text() == "keep\n"
    assert (repository.path / "keep").read_text() == "edited\n"
    assert (repository.path / "del").exists()


@pytest.mark.parametrize("has_commit", [True, False])
def test_fc_55_a_failure_half_way_leaves_nothing(
    repository, bridge_home, stamp, restore, tmp_path, monkeypatch, has_commit
):
    repository.write("one", "1\n")
    repository.write("two", "2\n")
    entry = stamp()
    if not has_commit:
        monkeypatch.setattr(module, "existing_commits", lambda *_args, **_kwargs: frozenset())
    written = []

    def full(root, row, copy):
        if written:
            raise OSError(28, "No space left on device")
        written.append(row.path)
        apply_file(root, row, copy)

    monkeypatch.setattr(module, "apply_file", full)
    before = leftovers(repository, bridge_home)
    with pytest.raises(FilesNotWritten, match="No space left on device"):
        restore(entry)
    assert written
    assert not (tmp_path / "restored").exists()
    assert leftovers(repository, bridge_home) == before


def test_fc_55_a_checkout_that_git_cannot_make_leaves_nothing(repository, bridge_home, stamp, restore, tmp_path):
    repository.write("x.up", "x\n")
    repository.commit("filter", _gitattributes="*.up filter=up\n")
    entry = stamp()
    repository.git("config", "filter.up.smudge", "false")
    repository.git("config", "filter.up.required", "true")
    before = leftovers(repository, bridge_home)
    with pytest.raises(GitFailed):
        restore(entry)
    assert not (tmp_path / "restored").exists()
    assert leftovers(repository, bridge_home) == before


def test_nothing_is_copied_aside_when_the_place_is_refused(stamp, restore, repository, monkeypatch):
    monkeypatch.setattr(module, "gather", None)
    with pytest.raises(DestinationUnusable):
        restore(stamp(), repository.path / "inside")


def test_a_content_that_is_damaged_in_the_store_is_not_put_back(controller, repository, stamp, restore, tmp_path):
    repository.write("lost", "lost\n")
    repository.write("kept", "kept\n")
    entry = stamp()
    (repository.path / "lost").unlink()
    store = content_store(controller.settings, discover(repository.path).repository_id)
    blob = repository.git("hash-object", "--stdin", stdin=b"lost\n").strip()
    (store.path / "objects" / blob[:2] / blob[2:]).unlink()
    made = restore(entry)
    assert [(item.path, str(item.reason)) for item in made.missing] == [(b"lost", "damaged")]
    assert (tmp_path / "restored" / "kept").read_text() == "kept\n"
    assert not (tmp_path / "restored" / "lost").exists()


def test_a_path_that_is_not_known_does_not_show_the_commit_in_its_place(repository, stamp, restore, tmp_path):
    repository.write("a.txt", "stamped\n")
    entry = stamp()
    repository.git("checkout", "-q", "--", "a.txt")
    module_store = tmp_path / "bridge-home" / "objects"
    module_store.rename(tmp_path / "elsewhere")
    made = restore(entry)
    assert [item.path for item in made.missing] == [b"a.txt"]
    assert not (tmp_path / "restored" / "a.txt").exists()


def row(path, kind=ContentKind.FILE):
    return ManifestRow(path, b"?", b"?", b"N...", (), (), b"100644", kind, b"d")


@pytest.mark.parametrize(
    "path", [b"../x", b"a/../../x", b"/x", b"a//x", b".git/config", b"a/.GIT/hooks/x", b"a\0b", b""]
)
def test_names_that_git_would_never_list_are_not_written(tmp_path, path):
    root = tmp_path / "root"
    root.mkdir()
    copy = tmp_path / "copy"
    copy.write_text("x")
    with pytest.raises(Blocked):
        apply_file(os.fsencode(root), row(path), copy)
    clear_path(os.fsencode(root), path)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["copy", "root"]
    assert not list(root.iterdir())


def test_nothing_is_written_or_removed_through_a_symlink(tmp_path):
    root, outside, copy = tmp_path / "root", tmp_path / "outside", tmp_path / "copy"
    root.mkdir()
    outside.mkdir()
    (outside / "mine").write_text("mine")
    copy.write_text("x")
    (root / "folder").symlink_to(outside)
    with pytest.raises(Blocked, match="is no folder"):
        apply_file(os.fsencode(root), row(b"folder/new"), copy)
    clear_path(os.fsencode(root), b"folder/mine")
    assert [item.name for item in outside.iterdir()] == ["mine"]
    (root / "link").symlink_to(outside / "mine")
    with pytest.raises(Blocked, match="something is there"):
        apply_file(os.fsencode(root), row(b"link"), copy)
    clear_path(os.fsencode(root), b"link")
    assert (outside / "mine").read_text() == "mine"
    assert not (root / "link").is_symlink()
