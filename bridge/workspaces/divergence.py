"""Whether the files are as they were when an entry was stamped, and if not, in what. Facts, never causes.

Three sources are joined: the manifest of then, the manifest of now, and the commits between the two HEADs. The
comparison itself is pure (:mod:`bridge.workspaces.pathchanges`); here its facts are gathered from git.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from bridge.git.contents import ContentUnreadable, ContentVanished, DeadlinePassed, digest_content
from bridge.git.errors import GitFailed, GitMissing, GitTimedOut
from bridge.git.history import ChangedPath, HeadRelation, RelationKind, changed_paths, head_relation
from bridge.git.lookups import blob_ids, ignored_paths, is_own, is_plain_file, size_of
from bridge.git.manifest import ContentKind, Manifest
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.git.repository import RepositoryLocation
from bridge.semantics.stamps import RepositoryState, UnknownReason
from bridge.workspaces.attribution import Attribution, PathAttribution
from bridge.workspaces.pathchanges import Change, DiskFact, Facts, PathDifference, Standing, differences, unlisted_now
from bridge.workspaces.ranking import Folder, Rank, RankedDifference, Touched, folded, ranked

#: Files of now that are hashed as git would, to know content again under another name or another HEAD.
MAX_HASHED_FILES: Final = 500
#: Bytes from which an untracked file that equals a vanished one is taken for the same file under another name.
MIN_TELLING_BYTES: Final = 32
#: Paths that the JSON of a report lists; all are counted.
MAX_LISTED_PATHS: Final = 1_000


class Divergence(StrEnum):
    """The answer in one word."""

    ALIGNED = "aligned"
    DIVERGED = "diverged"
    UNKNOWN = "unknown"


class Identity(StrEnum):
    """Whether both moments were seen in one place."""

    SAME = "same"
    OTHER_WORKTREE = "other_worktree"
    OTHER_REPOSITORY = "other_repository"


class Side(StrEnum):
    """Which of the two moments cannot be told."""

    THEN = "then"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why the answer is not known.

    Parameters
    ----------
    path
        What could not be read, in display form.
    detail
        Words of git or the system; for people.
    """

    reason: UnknownReason
    side: Side
    path: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class DivergenceReport:
    """How now differs from then.

    Parameters
    ----------
    unknown
        Set exactly if ``divergence`` is unknown.
    then, now
        The two states, as far as known.
    head
        How HEAD of now lies to HEAD of then; None when one of them is unknown or the repository is another.
    changes
        Every path that differs, the nearest to the conversation first.
    are_paths_complete
        False when ``changes`` may lack paths: a commit or a manifest is not available.
    unobserved
        Paths that the index hides from git status, which nobody compared.
    attribution
        During whose turns the paths changed; None if nobody looked.
    """

    divergence: Divergence
    identity: Identity = Identity.SAME
    unknown: Unknown | None = None
    then: RepositoryState | None = None
    now: RepositoryState | None = None
    head: HeadRelation | None = None
    changes: tuple[RankedDifference, ...] = ()
    are_paths_complete: bool = True
    unobserved: tuple[bytes, ...] = ()
    attribution: Attribution | None = None

    @property
    def is_aligned(self) -> bool:
        return self.divergence is Divergence.ALIGNED

    @property
    def is_ref_changed(self) -> bool:
        return self.then is not None and self.now is not None and self.then.ref != self.now.ref

    @property
    def is_operation_changed(self) -> bool:
        return self.then is not None and self.now is not None and self.then.operation != self.now.operation

    @property
    def are_settings_changed(self) -> bool:
        """Whether a git setting that decides what counts as modified is another."""
        both = self.then is not None and self.now is not None
        return both and self.then.settings_digest != self.now.settings_digest  # type: ignore[union-attr]  # both are set

    def of_rank(self, *ranks: Rank) -> list[PathDifference]:
        """Return the differences of some ranks."""
        return [change.difference for change in self.changes if change.rank in ranks]

    @property
    def folders(self) -> list[Folder]:
        """Where the differences lie that the conversation did not use, lock and generated files left out."""
        return folded([difference.path for difference in self.of_rank(Rank.OTHER)])

    def counts(self) -> dict[str, int]:
        """Return how many paths differ: in all, by what became of them, and by nearness to the conversation."""
        kinds = Counter(change.difference.change for change in self.changes)
        ranks = Counter(change.rank for change in self.changes)
        return {
            "total": len(self.changes),
            **{str(kind): kinds[kind] for kind in Change},
            **{rank.name.lower(): ranks[rank] for rank in Rank},
        }

    def standings(self) -> dict[Standing, int]:
        """Return how many of the paths that differ stand how, in a fixed order."""
        counts = Counter(change.difference.standing for change in self.changes)
        return {standing: counts[standing] for standing in Standing}

    def to_json(self, *, max_paths: int = MAX_LISTED_PATHS) -> dict[str, Any]:
        """Return the report under the published names; at most ``max_paths`` paths are listed."""
        unknown = self.unknown
        return {
            "divergence": str(self.divergence),
            "reason": None if unknown is None else str(unknown.reason),
            "reason_side": None if unknown is None else str(unknown.side),
            "reason_path": None if unknown is None else unknown.path,
            "detail": None if unknown is None else unknown.detail,
            "identity": str(self.identity),
            "head": _head_json(self),
            "ref": _pair(self, "ref"),
            "operation": _pair(self, "operation"),
            "dirty_hash": _pair(self, "dirty_hash"),
            "settings_changed": self.are_settings_changed,
            "counts": self.counts(),
            "standing": {str(standing): count for standing, count in self.standings().items()},
            "paths": [_path_json(change, self.attribution) for change in self.changes[:max_paths]],
            "paths_omitted": max(0, len(self.changes) - max_paths),
            "paths_complete": self.are_paths_complete,
            "folders": [{"path": plain_path(folder.path), "count": folder.count} for folder in self.folders],
            "attribution": None
            if self.attribution is None
            else {"since": self.attribution.since, "is_complete": self.attribution.is_complete},
            "unobserved": [plain_path(path) for path in self.unobserved[:max_paths]],
            "unobserved_count": len(self.unobserved),
        }


