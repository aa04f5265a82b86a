"""Sessions of questions and answers, one SQLite file each, rooted by a Merkle hash: read, and every hash checked.

A file has three tables: ``session_meta`` (one row), ``nodes`` and ``session_audit_events``. The hash of a node covers
its parent's, its id, question, cache key, audit mode, time and label, as canonical JSON; that of a subtree combines it
with those of its children, sorted; each event's hash covers the one before and its text. Bytes are combined raw, and
the first event follows 32 zero bytes. Answers are not in such a file: the cache key says where they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import ZERO_HASH, hash_combine, leaf_hash
from bridge.transcripts.errors import TranscriptInvalid

#: The tables that tell such a file.
TABLES: Final = frozenset({"session_meta", "nodes", "session_audit_events"})


class MerkleNode(NamedTuple):
    """One question; the fields are the columns."""

    bates: str
    seq: int
    parent_bates: str | None
    question: str
    cache_key: str
    audit_mode: str
    created_at: str
    label: str | None
    node_hash: str
    subtree_hash: str


@dataclass(frozen=True, slots=True)
class MerkleSession:
    """A session whose hashes were found right.

    Parameters
    ----------
    nodes
        In the order of their sequence, the synthetic root first.
    event_hash
        That of the last audit event; None if there is none.
    """

    session_id: str
    session_root: str
    current_bates: str
    created_at: str
    updated_at: str
    nodes: tuple[MerkleNode, ...]
    event_hash: str | None


def is_merkle_session(path: Path) -> bool:
    """Return whether a SQLite file has the tables of such a session."""
    try:
        with closing(_opened(path)) as connection:
            names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return False
    return names >= TABLES


def read(path: Path) -> MerkleSession:
    """Read a session and recompute all of its hashes.

    Raises
    ------
    TranscriptInvalid
        If it cannot be read, or something is not what its hash says; the details name it.
    """
    try:
        with closing(_opened(path)) as connection:
            connection.row_factory = sqlite3.Row
            metas = connection.execute("SELECT * FROM session_meta").fetchall()
            columns = ", ".join(MerkleNode._fields)
            rows = connection.execute(f"SELECT {columns} FROM nodes ORDER BY seq").fetchall()  # noqa: S608 - constants
            events = connection.execute("SELECT * FROM session_audit_events ORDER BY seq").fetchall()
    except sqlite3.Error as error:
        raise _invalid("not_readable", f"it cannot be read: {error}") from error
    if len(metas) != 1:
        raise _invalid("bad_header", f"session_meta has {len(metas)} rows, not one")
    nodes = tuple(MerkleNode(*row) for row in rows)
    meta = metas[0]
    root = _check_nodes(nodes, str(meta["session_id"]))
    if root != meta["session_root"]:
        raise _invalid("root_differs", "its nodes do not come to the root that session_meta names")
    if meta["current_bates"] not in {node.bates for node in nodes}:
        raise _invalid("bad_header", "current_bates names no node")
    return MerkleSession(
        session_id=str(meta["session_id"]),
        session_root=root,
        current_bates=meta["current_bates"],
        created_at=meta["created_at"],
        updated_at=meta["updated_at"],
        nodes=nodes,
        event_hash=_check_events(events, root),
    )


def node_hash(node: MerkleNode, parent_node_hash: str | None) -> str:
    """Return the hash of a node under its parent's."""
    body = {
        "parent_node_hash": parent_node_hash,
        "bates": node.bates,
        "question": node.question,
        "cache_key": node.cache_key,
        "audit_mode": node.audit_mode,
        "created_at": node.created_at,
        "label": node.label,
    }
    return sha256(canonical_bytes(body)).hexdigest()


def subtree_of(hashed: str, children: Sequence[str]) -> str:
    """Return the hash of a node with all below it, from its children's."""
    own = leaf_hash(bytes.fromhex(hashed))
    level = sorted(bytes.fromhex(child) for child in children)
    if not level:
        return own.hex()
    while len(level) > 1:
        if len(level) % 2:
            level.append(level[-1])
        level = [hash_combine(level[at], level[at + 1]) for at in range(0, len(level), 2)]
    return hash_combine(own, level[0]).hex()


def _check_nodes(nodes: Sequence[MerkleNode], session_id: str) -> str:
    """Check ids, parents and hashes of all nodes; return the hash of the whole tree."""
    hashes: dict[str, str] = {}
    for place, node in enumerate(nodes):
        if not all(isinstance(value, str) for value in (node.question, node.cache_key, node.audit_mode, node.bates)):
            raise _invalid("bad_entry", f"node {node.bates!r:.80} has a column that is no text")
        if node.bates != f"{session_id}-{node.seq:06d}" or node.seq != place:
            raise _invalid("bad_entry", f"{node.bates[:80]!r} is not the id of node {place}")
        if (node.parent_bates is None) != (place == 0) or (node.parent_bates or node.bates) not in {
            *hashes,
            node.bates,
        }:
            raise _invalid("parent_missing", f"the parent of {node.bates} is no earlier node")
        try:
            computed = node_hash(node, hashes.get(node.parent_bates or ""))
        except NotCanonical as error:
            raise _invalid("bad_entry", f"{node.bates} has no canonical form") from error
        if computed != node.node_hash:
            raise _invalid("entry_altered", f"the hash of {node.bates} does not follow from what it holds")
        hashes[node.bates] = computed
    waiting: dict[str, list[str]] = {}
    found = ""
    for node in reversed(nodes):
        found = subtree_of(hashes[node.bates], waiting.pop(node.bates, ()))
        if found != node.subtree_hash:
            raise _invalid("entry_altered", f"the subtree hash of {node.bates} does not follow from what is below it")
        waiting.setdefault(node.parent_bates or "", []).append(found)
    if not nodes:
        raise _invalid("root_missing", "it has no nodes")
    return found


def _check_events(events: Sequence[Any], root: str) -> str | None:
    previous, known = ZERO_HASH, None
    for event in events:
        computed = sha256(previous + str(event["body"]).encode()).digest()
        if computed.hex() != event["event_hash"]:
            raise _invalid("chain_broken", f"event {event['seq']} does not follow from the one before")
        if known is not None and event["prev_root"] != known:
            raise _invalid("chain_broken", f"event {event['seq']} begins with another root than the one before ended")
        previous, known = computed, event["session_root"]
    if known is not None and known != root:
        raise _invalid("chain_broken", "its last event names another root than session_meta")
    return previous.hex() if events else None


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _invalid(reason: str, message: str) -> TranscriptInvalid:
    return TranscriptInvalid(f"The session file: {message}. Nothing was taken in.", details={"reason": reason})
