"""The shape of a path: runs of consecutive sequences, told from the few entries that break one.

An entry whose parent is not the one recorded just before it is a waymark, and waymarks have an index. So the shape of
a path of fifty thousand entries is known from its forks alone, any entry's place on it is arithmetic, and what is
wanted of it is read in ranges from the leaf up, no further than asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from bridge.conversations.errors import EntryNotFound, PathBroken
from bridge.conversations.paths import MAX_FORK_DEPTH, fork_origin
from bridge.conversations.shape import store
from bridge.conversations.shape.store import Row, Waymark
from bridge.conversations.soundness import require_sound
from bridge.foundation.errors import InvalidId
from bridge.foundation.ids import entry_id, split_entry_id
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage.transaction import Connection

#: Entries fetched at a time.
PAGE: Final = 1000
#: Kinds whose word holds for the whole path; part of the index's condition.
LANDMARK_KINDS: Final = frozenset({"model.changed", "effort.changed", "checkpoint", "compaction", "worker.result"})


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive sequences of one session that lie on a path one after the other, roots left out."""

    session_id: str
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Landmark:
    """An entry on the path whose word holds for what follows, or that nobody may pass."""

    session_id: str
    waymark: Waymark

    @property
    def entry_id(self) -> str:
        return entry_id(self.session_id, self.waymark.sequence)


@dataclass(frozen=True)
class PathShape:
    """The path from a root to an entry.

    Parameters
    ----------
    leaf_entry_id
        Where it ends; the synthetic root of an empty session.
    runs
        Root first.
    landmarks
        Root first.
    """

    leaf_entry_id: str
    runs: tuple[Run, ...]
    landmarks: tuple[Landmark, ...]

    @cached_property
    def _starts(self) -> list[int]:
        starts, total = [], 0
        for run in self.runs:
            starts.append(total)
            total += run.length
        return starts

    @cached_property
    def length(self) -> int:
        """How many entries it has, synthetic roots not counted."""
        return sum(run.length for run in self.runs)

    def position(self, identity: str) -> int | None:
        """Return an entry's place, the first of the path being 0; None if it does not lie on it."""
        try:
            session_id, sequence = split_entry_id(identity)
        except InvalidId:
            return None
        for start, run in zip(self._starts, self.runs, strict=True):
            if run.session_id == session_id and run.first <= sequence <= run.last:
                return start + sequence - run.first
        return None

    def id_at(self, position: int) -> str:
        """Return the id of the entry at a place."""
        index = bisect_right(self._starts, position) - 1
        run = self.runs[index]
        return entry_id(run.session_id, run.first + position - self._starts[index])


def shape_of(connection: Connection, leaf_entry_id: str) -> PathShape:
    """Return the shape of the path to an entry, over forks, with every row of it proven to be there.

    Raises
    ------
    EntryNotFound
        If there is no such entry.
    SessionQuarantined
        If a session on the way is set aside.
    PathBroken
        If the path does not reach its root: a row is missing, or a parent leads elsewhere than up.
    """
    session_id, sequence = split_entry_id(leaf_entry_id)
    runs: list[Run] = []
    landmarks: list[Landmark] = []
    for depth in range(MAX_FORK_DEPTH):
        require_sound(connection, session_id)
        if not store.exists_at(connection, session_id, sequence):
            raise _missing(entry_id(session_id, sequence), is_origin=depth > 0)
        _climb(connection, session_id, sequence, runs, landmarks)
        origin = fork_origin(connection, session_id)
        if origin is None:
            return PathShape(leaf_entry_id, tuple(reversed(runs)), tuple(reversed(landmarks)))
        session_id, sequence = split_entry_id(origin.entry_id)
    raise PathBroken(f"The path of {session_id} crosses more than {MAX_FORK_DEPTH} forks.")


