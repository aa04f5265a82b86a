"""Workspaces and repository states in a file database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import text

from bridge.foundation.clock import SystemClock
from bridge.git.manifest import CLEAN_DIRTY_HASH, Manifest
from bridge.git.observe import observe
from bridge.git.repository import discover
from bridge.semantics.stamps import UnknownReason
from bridge.storage.store import Store
from bridge.workspaces import store as workspace_store
from bridge.workspaces.errors import StateDamaged, WorkspaceNotFound, WorkspacePathTaken
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus
from bridge.workspaces.registration import register
from bridge.workspaces.store import PageReader

MOMENT = "2026-01-02T03:04:05.000000Z"
LATER = "2026-01-02T03:05:05.000000Z"


@pytest.fixture
def store(bridge_home):
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as opened:
        yield opened


def seen_at(path):
    return observe(path, clock=SystemClock())


def save(store, observation, moment=MOMENT):
    return store.write(lambda tx: workspace_store.save_state(tx, observation, moment))


def load(store, digest):
    with store.read() as connection:
        state = workspace_store.load_state(connection, digest)
        return state, workspace_store.load_manifest(connection, state.dirty_hash)


def count(store, table):
    with store.read() as connection:
        return connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()


def workspace(path="/w/one", **changes):
    values = {
        "id": "w1",
        "kind": WorkspaceKind.REPOSITORY,
        "parent_id": None,
        "path": path,
        "common_dir": None,
        "repository_id": None,
        "worktree_id": None,
        "base_commit": None,
        "label": None,
        "status": WorkspaceStatus.ACTIVE,
        "kept_reason": None,
        "created_at": MOMENT,
        "updated_at": MOMENT,
    }
    return Workspace(**{**values, **changes})


def test_a_state_comes_back_as_it_was_observed(store, repository):
    repository.write("sub/new.txt", "new\n")
    repository.write("a.txt", "edited\n")
    seen = seen_at(repository.path)
    assert save(store, seen) == seen.state.state_digest
    assert load(store, seen.state.state_digest) == (seen.state, seen.manifest)


def test_the_same_state_is_stored_once(store, repository):
    repository.write("a.txt", "edited\n")
    first, second = seen_at(repository.path), seen_at(repository.path)
    assert save(store, first) == save(store, second, LATER)
    assert [count(store, table) for table in ("repository_states", "manifests", "manifest_pages")] == [1, 1, 1]


def test_an_edit_in_one_folder_costs_one_page(store, repository):
    for folder in range(5):
        repository.write(f"d{folder}/f", "x\n")
    save(store, seen_at(repository.path))
    repository.write("d3/f", "y\n")
    save(store, seen_at(repository.path))
    assert count(store, "manifests") == 2
    assert count(store, "manifest_pages") == 6


def test_a_clean_state_needs_no_manifest_row(store, repository):
    seen = seen_at(repository.path)
    save(store, seen)
    assert count(store, "manifests") == 0
    assert load(store, seen.state.state_digest) == (seen.state, Manifest())


def test_two_states_may_share_a_manifest(store, repository):
    repository.write("new", "x\n")
    save(store, seen_at(repository.path))
    repository.git("checkout", "-q", "-b", "other")
    save(store, seen_at(repository.path))
    assert count(store, "repository_states") == 2
    assert count(store, "manifests") == 1


def test_an_unknown_observation_stores_nothing(store, tmp_path):
    assert save(store, seen_at(tmp_path / "gone")) is None
    assert count(store, "repository_states") == 0


def test_a_state_that_is_not_there_is_unavailable(store):
    with store.read() as connection:
        assert workspace_store.load_state(connection, "0" * 64) is UnknownReason.BASE_UNAVAILABLE
        assert workspace_store.load_manifest(connection, "0" * 64) is None
        assert workspace_store.load_manifest(connection, CLEAN_DIRTY_HASH) == Manifest()


def test_a_damaged_page_is_an_error_not_an_answer(store, repository):
    repository.write("new", "x\n")
    seen = seen_at(repository.path)
    save(store, seen)

    def damage(tx):
        tx.connection.exec_driver_sql("DROP TRIGGER manifest_pages_no_delete")
        tx.connection.exec_driver_sql("DELETE FROM manifest_pages")

    store.write(damage)
    with store.read() as connection, pytest.raises(StateDamaged):
        workspace_store.load_manifest(connection, seen.manifest.dirty_hash)


def test_the_rows_of_some_folders_are_read_once(store, repository):
    repository.write("one/x", "1\n")
    repository.write("two/y", "1\n")
    first = seen_at(repository.path)
    repository.write("two/z", "1\n")
    second = seen_at(repository.path)
    for seen in (first, second):
        save(store, seen)
    with store.read() as connection:
        reader = PageReader(connection, [b"one", b"nowhere"])
        rows = [[row.path for row in reader.rows(seen.state.dirty_hash)] for seen in (first, second)]
        assert rows == [[b"one/x"], [b"one/x"]]
        assert reader.rows_read == 1
        assert reader.rows(CLEAN_DIRTY_HASH) == []
        assert reader.rows("0" * 64) is None


def test_a_damaged_page_is_not_read_as_rows(store, repository):
    repository.write("one/x", "1\n")
    seen = seen_at(repository.path)
    save(store, seen)

    def damage(tx):
        tx.connection.execute(text("DROP TRIGGER manifest_pages_no_update"))
        tx.connection.execute(text("UPDATE manifest_pages SET body = substr(body, 1, length(body) - 1)"))

    store.write(damage)
    with store.read() as connection, pytest.raises(StateDamaged):
        PageReader(connection, [b"one"]).rows(seen.state.dirty_hash)


def test_thousands_of_folders_fit(store, repository):
    for folder in range(1201):
        repository.write(f"d{folder}/f", "x\n")
    seen = seen_at(repository.path)
    save(store, seen)
    assert load(store, seen.state.state_digest)[1] == seen.manifest


def test_a_path_belongs_to_one_workspace(store):
    store.write(lambda tx: workspace_store.insert_workspace(tx, workspace()))
    with pytest.raises(WorkspacePathTaken) as caught:
        store.write(lambda tx: workspace_store.insert_workspace(tx, workspace(id="w2")))
    assert caught.value.details["workspace_id"] == "w1"


def test_a_removed_workspace_frees_its_path(store):
    store.write(lambda tx: workspace_store.insert_workspace(tx, workspace()))
    store.write(lambda tx: workspace_store.update_workspace(tx, "w1", LATER, status=WorkspaceStatus.REMOVED))
    store.write(lambda tx: workspace_store.insert_workspace(tx, workspace(id="w2")))
    with store.read() as connection:
        assert workspace_store.find_by_path(connection, Path("/w/one")).id == "w2"
        assert workspace_store.get_workspace(connection, "w1").updated_at == LATER
        assert [found.id for found in workspace_store.list_workspaces(connection)] == ["w1", "w2"]
        active = workspace_store.list_workspaces(connection, statuses=[WorkspaceStatus.ACTIVE])
        assert [found.id for found in active] == ["w2"]


def test_an_unknown_workspace_is_a_typed_error(store):
    with store.read() as connection, pytest.raises(WorkspaceNotFound):
        workspace_store.get_workspace(connection, "w9")


def enrol(store, path, label=None, moment=MOMENT):
    location = discover(path)
    return store.write(lambda tx: register(tx, location, moment=moment, label=label))


def test_registering_twice_gives_the_same_workspace(store, repository):
    before = sorted((path, path.stat().st_mtime_ns) for path in repository.path.rglob("*"))
    first = enrol(store, repository.path)
    (repository.path / "sub").mkdir()
    again = enrol(store, repository.path / "sub", label="mine", moment=LATER)
    (repository.path / "sub").rmdir()
    assert first.is_new
    assert not again.is_new
    assert again.workspace.id == first.workspace.id
    assert again.workspace.label == "mine"
    assert first.workspace.folder == repository.path
    assert [path for path, _ in before] == sorted(repository.path.rglob("*"))
    assert [stamp for path, stamp in before if path.is_file()] == [
        path.stat().st_mtime_ns for path, _ in before if path.is_file()
    ]


def test_a_linked_worktree_is_a_task_of_its_registered_repository(store, repository, tmp_path):
    main = enrol(store, repository.path).workspace
    repository.git("worktree", "add", "-q", "-b", "side", tmp_path / "side")
    side = enrol(store, tmp_path / "side").workspace
    assert (side.kind, side.parent_id) == (WorkspaceKind.TASK, main.id)
    assert side.repository_id == main.repository_id
    assert side.worktree_id != main.worktree_id
    with store.read() as connection:
        location = discover(tmp_path / "side")
        assert workspace_store.find_by_worktree(connection, location.worktree_id).id == side.id


def test_a_worktree_that_git_moved_keeps_its_workspace(store, repository, tmp_path):
    repository.git("worktree", "add", "-q", "-b", "side", tmp_path / "side")
    side = enrol(store, tmp_path / "side").workspace
    repository.git("worktree", "move", tmp_path / "side", tmp_path / "there")
    moved = enrol(store, tmp_path / "there", moment=LATER)
    assert not moved.is_new
    assert (moved.workspace.id, moved.workspace.folder) == (side.id, tmp_path / "there")


def test_another_repository_at_a_registered_path_is_another_workspace(store, repository, tmp_path):
    repository.git("worktree", "add", "-q", "-b", "side", tmp_path / "side")
    side = enrol(store, tmp_path / "side").workspace
    repository.git("worktree", "remove", "--force", tmp_path / "side")
    repository.git("clone", "-q", repository.path, tmp_path / "side")
    other = enrol(store, tmp_path / "side", moment=LATER)
    assert other.is_new
    assert other.replaced.id == side.id
    assert other.replaced.status is WorkspaceStatus.REMOVED


@pytest.mark.parametrize("name", [b"line\nbreak", b"caf\xc3\xa9", b"byte\xff", b'"quoted"', b" lead"])
def test_a_folder_of_any_name_can_be_registered(store, repository, tmp_path, name):
    folder = tmp_path / os.fsdecode(name)
    repository.git("clone", "-q", repository.path, folder)
    registered = enrol(store, folder).workspace
    assert registered.folder == folder
    assert "\n" not in registered.path
    with store.read() as connection:
        assert workspace_store.find_by_path(connection, folder) == registered


def test_one_edit_among_20_000_untracked_files_costs_one_page(store, repository):
    for folder in range(200):
        place = repository.path / f"generated/{folder:03d}"
        place.mkdir(parents=True)
        for number in range(100):
            (place / f"{number:03d}").write_bytes(b"%d %d\n" % (folder, number))
    first = seen_at(repository.path)
    assert len(first.manifest.rows) == 20_000
    save(store, first)
    assert count(store, "manifest_pages") == 200
    repository.write("generated/100/050", "edited\n")
    second = seen_at(repository.path)
    save(store, second)
    assert count(store, "manifest_pages") == 201
    assert count(store, "manifests") == 2
    for seen in (first, second):
        assert load(store, seen.state.state_digest) == (seen.state, seen.manifest)
