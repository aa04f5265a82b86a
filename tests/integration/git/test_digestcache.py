"""Remembered digests: used where they spare a reading, never where a file may have changed."""

from __future__ import annotations

import hashlib
import mmap
import os
import time

import pytest

from bridge.git import contents, digestcache
from bridge.git.digestcache import SETTLING_NS, FileDigestCache, MemoryDigestCache, is_settled

#: Added to the cache's clock: files written just now count as long at rest.
LATER_NS = 60_000_000_000


class Clock:
    """A wall clock that the test moves."""

    def __init__(self, offset_ns=LATER_NS):
        self.offset_ns = offset_ns

    def __call__(self):
        return time.time_ns() + self.offset_ns


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    return MemoryDigestCache(now_ns=clock)


@pytest.fixture
def reads(monkeypatch):
    """The paths that are read, in order."""
    found = []
    read = contents.digest_content

    def noted(root, path, deadline):
        found.append(path)
        return read(root, path, deadline)

    monkeypatch.setattr(contents, "digest_content", noted)
    return found


@pytest.fixture
def agree(look, cache):
    """Stamp with the cache, hold it against one that reads everything, and return its hash."""

    def stamp(path):
        remembered, read = look(path, digests=cache), look(path)
        assert remembered.state == read.state
        assert remembered.manifest == read.manifest
        return remembered.state.dirty_hash

    return stamp


def test_a_file_at_rest_is_read_once(repository, look, cache, reads):
    repository.write("new", "new\n")
    repository.write("a.txt", "edited\n")
    seen = [look(repository.path, digests=cache) for _ in range(3)]
    assert sorted(reads) == [b"a.txt", b"new"]
    assert len({each.state.state_digest for each in seen}) == 1


def test_only_what_changed_is_read_again(repository, look, cache, reads):
    for number in range(20):
        repository.write(f"new/{number}", "one\n")
    first = look(repository.path, digests=cache)
    reads.clear()
    repository.write("new/7", "two\n")
    repository.write("new/another", "one\n")
    second = look(repository.path, digests=cache)
    assert reads == [b"new/7", b"new/another"]
    assert second.state.dirty_hash == look.hash(repository.path) != first.state.dirty_hash


def test_an_exact_look_reads_everything_and_what_it_finds_is_remembered(repository, look, cache, reads):
    repository.write("new", "new\n")
    look(repository.path, digests=cache)
    look(repository.path, digests=cache, read_all=True)
    assert reads == [b"new", b"new"]
    look(repository.path, digests=cache)
    assert reads == [b"new", b"new"]


def test_another_setting_of_the_executable_bit_makes_other_rows(repository, agree):
    repository.write("new.sh", "x").chmod(0o755)
    first = agree(repository.path)
    repository.git("config", "core.fileMode", "false")
    assert agree(repository.path) != first


@pytest.mark.parametrize(
    ("mtime_age", "ctime_age", "expected"),
    [
        (SETTLING_NS + 1, SETTLING_NS + 1, True),
        (SETTLING_NS, SETTLING_NS + 1, False),
        (SETTLING_NS + 1, SETTLING_NS, False),
        (-1, SETTLING_NS + 1, False),
        (SETTLING_NS + 1, -1, False),
    ],
)
def test_a_file_is_at_rest_only_beyond_the_margin(mtime_age, ctime_age, expected):
    now = 1_700_000_000_500_000_000
    assert is_settled((1, 2, 3, now - mtime_age, now - ctime_age, 0o100644), now) is expected


def test_whole_seconds_are_those_of_a_file_system_that_keeps_no_parts():
    now = 1_700_000_000_500_000_000
    assert not is_settled((1, 2, 3, 0, 1_600_000_000_000_000_000, 0o100644), now)
    assert is_settled((1, 2, 3, 0, 1_600_000_000_000_000_001, 0o100644), now)


