"""What became of HEAD, and which paths differ between two commits. Facts, never causes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.git.meaning import is_known_untracking
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, child_environment, run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.rewrites import NOT_REWRITTEN, Rewrite, RewrittenBy, find_rewrite
from bridge.git.walk import COUNT_SECONDS, MAX_WALKED_COMMITS, Walk, compare_histories, count_commits
from bridge.semantics.stamps import UNBORN

#: Commits whose id and subject a relation carries.
MAX_NAMED_COMMITS = 10
#: Changed files up to which git looks for renames with edits (quadratic); exact renames are always found.
RENAME_LIMIT = 1_000
#: Id of the empty tree, by length of an object id.
EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


class RelationKind(StrEnum):
    """How one HEAD lies to another."""

    SAME = "same"
    AHEAD = "ahead"
    BEHIND = "behind"
    DIVERGED = "diverged"
    #: The old commit is not in the new history, but its tree or its patches are, under other ids.
    REWRITTEN = "rewritten"
    UNRELATED = "unrelated"
    #: The repository does not have one of the two commits (any more).
    MISSING = "missing"
    #: The budget ended, or a shallow clone's history did, before it could be told.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class CommitSubject:
    """A commit's id and the first line of its message."""

    id: str
    subject: str


@dataclass(frozen=True, slots=True)
class HeadRelation:
    """How ``new`` lies to ``old``.

    Parameters
    ----------
    ahead, behind
        Commits that only the new, and only the old history has.
    commits
        The first of the new ones, newest first; of the old ones when the new history has none of its own.
    lost
        The first of the old ones that were not found again, newest first, when there are new ones too.
    rewritten_as, rewritten_by
        The commit under which the old one was found again, and by what.
    found_again, compared
        Of how many old commits the patch was looked for in new ones, and how often it was found.
    missing
        The ids that the repository does not have.
    is_cut
        Whether a budget ended the walk: counts are then lower bounds.
    is_search_cut
        Whether a budget kept commits from being looked for under other ids.
    is_shallow
        Whether the history ends, on one side alone, because the clone is shallow: counts are of what is here.
    """

    kind: RelationKind
    ahead: int = 0
    behind: int = 0
    commits: tuple[CommitSubject, ...] = ()
    lost: tuple[CommitSubject, ...] = ()
    rewritten_as: str | None = None
    rewritten_by: RewrittenBy | None = None
    found_again: int = 0
    compared: int = 0
    missing: tuple[str, ...] = ()
    is_cut: bool = False
    is_search_cut: bool = False
    is_shallow: bool = False


