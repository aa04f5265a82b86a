"""Owned paths: normal form, prefix semantics, overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.errors import InvalidOwnedPath
from bridge.agents.ownership import covers, first_overlap, normalise

SEGMENTS = st.lists(st.sampled_from(["src", "src2", "a", "b", "[id].tsx", "café"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("src", "src"),
        ("./src/", "src"),
        ("src//web/./a.py", "src/web/a.py"),
        ("src/**", "src"),
        (".", "."),
        ("./", "."),
        (".github", ".github"),
        (".gitignore", ".gitignore"),
        ("app/[id].tsx", "app/[id].tsx"),
        ("~backup", "~backup"),
        ("vendor/.git", "vendor/.git"),
    ],
)
def test_normal_form(path: str, normal: str) -> None:
    assert normalise(path) == normal


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        (" ", "empty"),
        ("/etc", "relative"),
        ("~/x", "relative"),
        ("../x", "'..'"),
        ("src/../lib", "'..'"),
        (".git/config", "git's own"),
        (".GIT", "git's own"),
        ("src/*.py", "pattern"),
        ("a?", "pattern"),
        ("a\0b", "NUL"),
    ],
)
def test_refused(path: str, reason: str) -> None:
    with pytest.raises(InvalidOwnedPath) as caught:
        normalise(path)
    assert reason in caught.value.details["reason"]


@given(SEGMENTS)
def test_normal_form_is_stable(segments: list[str]) -> None:
    once = normalise("./" + "//".join(segments) + "/")
    assert once == "/".join(segments) == normalise(once)


def test_claims_are_prefixes_of_whole_segments() -> None:
    assert covers(["src"], "src")
    assert covers(["src"], b"src/a.py")
    assert not covers(["src"], "src2/a.py")
    assert not covers(["src/a"], "src")
    assert covers(["."], b"any\xff/thing")
    assert not covers([], "src")


def test_no_claim_overlaps_nothing_and_the_whole_overlaps_every_claim() -> None:
    assert first_overlap([], ["."]) is None
    assert first_overlap(["."], []) is None
    assert first_overlap(["docs", "src/web"], ["lib", "src"]) == ("src/web", "src")
    assert first_overlap(["."], ["lib"]) == (".", "lib")
    assert first_overlap(["src"], ["src2"]) is None


@given(SEGMENTS, SEGMENTS)
def test_overlap_is_symmetric_and_means_one_covers_the_other(left: list[str], right: list[str]) -> None:
    a, b = "/".join(left), "/".join(right)
    overlap = first_overlap([a], [b])
    assert (overlap is not None) == (first_overlap([b], [a]) is not None) == (covers([a], b) or covers([b], a))