def test_edits_of_one_size_within_one_tick_are_seen(repository, look, agree, clock):
    """With the real clock no fresh file is trusted, whatever its times say."""
    clock.offset_ns = 0
    hashes = []
    for number in range(30):
        repository.write("new", f"{number:04d}\n")
        hashes.append(agree(repository.path))
    assert len(set(hashes)) == 30


def test_a_fresh_file_is_not_remembered(repository, look, clock, cache, reads):
    clock.offset_ns = 0
    repository.write("new", "one\n")
    for _ in range(2):
        look(repository.path, digests=cache)
    assert reads == [b"new", b"new"]


def test_a_restored_modification_time_hides_nothing(repository, agree):
    file = repository.write("new", "one\n")
    before = file.stat()
    first = agree(repository.path)
    file.write_text("two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert agree(repository.path) != first


def test_a_file_renamed_over_another_is_seen(repository, agree):
    file, other = repository.write("new", "one\n"), repository.write("other", "two\n")
    for path in (file, other):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    first = agree(repository.path)
    other.rename(file)
    assert agree(repository.path) != first


def test_two_files_that_trade_places_are_seen(repository, agree):
    one, two = repository.write("one", "1\n"), repository.write("two", "2\n")
    first = agree(repository.path)
    spare = repository.path / "spare"
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    assert agree(repository.path) != first


def test_an_edit_through_another_hard_link_is_seen(repository, agree, tmp_path):
    file = repository.write("new", "one\n")
    os.link(file, tmp_path / "link")
    first = agree(repository.path)
    (tmp_path / "link").write_text("two\n")
    assert agree(repository.path) != first


def test_another_file_at_the_same_inode_with_the_same_times_is_seen(repository, agree):
    file = repository.write("new", "one\n")
    before = file.stat()
    first = agree(repository.path)
    file.unlink()
    file.write_text("two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert agree(repository.path) != first


def test_a_folder_replaced_by_another_with_the_same_names_is_seen(repository, agree):
    for folder, text in (("here", "one\n"), ("there", "two\n")):
        for number in range(3):
            repository.write(f"{folder}/{number}", text)
    first = agree(repository.path)
    (repository.path / "here").rename(repository.path / "gone")
    (repository.path / "there").rename(repository.path / "here")
    assert agree(repository.path) != first


def test_a_file_replaced_by_a_symlink_or_removed_is_seen(repository, agree, tmp_path):
    file = repository.write("new", "one\n")
    repository.write("next", "one\n")
    hashes = [agree(repository.path)]
    file.unlink()
    hashes.append(agree(repository.path))
    (tmp_path / "outside").write_text("one\n")
    file.symlink_to(tmp_path / "outside")
    hashes.append(agree(repository.path))
    assert len(set(hashes)) == 3


def test_a_chmod_is_seen(repository, agree):
    file = repository.write("new", "one\n")
    file.chmod(0o644)
    first = agree(repository.path)
    file.chmod(0o755)
    assert agree(repository.path) != first


def test_a_clock_that_was_set_back_makes_everything_forgotten(repository, look, clock, cache, reads):
    repository.write("new", "one\n")
    look(repository.path, digests=cache)
    clock.offset_ns -= 30_000_000_000
    look(repository.path, digests=cache)
    assert reads == [b"new", b"new"]
    look(repository.path, digests=cache)
    assert reads == [b"new", b"new"]


def test_a_clock_behind_the_files_times_trusts_nothing(repository, look, clock, cache, reads):
    clock.offset_ns = -3_600_000_000_000
    repository.write("new", "one\n")
    for _ in range(2):
        look(repository.path, digests=cache)
    assert reads == [b"new", b"new"]


def test_an_exact_look_sees_what_a_mapping_writes_although_the_times_stand_still(repository, look, cache):
    """A page that is writable already is written without the file system's knowledge."""
    file = repository.write("new", "one\n" * 1024)
    with file.open("r+b") as handle, mmap.mmap(handle.fileno(), 0) as mapping:
        mapping[:4] = b"two\n"
        first = look(repository.path, digests=cache)
        before = file.stat()
        mapping[:4] = b"tri\n"
        is_untold = file.stat().st_ctime_ns == before.st_ctime_ns
        exact = look(repository.path, digests=cache, read_all=True)
        expected = hashlib.sha256(file.read_bytes()).hexdigest().encode()
    assert exact.manifest.rows[0].content_digest == expected != first.manifest.rows[0].content_digest
    after = look(repository.path, digests=cache)
    assert after.state == exact.state, f"untold by the times: {is_untold}"


def test_a_mapping_that_is_synced_is_seen(repository, agree):
    file = repository.write("new", "one\n" * 1024)
    with file.open("r+b") as handle, mmap.mmap(handle.fileno(), 0) as mapping:
        mapping[:4] = b"two\n"
        mapping.flush()
        os.fsync(handle.fileno())
        first, before = agree(repository.path), file.stat()
        mapping[:4] = b"tri\n"
        mapping.flush()
        if file.stat().st_ctime_ns == before.st_ctime_ns:
            pytest.skip("a file system in memory alone: syncing it tells nothing")
        assert agree(repository.path) != first


def test_a_nested_repositorys_files_are_remembered_too(repository, look, cache, reads):
    inner = type(repository)(repository.path / "nested")
    inner.path.mkdir()
    inner.git("init", "-q")
    inner.write("file", "one\n")
    first = look(repository.path, digests=cache)
    assert look(repository.path, digests=cache).state == first.state
    assert reads == [b"file"]
    inner.write("file", "two\n")
    assert look(repository.path, digests=cache).state == look(repository.path).state != first.state


@pytest.fixture
def on_disk(tmp_path, clock):
    """Make a cache on one folder, as each process would."""
    return lambda **options: FileDigestCache(tmp_path / "digests", now_ns=clock, **options)


def test_another_process_profits(repository, look, on_disk, reads):
    repository.write("new", "one\n")
    first = look(repository.path, digests=on_disk())
    assert look(repository.path, digests=on_disk()).state == first.state
    assert reads == [b"new"]
    repository.write("new", "two\n")
    assert look(repository.path, digests=on_disk()).state == look(repository.path).state != first.state


def file_of(repository, cache):
    return cache.file_of(os.fsencode(repository.path))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "version", "long", "folder"])