def head_relation(
    location: RepositoryLocation,
    old_head: str,
    new_head: str,
    *,
    max_commits: int = MAX_WALKED_COMMITS,
    count_seconds: float = COUNT_SECONDS,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> HeadRelation:
    """Return how one value of HEAD (commit id or ``"unborn"``) lies to a later one.

    From unborn to a commit is ahead by all of the new history, the other way round behind.

    Parameters
    ----------
    max_commits
        Budget of commits looked at one by one; past it git counts alone.
    count_seconds
        Time that git may count, 0 for none; past it the relation is ``is_cut`` and may be ``undecided``.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot read the history.
    """
    if old_head == new_head:
        return HeadRelation(RelationKind.SAME)
    known = existing_commits(location, [old_head, new_head], timeout_seconds=timeout_seconds)
    missing = tuple(head for head in (old_head, new_head) if head != UNBORN and head not in known)
    if missing:
        return HeadRelation(RelationKind.MISSING, missing=missing)
    if UNBORN in {old_head, new_head}:
        return _from_or_to_unborn(
            location, old_head, new_head, max_commits, count_seconds=count_seconds, timeout_seconds=timeout_seconds
        )
    walk = compare_histories(
        location,
        old_head,
        new_head,
        max_commits=max_commits,
        count_seconds=count_seconds,
        timeout_seconds=timeout_seconds,
    )
    kind, rewrite = _kind(walk), NOT_REWRITTEN
    if kind not in {RelationKind.AHEAD, RelationKind.BEHIND}:
        rewrite = find_rewrite(location, walk, timeout_seconds=timeout_seconds)
        kind = kind if rewrite.commit is None else RelationKind.REWRITTEN
    return _relation(location, kind, walk, rewrite, timeout_seconds)


def _kind(walk: Walk) -> RelationKind:
    """Return how the two lie to each other by the links between commits alone."""
    # Each of the two is among its own side's commits unless the other reaches it. A walk that was cut may not have
    # come to the older one yet: it is then in neither list, but nothing shared was seen either.
    if not walk.old_count and walk.has_common:
        return RelationKind.AHEAD
    if not walk.new_count and walk.has_common:
        return RelationKind.BEHIND
    if walk.is_shallow or walk.is_cut:
        return RelationKind.UNDECIDED
    return RelationKind.DIVERGED if walk.has_common else RelationKind.UNRELATED


def _relation(
    location: RepositoryLocation, kind: RelationKind, walk: Walk, rewrite: Rewrite, timeout_seconds: float
) -> HeadRelation:
    commits = (walk.only_new or walk.only_old)[:MAX_NAMED_COMMITS]
    again = frozenset(rewrite.again)
    lost = [commit for commit in walk.only_old[: MAX_NAMED_COMMITS + len(again)] if commit not in again]
    lost = lost[:MAX_NAMED_COMMITS] if walk.only_new and rewrite.commit is None else []
    told = {commit.id: commit for commit in subjects(location, [*commits, *lost], timeout_seconds=timeout_seconds)}
    return HeadRelation(
        kind,
        walk.new_count,
        walk.old_count,
        tuple(told[commit] for commit in commits),
        tuple(told[commit] for commit in lost),
        rewrite.commit,
        rewrite.by,
        len(rewrite.again),
        rewrite.compared,
        is_cut=walk.is_cut,
        is_search_cut=rewrite.is_cut,
        is_shallow=walk.is_shallow,
    )


def _from_or_to_unborn(
    location: RepositoryLocation,
    old_head: str,
    new_head: str,
    max_commits: int,
    *,
    count_seconds: float,
    timeout_seconds: float,
) -> HeadRelation:
    is_ahead = old_head == UNBORN
    head = new_head if is_ahead else old_head
    output = run_git(
        ["rev-list", f"--max-count={max_commits + 1}", "--end-of-options", head],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    commits = output.text.split()
    is_cut = len(commits) > max_commits
    count = min(len(commits), max_commits)
    if is_cut and count_seconds > 0:
        total = count_commits(location, head, timeout_seconds=min(count_seconds, timeout_seconds))
        is_cut, count = total is None, total or count
    named = subjects(location, commits[:MAX_NAMED_COMMITS], timeout_seconds=timeout_seconds)
    if is_ahead:
        return HeadRelation(RelationKind.AHEAD, ahead=count, commits=named, is_cut=is_cut)
    return HeadRelation(RelationKind.BEHIND, behind=count, commits=named, is_cut=is_cut)


def existing_commits(
    location: RepositoryLocation,
    commits: Sequence[str],
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> frozenset[str]:
    """Return those ids that are commits in the repository; nothing is fetched to find out."""
    output = run_git(
        ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
        extra_environment={"GIT_NO_LAZY_FETCH": "1"},
    )
    return frozenset(
        name for name, _, kind in (line.partition(" ") for line in output.text.splitlines()) if kind == "commit"
    )


def subjects(
    location: RepositoryLocation,
    commits: Sequence[str],
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[CommitSubject, ...]:
    """Return id and subject of some commits, in the order given."""
    if not commits:
        return ()
    output = run_git(
        [
            "-c",
            "log.showSignature=false",
            "log",
            "--no-walk=unsorted",
            "-z",
            "--encoding=UTF-8",
            "--format=%H %s",
            "--stdin",
        ],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        stdin="".join(f"{commit}\n" for commit in commits).encode(),
    )
    records = output.stdout.decode("utf-8", "replace").split("\0")
    told = (record.partition(" ") for record in records if record)
    return tuple(CommitSubject(identity, subject) for identity, _, subject in told)


def is_ancestor(
    location: RepositoryLocation,
    ancestor: str,
    descendant: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> bool:
    """Return whether a commit lies in the history of another (or is it).

    Raises
    ------
    GitFailed
        If one of them does not exist.
    """
    answer = run_git(
        ["merge-base", "--is-ancestor", ancestor, descendant],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        accepted=(0, 1),
    )
    return answer.status == 0


def branch_tip(location: RepositoryLocation, branch: str) -> str | None:
    """Return the commit that a git branch (exact full name) is at; None if there is no such branch."""
    found = run_git(["show-ref", "--verify", "--hash", "--", branch], cwd=location.run_directory, accepted=(0, 1, 128))
    return found.text if found.status == 0 else None


def is_in_a_branch(location: RepositoryLocation, commit: str) -> bool:
    """Tell whether a commit lies in the history of a branch, a remote's branch or a tag; one that is gone does not."""
    found = run_git(
        ["for-each-ref", "--count=1", f"--contains={commit}", "refs/heads", "refs/remotes", "refs/tags"],
        cwd=location.run_directory,
        accepted=(0, 128, 129),
    )
    return found.status == 0 and found.text != ""


def first_parents(location: RepositoryLocation, base: str, commit: str) -> list[str]:
    """Return the commits from a base (left out) to another, oldest first, following first parents only."""
    output = run_git(
        ["rev-list", "--first-parent", "--reverse", "--end-of-options", commit, f"^{base}"],
        cwd=location.run_directory,
    )
    return output.text.split()


def newest_commit_time(
    location: RepositoryLocation, old: str, new: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> int | None:
    """Return the commit time (seconds since 1970) of the newest commit that ``new`` has and ``old`` lacks, if any.

    Raises
    ------
    GitFailed
        If one of them does not exist.
    """
    if new == UNBORN:
        return None
    ends = [new] if old == UNBORN else [new, f"^{old}"]
    output = run_git(
        ["rev-list", "--max-count=1", "--timestamp", "--end-of-options", *ends],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    return int(output.text.split(" ")[0]) if output.text else None


@dataclass(frozen=True, slots=True)
class UpstreamDistance:
    """How far a commit is from the upstream of a branch."""

    upstream: str
    ahead: int
    behind: int
    is_cut: bool


def upstream_distance(
    location: RepositoryLocation,
    branch: str,
    commit: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> UpstreamDistance | None:
    """Return how far ``commit`` is from the upstream of ``branch`` (full name); None if the branch has none."""
    if is_known_untracking(location, branch, child_environment()):
        return None
    output = run_git(
        ["for-each-ref", "--format=%(refname)%00%(upstream)", branch],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    upstream = dict(line.split("\0") for line in output.text.splitlines()).get(branch)
    if not upstream:
        return None
    found = run_git(
        ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{upstream}^{{commit}}"],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        accepted=(0, 1, 128),
    )
    if found.status != 0:
        return None
    if found.text == commit:
        return UpstreamDistance(upstream, 0, 0, is_cut=False)
    walk = compare_histories(location, found.text, commit, timeout_seconds=timeout_seconds)
    return UpstreamDistance(upstream, walk.new_count, walk.old_count, walk.is_cut)


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """One path that differs between two commits.

    Parameters
    ----------
    status
        ``A`` added, ``M`` modified, ``D`` deleted, ``T`` type changed, ``R`` renamed.
    path, old_path
        Raw bytes; ``old_path`` is set for a rename only.
    similarity
        Per cent, for a rename.
    """

    status: str
    path: bytes
    old_path: bytes | None
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    similarity: int | None = None


def changed_paths(
    location: RepositoryLocation,
    old: str,
    new: str,
    *,
    find_renames: bool = True,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> list[ChangedPath]:
    """Return which paths differ between two commits or trees (``"unborn"`` is the empty one).

    Parameters
    ----------
    find_renames
        Whether a path that went and one that came with similar content are one row; else they are two.

    Raises
    ------
    GitFailed
        If one of them does not exist.
    """
    length = max(len(side) for side in (old, new) if side != UNBORN) if {old, new} != {UNBORN} else 40
    empty = EMPTY_TREES.get(length, EMPTY_TREES[40])
    output = run_git(
        [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-abbrev",
            *([f"-l{RENAME_LIMIT}", "-M"] if find_renames else ["--no-renames"]),
            "--ignore-submodules=none",
            "--end-of-options",
            empty if old == UNBORN else old,
            empty if new == UNBORN else new,
        ],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    return parse_raw_diff(output.stdout)


def parse_raw_diff(output: bytes) -> list[ChangedPath]:
    """Return the rows of ``git diff --raw -z``.

    Raises
    ------
    ValueError
        If the output does not have the documented form.
    """
    fields = iter(output.split(b"\0"))
    rows: list[ChangedPath] = []
    for head in fields:
        if not head:
            continue
        if not head.startswith(b":"):
            raise ValueError(f"malformed raw diff: {head[:60]!r}")
        old_mode, new_mode, old_id, new_id, letter = (os.fsdecode(part) for part in head[1:].split(b" "))
        path = next(fields)
        is_pair = letter[0] in "RC"
        old_path, path = (path, next(fields)) if is_pair else (None, path)
        similarity = int(letter[1:]) if is_pair else None
        rows.append(ChangedPath(letter[0], path, old_path, old_mode, new_mode, old_id, new_id, similarity))
    return rows
