"""Walking two histories at once, within a budget: how many commits each has that the other lacks.

``git rev-list old new`` writes commits newest first as it finds them, so the walk can stop soon after both sides
have met (git's own ``old...new`` computes everything before it prints a line, and has no budget). Where the budget
is not enough git may go on alone, several times as fast, for a few seconds. Like git's, the counts rest on commit
times: a clock that was wrong by more than :data:`SLOP_COMMITS` commits can make them high.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.git.errors import GitFailed, GitTimedOut
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git, stream_git
from bridge.git.repository import RepositoryLocation

#: Commits that one comparison of two histories looks at one by one.
MAX_WALKED_COMMITS = 2_000
#: Commits looked at beyond the point where a history with sane clocks is decided (git itself allows five).
SLOP_COMMITS = 32
#: Seconds that git may go on alone when the budget of commits was not enough.
COUNT_SECONDS = 5.0
#: Commits of either side that are kept of what git found alone.
MAX_KEPT_COMMITS = 2_000

_OLD = 1
_NEW = 2
_BOTH = _OLD | _NEW


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk found.

    Parameters
    ----------
    only_old, only_new
        Commits that only one side has, newest first; what was seen before the cut if there was one. Of a history
        that git compared alone (:func:`walk_by_git`) the newest :data:`MAX_KEPT_COMMITS`.
    old_count, new_count
        How many they are.
    has_common
        Whether the two histories share a commit (among those seen).
    is_cut
        Whether the budget ended the walk; the lists are then not complete, and may hold shared commits.
    is_shallow
        Whether a history that only one side has ends because the clone is shallow. What lies beyond may be shared.
    """

    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    old_count: int
    new_count: int
    has_common: bool
    is_cut: bool
    is_shallow: bool = False


class _Painter:
    """Spreads "reachable from old" and "reachable from new" over commits as they come by."""

    def __init__(self, old: str, new: str) -> None:
        self.flags: dict[str, int] = {old: _OLD, new: _NEW}
        self.parents: dict[str, Sequence[str]] = {}
        self.times: dict[str, int] = {}
        # Commits that are known to be reached but were not yet seen, and not from both sides: while there is
        # one, a further commit may still change a count.
        self.undecided = {old, new}
        self.has_common = False
        # Time of the oldest seen commit that only one side has; None when it has to be looked for again.
        self._oldest: float | None = math.inf

    def see(self, commit: str, time: int, parents: Sequence[str]) -> None:
        self.parents[commit] = parents
        self.times[commit] = time
        self.undecided.discard(commit)
        flags = self.flags.get(commit, 0)
        if flags != _BOTH and self._oldest is not None:
            self._oldest = min(self._oldest, time)
        for parent in parents:
            self._paint(parent, flags)

    def is_past(self, time: int) -> bool:
        """Whether commits of this time are too old to be children of one that was taken for one side's own."""
        if self._oldest is None:
            own = [seen for commit, seen in self.times.items() if self.flags[commit] != _BOTH]
            self._oldest = min(own, default=math.inf)
        return time < self._oldest

    def _paint(self, commit: str, flags: int) -> None:
        pending = [commit]
        while pending:
            current = pending.pop()
            before = self.flags.get(current, 0)
            after = before | flags
            if after == before:
                continue
            self.flags[current] = after
            if after == _BOTH:
                self.has_common = True
                self.undecided.discard(current)
                if current in self.times:
                    self._oldest = None
            elif current not in self.parents:
                self.undecided.add(current)
            # With equal or skewed times a parent can come before its child: what it passed on is then stale.
            pending.extend(self.parents.get(current, ()))


