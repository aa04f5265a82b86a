"""The manifest: injective encoding, pages per directory, comparison."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bridge.git.manifest import (
    CLEAN_DIRTY_HASH,
    ChangeKind,
    ContentKind,
    Manifest,
    ManifestMalformed,
    ManifestRow,
    compare_manifests,
    decode_page,
    directory_of,
)

MODES = st.sampled_from([b"000000", b"100644", b"100755", b"120000", b"160000"])
IDS = st.sampled_from([b"0" * 40, b"a" * 40, b"b" * 40, b"c" * 64])
LETTERS = st.sampled_from([b".", b"M", b"A", b"D", b"T", b"U", b"?"])


@st.composite
def rows(draw):
    count = draw(st.sampled_from([0, 2, 3]))
    return ManifestRow(
        path=draw(st.binary(min_size=1, max_size=12)),
        index_status=draw(LETTERS),
        worktree_status=draw(LETTERS),
        submodule=draw(st.sampled_from([b"N...", b"SCMU", b"S.M."])),
        modes=tuple(draw(MODES) for _ in range(count)),
        object_ids=tuple(draw(IDS) for _ in range(count)),
        worktree_mode=draw(MODES),
        content_kind=draw(st.sampled_from(list(ContentKind))),
        content_digest=draw(st.sampled_from([b"", b"d" * 64, b"e" * 64])),
    )


MANIFESTS = st.lists(rows(), max_size=8, unique_by=lambda row: row.path).map(Manifest.of)


def untracked(path: bytes, digest: bytes = b"d" * 64) -> ManifestRow:
    return ManifestRow(path, b"?", b"?", b"N...", (), (), b"100644", ContentKind.FILE, digest)


def tracked(path: bytes, letters: bytes = b".M", *, is_present: bool = True, digest: bytes = b"d" * 64) -> ManifestRow:
    head = b"000000" if letters[:1] == b"A" else b"100644"
    kind, mode = (ContentKind.FILE, b"100644") if is_present else (ContentKind.ABSENT, b"000000")
    return ManifestRow(
        path,
        letters[:1],
        letters[1:],
        b"N...",
        (head, b"100644"),
        (b"a" * 40, b"b" * 40),
        mode,
        kind,
        digest if is_present else b"",
    )


def test_clean_is_one_fixed_value():
    assert Manifest().dirty_hash == CLEAN_DIRTY_HASH
    assert CLEAN_DIRTY_HASH == "bbbb5dd015d5aec6c5ecd5832cd8b5994ed2f632d20747c5897ea5582941e9dc"


def test_the_hash_of_known_rows_never_changes():
    manifest = Manifest.of([untracked(b"new\xff"), tracked(b"a"), tracked(b"gone", b".D", is_present=False)])
    assert manifest.dirty_hash == "2998179188e22a44d4f61a17dfbfddcb10fc2399873bf11f4bb0d8b3c12ac7eb"


@given(MANIFESTS)
def test_pages_give_the_manifest_back_in_any_order(manifest):
    pages = manifest.pages()
    assert Manifest.from_pages([page.content for page in reversed(pages)]) == manifest
    assert len(pages) == len({directory_of(row.path) for row in manifest.rows})
    for page in pages:
        assert {directory_of(row.path) for row in decode_page(page.content)} == {page.directory}


@given(MANIFESTS, MANIFESTS)
def test_different_manifests_have_different_hashes(one, other):
    assert (one.dirty_hash == other.dirty_hash) == (one == other)


@given(st.lists(rows(), min_size=2, max_size=5, unique_by=lambda row: row.path), st.randoms())
def test_the_order_in_which_rows_arrive_does_not_matter(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    assert Manifest.of(shuffled).dirty_hash == Manifest.of(found).dirty_hash


@given(rows(), rows())
def test_the_encoding_of_a_row_is_injective(one, other):
    assume(one != other)
    assert one.encode() != other.encode()


def test_fields_that_join_to_the_same_bytes_stay_apart():
    one, other = untracked(b"ab", b"c"), untracked(b"a", b"bc")
    assert one.encode() != other.encode()


def test_an_edit_rewrites_the_page_of_its_folder_alone():
    before = Manifest.of([untracked(b"x/%d" % number) for number in range(9)] + [untracked(b"y/1")])
    after = Manifest.of([*before.rows[:-1], before.rows[-1]._replace(content_digest=b"e" * 64)])
    old, new = ({page.directory: page.digest for page in each.pages()} for each in (before, after))
    assert old[b"x"] == new[b"x"]
    assert old[b"y"] != new[b"y"]


@given(MANIFESTS.filter(lambda manifest: manifest.rows), st.data())
def test_a_damaged_page_is_refused_or_reads_as_something_else(manifest, data):
    page = manifest.pages()[0]
    cut = data.draw(st.integers(0, len(page.content) - 1))
    with contextlib.suppress(ManifestMalformed):
        assert decode_page(page.content[:cut]) != decode_page(page.content)


@pytest.mark.parametrize("content", [b"", b"bridge manifest page 2\n", b"bridge manifest page 1\n\0\0\0\x05abc"])
def test_what_is_no_page_is_refused(content):
    with pytest.raises(ManifestMalformed):
        decode_page(content)


def change(old: list[ManifestRow], new: list[ManifestRow]):
    (found,) = compare_manifests(Manifest.of(old), Manifest.of(new))
    return found.kind, found.before_status, found.after_status


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [untracked(b"n")], (ChangeKind.APPEARED, None, "??")),
        ([], [tracked(b"n", b"A.")], (ChangeKind.APPEARED, None, "A.")),
        ([], [tracked(b"n")], (ChangeKind.CHANGED, None, ".M")),
        ([], [tracked(b"n", b".D", is_present=False)], (ChangeKind.VANISHED, None, ".D")),
        ([untracked(b"n")], [], (ChangeKind.VANISHED, "??", None)),
        ([tracked(b"n")], [], (ChangeKind.RESTORED, ".M", None)),
        ([tracked(b"n", b".D", is_present=False)], [], (ChangeKind.RESTORED, ".D", None)),
        ([untracked(b"n")], [untracked(b"n", b"e" * 64)], (ChangeKind.CHANGED, "??", "??")),
        ([tracked(b"n")], [tracked(b"n", b"M.")], (ChangeKind.CHANGED, ".M", "M.")),
        ([tracked(b"n")], [tracked(b"n", b".D", is_present=False)], (ChangeKind.VANISHED, ".M", ".D")),
        ([tracked(b"n", b"D.", is_present=False)], [tracked(b"n")], (ChangeKind.RESTORED, "D.", ".M")),
    ],
)
def test_how_a_path_changed(old, new, expected):
    assert change(old, new) == expected


@given(MANIFESTS, MANIFESTS)
def test_a_comparison_names_each_differing_path_once_and_in_order(old, new):
    found = compare_manifests(old, new)
    paths = [each.path for each in found]
    assert paths == sorted(set(paths))
    for path in old.by_path.keys() | new.by_path.keys():
        assert (path in paths) == (old.by_path.get(path) != new.by_path.get(path))
    assert compare_manifests(new, new) == []


def test_fc_55_a_deletion_that_was_undone_is_restored():
    then = Manifest.of([tracked(b"del", b".D", is_present=False)])
    now = Manifest.of([tracked(b"keep")])
    found = {each.path: each.kind for each in compare_manifests(then, now)}
    assert found == {b"del": ChangeKind.RESTORED, b"keep": ChangeKind.CHANGED}


def test_what_a_row_says_about_itself():
    unmerged = tracked(b"n", b"UU")._replace(modes=(b"100644", b"000000", b"100644"), object_ids=(b"a" * 40,) * 3)
    assert unmerged.is_unmerged
    assert not unmerged.is_in_head
    assert unmerged.is_staged
    assert untracked(b"n").is_untracked
    assert not untracked(b"n").is_staged
    assert not untracked(b"n").is_in_head
    assert not tracked(b"n").is_staged
    assert tracked(b"n").is_in_head
