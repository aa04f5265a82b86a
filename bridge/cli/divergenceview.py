"""How a divergence looks to people: one line, then the commits and the paths."""

from __future__ import annotations

from typing import Final

from bridge.cli.rendering import table
from bridge.control.divergence import SessionDivergence
from bridge.git.history import CommitSubject
from bridge.git.paths import display_path
from bridge.workspaces.divergence import DivergenceReport
from bridge.workspaces.ranking import Rank, RankedDifference
from bridge.workspaces.wording import ID_CHARACTERS, one_line, quoted_text

#: Paths that are listed one by one; ``--json`` has more.
MAX_SHOWN_PATHS: Final = 200
_USED: Final = {Rank.EDITED: "edited here", Rank.READ: "read here"}


def detailed(found: SessionDivergence) -> str:
    """Return everything about one comparison: the line, what is not known for certain, commits, paths."""
    report = found.report
    parts = [f"{report.divergence}: {one_line(report)}"]
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
