"""Putting the commits of tasks on top of a branch as objects; no ref, index or file of the user moves.

Done twice: first with drafts, which tells at once whether everything merges, then with the user's own commits.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bridge.control.delegations.adoption.model import Method, Part, PartOutcome, Wish
from bridge.control.errors import AdoptionConflict
from bridge.git.commits import tree_of
from bridge.git.history import changed_paths, first_parents, is_ancestor
from bridge.git.merging import MergeOutcome, merge_from, merge_tree
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation
from bridge.git.usercommits import (
    CommitSettings,
    CommitText,
    commit_in_scratch,
    commit_object,
    draft_commit,
    text_of,
)

#: Makes a commit of a tree, its parents and a text, and returns its id.
Commit = Callable[[str, Sequence[str], CommitText], str]
#: Paths of a conflict that an error's message names.
_MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Assembly:
    """What tasks look like on top of a branch."""

    tip: str
    outcomes: tuple[PartOutcome, ...]

    @property
    def conflicts(self) -> tuple[PartOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.conflicts)


class _Conflict(Exception):
    def __init__(self, outcome: MergeOutcome) -> None:
        self.paths = tuple(sorted(conflict.path for conflict in outcome.conflicts))
        self.messages = tuple(message.text for message in outcome.messages)


def drafts(location: RepositoryLocation) -> Commit:
    """Return a maker of commits that only serve to find out how a merge goes."""
    return lambda tree, parents, _: draft_commit(location, tree, parents)


def users(location: RepositoryLocation, settings: CommitSettings, scratch: RepositoryLocation | None) -> Commit:
    """Return a maker of the user's own commits; hooks run in the scratch worktree, which there is if they do."""

    def commit(tree: str, parents: Sequence[str], text: CommitText) -> str:
        if scratch is None or settings.hooks is None:
            return commit_object(location, tree, parents, text, is_signed=settings.is_signed)
        return commit_in_scratch(scratch, tree, parents, text, settings)

    return commit


def assemble(location: RepositoryLocation, tip: str, parts: Sequence[Part], wish: Wish, commit: Commit) -> Assembly:
    """Return what the parts look like one after the other on top of a commit; what conflicts is left out and told."""
    outcomes: list[PartOutcome] = []
    start = tip
    for part in parts:
        adding = _Adding(location, tip, part, wish, commit)
        try:
            method, after = adding.run()
        except _Conflict as conflict:
            earlier = [outcome.part for outcome in outcomes if not outcome.conflicts]
            outcomes.append(_conflicting(adding, start, conflict, earlier))
            continue
        files = tuple(plain_path(path) for path in _changed(location, tip, after))
        outcomes.append(PartOutcome(part, method, tip, after, files))
        tip = after
    return Assembly(tip, tuple(outcomes))


def require_no_conflict(assembly: Assembly) -> None:
    """Return if everything merges.

    Raises
    ------
    AdoptionConflict
        With the paths, and with what they clash.
    """
    if assembly.conflicts:
        raise conflict_of(*assembly.conflicts)


def conflict_of(first: PartOutcome, *others: PartOutcome) -> AdoptionConflict:
    """Return the error that names what does not merge, and with what."""
    together = f" with {' and '.join(first.with_tasks)}, adopted together with it," if first.with_tasks else ""
    named = ", ".join(first.conflicts[:_MAX_NAMED])
    return AdoptionConflict(
        f"Adopting {first.part.shown} conflicts{together} in {len(first.conflicts)} files: {named}. "
        "Your branch and files are unchanged.",
        details={
            "paths": list(first.conflicts),
            "messages": list(first.messages),
            "delegation_id": first.part.delegation.id,
            "with_tasks": list(first.with_tasks),
            "conflicts": [
                {
                    "delegation_id": outcome.part.delegation.id,
                    "paths": list(outcome.conflicts),
                    "with_tasks": list(outcome.with_tasks),
                }
                for outcome in (first, *others)
            ],
        },
    )


