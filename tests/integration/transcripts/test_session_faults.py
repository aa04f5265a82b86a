"""Calls of a commit that fail, each in turn: refused, done without saying so, or from one moment on."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from bridge.transcripts.sessionfile import SessionFile, disk
from bridge.transcripts.sessionfile.errors import (
    SessionFileError,
    SessionRecoveryRequired,
    SessionRollbackFailed,
    SessionWriteFailed,
)
from tests.sessionfiles import beside, create, options, user

CALLS = frozenset({"open", "read", "write", "stat", "fstat", "fsync", "fchmod", "link", "rename", "unlink"})
#: More calls than a commit makes.
MANY = 200


class FaultyOs:
    """The functions of ``os``, some of which fail.

    Parameters
    ----------
    at
        Which call fails, from 1.
    how
        ``before``: refused. ``after``: done, and an error all the same. ``onward``: it and all later ones are refused.
    only
        The names that count.
    """

    def __init__(self, at=0, how="before", only=CALLS):
        self.at, self.how, self.only = at, how, only
        self.calls = []

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.only:
            return real

        def call(*arguments, **named):
            self.calls.append(name)
            number = len(self.calls)
            fails = number >= self.at if self.how == "onward" else number == self.at
            if not self.at or not fails:
                return real(*arguments, **named)
            if self.how == "after":
                made = real(*arguments, **named)
                if name == "open":
                    os.close(made)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        return call


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x"


@pytest.fixture
def faulty(monkeypatch):
    def use(*arguments, **named):
        shim = FaultyOs(*arguments, **named)
        monkeypatch.setattr(disk, "os", shim)
        return shim

    yield use
    monkeypatch.undo()


def load(path):
    return SessionFile.load(path, **options(new_id=iter("pqrstuvwxyz").__next__))


def test_what_a_commit_does_and_in_which_order(path, faulty):
    file = create(path)
    shim = faulty(only=CALLS - {"stat", "fstat", "read", "open"})
    file.append(None, user())
    assert shim.calls == ["write", "fsync", "link", "rename", "fsync", "unlink"]
    shim = faulty(only=CALLS - {"stat", "fstat", "read", "open"})
    create(path.with_name("y"))
    assert shim.calls == ["write", "fsync", "link", "fsync", "unlink"]


@pytest.mark.parametrize("how", ["before", "after", "onward"])
def test_whichever_call_of_a_commit_fails_it_is_the_old_generation_or_the_new(tmp_path, faulty, monkeypatch, how):
    outcomes = set()
    for at in range(1, MANY):
        (tmp_path / str(at)).mkdir()
        path = tmp_path / str(at) / "x"
        file = create(path, new_id=iter("abcdefgh").__next__)
        file.append(None, user("old"))
        old = path.read_bytes()
        shim = faulty(at, how)
        failed = None
        try:
            file.append("a", user("new"))
        except SessionFileError as error:
            failed = error
        monkeypatch.undo()
        outcomes.add(None if failed is None else type(failed))
        look(path, file, old, failed)
        if len(shim.calls) < at:
            break
    else:
        raise AssertionError("a commit makes more calls than that")
    assert None in outcomes
    assert SessionWriteFailed in outcomes
    assert (SessionRollbackFailed in outcomes) == (how == "onward")


def look(path, file, old, failed):
    now = path.read_bytes()
    if failed is None:
        assert now.startswith(old)
        assert [entry.id for entry in load(path).entries] == [entry.id for entry in file.entries]
        assert len(file.entries) == 2
    elif isinstance(failed, SessionRollbackFailed):
        assert file.is_poisoned
        assert len(file.entries) == 1
        marker = path.with_name(".x.recovery")
        assert marker.read_bytes() == old
        assert failed.details["marker"] == str(marker)
        with pytest.raises(SessionRollbackFailed):
            file.append("a", user("more"))
        with pytest.raises(SessionRollbackFailed):
            file.refresh()
        assert path.read_bytes() == now
        # Whoever comes anew finds a whole generation, and may go on from it.
        fresh = load(path)
        assert 1 <= len(fresh.entries) <= 2
        fresh.append("a", user("more"))
        assert beside(path) == []
        return
    else:
        assert now == old
        assert not file.is_poisoned
        assert [entry.id for entry in file.entries] == ["a"]
    count = len(file.entries)
    file.append("a", user("more"))
    assert len(load(path).entries) == count + 1
    assert beside(path) == []


@pytest.mark.parametrize("how", ["before", "after", "onward"])
def test_whichever_call_of_a_creation_fails_there_is_a_whole_file_or_none(tmp_path, faulty, monkeypatch, how):
    for at in range(1, MANY):
        (tmp_path / str(at)).mkdir()
        path = tmp_path / str(at) / "x"
        shim = faulty(at, how)
        failed = None
        try:
            create(path)
        except SessionFileError as error:
            failed = error
        monkeypatch.undo()
        if failed is not None:
            assert isinstance(failed, SessionRollbackFailed) or not path.exists()
        if not path.exists():
            assert failed is not None
            create(path)
        assert load(path).entries == ()
        load(path).append(None, user())
        assert beside(path) == []
        if len(shim.calls) < at:
            return
    raise AssertionError("a creation makes more calls than that")


def test_a_failed_undoing_that_lost_the_file_is_for_a_person(path, monkeypatch):
    file = create(path)
    file.append(None, user("old"))
    old = path.read_bytes()

    class Losing(FaultyOs):
        def __getattr__(self, name):
            real = getattr(os, name)
            if name == "rename":

                def rename(source, target, **named):
                    real(source, target, **named)
                    path.unlink()
                    raise OSError(errno.EIO, "lost")

                return rename
            return real

    monkeypatch.setattr(disk, "os", Losing())
    with pytest.raises(SessionRollbackFailed) as caught:
        file.append(None, user("new"))
    monkeypatch.undo()
    assert caught.value.constant == "SESSION_ROLLBACK_FAILED"
    assert file.is_poisoned
    with pytest.raises(SessionRecoveryRequired):
        load(path)
    Path(caught.value.details["marker"]).rename(path)
    assert path.read_bytes() == old
    load(path).append(None, user("new"))


@pytest.mark.parametrize("at", range(1, 30))
def test_an_interrupt_at_any_call_leaves_one_generation_and_a_usable_object(path, monkeypatch, at):
    file = create(path)
    file.append(None, user("old"))
    old = path.read_bytes()

    class Interrupting(FaultyOs):
        def __getattr__(self, name):
            real = getattr(os, name)
            if name not in CALLS:
                return real

            def call(*arguments, **named):
                self.calls.append(name)
                done = real(*arguments, **named)
                if len(self.calls) == at and name != "open":
                    raise KeyboardInterrupt
                return done

            return call

    monkeypatch.setattr(disk, "os", Interrupting())
    with contextlib.suppress(KeyboardInterrupt):
        file.append(None, user("new"))
    monkeypatch.undo()
    assert path.read_bytes().startswith(old)
    count = len(load(path).entries)
    file.append(None, user("more"))
    assert len(load(path).entries) == count + 1 == len(file.entries)
    assert beside(path) == []


def test_a_full_disk_is_said_and_nothing_is_changed(path, monkeypatch):
    file = create(path)
    old = path.read_bytes()

    class Full(FaultyOs):
        def __getattr__(self, name):
            if name != "write":
                return getattr(os, name)

            def write(descriptor, data):
                if len(data) > 10:
                    return os.write(descriptor, data[:10])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            return write

    monkeypatch.setattr(disk, "os", Full())
    with pytest.raises(SessionWriteFailed) as caught:
        file.append(None, user())
    assert caught.value.details["errno"] == errno.ENOSPC
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert beside(path) == []


def test_a_name_of_ours_that_is_no_file_of_ours_is_left_alone(path):
    file = create(path)
    path.with_name(".x.next").symlink_to(path)
    with pytest.raises(SessionWriteFailed):
        file.append(None, user())
    assert path.with_name(".x.next").is_symlink()
