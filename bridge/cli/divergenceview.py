"""How a divergence looks to people: one line, then the commits and the paths."""

from __future__ import annotations

from typing import Final

from bridge.cli.rendering import table
from bridge.control.divergence import SessionDivergence
from bridge.foundation.ids import short_entry
from bridge.git.history import CommitSubject, HeadRelation
from bridge.git.paths import display_path
from bridge.workspaces.divergence import DivergenceReport
from bridge.workspaces.ranking import Rank, RankedDifference, folded
from bridge.workspaces.wording import ID_CHARACTERS, one_line, quoted_text, standing_words, turn_words, turns_line

#: Paths that are listed one by one; ``--json`` has more.
MAX_SHOWN_PATHS: Final = 200
#: Unobserved paths that are named.
MAX_SHOWN_UNOBSERVED: Final = 20
_USED: Final = {Rank.EDITED: "edited here", Rank.READ: "read here"}


def detailed(found: SessionDivergence, *, is_leaf: bool = True) -> str:
    """Return everything about one comparison: the line, what is not known for certain, commits, paths.

    Parameters
    ----------
    is_leaf
        Whether the session's active leaf was compared, and not an entry that somebody named.
    """
    report = found.report
    since = None if is_leaf else short_entry(found.entry.id)
    parts = [f"{report.divergence}: {one_line(report, since=since)}"]
    if found.problem is not None:
        parts.append(f"what the conversation used is not fully known: {found.problem.message}")
    if report.head is not None:
        parts += _commit_parts(report.head)
    if report.changes:
        parts.append(f"paths: {standing_words(report)}")
        parts.append(_paths(report))
        parts += [f"turns: {line}" for line in [turns_line(report)] if line]
    if report.unobserved:
        names = ", ".join(display_path(path) for path in report.unobserved[:MAX_SHOWN_UNOBSERVED])
        more = len(report.unobserved) - MAX_SHOWN_UNOBSERVED
        names += f" and {more} more" if more > 0 else ""
        parts.append(f"git does not look at {len(report.unobserved)} paths, nor does this comparison: {names}")
    return "\n".join(parts)


def _commit_parts(relation: HeadRelation) -> list[str]:
    new, old = (relation.commits, relation.lost) if relation.ahead else ((), relation.commits)
    told = [("commits since:", new, relation.ahead), ("commits no longer in HEAD:", old, relation.behind)]
    return [part for head, commits, total in told if commits for part in (head, _commits(commits, total))]


def _commits(commits: tuple[CommitSubject, ...], total: int) -> str:
    lines = [f"  {commit.id[:ID_CHARACTERS]}  {quoted_text(commit.subject, 72)}" for commit in commits]
    if total > len(commits):
        lines.append(f"  and {total - len(commits)} more")
    return "\n".join(lines)


def _paths(report: DivergenceReport) -> str:
    shown, rest = report.changes[:MAX_SHOWN_PATHS], report.changes[MAX_SHOWN_PATHS:]
    lines = ["  " + line for line in table([_row(change, report) for change in shown]).splitlines()]
    if rest:
        lines.append(f"  and {len(rest)} more; --json lists them")
        generated = sum(change.rank is Rank.GENERATED for change in rest)
        folders = folded([change.difference.path for change in rest if change.rank is not Rank.GENERATED])
        lines += [f"    {folder.count} in {display_path(folder.path + b'/')}" for folder in folders if folder.path]
        lines += [f"    {folder.count} elsewhere" for folder in folders if not folder.path]
        lines += [f"    {generated} lock or generated files"] if generated else []
    return "\n".join(lines)


def _row(change: RankedDifference, report: DivergenceReport) -> list[str]:
    difference = change.difference
    name = display_path(difference.path)
    if difference.old_path is not None:
        name = f"{display_path(difference.old_path)} -> {name}"
    facts = [f"{difference.before} -> {difference.after}"]
    if difference.is_committed:
        facts.append("in a commit")
    if change.rank in _USED:
        facts.append(_USED[change.rank])
    if report.attribution is not None:
        facts += filter(None, [turn_words(report.attribution.of(difference.path, difference.old_path))])
    return [str(difference.change), name, f"({', '.join(facts)})"]