@dataclass(frozen=True)
class _Adding:
    """Adding one part to a tip."""

    location: RepositoryLocation
    tip: str
    part: Part
    wish: Wish
    commit: Commit

    def run(self) -> tuple[str, str]:
        """Return what was done and the tip afterwards."""
        part, method = self.part, self.wish.method
        whole = self._whole()
        has_own = part.own != part.base and not is_ancestor(self.location, part.own, self.tip)
        is_forward = has_own and not part.is_carried and is_ancestor(self.location, self.tip, part.own)
        is_rewritten = method in {Method.SQUASH, Method.PICK} or not is_forward
        if whole.tree == tree_of(self.location, self.tip) and is_rewritten:
            return "contained", self.tip
        if method is Method.SQUASH:
            return "squash", self.commit(whole.tree, [self.tip], self._text())
        if has_own and (method is Method.PICK or part.is_carried):
            return "pick", self._picked()
        if not has_own:
            return self._single(whole.tree)
        own = self._with_leftovers()
        if is_forward and method is Method.AUTO:
            return "fast_forward", own
        merged = self._clean(merge_tree(self.location, self.tip, own))
        return "merge", self.commit(merged.tree, [self.tip, own], self._text())

    def _single(self, tree: str) -> tuple[str, str]:
        """Bring what a worker left uncommitted; asked for a merge, beside the branch and merged."""
        part = self.part
        if self.wish.method is not Method.MERGE or part.is_carried:
            return "commit", self.commit(tree, [self.tip], self._text())
        made = self.commit(tree_of(self.location, part.result), [part.base], self._text())
        merged = self._clean(merge_tree(self.location, self.tip, made))
        return "merge", self.commit(merged.tree, [self.tip, made], self._text())

    def _whole(self) -> MergeOutcome:
        part = self.part
        if part.is_carried:
            return self._clean(merge_from(self.location, part.base, self.tip, part.result))
        return self._clean(merge_tree(self.location, self.tip, part.result))

    def _with_leftovers(self) -> str:
        """Return the worker's own commits, with a commit on top for what it left uncommitted."""
        part = self.part
        tree = tree_of(self.location, part.result)
        if tree == tree_of(self.location, part.own):
            return part.own
        return self.commit(tree, [part.own], self._text())

    def _picked(self) -> str:
        part, location = self.part, self.location
        tip = self.tip
        for original in first_parents(location, part.base, part.own):
            brought = self._clean(merge_from(location, f"{original}^", tip, original))
            if brought.tree != tree_of(location, tip):
                tip = self.commit(brought.tree, [tip], text_of(location, original))
        rest = self._clean(merge_from(location, part.own, tip, part.result))
        if rest.tree != tree_of(location, tip):
            tip = self.commit(rest.tree, [tip], self._text())
        return tip

    def _clean(self, outcome: MergeOutcome) -> MergeOutcome:
        if not outcome.is_clean:
            raise _Conflict(outcome)
        return outcome

    def _text(self) -> CommitText:
        return CommitText(message_of(self.part, self.wish.message))


def message_of(part: Part, wanted: str | None) -> str:
    """Return the message of a commit that is made for a task: the wanted words, or its objective; and whose it is."""
    delegation = part.delegation
    lines = delegation.request.objective.strip().splitlines() or [""]
    words = wanted.strip() if wanted is not None and wanted.strip() else f"Adopt {part.shown}: {lines[0][:60]}"
    return f"{words}\n\nBridge-Delegation: {delegation.id}\nBridge-Result: {delegation.result_entry_id}\n"


def _conflicting(adding: _Adding, start: str, conflict: _Conflict, earlier: Sequence[Part]) -> PartOutcome:
    """Say whether a part clashes with the branch itself or with what was put onto it before."""
    clashing: tuple[str, ...] = ()
    if earlier and not _clashes_at(adding, start):
        touched = [other for other in earlier if set(other.files) & set(conflict.paths)]
        clashing = tuple(other.shown for other in touched or earlier)
    paths = tuple(plain_path(path) for path in conflict.paths)
    return PartOutcome(adding.part, "conflict", adding.tip, adding.tip, (), paths, clashing, conflict.messages)


def _clashes_at(adding: _Adding, tip: str) -> bool:
    try:
        replace(adding, tip=tip, commit=drafts(adding.location)).run()
    except _Conflict:
        return True
    return False


def _changed(location: RepositoryLocation, old: str, new: str) -> list[bytes]:
    if old == new:
        return []
    changes = changed_paths(location, old, new)
    return sorted({change.path for change in changes} | {change.old_path for change in changes if change.old_path})
