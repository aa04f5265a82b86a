"""How a divergence looks to people: one line, then the commits and the paths."""

from __future__ import annotations

from typing import Final

from bridge.cli.rendering import table
from bridge.control.divergence import SessionDivergence
from bridge.foundation.ids import short_entry
from bridge.git.history import CommitSubject, RelationKind
from bridge.git.paths import display_path
from bridge.workspaces.divergence import Divergence, DivergenceReport
from bridge.workspaces.ranking import Rank, RankedDifference
from bridge.workspaces.wording import ID_CHARACTERS, one_line, quoted_text

#: Paths that are listed one by one; ``--json`` has more.
MAX_SHOWN_PATHS: Final = 200
_USED: Final = {Rank.EDITED: "edited here", Rank.READ: "read here"}


def detailed(found: SessionDivergence, *, is_leaf: bool = True) -> str:
    """Return everything about one comparison: the line, what is not known for certain, commits, paths.

    Parameters
    ----------
    is_leaf
        Whether the session's active leaf was compared, and not an entry that somebody named.
    """
    report = found.report
    parts = [f"{report.divergence}: {one_line(report)}" if is_leaf else _line_for(found)]
    if found.problem is not None:
        parts.append(f"what the conversation used is not fully known: {found.problem.message}")
    if report.head is not None and report.head.commits:
        is_new = report.head.ahead > 0
        parts.append("commits since:" if is_new else "commits that are not in HEAD:")
        parts.append(_commits(report.head.commits, report.head.ahead if is_new else report.head.behind))
    if report.changes:
        parts.append("paths:")
        parts.append(_paths(report))
    if report.unobserved:
        names = ", ".join(display_path(path) for path in report.unobserved[:MAX_SHOWN_PATHS])
        parts.append(f"git does not look at {len(report.unobserved)} paths, nor does this comparison: {names}")
    return "\n".join(parts)


def _line_for(found: SessionDivergence) -> str:
    report, entry = found.report, short_entry(found.entry.id)
    if report.divergence is Divergence.UNKNOWN:
        return f"unknown: {one_line(report)}"
    if report.is_aligned:
        return f"aligned: files are as they were at {entry}"
    facts = [f"{len(report.changes)} paths differ"]
    relation = report.head
    if relation is not None and relation.kind is not RelationKind.SAME:
        distance = f" (ahead {relation.ahead}, behind {relation.behind})" if relation.ahead or relation.behind else ""
        facts.insert(0, f"HEAD is {relation.kind}{distance}")
    if report.is_ref_changed:
        facts.append("another branch is checked out")
    return f"diverged from {entry}: {', '.join(facts)}"


def _commits(commits: tuple[CommitSubject, ...], total: int) -> str:
    lines = [f"  {commit.id[:ID_CHARACTERS]}  {quoted_text(commit.subject, 72)}" for commit in commits]
    if total > len(commits):
        lines.append(f"  and {total - len(commits)} more")
    return "\n".join(lines)


def _paths(report: DivergenceReport) -> str:
    shown = report.changes[:MAX_SHOWN_PATHS]
    lines = ["  " + line for line in table([_row(change) for change in shown]).splitlines()]
    if len(report.changes) > len(shown):
        lines.append(f"  and {len(report.changes) - len(shown)} more; --json lists them")
    return "\n".join(lines)


def _row(change: RankedDifference) -> list[str]:
    difference = change.difference
    name = display_path(difference.path)
    if difference.old_path is not None:
        name = f"{display_path(difference.old_path)} -> {name}"
    facts = [f"{difference.before} -> {difference.after}"]
    if difference.is_committed:
        facts.append("in a commit")
    if change.rank in _USED:
        facts.append(_USED[change.rank])
    return [str(difference.change), name, f"({', '.join(facts)})"]