def rows_upwards(connection: Connection, shape: PathShape) -> Iterator[tuple[str, int, Row]]:
    """Yield the entries of a path from its leaf up, each with its id and place; pages are read as they are asked for.

    Raises
    ------
    PathBroken
        If a row is missing.
    StoredTextDamaged
        If a long text is not where it was kept.
    """
    position = shape.length
    for batch in _batches(shape):
        session_id = batch[0].session_id
        prefix, low, high = f"{session_id}-", batch[-1].first, batch[0].last
        sequences: Iterable[int] = range(high, low - 1, -1)
        if len(batch) == 1:
            # As many rows as sequences are those sequences: there is one row of each.
            rows = store.run(connection, session_id, low, high)
        else:
            on_path = {sequence for run in batch for sequence in range(run.first, run.last + 1)}
            found = [one for one in store.numbered(connection, session_id, low, high) if one[0] in on_path]
            sequences, rows = [sequence for sequence, _ in found], [row for _, row in found]
        if len(rows) != sum(run.length for run in batch):
            raise _hole(connection, batch)
        if any(row[2] == "" for row in rows):
            _refuse_lost(connection, session_id, zip(sequences, rows, strict=True))
        # Zipped, not looped over: a path has ten thousands of them.
        ids = [f"{prefix}{sequence:06d}" for sequence in sequences]
        yield from zip(ids, range(position - 1, position - 1 - len(rows), -1), rows, strict=True)
        position -= len(rows)


def _refuse_lost(connection: Connection, session_id: str, rows: Iterable[tuple[int, Row]]) -> None:
    """Raise StoredTextDamaged for the first row whose long text is not where it was kept."""
    for sequence, row in rows:
        store.require_payload(connection, row, session_id, sequence)


def _batches(shape: PathShape) -> Iterator[list[Run]]:
    """Yield what is read at once, leaf first: at most a page of a long run, or short ones that lie close together."""
    batch: list[Run] = []
    for run in reversed(shape.runs):
        if batch and (run.session_id != batch[0].session_id or batch[0].last - run.first >= PAGE):
            yield batch
            batch = []
        last = run.last
        while last - run.first >= PAGE:
            yield [Run(run.session_id, last - PAGE + 1, last)]
            last -= PAGE
        batch.append(Run(run.session_id, run.first, last))
    if batch:
        yield batch


def _climb(connection: Connection, session_id: str, sequence: int, runs: list[Run], landmarks: list[Landmark]) -> None:
    """Add the runs and landmarks of one session, newest first, down to its root."""
    # One range and its number of rows tell that none is missing on any branch; only else is each run counted.
    is_whole = store.count_between(connection, session_id, 0, sequence) == sequence + 1
    last = sequence
    for waymark in store.waymarks(connection, session_id, sequence):
        if waymark.sequence > last or waymark.sequence == 0:
            continue
        if _is_landmark(waymark):
            landmarks.append(Landmark(session_id, waymark))
        parent = _parent_sequence(session_id, waymark)
        if parent != waymark.sequence - 1:
            _add(connection, Run(session_id, waymark.sequence, last), runs, is_whole=is_whole)
            last = parent
    if last > 0:
        _add(connection, Run(session_id, 1, last), runs, is_whole=is_whole)


def _is_landmark(waymark: Waymark) -> bool:
    return waymark.kind in LANDMARK_KINDS or waymark.semantic_schema_version not in READABLE_VERSIONS


def _parent_sequence(session_id: str, waymark: Waymark) -> int:
    broken = PathBroken(
        f"The path ends at {entry_id(session_id, waymark.sequence)}: its parent {waymark.parent_entry_id} cannot be "
        "reached.",
        details={"entry_id": entry_id(session_id, waymark.sequence), "parent_entry_id": waymark.parent_entry_id},
    )
    try:
        parent_session, parent = split_entry_id(waymark.parent_entry_id or "")
    except InvalidId:
        raise broken from None
    if parent_session != session_id or parent >= waymark.sequence:
        raise broken
    return parent


def _add(connection: Connection, run: Run, runs: list[Run], *, is_whole: bool) -> None:
    if not is_whole and store.count_between(connection, run.session_id, run.first, run.last) != run.length:
        raise _hole(connection, [run])
    runs.append(run)


def _hole(connection: Connection, runs: list[Run]) -> PathBroken:
    missing = next(
        (run.session_id, sequence)
        for run in runs
        for sequence in range(run.last, run.first - 1, -1)
        if not store.exists_at(connection, run.session_id, sequence)
    )
    lower, upper = entry_id(missing[0], missing[1] + 1), entry_id(*missing)
    return PathBroken(
        f"The path ends at {lower}: its parent {upper} cannot be reached.",
        details={"entry_id": lower, "parent_entry_id": upper},
    )


def _missing(identity: str, *, is_origin: bool) -> EntryNotFound | PathBroken:
    details = {"entry_id": identity}
    if is_origin:
        return PathBroken(f"The path continues at {identity}, which is not there any more.", details=details)
    return EntryNotFound(f"There is no entry {identity}.", details=details)
