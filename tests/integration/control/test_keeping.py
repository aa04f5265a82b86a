"""Contents behind stamps: kept when asked for, tied to the state that was stamped, pruned with their entries."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from bridge.control.contents.keeping import content_store, prune_contents
from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, SessionRequest, append_entry, start_session
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import FixedClock, SystemClock
from bridge.foundation.config import load_settings
from bridge.git.repository import discover
from bridge.workspaces.models import KeptStatus
from bridge.workspaces.store import find_kept_contents, find_kept_state, kept_manifests

CONFIG = 'snapshots = "dirty"\n'


@pytest.fixture
def open_desk(bridge_home, repository):
    opened = []

    def run(config=CONFIG, clock=None):
        bridge_home.mkdir(exist_ok=True)
        (bridge_home / "config.toml").write_text(config)
        settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
        controller = Controller(settings, clock=clock or SystemClock(), environment=os.environ)
        opened.append(controller)
        return Desk(controller, repository.path)

    yield run
    for controller in opened:
        controller.close()


class Desk:
    def __init__(self, controller: Controller, path: Path) -> None:
        self.controller = controller
        self.standpoint = Standpoint(directory=path)
        self.session = start_session(controller, self.standpoint, SessionRequest()).session
        self.repository_id = discover(path).repository_id

    def append(self):
        request = AppendRequest(kind="user.message", text="hello")
        return append_entry(self.controller, self.standpoint, self.session.id, request).entry

    def state(self, entry):
        from bridge.workspaces.store import load_state

        with self.controller.store.read() as connection:
            return load_state(connection, entry.state_digest)

    def kept(self, entry):
        with self.controller.store.read() as connection:
            return find_kept_state(connection, self.repository_id, self.state(entry).dirty_hash)

    def all_kept(self):
        with self.controller.store.read() as connection:
            return kept_manifests(connection)

    def contents(self, entry):
        from bridge.workspaces.store import load_manifest

        store = content_store(self.controller.settings, self.repository_id)
        with self.controller.store.read() as connection:
            manifest = load_manifest(connection, self.state(entry).dirty_hash)
            digests = {row.content_digest.decode(): row.path for row in manifest.rows if row.content_digest}
            known = find_kept_contents(connection, self.repository_id, digests)
        ids = {digest: kept.object_id for digest, kept in known.items()}
        return {digests[digest]: blob and b"".join(blob.chunks) for digest, blob in store.read(ids)}

    def prune(self, clock=None):
        controller = self.controller
        return prune_contents(controller.store, controller.settings, clock or SystemClock())


def test_nothing_is_kept_unless_asked_for(open_desk, repository, bridge_home):
    desk = open_desk("")
    repository.write("a.txt", "changed\n")
    assert desk.kept(desk.append()) is None
    assert not (bridge_home / "objects").exists()


def test_contents_are_kept_and_nothing_is_written_into_the_repository(open_desk, repository):
    desk = open_desk()
    repository.write("a.txt", "changed\n")
    repository.write("new", "new\n")
    before = {path: path.stat().st_mtime_ns for path in (repository.path / ".git").rglob("*")}
    entry = desk.append()
    assert {path: path.stat().st_mtime_ns for path in (repository.path / ".git").rglob("*")} == before
    assert desk.kept(entry).status is KeptStatus.COMPLETE
    assert desk.contents(entry) == {b"a.txt": b"changed\n", b"new": b"new\n"}


def test_a_clean_state_needs_nothing(open_desk, bridge_home):
    desk = open_desk()
    assert desk.kept(desk.append()) is None
    assert not (bridge_home / "objects").exists()


def test_the_state_of_a_new_session_is_kept_as_well(open_desk, repository):
    repository.write("a.txt", "changed\n")
    desk = open_desk()
    assert len(desk.all_kept()) == 1


def test_a_state_that_is_kept_is_not_read_again(open_desk, repository, monkeypatch):
    desk = open_desk()
    repository.write("a.txt", "changed\n")
    desk.append()
    monkeypatch.setattr("bridge.git.contentstore.select", None)
    entry = desk.append()
    assert desk.contents(entry) == {b"a.txt": b"changed\n"}


def test_content_that_changed_after_the_look_is_unknown_until_it_is_seen_again(open_desk, repository):
    desk = open_desk()
    repository.write("a.txt", "stamped\n")
    repository.write("b.txt", "same\n")
    seen = desk.controller.observer.observe(repository.path)
    repository.write("a.txt", "another\n")
    kept = desk.controller.keeper.keep(seen)
    assert (kept.status, kept.kept_count, kept.omitted_count) == (KeptStatus.INCOMPLETE, 1, 1)
    repository.write("a.txt", "stamped\n")
    entry = desk.append()
    assert desk.kept(entry).status is KeptStatus.COMPLETE
    assert desk.contents(entry) == {b"a.txt": b"stamped\n", b"b.txt": b"same\n"}


def test_what_exceeds_the_limit_is_marked_and_kept_once_the_limit_is_raised(open_desk, repository):
    desk = open_desk(CONFIG + "snapshot_limit_bytes = 10\n")
    repository.write("a.txt", "small\n")
    repository.write("b.txt", "0123456789\n")
    kept = desk.kept(desk.append())
    assert kept.to_json() == {
        "status": "over_limit",
        "kept_count": 1,
        "kept_bytes": 6,
        "omitted_count": 1,
        "omitted_bytes": 11,
        "limit_bytes": 10,
    }
    entry = open_desk(CONFIG + "snapshot_limit_bytes = 17\n").append()
    assert desk.kept(entry).status is KeptStatus.COMPLETE


def test_an_append_goes_on_when_contents_cannot_be_kept(open_desk, repository, bridge_home, capsys):
    desk = open_desk()
    (bridge_home / "objects").write_text("in the way")
    repository.write("a.txt", "changed\n")
    entry = desk.append()
    assert entry.state_digest is not None
    assert desk.kept(entry) is None
    assert "snapshot_failed" in capsys.readouterr().out


def test_a_damaged_store_is_filled_anew(open_desk, repository):
    desk = open_desk()
    repository.write("a.txt", "one\n")
    desk.append()
    store = content_store(desk.controller.settings, desk.repository_id)
    for path in (store.path / "objects").glob("??/*"):
        path.unlink()
    repository.write("b.txt", "two\n")
    assert desk.contents(desk.append()) == {b"a.txt": b"one\n", b"b.txt": b"two\n"}


def test_pruning_keeps_what_an_entry_is_stamped_with(open_desk, repository):
    desk = open_desk()
    repository.write("a.txt", "stamped\n")
    entry = desk.append()
    repository.write("a.txt", "never stamped\n")
    desk.controller.keeper.keep(desk.controller.observer.observe(repository.path))
    assert desk.prune().states_removed == 0, "an entry may be about to be written"
    later = FixedClock(SystemClock().now() + timedelta(hours=2))
    report = desk.prune(later)
    assert (report.states_removed, report.contents_removed) == (1, 1)
    assert report.bytes_before > 0
    assert desk.contents(entry) == {b"a.txt": b"stamped\n"}
    assert desk.prune(later).states_removed == 0


def test_pruning_without_any_store(open_desk):
    assert open_desk().prune().to_json() == {
        "states_removed": 0,
        "contents_removed": 0,
        "bytes_before": 0,
        "bytes_after": 0,
    }