def unknown_report(unknown: Unknown, **known: Any) -> DivergenceReport:
    """Return the report that says why nothing can be said."""
    return DivergenceReport(Divergence.UNKNOWN, unknown=unknown, **known)


def compare(
    then: RepositoryState | Unknown,
    then_manifest: Manifest | None,
    observation: Observation,
    *,
    touched: Touched | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> DivergenceReport:
    """Compare what an entry was stamped with to what was observed now.

    Unknown equals nothing: if either side is, so is the answer. A state of another repository cannot be
    compared (``base_unavailable``); one of another worktree of this repository can, and is never the same.

    Parameters
    ----------
    then
        The stored state, or why there is none.
    then_manifest
        Its manifest; None when it came without paths, which are then unknown.
    observation
        What was seen now, with its location.
    touched
        What the conversation used; decides the order.
    timeout_seconds
        Time limit of what is asked of git in addition to the observation.
    """
    if isinstance(then, Unknown):
        return unknown_report(then, now=observation.state, unobserved=observation.unobserved)
    now, location = observation.state, observation.location
    if now is None or observation.manifest is None or location is None:
        reason = observation.unknown or UnknownReason.GIT_FAILED
        path = None if observation.unknown_path is None else plain_path(observation.unknown_path)
        return unknown_report(Unknown(reason, Side.NOW, path, observation.detail), then=then)
    if then.state_digest == now.state_digest:
        return DivergenceReport(
            Divergence.ALIGNED,
            then=then,
            now=now,
            head=HeadRelation(RelationKind.SAME),
            unobserved=observation.unobserved,
        )
    if then.repository_id != now.repository_id:
        why = Unknown(UnknownReason.BASE_UNAVAILABLE, Side.THEN, detail="the stamp was taken in another repository")
        return unknown_report(
            why, identity=Identity.OTHER_REPOSITORY, then=then, now=now, unobserved=observation.unobserved
        )
    comparison = _Comparison(then, then_manifest, now, observation, location, touched or Touched(), timeout_seconds)
    try:
        return comparison.report()
    except (GitFailed, GitTimedOut, GitMissing) as error:
        reason = UnknownReason.TIMED_OUT if isinstance(error, GitTimedOut) else UnknownReason.GIT_FAILED
        return unknown_report(Unknown(reason, Side.NOW, detail=error.message), then=then, now=now)


def reranked(report: DivergenceReport, touched: Touched) -> DivergenceReport:
    """Return a report as another conversation with the same stamp sees it: the same facts in another order."""
    return replace(report, changes=tuple(ranked([change.difference for change in report.changes], touched)))


@dataclass(frozen=True, slots=True)
class _Comparison:
    then: RepositoryState
    then_manifest: Manifest | None
    now: RepositoryState
    observation: Observation
    location: RepositoryLocation
    touched: Touched
    timeout_seconds: float

    def report(self) -> DivergenceReport:
        then, now = self.then, self.now
        identity = Identity.SAME if then.worktree_id == now.worktree_id else Identity.OTHER_WORKTREE
        head = head_relation(self.location, then.head, now.head, timeout_seconds=self.timeout_seconds)
        commits = self._commits(head)
        if self.then_manifest is None:
            return self._report_without_paths(identity, head)
        found = differences(self._facts(self.then_manifest, commits))
        return DivergenceReport(
            Divergence.DIVERGED,
            identity=identity,
            then=then,
            now=now,
            head=head,
            changes=tuple(ranked(found, self.touched)),
            are_paths_complete=commits is not None,
            unobserved=self.observation.unobserved,
        )

    def _report_without_paths(self, identity: Identity, head: HeadRelation) -> DivergenceReport:
        """Tell what HEAD alone tells: that it moved, or nothing."""
        then, now = self.then, self.now
        is_moved = then.head != now.head or then.ref != now.ref or identity is not Identity.SAME
        unknown = Unknown(UnknownReason.BASE_UNAVAILABLE, Side.THEN, detail="the stamp came without paths")
        return DivergenceReport(
            Divergence.DIVERGED if is_moved else Divergence.UNKNOWN,
            identity=identity,
            unknown=None if is_moved else unknown,
            then=then,
            now=now,
            head=head,
            are_paths_complete=False,
            unobserved=self.observation.unobserved,
        )

    def _commits(self, head: HeadRelation) -> list[ChangedPath] | None:
        if head.kind is RelationKind.SAME:
            return []
        if head.kind is RelationKind.MISSING:
            return None
        return changed_paths(self.location, self.then.head, self.now.head, timeout_seconds=self.timeout_seconds)

    def _facts(self, then: Manifest, commits: list[ChangedPath] | None) -> Facts:
        now = self.observation.manifest or Manifest()
        disk = self._disk(sorted(unlisted_now(then, now, commits)))
        facts = Facts(then, now, commits, disk)
        wanted = self._worth_hashing(facts, commits)
        if not wanted:
            return facts
        telling = frozenset(path for path in wanted if size_of(self.location, path) >= MIN_TELLING_BYTES)
        return Facts(then, now, commits, disk, self._blobs(wanted), telling)

    def _disk(self, paths: Sequence[bytes]) -> dict[bytes, DiskFact]:
        root = os.fsencode(self.location.root)
        deadline = time.monotonic() + self.timeout_seconds
        nothing = DiskFact(is_present=False)
        facts = {path: _disk_fact(root, path, deadline) if is_own(self.location, path) else nothing for path in paths}
        present = [path for path, fact in facts.items() if fact.is_present]
        for path in ignored_paths(self.location, present, timeout_seconds=self.timeout_seconds):
            known = facts[path]
            facts[path] = DiskFact(is_present=True, kind=known.kind, digest=known.digest, is_ignored=True)
        return facts

    def _worth_hashing(self, facts: Facts, commits: list[ChangedPath] | None) -> list[bytes]:
        """Return files listed now whose blob id may show that their content is not new."""
        listed_then = {row.path for row in facts.then.rows}
        files = [row for row in facts.now.rows if row.content_kind is ContentKind.FILE and row.worktree_status != b"."]
        files = [row for row in files if row.path not in listed_then]
        # What HEAD had can be on the disk although the path is listed, if HEAD or the index moved under it.
        moved = {changed.path for changed in commits or () if changed.status != "A"}
        moved |= {changed.old_path for changed in commits or () if changed.old_path is not None}
        moved |= {row.path for row in facts.now.rows if row.is_staged}
        wanted = [row.path for row in files if row.path in moved]
        has_vanished = any(not row.is_present for row in facts.now.rows) or any(
            not fact.is_present for fact in facts.disk.values()
        )
        if has_vanished:
            wanted += [row.path for row in files if row.is_untracked]
        return list(dict.fromkeys(wanted))[:MAX_HASHED_FILES]

    def _blobs(self, paths: Sequence[bytes]) -> dict[bytes, str]:
        files = [path for path in paths if is_plain_file(self.location, path)]
        try:
            return blob_ids(self.location, files, timeout_seconds=self.timeout_seconds)
        except GitFailed:
            # A file went away or its filter fails. The ids only let a change be told apart from a move; without
            # them the same path is reported as changed, or as vanished and appeared.
            return {}


def _disk_fact(root: bytes, path: bytes, deadline: float) -> DiskFact:
    absolute = root + b"/" + path
    try:
        found = digest_content(root, path, deadline)
    except ContentVanished:
        # Nothing, or a folder: a submodule or nested repository if git knows it by that name.
        is_repository = os.path.lexists(absolute + b"/.git")
        return DiskFact(is_present=is_repository, kind=ContentKind.REPOSITORY if is_repository else ContentKind.ABSENT)
    except (ContentUnreadable, DeadlinePassed):
        return DiskFact(is_present=os.path.lexists(absolute))  # there, with content that equals nothing
    return DiskFact(is_present=True, kind=found.kind, digest=found.digest)


def _pair(report: DivergenceReport, name: str) -> dict[str, str | None]:
    return {
        "then": None if report.then is None else getattr(report.then, name),
        "now": None if report.now is None else getattr(report.now, name),
    }


def _head_json(report: DivergenceReport) -> dict[str, Any]:
    relation = report.head
    value: dict[str, Any] = {**_pair(report, "head"), "relation": None if relation is None else str(relation.kind)}
    if relation is not None:
        value |= {
            "ahead": relation.ahead,
            "behind": relation.behind,
            "commits": [{"id": commit.id, "subject": commit.subject} for commit in relation.commits],
            "lost": [{"id": commit.id, "subject": commit.subject} for commit in relation.lost],
            "rewritten_as": relation.rewritten_as,
            "rewritten_by": None if relation.rewritten_by is None else str(relation.rewritten_by),
            "found_again": relation.found_again,
            "compared": relation.compared,
            "missing": list(relation.missing),
            "is_cut": relation.is_cut,
            "is_search_cut": relation.is_search_cut,
            "is_shallow": relation.is_shallow,
        }
    return value


def _path_json(change: RankedDifference, attribution: Attribution | None) -> dict[str, Any]:
    difference = change.difference
    turns = PathAttribution() if attribution is None else attribution.of(difference.path, difference.old_path)
    used = {Rank.EDITED: "edited", Rank.READ: "read"}.get(change.rank)
    return {
        "path": plain_path(difference.path),
        "old_path": None if difference.old_path is None else plain_path(difference.old_path),
        "change": str(difference.change),
        "before": str(difference.before),
        "after": str(difference.after),
        "committed": difference.is_committed,
        "standing": str(difference.standing),
        "content_changed": difference.is_content_changed,
        "used": used,
        "generated": change.rank is Rank.GENERATED,
        "attributed_to": [one.to_json() for one in turns.attributed_to],
        "during_running_turns": list(turns.running),
        "outside_turns": turns.is_outside_turns,
    }
