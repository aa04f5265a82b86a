"""The session root against a naive recursive reading of the design, and what it must not depend on."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.integrity.errors import TreeUnsound
from bridge.integrity.tree import TreeNode, children_root, session_root, subtree_hash


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def naive_root(parents: list[int | None], hashes: list[str]) -> str:
    """The definition, written down again: recursive, from the root downwards."""

    def subtree(index: int) -> bytes:
        own = sha256(b"\x00" + bytes.fromhex(hashes[index])).digest()
        below = [subtree(child) for child, parent in enumerate(parents) if parent == index]
        return sha256(b"\x03" + own + combined(sorted(below))).digest() if below else own

    def combined(level: list[bytes]) -> bytes:
        if len(level) == 1:
            return level[0]
        pairs = [(level[n], level[n + 1] if n + 1 < len(level) else level[n]) for n in range(0, len(level), 2)]
        return combined([sha256(b"\x03" + left + right).digest() for left, right in pairs])

    return subtree(0).hex()


def nodes_of(parents: list[int | None], hashes: list[str]) -> list[TreeNode]:
    return [
        TreeNode(f"e{n}", None if parent is None else f"e{parent}", n, hashes[n]) for n, parent in enumerate(parents)
    ]


@st.composite
def trees(draw: st.DrawFn) -> list[int | None]:
    size = draw(st.integers(1, 40))
    return [None, *(draw(st.integers(0, n - 1)) for n in range(1, size))]


@given(trees())
def test_one_scan_gives_what_the_recursive_definition_gives(parents):
    hashes = [digest(f"entry {n}") for n in range(len(parents))]
    assert session_root(reversed(nodes_of(parents, hashes))) == naive_root(parents, hashes)


@given(trees(), st.randoms(use_true_random=False))
def test_the_order_of_recording_plays_no_part(parents, random):
    hashes = [digest(f"entry {n}") for n in range(len(parents))]
    # Any other order in which parents come before children is another way the same tree could have grown.
    order, open_ = [0], [n for n, parent in enumerate(parents) if parent == 0]
    while open_:
        chosen = open_.pop(random.randrange(len(open_)))
        order.append(chosen)
        open_ += [n for n, parent in enumerate(parents) if parent == chosen]
    place = {old: new for new, old in enumerate(order)}
    moved = [None if parents[old] is None else place[parents[old]] for old in order]
    grown = nodes_of(moved, [hashes[old] for old in order])
    assert session_root(reversed(grown)) == naive_root(parents, hashes)


@given(trees(), st.data())
def test_every_entry_counts(parents, data):
    hashes = [digest(f"entry {n}") for n in range(len(parents))]
    root = session_root(reversed(nodes_of(parents, hashes)))
    changed = list(hashes)
    changed[data.draw(st.integers(0, len(parents) - 1))] = digest("another")
    assert session_root(reversed(nodes_of(parents, changed))) != root
    if len(parents) > 1:
        assert session_root(reversed(nodes_of(parents, hashes)[:-1])) != root


def test_a_chain_far_deeper_than_the_interpreters_stack():
    parents = [None, *range(20_000)]
    hashes = [digest(str(n)) for n in range(len(parents))]
    assert len(session_root(reversed(nodes_of(parents, hashes)))) == 64


def test_a_lone_root_and_a_lone_child():
    one, two = bytes(32), bytes([1]) * 32
    assert subtree_hash(one, ()) == sha256(b"\x00" + one).digest()
    assert children_root([two]) == two


def test_an_odd_last_child_is_combined_with_itself():
    a, b, c = (bytes([n]) * 32 for n in (1, 2, 3))

    def pair(left: bytes, right: bytes) -> bytes:
        return sha256(b"\x03" + left + right).digest()

    assert children_root([c, a, b]) == pair(pair(a, b), pair(c, c))


HASHES = [digest(str(n)) for n in range(4)]


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [TreeNode("e1", "e0", 1, HASHES[1])],
        [TreeNode("e2", "gone", 2, HASHES[2]), TreeNode("e0", None, 0, HASHES[0])],
        [TreeNode("e0", None, 0, HASHES[0]), TreeNode("e1", "e0", 1, HASHES[1])],
        [TreeNode("e1", None, 1, HASHES[1]), TreeNode("e0", None, 0, HASHES[0])],
        [TreeNode("e1", "e0", 1, "not hexadecimal"), TreeNode("e0", None, 0, HASHES[0])],
        [TreeNode("e1", "e0", 1, "ab"), TreeNode("e0", None, 0, HASHES[0])],
        [TreeNode("e2", "e0", 2, HASHES[1]), TreeNode("e1", "e0", 1, HASHES[1]), TreeNode("e0", None, 0, HASHES[0])],
    ],
    ids=["empty", "no root", "lost parent", "ascending", "two roots", "no hash", "short hash", "twins"],
)
def test_what_is_no_tree_has_no_root(nodes):
    with pytest.raises(TreeUnsound):
        session_root(nodes)


VECTORS = json.loads((Path(__file__).parents[3] / "schema" / "vectors" / "tree.json").read_text())


def nodes_of_vector(vector):
    return [
        TreeNode(
            f"e{entry['sequence']}",
            None if entry["parent"] is None else f"e{entry['parent']}",
            entry["sequence"],
            entry["entry_hash"],
        )
        for entry in vector["entries"]
    ]


@pytest.mark.parametrize("vector", VECTORS["trees"], ids=lambda vector: vector["name"])
def test_published_vectors(vector):
    nodes = nodes_of_vector(vector)
    assert session_root(reversed(nodes)) == vector["session_root"]
    hashes = {entry["sequence"]: bytes.fromhex(entry["subtree_hash"]) for entry in vector["entries"]}
    for entry in vector["entries"]:
        below = [hashes[child["sequence"]] for child in vector["entries"] if child["parent"] == entry["sequence"]]
        assert subtree_hash(bytes.fromhex(entry["entry_hash"]), below) == hashes[entry["sequence"]]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda vector: vector["name"])
def test_published_vectors_that_are_refused(vector):
    with pytest.raises(TreeUnsound):
        session_root(reversed(nodes_of_vector(vector)))