def test_a_damaged_or_foreign_file_is_ignored_and_made_anew(repository, look, on_disk, reads, monkeypatch, damage):
    repository.write("new", "one\n")
    first = look(repository.path, digests=on_disk())
    file = file_of(repository, on_disk())
    content = file.read_bytes()
    other = digestcache.encode(b"/elsewhere", {}, 0)
    if damage == "long":
        monkeypatch.setattr(digestcache, "MAX_FILE_BYTES", len(content) - 1)
    elif damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        flipped = bytearray(content)
        flipped[-1] ^= 1
        file.write_bytes(
            {
                "cut": content[:-1],
                "flipped": bytes(flipped),
                "empty": b"",
                "foreign": other,
                "version": content.replace(b"digests 1", b"digests 2", 1),
            }[damage]
        )
    assert look(repository.path, digests=on_disk()).state == first.state
    assert reads == [b"new", b"new"]
    if damage not in {"long", "folder"}:
        assert look(repository.path, digests=on_disk()).state == first.state
        assert reads == [b"new", b"new"]


def test_every_prefix_of_a_file_is_refused():
    content = digestcache.encode(b"/root", {b"path": ((1, 2, 3, -4, 5, 6), b"ab" * 32)}, 7)
    assert digestcache.decode(content, b"/root") == ({b"path": ((1, 2, 3, -4, 5, 6), b"ab" * 32)}, 7)
    assert digestcache.decode(content, b"/other") is None
    for length in range(len(content)):
        assert digestcache.decode(content[:length], b"/root") is None


