"""Single flight: which requests share an observation, and which must not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bridge.control.controller import Controller
from bridge.control.observing import Observer
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git import contents, digestcache
from bridge.git.observe import observe
from bridge.git.repository import discover
from bridge.semantics.stamps import UnknownReason
from bridge.storage.store import Store
from bridge.workspaces.registration import register

MOMENT = "2026-01-02T03:04:05.000000Z"
#: Longest wait for another thread of the test.
PATIENCE_SECONDS = 30.0


class GatedLook:
    """Observes for real, after the test has opened the gate of that call."""

    def __init__(self, calls=10):
        self.begun = [threading.Event() for _ in range(calls)]
        self.gates = [threading.Event() for _ in range(calls)]
        self.count = 0
        self.active = 0
        self.most_active = 0
        self.lock = threading.Lock()

    def __call__(self, path, **options):
        with self.lock:
            number = self.count
            self.count += 1
            self.active += 1
            self.most_active = max(self.most_active, self.active)
        self.begun[number].set()
        assert self.gates[number].wait(PATIENCE_SECONDS)
        try:
            return observe(path, **options)
        finally:
            with self.lock:
                self.active -= 1

    def open(self):
        for gate in self.gates:
            gate.set()


def wait_until_boarded(observer, number):
    """Wait until so many threads stand in line for one flight (its event knows its waiters)."""
    for _ in range(3000):
        with observer._lock:
            lanes = [lane.waiting for lane in observer._lanes.values() if lane.waiting is not None]
        if lanes and len(lanes[0].done._cond._waiters) >= number:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the threads did not get there")


def test_requests_during_an_observation_share_the_next_one(repository):
    look = GatedLook()
    observer = Observer(SystemClock(), look=look)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(observer.observe, repository.path)
        assert look.begun[0].wait(PATIENCE_SECONDS)
        later = [pool.submit(observer.observe, repository.path) for _ in range(6)]
        wait_until_boarded(observer, 5)
        repository.write("a.txt", "edited\n")
        look.open()
        answers = [future.result(PATIENCE_SECONDS) for future in later]
    assert look.count == 2
    assert look.most_active == 1
    assert len({id(answer) for answer in answers}) == 1
    assert not answers[0].is_clean
    assert first.result() is not answers[0]
    assert observer._lanes == {}


def test_a_request_never_gets_an_observation_that_began_before_it(repository):
    look = GatedLook()
    observer = Observer(SystemClock(), look=look)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(observer.observe, repository.path)
        assert look.begun[0].wait(PATIENCE_SECONDS)
        second = pool.submit(observer.observe, repository.path)
        look.open()
        assert second.result(PATIENCE_SECONDS).observed_at > first.result(PATIENCE_SECONDS).observed_at
    assert look.count == 2


def test_a_subfolder_and_a_symlink_share_with_the_top_level(repository, tmp_path):
    (repository.path / "sub").mkdir()
    (tmp_path / "link").symlink_to(repository.path)
    look = GatedLook()
    observer = Observer(SystemClock(), look=look)
    with ThreadPoolExecutor(4) as pool:
        pool.submit(observer.observe, repository.path)
        assert look.begun[0].wait(PATIENCE_SECONDS)
        paths = [repository.path, repository.path / "sub", tmp_path / "link" / "sub"]
        later = [pool.submit(observer.observe, path) for path in paths]
        wait_until_boarded(observer, 2)
        look.open()
        assert len({id(future.result(PATIENCE_SECONDS)) for future in later}) == 1
    assert look.count == 2


def test_different_worktrees_do_not_wait_for_each_other(repository, tmp_path):
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "other")
    look = GatedLook()
    observer = Observer(SystemClock(), look=look)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(observer.observe, repository.path)
        pool.submit(observer.observe, tmp_path / "other")
        assert look.begun[0].wait(PATIENCE_SECONDS)
        assert look.begun[1].wait(PATIENCE_SECONDS)
        look.open()
    assert look.most_active == 2


def test_when_an_observation_breaks_off_those_who_waited_look_for_themselves(repository):
    look = GatedLook()
    broken = threading.Event()

    def breaking(path, **options):
        if look.count == 1 and not broken.is_set():
            broken.set()
            look.count += 1
            raise KeyboardInterrupt
        return look(path, **options)

    observer = Observer(SystemClock(), look=breaking)
    with ThreadPoolExecutor(4) as pool:
        pool.submit(observer.observe, repository.path)
        assert look.begun[0].wait(PATIENCE_SECONDS)
        later = [pool.submit(observer.observe, repository.path) for _ in range(3)]
        wait_until_boarded(observer, 2)
        look.open()
        errors = [future.exception(PATIENCE_SECONDS) for future in later]
    assert sorted(type(error).__name__ for error in errors) == ["KeyboardInterrupt", "NoneType", "NoneType"]
    assert observer._lanes == {}


def test_no_path_is_unknown():
    observer = Observer(SystemClock())
    assert observer.observe(None).unknown is UnknownReason.NO_PATH
    assert observer.observe_exactly(None).unknown is UnknownReason.NO_PATH


@pytest.mark.parametrize("workspace_id", [None, "w-gone"])
def test_a_session_without_workspace_has_no_path(bridge_home, workspace_id):
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as store:
        seen = Observer(SystemClock()).stamp_session(store, workspace_id)
    assert seen.stamp.unknown_reason is UnknownReason.NO_PATH


def test_a_session_is_stamped_with_its_workspace(bridge_home, repository):
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as store:
        location = discover(repository.path)
        workspace = store.write(lambda tx: register(tx, location, moment=MOMENT)).workspace
        seen = Observer(SystemClock()).stamp_session(store, workspace.id)
    assert seen.state.head == repository.head()


def test_an_exact_look_names_what_the_index_hides(repository):
    repository.git("update-index", "--assume-unchanged", "a.txt")
    assert Observer(SystemClock()).observe_exactly(repository.path).unobserved == (b"a.txt",)


def test_stamps_remember_digests_across_processes_and_exact_looks_read_all_the_same(
    repository, bridge_home, monkeypatch
):
    monkeypatch.setattr(digestcache, "SETTLING_NS", -60_000_000_000)
    reads = []
    read = contents.digest_content

    def noted(root, path, deadline):
        reads.append(path)
        return read(root, path, deadline)

    monkeypatch.setattr(contents, "digest_content", noted)
    repository.write("new", "new\n")
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    found = []
    for _ in range(2):
        with Controller(settings, clock=SystemClock(), environment={}) as controller:
            found.append(controller.observer.observe(repository.path).state)
    assert reads == [b"new"]
    with Controller(settings, clock=SystemClock(), environment={}) as controller:
        found.append(controller.observer.observe_exactly(repository.path).state)
    assert reads == [b"new", b"new"]
    assert found[0] == found[1] == found[2]
    assert [path.parent for path in settings.digests.iterdir()] == [bridge_home / "digests"]
