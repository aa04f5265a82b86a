"""Recomputing the log from the events themselves, and comparing it with its leaves and with anchors kept elsewhere.

The chains show whether an event was altered, or is missing before others of its chain. The anchors show whether events
are missing at the end, of one chain or of the whole store, since whoever cuts them off cannot reach the anchors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from bridge.integrity.errors import InvalidLogRoot, LogUnsound
from bridge.integrity.log import store
from bridge.integrity.log.leaves import LogRoot, consistency_proof, current_root
from bridge.integrity.log.merkle import HASH_BYTES, Peaks, log_leaf, proves_consistency
from bridge.integrity.log.store import Leaf, OrderedEvent
from bridge.integrity.report import Report
from bridge.storage.transaction import Connection

_NOTATION: Final = re.compile(r"(?P<root>[0-9a-f]{64})/(?P<size>[0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Anchor:
    """What the log was once, and where that is kept."""

    source: str
    log: LogRoot

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "size": self.log.size, "root": self.log.root}


@dataclass(frozen=True, slots=True)
class Growth:
    """An earlier log, and the proof that the log of now extends it; ``proof`` is empty where there is none."""

    earlier: LogRoot
    is_proven: bool
    proof: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "size": self.earlier.size,
            "root": self.earlier.root,
            "proven": self.is_proven,
            "proof": list(self.proof),
        }


@dataclass(frozen=True, slots=True)
class LogVerdict:
    """What was found about the log as a whole.

    Parameters
    ----------
    log
        Size and root, recomputed from the events.
    anchors
        What it was compared with.
    growth
        What was found about the earlier log that was asked about; None if none was.
    """

    log: LogRoot
    anchors: tuple[Anchor, ...] = ()
    growth: Growth | None = None
    report: Report = field(default_factory=Report)

    @property
    def is_healthy(self) -> bool:
        return self.report.is_valid

    def to_json(self) -> dict[str, Any]:
        return {
            "size": self.log.size,
            "root": self.log.root,
            "anchors": [anchor.to_json() for anchor in self.anchors],
            "since": None if self.growth is None else self.growth.to_json(),
        }


def parse_log_root(text: str) -> LogRoot:
    """Return what ``ROOT/SIZE`` names.

    Raises
    ------
    InvalidLogRoot
        If it is something else.
    """
    match = _NOTATION.fullmatch(text)
    if match is None:
        raise InvalidLogRoot(f"Not a root of the log: {text[:100]!r}.", details={"given": text[:100]})
    return LogRoot(int(match["size"]), match["root"])


def verify_log(connection: Connection, anchors: Sequence[Anchor] = (), *, since: LogRoot | None = None) -> LogVerdict:
    """Recompute the log, and compare it with its stored leaves, with anchors, and with what it was earlier.

    The events that have no leaf yet are part of the log. For ``since`` all events should have theirs.
    """
    report = Report()
    wanted = {anchor.log.size for anchor in anchors} | ({since.size} if since is not None else set())
    log, roots = _recomputed(report, connection, wanted)
    unplaced = store.count_unplaced(connection)
    if unplaced:
        message = f"There are {abs(unplaced)} {'more' if unplaced > 0 else 'fewer'} events than places in their order."
        report.add("event_unplaced", "log", message)
    for anchor in anchors:
        _compare(report, anchor, log, roots)
    growth = None if since is None else _growth(report, connection, since, log, roots)
    return LogVerdict(log, tuple(anchors), growth, report)


def _recomputed(report: Report, connection: Connection, wanted: set[int]) -> tuple[LogRoot, dict[int, str]]:
    """Return the log of the events, and the roots that it had at some sizes; compare the leaves on the way."""
    peaks = Peaks()
    roots = {0: peaks.root().hex()}
    events: Iterator[OrderedEvent] = store.ordered_events(connection, 0)
    has_differed = False
    for event, leaf in zip_longest(events, store.iterate_leaves(connection)):
        if event is None:
            report.add(
                "leaf_without_event", f"log#{leaf.leaf}", f"{leaf.chain_id}#{leaf.ordinal} had a leaf, and is gone."
            )
            continue
        report.checked += 1
        subject = f"{event.chain_id}#{event.ordinal}"
        raw = _raw(event.event_hash)
        if len(raw) != HASH_BYTES:
            report.add("event_missing", subject, "It has a place in the log, but is not there.")
        expected = Leaf(peaks.size, event.chain_id, event.ordinal, event.position, peaks.add(log_leaf(raw)))
        if peaks.size in wanted:
            roots[peaks.size] = peaks.root().hex()
        if leaf is not None and not _is_equal(leaf, expected, only_own=has_differed):
            # What is above a leaf that differs does so as well: the rest is compared without it.
            has_differed = True
            report.add("leaf_altered", f"log#{expected.leaf}", f"The leaf there is not the one that {subject} has.")
    return LogRoot(peaks.size, peaks.root().hex()), roots


def _is_equal(leaf: Leaf, expected: Leaf, *, only_own: bool) -> bool:
    end = HASH_BYTES if only_own else None
    return leaf[:4] == expected[:4] and bytes(leaf.hashes)[:end] == expected.hashes[:end]


def _compare(report: Report, anchor: Anchor, log: LogRoot, roots: dict[int, str]) -> None:
    if anchor.log.size > log.size:
        report.add(
            "anchor_not_reached",
            anchor.source,
            f"{anchor.log.size} events were anchored there; the log has {log.size}: its end was cut off.",
        )
    elif roots[anchor.log.size] != anchor.log.root:
        message = f"The first {anchor.log.size} events are not the ones that were anchored there."
        report.add("anchor_differs", anchor.source, message)


def _growth(report: Report, connection: Connection, since: LogRoot, log: LogRoot, roots: dict[int, str]) -> Growth:
    subject = f"{since.root[:12]}…/{since.size}"
    if since.size > log.size:
        report.add("log_not_extended", subject, f"The log has {log.size} events, fewer than then.")
        return Growth(since, is_proven=False)
    try:
        now = current_root(connection)
        proof = consistency_proof(connection, since.size, now.size) if since.size <= now.size else []
    except LogUnsound as error:
        report.add("leaf_missing", subject, error.message)
        return Growth(since, is_proven=False)
    old_root, root = bytes.fromhex(since.root), bytes.fromhex(now.root)
    is_proven = proves_consistency(since.size, old_root, now.size, root, proof) and roots[since.size] == since.root
    if not is_proven:
        report.add("log_not_extended", subject, "The log is not one that grew from it.")
        return Growth(since, is_proven=False)
    return Growth(since, is_proven=True, proof=tuple(value.hex() for value in proof))


def _raw(event_hash: str | None) -> bytes:
    try:
        return b"" if event_hash is None else bytes.fromhex(event_hash)
    except ValueError:
        return b""