def test_a_file_whose_inside_contradicts_itself_is_refused():
    body = digestcache._HEAD.pack(7, 5, 5) + b"/root"
    content = digestcache._MAGIC + hashlib.sha256(body).digest() + body
    assert digestcache.decode(content, b"/root") is None


def test_odd_names_survive_the_file(repository, look, on_disk, reads):
    names = [b"new\nline", b"byte-\xff", b" leading", b'quote"']
    for name in names:
        with open(os.path.join(os.fsencode(repository.path), name), "wb") as file:
            file.write(name)
    first = look(repository.path, digests=on_disk())
    assert look(repository.path, digests=on_disk()).state == first.state
    assert sorted(reads) == sorted(names)


def test_a_clock_set_back_before_the_next_process_is_noticed(repository, look, on_disk, clock, reads):
    repository.write("new", "one\n")
    look(repository.path, digests=on_disk())
    clock.offset_ns -= 30_000_000_000
    look(repository.path, digests=on_disk())
    assert reads == [b"new", b"new"]


def test_a_cache_that_cannot_be_written_changes_no_answer(repository, look, tmp_path, clock):
    repository.write("new", "one\n")
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "absent" / "digests", tmp_path / "file" / "digests", tmp_path / "file"):
        seen = look(repository.path, digests=FileDigestCache(folder, now_ns=clock))
        assert seen.state == look(repository.path).state
    assert not (tmp_path / "absent").exists()


def test_the_file_is_private_and_nothing_is_left_beside_it(repository, look, on_disk):
    repository.write("new", "one\n")
    look(repository.path, digests=on_disk())
    file = file_of(repository, on_disk())
    assert list(file.parent.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600


def test_one_edit_among_many_does_not_rewrite_the_file(repository, look, on_disk, monkeypatch):
    for number in range(2 * digestcache.REWRITE_SHARE):
        repository.write(f"new/{number}", "one\n")
    look(repository.path, digests=on_disk())
    file = file_of(repository, on_disk())
    written = file.stat().st_ino
    cache = on_disk()
    repository.write("new/0", "two\n")
    look(repository.path, digests=cache)
    assert file.stat().st_ino == written
    repository.write("new/1", "two\n")
    look(repository.path, digests=cache)
    assert file.stat().st_ino != written
    written = file.stat().st_ino
    repository.write("new/2", b"x" * digestcache.REWRITE_BYTES)
    look(repository.path, digests=cache)
    assert file.stat().st_ino != written


def test_worktrees_beyond_the_limit_lose_their_files_oldest_first(on_disk):
    cache = on_disk(max_worktrees=3)
    digests = {b"path": ((1, 2, 3, 4, 5, 6), b"ab" * 32)}
    for number in range(5):
        root = b"/root%d" % number
        cache.remember(root, digestcache.Memory(digests))
        os.utime(cache.file_of(root), (number, number))
    left = {path.name for path in cache.file_of(b"").parent.iterdir()}
    assert left == {cache.file_of(b"/root%d" % number).name for number in (2, 3, 4)}


@pytest.mark.parametrize(("max_entries", "remembered"), [(4, 2), (3, 1), (2, 1), (1, 1)])
def test_files_beyond_the_limit_are_forgotten(clock, max_entries, remembered):
    cache = MemoryDigestCache(now_ns=clock, max_entries=max_entries)
    small, large = ((1, 2, 3, 4, 5, 6), b"ab" * 32), ((1, 2, 30, 4, 5, 6), b"ab" * 32)
    for root in (b"/one", b"/two"):
        cache.remember(root, digestcache.Memory({b"small": small, b"large": large}))
    found = [cache.recall(root).digests for root in (b"/one", b"/two")]
    assert sum(bool(digests) for digests in found) == remembered
    assert b"large" in found[1]
    assert (b"small" in found[1]) == (max_entries > 1)
