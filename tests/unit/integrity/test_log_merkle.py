"""Roots and proofs of the log, against RFC 9162 as it is written: plain recursion over the whole list."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.integrity.log.merkle import (
    EMPTY_ROOT,
    Peaks,
    consistency_ranges,
    inclusion_ranges,
    log_leaf,
    perfect_parts,
    proves_consistency,
    proves_inclusion,
    range_root,
)

VECTORS = json.loads((Path(__file__).parents[3] / "schema" / "vectors" / "log.json").read_text())
SIZES = st.integers(min_value=1, max_value=70)


def mth(data: list[bytes]) -> bytes:
    """MTH of section 2.1.1."""
    if not data:
        return sha256(b"").digest()
    if len(data) == 1:
        return sha256(b"\x00" + data[0]).digest()
    k = largest_power_below(len(data))
    return sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def path(m: int, data: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.3.1."""
    if len(data) == 1:
        return []
    k = largest_power_below(len(data))
    if m < k:
        return [*path(m, data[:k]), mth(data[k:])]
    return [*path(m - k, data[k:]), mth(data[:k])]


def subproof(m: int, data: list[bytes], is_known: bool) -> list[bytes]:
    """SUBPROOF of section 2.1.4.1."""
    if m == len(data):
        return [] if is_known else [mth(data)]
    k = largest_power_below(len(data))
    if m <= k:
        return [*subproof(m, data[:k], is_known), mth(data[k:])]
    return [*subproof(m - k, data[k:], False), mth(data[:k])]


def largest_power_below(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def log_of(data: list[bytes]):
    """Return the root, and the hashes of perfect subtrees as rows of leaves keep them."""
    peaks = Peaks()
    rows = [peaks.add(log_leaf(item)) for item in data]

    def node(level: int, number: int) -> bytes:
        row = rows[((number + 1) << level) - 1]
        return row[level * 32 : (level + 1) * 32]

    return peaks.root(), node


def data_of(size: int) -> list[bytes]:
    return [bytes([number % 256, number // 256]) for number in range(size)]


@given(SIZES)
def test_the_root_is_that_of_the_rfc(size):
    data = data_of(size)
    root, node = log_of(data)
    assert root == mth(data) == range_root(0, size, node)


def test_the_log_without_leaves_has_the_hash_of_nothing():
    assert Peaks().root() == EMPTY_ROOT == mth([]) == range_root(0, 0, lambda *_: b"")


@given(st.data())
def test_inclusion_proofs_are_those_of_the_rfc(data):
    size = data.draw(SIZES)
    leaf = data.draw(st.integers(0, size - 1))
    items = data_of(size)
    root, node = log_of(items)
    proof = [range_root(start, end, node) for start, end in inclusion_ranges(leaf, size)]
    assert proof == path(leaf, items)
    assert len(proof) <= (size - 1).bit_length()
    assert proves_inclusion(log_leaf(items[leaf]), leaf, size, proof, root)
    assert not proves_inclusion(log_leaf(b"other"), leaf, size, proof, root)
    assert not proves_inclusion(log_leaf(items[leaf]), leaf, size, [*proof, root], root)
    if size > 1:
        other = (leaf + 1) % size
        assert not proves_inclusion(log_leaf(items[leaf]), other, size, proof, root)
        assert not proves_inclusion(log_leaf(items[leaf]), leaf, size, proof[:-1], root)


@given(st.data())
def test_consistency_proofs_are_those_of_the_rfc(data):
    size = data.draw(SIZES)
    old = data.draw(st.integers(1, size))
    items = data_of(size)
    root, node = log_of(items)
    proof = [range_root(start, end, node) for start, end in consistency_ranges(old, size)]
    assert proof == subproof(old, items, True)
    old_root = mth(items[:old])
    assert proves_consistency(old, old_root, size, root, proof)
    assert not proves_consistency(old, mth([b"other"]), size, root, proof)
    assert not proves_consistency(old, old_root, size, mth([b"other"]), proof)
    assert not proves_consistency(old, old_root, size, root, [*proof, root])
    if proof:
        assert not proves_consistency(old, old_root, size, root, proof[:-1])


@given(st.data())
def test_a_log_that_changed_before_its_old_end_has_no_proof(data):
    size = data.draw(st.integers(2, 40))
    old = data.draw(st.integers(1, size - 1))
    items = data_of(size)
    old_root = mth(items[:old])
    items[data.draw(st.integers(0, old - 1))] = b"changed"
    root, node = log_of(items)
    proof = [range_root(start, end, node) for start, end in consistency_ranges(old, size)]
    assert not proves_consistency(old, old_root, size, root, proof)


def test_an_empty_log_is_extended_by_every_log_and_none_is_shorter():
    root, _ = log_of(data_of(5))
    assert proves_consistency(0, EMPTY_ROOT, 5, root, [])
    assert not proves_consistency(0, root, 5, root, [])
    assert not proves_consistency(6, root, 5, root, [])
    assert not proves_inclusion(root, 5, 5, [], root)
    assert consistency_ranges(0, 5) == consistency_ranges(5, 5) == []
    with pytest.raises(ValueError, match="never had 6"):
        consistency_ranges(6, 5)
    with pytest.raises(ValueError, match="no leaf 5"):
        inclusion_ranges(5, 5)
    with pytest.raises(ValueError, match="perfect subtrees"):
        Peaks(3, [root])


@given(st.integers(0, 5000))
def test_going_on_from_the_perfect_subtrees_of_a_size_is_going_on(size):
    data = data_of(size % 90)
    _, node = log_of(data)
    peaks = Peaks(len(data), [node(*part) for part in perfect_parts(0, len(data))])
    peaks.add(log_leaf(b"next"))
    assert peaks.root() == mth([*data, b"next"])


def test_proofs_among_a_million_have_at_most_twenty_hashes_and_one_more_to_show_growth():
    size = 1_000_000
    assert max(len(inclusion_ranges(leaf, size)) for leaf in range(0, size, 997)) == 20
    assert max(len(consistency_ranges(old, size)) for old in range(1, size, 997)) <= 21


@pytest.mark.parametrize("vector", VECTORS["logs"], ids=lambda vector: f"size {vector['size']}")
def test_published_vectors(vector):
    data = [bytes.fromhex(text) for text in VECTORS["leaves"][: vector["size"]]]
    root, node = log_of(data)
    assert root.hex() == vector["root"] == mth(data).hex()
    for proof in vector["inclusion"]:
        ranges = inclusion_ranges(proof["leaf"], vector["size"])
        assert [range_root(*found, node).hex() for found in ranges] == proof["proof"]
    for proof in vector["consistency"]:
        ranges = consistency_ranges(proof["old"], vector["size"])
        assert [range_root(*found, node).hex() for found in ranges] == proof["proof"]
