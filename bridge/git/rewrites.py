"""Finding a commit again under another id: by its tree, by its patches, or by all of its patches in one commit.

Amending, rebasing, cherry-picking, squashing and filtering leave the old commit behind and the work in new ones.
What is compared is bounded in commits, in bytes and in time; a search that was cut says so, and what it found
stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.git.errors import GitFailed, GitTimedOut
from bridge.git.process import run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.walk import Walk

#: New commits whose tree is compared with the old tip's.
MAX_TREE_CANDIDATES = 2_000
#: Commits on either side whose patches are compared.
MAX_PATCH_CANDIDATES = 200
#: Bytes of one commit's changed files, before and after, up to which its patch is computed.
MAX_PATCH_BYTES = 4 * 1024 * 1024
#: Bytes of all files of which patches are computed for one search.
MAX_SEARCH_BYTES = 64 * 1024 * 1024
#: Longest that one search takes, in seconds; the caller's own time limit holds too.
SEARCH_SECONDS = 5.0
#: What is asked here is a bonus: nothing is fetched for it from another machine.
_OFFLINE = {"GIT_NO_LAZY_FETCH": "1"}
_RAW = ["-r", "--no-renames", "--no-abbrev", "--ignore-submodules=none"]
_PATCH = ["--patch", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index"]


class RewrittenBy(StrEnum):
    """By what an old commit was known again."""

    #: A new commit has the very tree of the old tip.
    TREE = "tree"
    #: Every old commit that was compared makes the same change as a new one.
    PATCH = "patch"
    #: One new commit makes the change that all old ones together make.
    SQUASH = "squash"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a search found.

    Parameters
    ----------
    commit
        The new commit under which the old tip was found; None if it was not.
    by
        By what; None if it was not.
    again
        Old commits found again one by one, under new ids.
    compared
        Old commits that were looked for one by one (a merge or an empty commit has no patch, and is not).
    is_cut
        Whether a budget left something out.
    """

    commit: str | None = None
    by: RewrittenBy | None = None
    again: tuple[str, ...] = ()
    compared: int = 0
    is_cut: bool = False


NOT_REWRITTEN = Rewrite()


def find_rewrite(location: RepositoryLocation, walk: Walk, *, timeout_seconds: float) -> Rewrite:
    """Look for the old tip among the new commits of a walk.

    Where the two histories share no commit, finding the tip's own patch again is enough.

    Raises
    ------
    GitMissing
        If there is no git program. A git that fails or takes too long only cuts the search.
    """
    if not walk.only_old or not walk.only_new:
        return NOT_REWRITTEN
    try:
        return _Search(location, min(timeout_seconds, SEARCH_SECONDS)).run(walk)
    except (GitFailed, GitTimedOut):
        # The relation stands without it; whoever reads it is told that not everything was looked for.
        return Rewrite(is_cut=True)


