"""During whose turns paths changed. Pure: stamps, windows and commits in, names out. Facts, never a cause.

All stamps of one checkout, whoever took them, stand in the order in which they were observed. Between two neighbours
a path changed or it did not. Where it did, it is attributed to every window that holds both: a window is two
consecutive stamps of a running turn. A change that no window holds is nobody's, and so is one since the last stamp.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from bridge.git.manifest import ManifestRow

#: Sessions of a checkout that are looked at, the last touched first.
MAX_SESSIONS: Final = 50
#: Entries of each session that are looked at, the newest.
MAX_ENTRIES: Final = 2_000
#: Neighbouring stamps with different states that are compared, the newest.
MAX_STEPS: Final = 300
#: Rows of stored manifests that are read for it.
MAX_ROWS: Final = 200_000
#: Moves of HEAD whose commits are looked into.
MAX_HEAD_MOVES: Final = 40
#: Time limit of the whole, in seconds.
ATTRIBUTION_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """A state that somebody's stamp saw. The time is a timestamp as text; they sort as they follow each other."""

    observed_at: str
    state_digest: str


@dataclass(frozen=True, slots=True)
class Span:
    """A window of a running turn: the stamps of two entries. Without an end the turn ran on and was not stamped."""

    session_id: str
    after_entry_id: str
    entry_id: str | None
    begins_at: str
    ends_at: str | None


@dataclass(frozen=True, slots=True)
class View:
    """What a state says of the paths in question: HEAD, and the rows of those that its manifest lists."""

    head: str
    rows: Mapping[bytes, tuple[ManifestRow, ...]]

    @classmethod
    def of(cls, head: str, rows: Iterable[ManifestRow], paths: Collection[bytes]) -> View:
        found: dict[bytes, tuple[ManifestRow, ...]] = {}
        for row in rows:
            if row.path in paths:
                found[row.path] = (*found.get(row.path, ()), row)
        return cls(head, found)


@dataclass(frozen=True, slots=True)
class HeadMove:
    """What commits between two HEADs touch.

    Parameters
    ----------
    paths
        What differs between the two commits.
    newest_at
        Commit time, as a timestamp, of the newest commit that the later HEAD has and the earlier lacks; None
        if it has none (HEAD went back).
    """

    paths: frozenset[bytes]
    newest_at: str | None


@dataclass(frozen=True, slots=True)
class Attributed:
    """One window in which a path changed.

    Parameters
    ----------
    came_with_older_commits
        Whether the path differs by commits, all made before the window began: fetched, merged or switched to.
    """

    session_id: str
    entry_id: str
    after_entry_id: str
    came_with_older_commits: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "entry_id": self.entry_id,
            "after_entry_id": self.after_entry_id,
            "came_with_older_commits": self.came_with_older_commits,
        }


@dataclass(frozen=True, slots=True)
class PathAttribution:
    """During whose turns one path changed.

    Parameters
    ----------
    attributed_to
        The windows, in the order of time.
    running
        Sessions whose turn was running when it changed, and was not stamped since.
    is_outside_turns
        Whether it also, or only, changed while no turn was running.
    """

    attributed_to: tuple[Attributed, ...] = ()
    running: tuple[str, ...] = ()
    is_outside_turns: bool = False


@dataclass(frozen=True, slots=True)
class Attribution:
    """The answer for all paths of a report.

    Parameters
    ----------
    since
        When the stamp was observed from which on changes were looked for.
    is_complete
        False when a budget, or a stamp or commit that is not available, left out a part of the time. Paths may
        then have changed in further windows, and outside.
    """

    since: str
    paths: Mapping[bytes, PathAttribution] = field(default_factory=dict)
    is_complete: bool = True

    def of(self, *paths: bytes | None) -> PathAttribution:
        """Return what is known of a path, under each of its names."""
        found = [self.paths[path] for path in paths if path is not None and path in self.paths]
        return PathAttribution(
            tuple(dict.fromkeys(one for item in found for one in item.attributed_to)),
            tuple(dict.fromkeys(session for item in found for session in item.running)),
            any(item.is_outside_turns for item in found),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """Two neighbours in time whose states differ."""

    before: Sighting
    after: Sighting


def steps_of(base: Sighting, others: Iterable[Sighting], now: Sighting) -> list[Step]:
    """Return where the state changed, oldest first, from one stamp over later ones to the present observation."""
    between = sorted(
        {sighting for sighting in others if base.observed_at < sighting.observed_at <= now.observed_at},
        key=lambda sighting: (sighting.observed_at, sighting.state_digest),
    )
    neighbours = pairwise([base, *between, now])
    return [Step(before, after) for before, after in neighbours if before.state_digest != after.state_digest]


def attribute(
    paths: Collection[bytes],
    steps: Sequence[Step],
    spans: Sequence[Span],
    *,
    views: Mapping[str, View],
    moves: Mapping[tuple[str, str], HeadMove],
    since: str,
    is_complete: bool = True,
) -> Attribution:
    """Attribute changes of some paths.

    Parameters
    ----------
    steps
        From :func:`steps_of`; those without views or moves are skipped, which makes the answer incomplete.
    spans
        Windows of turns, with or without an end.
    views
        By state digest.
    moves
        By pair of different HEADs.
    is_complete
        Whether ``steps`` and ``spans`` are all there are.
    """
    found: dict[bytes, _Found] = {}
    ordered = sorted(spans, key=lambda span: (span.ends_at or "~", span.begins_at))  # running ones last
    for step in steps:
        before, after = views.get(step.before.state_digest), views.get(step.after.state_digest)
        move = HeadMove(frozenset(), None)
        if before is not None and after is not None and before.head != after.head:
            known = moves.get((before.head, after.head))
            is_complete = is_complete and known is not None
            move = known or move
        if before is None or after is None:
            is_complete = False
            continue
        changed = [path for path in paths if path in move.paths or before.rows.get(path) != after.rows.get(path)]
        if not changed:
            continue
        holders = [span for span in ordered if _holds(span, step)]
        for path in changed:
            is_older = path in move.paths and move.newest_at is not None and before.rows.get(path) is None
            found.setdefault(path, _Found()).add(holders, move.newest_at if is_older else None)
    return Attribution(since, {path: item.result() for path, item in found.items()}, is_complete)


def _holds(span: Span, step: Step) -> bool:
    return span.begins_at <= step.before.observed_at and (
        span.ends_at is None or step.after.observed_at <= span.ends_at
    )


class _Found:
    """What one path gathers over the steps."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, str, str], bool] = {}
        self._running: dict[str, None] = {}
        self._is_outside = False

    def add(self, holders: Sequence[Span], newest_at: str | None) -> None:
        self._is_outside = self._is_outside or not holders
        for span in holders:
            if span.entry_id is None:
                self._running[span.session_id] = None
                continue
            key = (span.session_id, span.entry_id, span.after_entry_id)
            # Only if all that changed in the window came with older commits.
            is_older = newest_at is not None and newest_at < span.begins_at
            self._windows[key] = self._windows.get(key, True) and is_older

    def result(self) -> PathAttribution:
        windows = tuple(Attributed(*key, is_older) for key, is_older in self._windows.items())
        return PathAttribution(windows, tuple(self._running), self._is_outside)