def walk_histories(
    location: RepositoryLocation,
    old: str,
    new: str,
    *,
    max_commits: int = MAX_WALKED_COMMITS,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Walk:
    """Compare the histories of two commits that the repository has.

    Parameters
    ----------
    max_commits
        Budget of commits looked at.

    Raises
    ------
    GitFailed
        If git cannot read the history (a shallow or damaged repository may end it early, which is no failure).
    GitTimedOut
        If the time limit passes.
    """
    painter = _Painter(old, new)
    order: list[str] = []
    is_cut = False
    slop = SLOP_COMMITS
    arguments = ["rev-list", "--parents", "--timestamp", "--end-of-options", old, new]
    with stream_git(arguments, cwd=location.run_directory, timeout_seconds=timeout_seconds) as lines:
        for line in lines:
            time, commit, *parents = line.decode("ascii").split()
            if not painter.undecided and painter.is_past(int(time)):
                slop -= 1
                if slop < 0:
                    break
            if len(order) >= max_commits:
                is_cut = True
                break
            order.append(commit)
            painter.see(commit, int(time), parents)
    if painter.undecided and not is_cut:
        raise GitFailed(f"git rev-list in {str(location.run_directory)!r} could not read the whole history.")
    only_old = tuple(commit for commit in order if painter.flags[commit] == _OLD)
    only_new = tuple(commit for commit in order if painter.flags[commit] == _NEW)
    is_shallow = not shallow_commits(location).isdisjoint((*only_old, *only_new))
    return Walk(only_old, only_new, len(only_old), len(only_new), painter.has_common, is_cut, is_shallow)


def shallow_commits(location: RepositoryLocation) -> frozenset[str]:
    """Return the commits whose parents a shallow clone leaves out."""
    try:
        return frozenset((location.common_dir / "shallow").read_text("ascii").split())
    except FileNotFoundError:
        return frozenset()


def compare_histories(
    location: RepositoryLocation,
    old: str,
    new: str,
    *,
    max_commits: int = MAX_WALKED_COMMITS,
    count_seconds: float = COUNT_SECONDS,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Walk:
    """Compare two histories within a budget of commits and then of time; cut only if both are spent.

    Parameters and errors as for :func:`walk_histories`; ``count_seconds`` 0 leaves git no time of its own.
    """
    walk = walk_histories(location, old, new, max_commits=max_commits, timeout_seconds=timeout_seconds)
    if not walk.is_cut or count_seconds <= 0:
        return walk
    return walk_by_git(location, old, new, timeout_seconds=min(count_seconds, timeout_seconds)) or walk


def walk_by_git(
    location: RepositoryLocation, old: str, new: str, *, timeout_seconds: float = COUNT_SECONDS
) -> Walk | None:
    """Let git compare two histories alone, whatever their length; None if it takes longer than it may.

    Raises
    ------
    GitFailed, GitMissing
        If git cannot read the history.
    """
    arguments = ["rev-list", "--left-right", "--boundary", "--end-of-options", f"{old}...{new}"]
    try:
        lines = run_git(arguments, cwd=location.run_directory, timeout_seconds=timeout_seconds).stdout.splitlines()
    except GitTimedOut:
        return None
    sides = {mark: [line[1:] for line in lines if line[:1] == mark] for mark in (b"<", b">", b"-")}
    only_old, only_new, shared = sides[b"<"], sides[b">"], sides[b"-"]
    is_shallow = any(commit.encode() in side for commit in shallow_commits(location) for side in (only_old, only_new))
    kept = [tuple(commit.decode("ascii") for commit in side[:MAX_KEPT_COMMITS]) for side in (only_old, only_new)]
    return Walk(kept[0], kept[1], len(only_old), len(only_new), bool(shared), is_cut=False, is_shallow=is_shallow)


def count_commits(location: RepositoryLocation, head: str, *, timeout_seconds: float = COUNT_SECONDS) -> int | None:
    """Return how many commits a history has; None if counting takes longer than it may.

    Raises
    ------
    GitFailed, GitMissing
        If git cannot read the history.
    """
    arguments = ["rev-list", "--count", "--end-of-options", head]
    try:
        return int(run_git(arguments, cwd=location.run_directory, timeout_seconds=timeout_seconds).text)
    except GitTimedOut:
        return None