@dataclass(frozen=True, slots=True)
class _Change:
    """One path that a commit touches, by its blobs."""

    path: bytes
    modes: tuple[bytes, bytes]
    blobs: tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class _Search:
    location: RepositoryLocation
    seconds: float

    def run(self, walk: Walk) -> Rewrite:
        only_old, only_new, has_common = walk.only_old, walk.only_new, walk.has_common
        by_tree = self._by_tree(only_old[0], only_new[:MAX_TREE_CANDIDATES])
        if by_tree is not None:
            return Rewrite(by_tree, RewrittenBy.TREE)
        old, new = only_old[:MAX_PATCH_CANDIDATES], only_new[:MAX_PATCH_CANDIDATES]
        changes = self._changes([*old, *new])
        ours = {commit: changes[commit] for commit in old if commit in changes}
        theirs = {commit: changes[commit] for commit in new if commit in changes}
        shared = {_paths(found) for found in ours.values()} & {_paths(found) for found in theirs.values()}
        # Only commits that touch the same paths can make the same change; others are not looked into.
        likely = {commit: found for commit, found in (ours | theirs).items() if _paths(found) in shared}
        patches = self._patches(likely)
        found = {patches[commit]: commit for commit in reversed(new) if commit in patches}
        matches = {commit: found[patches[commit]] for commit in ours if patches.get(commit) in found}
        is_cut = walk.old_count > len(old) or walk.new_count > len(new) or len(patches) < len(likely)
        commit, by = None, None
        if matches and (len(matches) == len(ours) or (not has_common and only_old[0] in matches)):
            # A merge or an empty commit has no patch of its own: then the first that has one stands for the tip.
            commit, by = matches.get(only_old[0]) or next(iter(matches.values())), RewrittenBy.PATCH
        elif has_common and len(only_old) > 1:
            commit = self._as_one(only_old[0], only_new[0], theirs)
            by = None if commit is None else RewrittenBy.SQUASH
        return Rewrite(commit, by, tuple(matches), len(ours), is_cut)

    def _by_tree(self, tip: str, candidates: Sequence[str]) -> str | None:
        output = run_git(
            ["-c", "log.showSignature=false", "log", "--no-walk=unsorted", "--format=%H %T", "--stdin"],
            cwd=self.location.run_directory,
            timeout_seconds=self.seconds,
            stdin="".join(f"{commit}\n" for commit in (tip, *candidates)).encode(),
        )
        trees = dict(line.split(" ") for line in output.text.splitlines())
        return next((commit for commit in candidates if trees.get(commit) == trees[tip]), None)

    def _changes(self, commits: Sequence[str]) -> dict[str, tuple[_Change, ...]]:
        """Return what each commit that is neither a merge nor empty touches."""
        output = run_git(
            ["diff-tree", "--stdin", "-z", "--root", *_RAW],
            cwd=self.location.run_directory,
            timeout_seconds=self.seconds,
            stdin="".join(f"{commit}\n" for commit in commits).encode(),
            extra_environment=_OFFLINE,
        )
        changes: dict[str, list[_Change]] = {}
        own: list[_Change] = []
        fields = iter(output.stdout.split(b"\0"))
        for field in fields:
            if field.startswith(b":"):
                own.append(_change(field, next(fields)))
            elif field:
                own = changes.setdefault(field.decode("ascii"), [])
        return {commit: tuple(found) for commit, found in changes.items() if found}

    def _patches(self, changes: Mapping[str, tuple[_Change, ...]]) -> dict[str, str]:
        """Return the patch id of each commit whose files are here and within the budgets."""
        affordable = self._affordable(changes)
        if not affordable:
            return {}
        diff = run_git(
            ["diff-tree", "--stdin", "--root", *_PATCH],
            cwd=self.location.run_directory,
            timeout_seconds=self.seconds,
            stdin="".join(f"{commit}\n" for commit in affordable).encode(),
            extra_environment=_OFFLINE,
        )
        return {commit: patch for patch, commit in self._patch_ids(diff.stdout)}

    def _patch_ids(self, diff: bytes) -> Iterator[tuple[str, str]]:
        output = run_git(
            ["patch-id", "--stable"], cwd=self.location.run_directory, timeout_seconds=self.seconds, stdin=diff
        )
        for line in output.text.splitlines():
            patch, commit = line.split()
            yield patch, commit

    def _affordable(self, changes: Mapping[str, tuple[_Change, ...]]) -> list[str]:
        """Return the commits whose files are here and together within the budgets, in the order given."""
        blobs = sorted({blob for found in changes.values() for change in found for blob in _files(change)})
        if not blobs:
            return list(changes)
        output = run_git(
            ["cat-file", "--batch-check=%(objectname) %(objectsize)"],
            cwd=self.location.run_directory,
            timeout_seconds=self.seconds,
            stdin=b"".join(blob + b"\n" for blob in blobs),
            extra_environment=_OFFLINE,
        )
        sizes = dict(line.rsplit(b" ", 1) for line in output.stdout.splitlines())
        affordable: list[str] = []
        spent = 0
        for commit, found in changes.items():
            try:
                cost = sum(int(sizes[blob]) for change in found for blob in _files(change))
            except ValueError:  # "missing": a partial clone does not have it
                continue
            if cost <= MAX_PATCH_BYTES and spent + cost <= MAX_SEARCH_BYTES:
                affordable.append(commit)
                spent += cost
        return affordable

    def _as_one(self, old: str, new: str, candidates: Mapping[str, tuple[_Change, ...]]) -> str | None:
        """Return the new commit that makes the change of all old ones together, from where the two sides part."""
        parted = run_git(
            ["merge-base", old, new], cwd=self.location.run_directory, timeout_seconds=self.seconds, accepted=(0, 1)
        ).text
        if not parted:
            return None
        output = run_git(
            ["diff-tree", "-z", *_RAW, parted, old],
            cwd=self.location.run_directory,
            timeout_seconds=self.seconds,
            extra_environment=_OFFLINE,
        )
        fields = iter(output.stdout.split(b"\0"))
        whole = tuple(_change(field, next(fields)) for field in fields if field)
        likely = {commit: found for commit, found in candidates.items() if _paths(found) == _paths(whole)}
        if not likely or not self._affordable({old: whole}):
            return None
        diff = run_git(
            ["diff-tree", *_PATCH, parted, old],
            cwd=self.location.run_directory,
            timeout_seconds=self.seconds,
            extra_environment=_OFFLINE,
        )
        wanted = next((patch for patch, _ in self._patch_ids(diff.stdout)), None)
        patches = self._patches(likely)
        return next((commit for commit in likely if wanted is not None and patches.get(commit) == wanted), None)


def _change(head: bytes, path: bytes) -> _Change:
    old_mode, new_mode, old_blob, new_blob, _ = head[1:].split(b" ")
    return _Change(path, (old_mode, new_mode), (old_blob, new_blob))


def _paths(changes: Sequence[_Change]) -> frozenset[bytes]:
    return frozenset(change.path for change in changes)


def _files(change: _Change) -> list[bytes]:
    """Return the blobs of a change; a submodule's commit is no file of this repository."""
    pairs = zip(change.modes, change.blobs, strict=True)
    return [blob for mode, blob in pairs if mode not in {b"000000", b"160000"}]
