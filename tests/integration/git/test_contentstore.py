"""The private object store: exact bytes, nothing written into the user's repository, safe against every gc."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

import bridge.git.contentstore as module
from bridge.git.contentstore import ContentStore, KeptObject, Wanted
from bridge.git.errors import GitFailed
from bridge.git.manifest import ContentKind
from bridge.git.process import run_git
from bridge.git.repository import discover

MIB = 1024 * 1024
LONG_AGO = 1_000_000_000.0


def wanted_of(look, path):
    seen = look(path)
    kinds = (ContentKind.FILE, ContentKind.LINK)
    return [
        Wanted(row.path, row.content_digest.decode(), row.content_kind)
        for row in seen.manifest.rows
        if row.content_kind in kinds
    ]


def digest_of(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def store(bridge_home):
    return ContentStore(bridge_home / "objects" / "r1")


@pytest.fixture
def keep(store, repository, look):
    def run(known=None, *, limit=MIB, moment=LONG_AGO, wanted=None):
        wanted = wanted_of(look, repository.path) if wanted is None else wanted
        return store.keep(discover(repository.path), wanted, known or {}, label="d", limit_bytes=limit, moment=moment)

    return run


def contents(store, kept):
    ids = {digest: kept_object.object_id for digest, kept_object in kept.objects.items()}
    return {digest: None if blob is None else b"".join(blob.chunks) for digest, blob in store.read(ids)}


def test_bytes_are_kept_as_they_stand_on_the_disk(repository, store, keep):
    repository.git("config", "core.autocrlf", "true")
    repository.write(".gitattributes", "* text=auto\n*.up filter=up\n")
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    repository.write("a.txt", b"with\r\nends\r\n")
    repository.write("x.up", b"small\n")
    repository.write("bin\n\xff".encode("latin-1").decode("utf-8", "surrogateescape"), b"\0\1\2")
    repository.write("empty", b"")
    os.symlink("a target that does not exist", repository.path / "link")
    kept = keep()
    assert set(contents(store, kept).values()) == {
        b"* text=auto\n*.up filter=up\n",
        b"with\r\nends\r\n",
        b"small\n",
        b"\0\1\2",
        b"",
        b"a target that does not exist",
    }
    assert all(digest_of(content) == digest for digest, content in contents(store, kept).items())
    assert not kept.over_limit
    assert not kept.changed


def test_nothing_at_all_is_written_into_the_repository(repository, keep, bytes_below):
    repository.write("a.txt", "changed\n")
    repository.write("new", "new\n")
    # An object that the repository has too: git would touch it if it were borrowed for writing.
    repository.git("add", "new")
    before = bytes_below(repository.path)
    assert len(keep().objects) == 2
    assert bytes_below(repository.path) == before


def test_fc_37_no_identity_is_needed(repository, keep, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    repository.write("untracked", "work\n")
    assert len(keep().objects) == 1


def test_a_content_that_changed_since_the_stamp_is_not_taken_for_it(repository, store, keep, look):
    repository.write("same", "same\n")
    repository.write("longer", "one\n")
    repository.write("rewritten", "one\n")
    repository.write("gone", "gone\n")
    repository.write("swapped", "swapped\n")
    wanted = wanted_of(look, repository.path)
    repository.write("longer", "one and more\n")
    repository.write("rewritten", "two\n")
    os.unlink(repository.path / "gone")
    os.unlink(repository.path / "swapped")
    os.symlink("same", repository.path / "swapped")
    kept = keep(wanted=wanted)
    assert contents(store, kept) == {digest_of(b"same\n"): b"same\n"}
    assert kept.changed == {digest_of(b"one\n"), digest_of(b"gone\n"), digest_of(b"swapped\n")}


def test_one_content_in_two_places_is_kept_once_and_taken_where_it_still_is(repository, keep, look):
    repository.write("one", "same\n")
    repository.write("two", "same\n")
    wanted = wanted_of(look, repository.path)
    os.unlink(repository.path / "one")
    kept = keep(wanted=wanted)
    assert list(kept.objects) == [digest_of(b"same\n")]
    assert not kept.changed


def test_the_limit_is_exact_and_leaves_out_the_largest(repository, keep):
    repository.write("small", b"s" * 10)
    repository.write("large", b"l" * 90)
    assert len(keep(limit=100).objects) == 2
    kept = keep(limit=99)
    assert list(kept.objects) == [digest_of(b"s" * 10)]
    assert kept.over_limit == {digest_of(b"l" * 90): 90}
    kept = keep(limit=9)
    assert kept.ref is None
    assert len(kept.over_limit) == 2


def test_the_number_of_files_is_limited_as_well(repository, keep, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT_FILES", 2)
    for name in "abc":
        repository.write(name, name * (ord(name) - 96))
    kept = keep()
    assert (len(kept.objects), len(kept.over_limit)) == (2, 1)
    os.unlink(repository.path / "c")
    assert not keep().over_limit


def test_what_is_known_is_held_again_without_being_read(repository, store, keep, look):
    repository.write("one", "one\n")
    first = keep()
    repository.write("two", "two\n")
    wanted = wanted_of(look, repository.path)
    os.unlink(repository.path / "one")
    second = keep(first.objects, wanted=wanted)
    assert set(contents(store, second).values()) == {b"one\n", b"two\n"}
    assert store.drop(frozenset({second.ref}), now=time.time()) == (first.ref,)
    with store.locked():
        store.collect()
    assert set(contents(store, second).values()) == {b"one\n", b"two\n"}


def test_a_gc_here_takes_only_what_no_ref_holds(repository, store, keep):
    repository.write("one", "one\n")
    kept = keep()
    with store.locked():
        store.collect()
    assert set(contents(store, kept).values()) == {b"one\n"}
    assert store.drop(frozenset(), now=LONG_AGO + module.ORPHAN_GRACE_SECONDS - 1) == ()
    assert store.drop(frozenset(), now=LONG_AGO + module.ORPHAN_GRACE_SECONDS) == (kept.ref,)
    with store.locked():
        store.collect()
    assert contents(store, kept) == {digest_of(b"one\n"): None}
    assert store.reachable() == frozenset()


def test_a_gc_of_the_repository_takes_nothing_that_was_kept(repository, store, keep):
    repository.write("staged", "staged only\n")
    repository.git("add", "staged")
    kept = keep()
    repository.git("reset", "-q", "--hard")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    assert set(contents(store, kept).values()) == {b"staged only\n"}


def test_an_object_that_is_said_to_be_known_and_is_not_fails_and_changes_nothing(repository, store, keep):
    repository.write("one", "one\n")
    with pytest.raises(GitFailed):
        keep({digest_of(b"one\n"): KeptObject("1" * 40, 4)})
    assert contents(store, keep()) == {digest_of(b"one\n"): b"one\n"}


def test_many_small_and_one_large_file(repository, store, keep):
    for number in range(300):
        repository.write(f"many/{number}", f"{number}\n")
    repository.write("large", os.urandom(3 * MIB + 1))
    kept = keep(limit=10 * MIB)
    assert len(kept.objects) == 301
    assert all(digest_of(content) == digest for digest, content in contents(store, kept).items())


@pytest.mark.parametrize("is_packed", [False, True])
def test_what_is_written_is_what_git_would_write(repository, store, keep, monkeypatch, is_packed):
    if is_packed:
        monkeypatch.setattr(module, "MAX_LOOSE_FILES", 0)
    for number in range(40):
        repository.write(f"many/{number}", f"{number}\n")
    repository.write("empty", b"")
    kept = keep()
    assert fsck(store) == []
    assert all(
        run_git(["hash-object", "-t", "blob", "--stdin"], cwd=store.path, stdin=content).text
        == kept.objects[digest].object_id
        for digest, content in contents(store, kept).items()
    )
    tree = run_git([f"--git-dir={store.path}", "rev-parse", f"{kept.ref}^{{tree}}"], cwd=store.path).text
    monkeypatch.setattr(module, "MAX_LOOSE_FILES", 0 if not is_packed else 100)
    other = ContentStore(store.path.parent / "other")
    again = other.keep(
        discover(repository.path), wanted_of_all(kept, repository), {}, label="d", limit_bytes=MIB, moment=LONG_AGO
    )
    assert run_git([f"--git-dir={other.path}", "rev-parse", f"{again.ref}^{{tree}}"], cwd=other.path).text == tree


def fsck(store):
    told = run_git([f"--git-dir={store.path}", "fsck", "--strict", "--full"], cwd=store.path)
    return [line for line in (told.stdout + told.stderr).splitlines() if b"unborn branch" not in line]


def wanted_of_all(kept, repository):
    names = [path for path in repository.path.rglob("*") if path.is_file() and ".git" not in path.parts]
    found = [
        Wanted(bytes(path.relative_to(repository.path)), digest_of(path.read_bytes()), ContentKind.FILE)
        for path in names
    ]
    return [wanted for wanted in found if wanted.digest in kept.objects]


def test_contents_that_a_gc_packed_are_held_again(repository, store, keep):
    repository.write("one", "one\n")
    first = keep()
    with store.locked():
        store.collect()
    repository.write("two", "two\n")
    second = keep(first.objects)
    assert set(contents(store, second).values()) == {b"one\n", b"two\n"}
    assert fsck(store) == []


@pytest.mark.parametrize("count", [1, 3])
def test_the_edge_between_loose_and_packed(repository, store, keep, monkeypatch, count):
    monkeypatch.setattr(module, "MAX_LOOSE_FILES", 2)
    monkeypatch.setattr(module, "feed_git", None)
    for number in range(count):
        repository.write(f"n{number}", f"{number}\n")
    if count <= 2:
        assert len(keep().objects) == count
        monkeypatch.setattr(module, "MAX_LOOSE_BYTES", 1)
        repository.write("m", "m\n")
    with pytest.raises(TypeError):
        keep()


def test_a_repository_with_sha256_objects(tmp_path, look, store):
    path = tmp_path / "sha256"
    run_git(["init", "-q", "--object-format=sha256", str(path)], cwd=tmp_path)
    (path / "a").write_text("a\n")
    kept = store.keep(discover(path), wanted_of(look, path), {}, label="d", limit_bytes=MIB, moment=LONG_AGO)
    assert contents(store, kept) == {digest_of(b"a\n"): b"a\n"}
    assert all(len(kept_object.object_id) == 64 for kept_object in kept.objects.values())


def test_a_store_that_was_never_made_has_nothing(store):
    assert dict(store.read({"d": "1" * 40})) == {"d": None}
    assert store.drop(frozenset(), now=time.time()) == ()
    assert store.size() == 0
