"""The comparison itself, on made-up manifests and commits: every pair of states of one path has one answer."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.git.history import ChangedPath
from bridge.git.manifest import ContentKind, Manifest, ManifestRow
from bridge.workspaces.pathchanges import Change, DiskFact, Facts, Status, differences, unlisted_now

BLOBS = [b"%040x" % number for number in range(1, 6)]
DIGESTS = [b"%064x" % number for number in range(1, 6)]
NOTHING = b"0" * 40


def untracked(path, content=0):
    return ManifestRow(path, b"?", b"?", b"N...", (), (), b"100644", ContentKind.FILE, DIGESTS[content])


def tracked(path, letters, head, index, content):
    """A tracked row; ``head``, ``index``, ``content`` number a content, None is absent."""
    mode = [b"000000" if version is None else b"100644" for version in (head, index, content)]
    ids = [NOTHING if version is None else BLOBS[version] for version in (head, index)]
    kind = ContentKind.ABSENT if content is None else ContentKind.FILE
    digest = b"" if content is None else DIGESTS[content]
    return ManifestRow(path, letters[:1], letters[1:], b"N...", (mode[0], mode[1]), tuple(ids), mode[2], kind, digest)


def step(path, old, new, status=None, old_path=None):
    def mode(version):
        return "000000" if version is None else "100644"

    def identity(version):
        return NOTHING.decode() if version is None else BLOBS[version].decode()

    letter = status or ("A" if old is None else "D" if new is None else "M")
    return ChangedPath(letter, path, old_path, mode(old), mode(new), identity(old), identity(new))


def one(facts):
    (found,) = differences(facts)
    return found.change, found.before, found.after, found.is_content_changed


def on_disk(content):
    if content is None:
        return DiskFact(is_present=False)
    return DiskFact(is_present=True, kind=ContentKind.FILE, digest=DIGESTS[content])


def test_nothing_differs():
    manifest = Manifest.of([untracked(b"a"), tracked(b"b", b".M", 0, 0, 1)])
    assert differences(Facts(manifest, manifest)) == []


def test_conflict_modes_and_letters_become_words():
    conflicted = ManifestRow(
        b"a",
        b"U",
        b"U",
        b"N...",
        (b"100644",) * 3,
        tuple(BLOBS[:3]),
        b"100644",
        ContentKind.FILE,
        DIGESTS[0],
    )
    rows = {
        Status.CONFLICTED: conflicted,
        Status.STAGED: tracked(b"a", b"M.", 0, 1, 1),
        Status.STAGED_AND_MODIFIED: tracked(b"a", b"MM", 0, 1, 2),
        Status.MODIFIED: tracked(b"a", b".M", 0, 0, 1),
        Status.DELETED: tracked(b"a", b".D", 0, 0, None),
    }
    for status, row in rows.items():
        found = one(Facts(Manifest(), Manifest.of([row])))
        assert found[1:3] == (Status.CLEAN, status)


def test_committed_with_exactly_that_content():
    facts = Facts(
        Manifest.of([tracked(b"a", b".M", 0, 0, 1)]),
        Manifest(),
        [step(b"a", 0, 1)],
        {b"a": on_disk(1)},
    )
    assert one(facts) == (Change.COMMITTED, Status.MODIFIED, Status.CLEAN, False)


def test_committed_with_other_content():
    facts = Facts(
        Manifest.of([tracked(b"a", b".M", 0, 0, 1)]),
        Manifest(),
        [step(b"a", 0, 2)],
        {b"a": on_disk(2)},
    )
    assert one(facts) == (Change.CHANGED, Status.MODIFIED, Status.CLEAN, True)


def test_what_could_not_be_read_now_is_not_taken_for_equal():
    facts = Facts(
        Manifest.of([tracked(b"a", b".M", 0, 0, 1)]),
        Manifest(),
        [step(b"a", 0, 1)],
        {b"a": DiskFact(is_present=True)},
    )
    assert one(facts) == (Change.CHANGED, Status.MODIFIED, Status.CLEAN, True)


def test_clean_then_and_modified_on_top_of_commits():
    facts = Facts(Manifest(), Manifest.of([tracked(b"a", b".M", 1, 1, 2)]), [step(b"a", 0, 1)])
    assert one(facts) == (Change.CHANGED, Status.CLEAN, Status.MODIFIED, True)


def test_a_path_that_came_and_was_deleted_again():
    facts = Facts(Manifest(), Manifest.of([tracked(b"a", b".D", 0, 0, None)]), [step(b"a", None, 0)])
    assert one(facts) == (Change.CHANGED, Status.ABSENT, Status.DELETED, False)


def test_a_deletion_that_was_undone_by_untracking_is_back():
    facts = Facts(
        Manifest.of([tracked(b"a", b"D.", 0, None, None)]),
        Manifest.of([tracked(b"a", b"D.", 0, None, None), untracked(b"a", 1)]),
    )
    assert one(facts) == (Change.RESTORED, Status.DELETED, Status.UNTRACKED, True)


def test_renames_pair_equal_names_first_and_use_each_path_once():
    then = Manifest()
    rows = [tracked(path, b".D", 0, 0, None) for path in (b"old/a", b"old/b")]
    rows += [tracked(path, b"A.", None, 0, 0) for path in (b"new/b", b"new/a", b"new/c")]
    found = {item.path: item.old_path for item in differences(Facts(then, Manifest.of(rows)))}
    assert found == {b"new/a": b"old/a", b"new/b": b"old/b", b"new/c": None}


def test_a_renamed_path_that_is_there_again_is_not_paired():
    facts = Facts(
        Manifest(),
        Manifest.of([untracked(b"old", 3)]),
        [step(b"new", 0, 0, "R", old_path=b"old")],
    )
    found = {item.path: item.change for item in differences(facts)}
    assert found == {b"old": Change.CHANGED, b"new": Change.APPEARED}


def test_an_ignored_path_that_was_never_listed_is_no_difference():
    facts = Facts(
        Manifest.of([tracked(b"a", b".D", 0, 0, None)]),
        Manifest(),
        [step(b"a", 0, None)],
        {b"a": DiskFact(is_present=True, is_ignored=True)},
    )
    assert differences(facts) == []


def test_without_commits_what_was_not_listed_is_unknown():
    facts = Facts(Manifest(), Manifest.of([untracked(b"a")]), None)
    assert one(facts)[:3] == (Change.CHANGED, Status.UNKNOWN, Status.UNTRACKED)


def test_facts_are_wanted_for_what_left_the_list_or_head():
    then = Manifest.of([untracked(b"a"), untracked(b"b")])
    now = Manifest.of([untracked(b"b")])
    commits = [step(b"c", 0, None), step(b"d", 0, 1), step(b"f", 0, 0, "R", old_path=b"e")]
    assert unlisted_now(then, now, commits) == {b"a", b"c", b"e"}


# A model: HEAD, index and disk at two moments; the answer is computed from it and compared.

VERSIONS = [None, 0, 1, 2]


def row_of(path, head, index, disk):
    """Return the rows that git status would list for a path."""
    if head is None and index is None:
        return [] if disk is None else [untracked(path, disk)]
    letter_index = b"." if head == index else b"A" if head is None else b"D" if index is None else b"M"
    if index is None:
        rows = [tracked(path, b"D.", head, None, None)]
        return rows if disk is None else [*rows, untracked(path, disk)]
    letter_disk = b"." if index == disk else b"D" if disk is None else b"M"
    if letter_index == letter_disk == b".":
        return []
    return [tracked(path, letter_index + letter_disk, head, index, disk)]


def facts_of(then, now):
    rows_then, rows_now = row_of(b"p", *then), row_of(b"p", *now)
    commits = [] if then[0] == now[0] else [step(b"p", then[0], now[0])]
    disk = {} if rows_now else {b"p": on_disk(now[2])}
    blobs = {} if now[2] is None else {b"p": BLOBS[now[2]].decode()}
    return Facts(Manifest.of(rows_then), Manifest.of(rows_now), commits, disk, blobs)


@pytest.mark.parametrize("then", list(itertools.product(VERSIONS, repeat=3)))
def test_every_pair_of_states_of_one_path_agrees_with_the_model(then):
    for now in itertools.product(VERSIONS, repeat=3):
        found = differences(facts_of(then, now))
        assert len(found) <= 1
        if then == now:
            assert found == []
        if then[2] != now[2]:
            (item,) = found
            assert item.is_content_changed, (then, now)
            if then[2] is None:
                assert item.change in {Change.APPEARED, Change.RESTORED}, (then, now)
            elif now[2] is None:
                assert item.change is Change.VANISHED, (then, now)
            else:
                assert item.change in {Change.CHANGED, Change.RESTORED, Change.COMMITTED}, (then, now)
        for item in found:
            if then[2] == now[2]:
                assert not item.is_content_changed, (then, now)
            assert item.is_committed == (then[0] != now[0])


@given(st.lists(st.tuples(*[st.sampled_from(VERSIONS)] * 6), max_size=8))
def test_each_path_appears_once_whatever_happened_to_several(moments):
    then: list[ManifestRow] = []
    now: list[ManifestRow] = []
    commits, disk, blobs = [], {}, {}
    for number, versions in enumerate(moments):
        path = b"p%d" % number
        then += row_of(path, *versions[:3])
        rows = row_of(path, *versions[3:])
        now += rows
        if versions[0] != versions[3]:
            commits.append(step(path, versions[0], versions[3]))
        if not rows:
            disk[path] = on_disk(versions[5])
        if versions[5] is not None:
            blobs[path] = BLOBS[versions[5]].decode()
    facts = Facts(Manifest.of(then), Manifest.of(now), commits, disk, blobs, frozenset(blobs))
    found = differences(facts)
    named = [item.path for item in found] + [item.old_path for item in found if item.old_path is not None]
    assert len(named) == len(set(named))
    changed = {b"p%d" % number for number, versions in enumerate(moments) if versions[2] != versions[5]}
    assert changed <= set(named)
