"""Digests of contents: exact, bounded, never of a file in motion."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

from bridge.git import contents
from bridge.git.manifest import ContentKind
from bridge.semantics.stamps import UnknownReason

NEVER = float("inf")


@pytest.mark.parametrize(
    "size", [0, 1, contents.CHUNK_BYTES - 1, contents.CHUNK_BYTES, contents.CHUNK_BYTES + 1, 3 * contents.CHUNK_BYTES]
)
def test_the_digest_is_sha256_of_the_bytes_at_every_chunk_edge(tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    found = contents.digest_content(os.fsencode(tmp_path), b"file", NEVER)
    assert found.kind is ContentKind.FILE
    assert found.digest.decode() == hashlib.sha256(data).hexdigest()


def test_a_sparse_file_has_the_digest_of_its_bytes(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.seek(5 * contents.CHUNK_BYTES)
        file.write(b"end")
        file.truncate(9 * contents.CHUNK_BYTES + 7)
    expected = hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest()
    assert contents.digest_content(os.fsencode(tmp_path), b"file", NEVER).digest.decode() == expected


def test_what_is_neither_file_nor_symlink_counts_as_vanished(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in (b"folder", b"pipe", b"absent", b"pipe/below"):
        with pytest.raises(contents.ContentVanished):
            contents.digest_content(os.fsencode(tmp_path), name, NEVER)


def test_a_passed_deadline_stops_the_reading(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(contents.DeadlinePassed):
        contents.digest_content(os.fsencode(tmp_path), b"file", time.monotonic() - 1)


@pytest.fixture
def moving(monkeypatch):
    """Append to a file during each of its first ``count`` readings, as a busy writer would."""

    def move(path, count: int) -> None:
        read = contents._digest_descriptor
        left = [count]

        def read_and_write(descriptor, size, deadline):
            result = read(descriptor, size, deadline)
            if left[0] and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                left[0] -= 1
                with path.open("ab") as file:
                    file.write(b"more")
            return result

        monkeypatch.setattr(contents, "_digest_descriptor", read_and_write)

    return move


def test_a_file_that_changes_during_a_reading_is_read_again(repository, look, moving):
    file = repository.write("log", "start")
    moving(file, contents.READ_ATTEMPTS - 1)
    seen = look(repository.path)
    assert seen.manifest.rows[0].content_digest.decode() == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_file_that_never_rests_makes_the_stamp_unknown(repository, look, moving):
    moving(repository.write("log", "start"), contents.READ_ATTEMPTS)
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.UNREADABLE_PATH
    assert seen.unknown_path == b"log"
    assert seen.detail == "it changes while it is read"


@pytest.mark.parametrize("is_permanent", [False, True])
def test_a_path_that_vanishes_after_the_status_is_looked_at_anew(repository, look, monkeypatch, is_permanent):
    from bridge.git import observe

    file = repository.write("short-lived", "x")
    checked = observe._checked
    calls = []

    def remove_after_the_status(output):
        calls.append(output)
        file.unlink(missing_ok=True)
        if is_permanent:
            file.mkdir(exist_ok=True)
        return checked(output)

    def status_of_a_file(*arguments, **options):
        if is_permanent:
            if file.is_dir():
                file.rmdir()
            file.write_text("x")
        return begin(*arguments, **options)

    begin = observe.begin_git
    monkeypatch.setattr(observe, "_checked", remove_after_the_status)
    monkeypatch.setattr(observe, "begin_git", status_of_a_file)
    seen = look(repository.path)
    if is_permanent:
        assert seen.unknown is UnknownReason.UNREADABLE_PATH
        assert len(calls) == observe.OBSERVE_ATTEMPTS
    else:
        assert seen.is_clean
        assert len(calls) == 2
