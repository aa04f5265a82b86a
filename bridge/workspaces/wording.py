"""A divergence in words: one line for a person, one short text for an agent's context.

Both state facts: no cause, no blame, and nothing that reads like an order. File names and commit subjects come
from strangers: they stand in quotes, escaped and shortened, so that a name cannot pass for part of the sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from bridge.foundation.ids import short_entry, short_session
from bridge.git.history import CommitSubject, HeadRelation, RelationKind
from bridge.git.paths import display_path
from bridge.git.removal import Obstacle, ObstacleReason
from bridge.git.rewrites import RewrittenBy
from bridge.semantics.stamps import UNBORN, UnknownReason
from bridge.workspaces.attribution import PathAttribution
from bridge.workspaces.divergence import Divergence, DivergenceReport, Identity, Side, Unknown
from bridge.workspaces.pathchanges import Change, PathDifference
from bridge.workspaces.ranking import Folder, Rank

T = TypeVar("T")

#: Characters of an agent's text at the start or resumption of a session, and at a prompt.
START_LIMIT: Final = 2_000
PROMPT_LIMIT: Final = 800
#: Smallest limit that leaves room for a sentence; a smaller one is a mistake of the caller.
MIN_LIMIT: Final = 200
#: Characters of one quoted file name or commit subject, quotes included.
MAX_QUOTED: Final = 100
#: Characters of a commit id that are shown.
ID_CHARACTERS: Final = 10
#: Commits whose subjects an agent's text shows, of new and of lost ones each.
MAX_COMMITS_TOLD: Final = 3
#: Characters of one quoted commit subject, quotes included.
MAX_SUBJECT: Final = 72
#: Entries or sessions that are named in a row.
MAX_NAMES_TOLD: Final = 3
#: Changed paths that a person is named beside the line that counts them.
MAX_CHANGED_NAMES: Final = 3
#: Sessions whose turns one line counts.
MAX_SESSIONS_TOLD: Final = 4
#: Characters of git's own words that are passed on.
MAX_DETAIL: Final = 200

#: One character of a quoted name: an escape is one, and is never cut in two.
_ELEMENT = re.compile(r"\\(?:x..|u....|U........|.)|.", re.DOTALL)
_HINTS: Final = {
    UnknownReason.UNREADABLE_PATH: "Fix its permissions, or ignore it in git.",
    UnknownReason.TIMED_OUT: "Raise git_timeout_seconds in config.toml.",
    UnknownReason.NOT_A_REPOSITORY: "Sessions outside a repository have no file states.",
    UnknownReason.UNSTAMPED: "Entries recorded from here on carry one.",
}


def quoted(name: bytes, limit: int = MAX_QUOTED) -> str:
    """Return a file name in quotes, escaped, its middle left out if it is longer than ``limit`` characters."""
    return _shortened(display_path(name), limit)


def quoted_text(text: str, limit: int = MAX_QUOTED) -> str:
    """Return foreign text, such as a commit's subject, as :func:`quoted` shows names."""
    return quoted(text.encode("utf-8", "surrogatepass"), limit)


def one_line(
    report: DivergenceReport, *, since: str | None = None, reference: str | None = None, was_agent_told: bool = False
) -> str:
    """Return the divergence in one line for a person.

    Parameters
    ----------
    since
        Short reference of the entry whose stamp was compared; None for the last turn of the conversation.
    reference
        Short reference of the session, for the command that shows more; None leaves that out.
    was_agent_told
        Whether to say that the agent has the same information.
    """
    moment = "this conversation's last turn" if since is None else f"entry {since}"
    if report.divergence is Divergence.UNKNOWN:
        return _unknown_line(report, since)
    if report.divergence is Divergence.ALIGNED:
        return f"files are as they were at {moment} ({_place(report)})"
    facts = [_identity_fact(report, since), _head_fact(report.head), *_switches(report)]
    facts = [fact for fact in facts if fact]
    if report.changes:
        facts.append(_paths_short(report, moment))
    elif not report.are_paths_complete:
        facts.append("the paths cannot be compared")
    # Where nothing else differs it is the settings, or what git thinks of files that are as they were.
    line = ", ".join(facts) if facts else f"the state differs from that of {moment}, no file does"
    if was_agent_told:
        line += ". The agent was told"
    return line if reference is None else f"{line}. See: bridge status {reference}"


def changed_names(report: DivergenceReport, most: int = MAX_CHANGED_NAMES) -> str:
    """Return the changed paths that matter most, each with what happened to it; empty if there are none."""
    told = [_told(change.difference) for change in report.changes[:most]]
    more = len(report.changes) - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def agent_text(report: DivergenceReport, limit: int = START_LIMIT) -> str:
    """Return what an agent should know, in at most ``limit`` characters; empty if nothing differs.

    Parameters
    ----------
    limit
        :data:`START_LIMIT` when a session starts or resumes, :data:`PROMPT_LIMIT` at a prompt; at least
        :data:`MIN_LIMIT`.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"an agent's text needs at least {MIN_LIMIT} characters")
    if report.divergence is Divergence.ALIGNED:
        return ""
    text = _Text(limit)
    if report.divergence is Divergence.UNKNOWN:
        text.sentence(_unknown_sentence(report))
        return text.text
    text.sentence(_identity_sentence(report))
    text.sentence(_head_sentence(report), reserve=_RESERVED_FOR_PATHS)
    for switch in _switches(report):
        text.sentence(f"{switch[0].upper()}{switch[1:]}.")
    _tell_used(text, report)
    _tell_others(text, report)
    if report.unobserved:
        text.sentence(f"git does not look at {_count(len(report.unobserved), 'path')} here, nor does this comparison.")
    for sentence in _commits_sentences(report.head):
        text.sentence(sentence)
    return text.text


def standing_words(report: DivergenceReport) -> str:
    """Return how the changed paths stand now, such as ``1 committed, 2 uncommitted, 1 untracked``."""
    return ", ".join(f"{count} {standing}" for standing, count in report.standings().items() if count)


def turn_words(attribution: PathAttribution) -> str:
    """Return during whose turns a path changed, such as ``during 9f3a.31, while 7c21 was at work``; may be empty."""
    entries = [short_entry(one.entry_id) for one in attribution.attributed_to]
    facts: list[str] = []
    if entries:
        facts.append(f"during {_enumerated(entries)}")
        if all(one.came_with_older_commits for one in attribution.attributed_to):
            facts[0] += " with older commits"
    if attribution.running:
        facts.append(f"while {_enumerated([short_session(session) for session in attribution.running])} was at work")
    if facts and attribution.is_outside_turns:
        facts.append("and outside any turn")
    return ", ".join(facts)


def turns_line(report: DivergenceReport) -> str:
    """Return how many paths changed during whose turns, in one line for a person; empty if in nobody's."""
    if report.attribution is None:
        return ""
    attributions = [
        report.attribution.of(change.difference.path, change.difference.old_path) for change in report.changes
    ]
    counts: Counter[str] = Counter()
    for attribution in attributions:
        counts.update({one.session_id for one in attribution.attributed_to} | set(attribution.running))
    if not counts:
        return ""
    told = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    facts = [f"{_count(count, 'path')} during turns of {short_session(name)}" for name, count in told]
    if len(facts) > MAX_SESSIONS_TOLD:
        facts[MAX_SESSIONS_TOLD:] = [f"others during turns of {_count(len(facts) - MAX_SESSIONS_TOLD, 'more session')}"]
    outside = sum(attribution.is_outside_turns for attribution in attributions)
    if outside:
        facts.append(f"{outside} outside any turn")
    line = ", ".join(facts)
    return line if report.attribution.is_complete else f"{line}; not all of the time since could be looked into"


def kept_reason(obstacles: Sequence[Obstacle]) -> str:
    """Return why a worktree stays, such as ``1 unmerged commit, 2 uncommitted files``.

    What git or the disk could not tell is said in its own words.
    """
    return ", ".join(_obstacle(obstacle) for obstacle in obstacles)


def kept_line(name: str, reason: str) -> str:
    """Return the line that tells a person that a task's worktree stays, and what can be done about it."""
    return f"kept: worktree of {name}: {reason}. Adopt, discard, or open it: bridge task path {name}"


def _obstacle(obstacle: Obstacle) -> str:
    counted = _COUNTED.get(obstacle.reason)
    if counted is not None and obstacle.count:
        return _count(obstacle.count, counted)
    if obstacle.reason is ObstacleReason.INSPECTION_FAILED:
        return f"it could not be inspected ({quoted_text(obstacle.detail, MAX_DETAIL)})"
    return f"{obstacle.detail[:1].lower()}{obstacle.detail[1:]}".removesuffix(".")


_COUNTED: Final = {
    ObstacleReason.UNMERGED_COMMITS: "unmerged commit",
    ObstacleReason.UNCOMMITTED_FILES: "uncommitted file",
    ObstacleReason.HIDDEN_FILES: "hidden file",
}
#: Characters kept free for the file names when the first sentences are long.
_RESERVED_FOR_PATHS: Final = 80


class _Text:
    """Sentences within a limit: what does not fit is left out, never cut."""

    def __init__(self, limit: int) -> None:
        self.text = ""
        self._limit = limit

    @property
    def room(self) -> int:
        return self._limit - len(self.text) - bool(self.text)

    def sentence(self, sentence: str, *, reserve: int = 0) -> bool:
        if not sentence or len(sentence) > self.room - reserve:
            return False
        self.text += f" {sentence}" if self.text else sentence
        return True

    def listing(self, head: str, things: Sequence[T], tell: Callable[[T], str], tail: str, *, noun: str = "") -> bool:
        """Add ``head thing, thing, … and N more noun tail`` with as many things as fit; nothing if not one does."""
        shown: list[str] = []
        sentence = ""
        for thing in things:
            shown.append(tell(thing))
            rest = len(things) - len(shown)
            names = head + ", ".join(shown)
            if len(names) + len(tail) > self.room:
                break
            # With the last one "and 1 more" goes, which can make the whole shorter: so no break on this.
            longer = names + (f" and {rest} more{noun}" if rest else "") + tail
            sentence = longer if len(longer) <= self.room else sentence
        return self.sentence(sentence)


def _tell_used(text: _Text, report: DivergenceReport) -> None:
    """Name the files that the conversation edited or read, those whose content differs first."""
    used = report.of_rank(Rank.EDITED, Rank.READ)
    outdated = [difference for difference in used if difference.is_content_changed]
    if outdated:
        count = _count(len(outdated), "file")
        head = f"{count} you read or edited changed after your last turn: "
        tail = ". What you remember of them is out of date; reading them again first avoids undoing that work."
        if not (text.listing(head, outdated, _told, tail) or text.listing(head, outdated, _told, ".")):
            text.sentence(f"{count} you read or edited changed after your last turn.")
    only_status = [difference for difference in used if not difference.is_content_changed]
    if only_status:
        head = f"Same content, other git status, of {_count(len(only_status), 'file')} you read or edited: "
        text.listing(head, only_status, _told, ".")


def _tell_others(text: _Text, report: DivergenceReport) -> None:
    others = report.of_rank(Rank.OTHER)
    generated = len(report.of_rank(Rank.GENERATED))
    if others:
        head = f"Also changed, {_count(len(others), 'other path')}: "
        is_few = len(others) <= _MAX_OTHERS_NAMED
        if not (is_few and text.listing(head, others, _told, ".")) and not text.listing(
            head, report.folders, _told_folder, ".", noun=" places"
        ):
            text.sentence(f"Also changed: {_count(len(others), 'other path')}.")
    if generated:
        text.sentence(f"Also changed: {_count(generated, 'lock or generated file')}.")
    text.sentence(_standing_sentence(report))
    if not report.are_paths_complete:
        text.sentence("Further paths may differ; what they were can no longer be told.")


def _standing_sentence(report: DivergenceReport) -> str:
    """Return how the changed paths stand now; together, as each one's own word may not have had room."""
    words = standing_words(report)
    if not words:
        return ""
    return f"Status now: {words}."


#: Others that are named one by one; more are folded by folder.
_MAX_OTHERS_NAMED: Final = 8

_AFTER: Final = {
    Change.APPEARED: "new",
    Change.CHANGED: "changed",
    Change.VANISHED: "gone",
    Change.RESTORED: "restored",
    Change.COMMITTED: "committed",
    Change.IGNORED: "ignored now",
    Change.RENAMED: "renamed",
}


def _told(difference: PathDifference) -> str:
    name = quoted(difference.path)
    if difference.change is Change.RENAMED and difference.old_path is not None:
        return f"{quoted(difference.old_path)} (now {name})"
    word = _AFTER[difference.change]
    if difference.is_committed and difference.change is not Change.COMMITTED:
        word += ", in a commit"
    return name if word == "changed" else f"{name} ({word})"


def _told_folder(folder: Folder) -> str:
    return f"{folder.count} in {quoted(folder.path + b'/')}" if folder.path else f"{folder.count} elsewhere"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _id(commit: str) -> str:
    return "no commit" if commit == UNBORN else commit[:ID_CHARACTERS]


def _branch(ref: str | None) -> str:
    return "no branch" if ref is None else quoted_text(ref.removeprefix("refs/heads/"), 60)


def _place(report: DivergenceReport) -> str:
    now = report.now
    if now is None:
        return "unknown"
    return f"{_branch(now.ref)}, {_id(now.head)}" if now.ref is not None else f"detached at {_id(now.head)}"


def _identity_fact(report: DivergenceReport, since: str | None) -> str:
    if report.identity is Identity.SAME:
        return ""
    return f"{'the last turn' if since is None else f'entry {since}'} was in another worktree"


def _identity_sentence(report: DivergenceReport) -> str:
    if report.identity is Identity.SAME:
        return ""
    return "Your last turn was in another worktree of this repository; the comparison is with the files there."


def _switches(report: DivergenceReport) -> list[str]:
    """Return what was switched: branch, operation, settings. ``then`` and ``now`` are known where this is asked."""
    then, now = report.then, report.now
    if then is None or now is None:
        return []
    facts: list[str] = []
    if report.is_ref_changed:
        facts.append(f"the checkout was on {_branch(then.ref)} and is on {_branch(now.ref)}")
    if report.is_operation_changed:
        before, after = then.operation or "nothing", now.operation or "nothing"
        facts.append(f"{before} was in progress, now {after} is")
    if report.are_settings_changed:
        facts.append("git settings that decide what counts as modified are others")
    return facts


def _head_fact(relation: HeadRelation | None) -> str:
    """Return where HEAD went, with the newest commit of it; empty if it stayed."""
    if relation is None or relation.kind is RelationKind.SAME:
        return ""
    fact = f"HEAD {_head_words(relation)}"
    if relation.commits and relation.kind in {RelationKind.AHEAD, RelationKind.BEHIND}:
        fact += f", newest {quoted_text(relation.commits[0].subject, MAX_SUBJECT)}"
    return fact


def _head_words(relation: HeadRelation) -> str:
    """Return where HEAD is, seen from where it was, as words that follow "HEAD"."""
    least = "at least " if relation.is_cut else ""
    if relation.kind is RelationKind.AHEAD:
        return f"moved forward by {least}{_count(relation.ahead, 'commit')}"
    if relation.kind is RelationKind.BEHIND:
        return f"moved back by {least}{_count(relation.behind, 'commit')}"
    if relation.kind is RelationKind.REWRITTEN:
        again = _id(relation.rewritten_as or "")
        return f"is rewritten: the earlier commit is found again as {again} ({_known_by(relation)})"
    if relation.kind is RelationKind.UNDECIDED and relation.is_shallow:
        return "is at another commit, in this shallow clone it cannot be told how it lies to the earlier one"
    if relation.kind is RelationKind.UNDECIDED:
        return "is at another commit, how it lies to the earlier one took too long to find out"
    if relation.kind is RelationKind.MISSING:
        return "is at another commit, the earlier one is no longer in the repository"
    where = "is in an unrelated history" if relation.kind is RelationKind.UNRELATED else "moved to another line"
    sides = f"{_count(relation.ahead, 'commit')} new, {_count(relation.behind, 'commit')} no longer in it"
    again = f", {relation.found_again} of them found again" if relation.found_again else ""
    return f"{where} ({sides}{again})"


def _known_by(relation: HeadRelation) -> str:
    by = relation.rewritten_by
    if by is RewrittenBy.SQUASH:
        return "the same changes in one commit"
    if by is RewrittenBy.TREE:
        return "the same tree"
    if relation.found_again < relation.compared:
        return f"the same patch, as {relation.found_again} of {_count(relation.compared, 'commit')}"
    return "the same patch"


def _head_sentence(report: DivergenceReport) -> str:
    relation, then, now = report.head, report.then, report.now
    if relation is None or then is None or now is None or relation.kind is RelationKind.SAME:
        return ""
    return f"HEAD was {_id(then.head)} and is {_id(now.head)}: it {_head_words(relation)}."


def _commits_sentences(relation: HeadRelation | None) -> list[str]:
    if relation is None:
        return []
    new, old = (relation.commits, relation.lost) if relation.ahead else ((), relation.commits)
    told = [("Commits since", new, relation.ahead), ("Commits no longer in HEAD", old, relation.behind)]
    return [_commits_sentence(head, commits, total) for head, commits, total in told if commits]


def _commits_sentence(head: str, commits: Sequence[CommitSubject], total: int) -> str:
    shown = [f"{_id(commit.id)} {quoted_text(commit.subject, MAX_SUBJECT)}" for commit in commits[:MAX_COMMITS_TOLD]]
    rest = total - len(shown)
    more = f" and {rest} more" if rest > 0 else ""
    return f"{head}: {', '.join(shown)}{more}."


def _paths_short(report: DivergenceReport, moment: str) -> str:
    used = len(report.of_rank(Rank.EDITED, Rank.READ))
    line = f"{_count(len(report.changes), 'path')} changed since {moment}"
    return f"{line}, {used} it had used" if used else line


def _enumerated(names: Sequence[str]) -> str:
    shown, rest = names[:MAX_NAMES_TOLD], len(names) - MAX_NAMES_TOLD
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _unknown_line(report: DivergenceReport, since: str | None) -> str:
    unknown = report.unknown
    if unknown is None:
        return "cannot tell whether files changed"
    line = f"cannot tell whether files changed: {_reason(unknown, since)}."
    hint = _HINTS.get(unknown.reason)
    return line if hint is None else f"{line} {hint}"


def _unknown_sentence(report: DivergenceReport) -> str:
    unknown = report.unknown
    reason = "the reason is not known" if unknown is None else _reason(unknown)
    return f"It is not known whether files changed after your last turn: {reason}."


def _reason(unknown: Unknown, since: str | None = None) -> str:
    path = "a path" if unknown.path is None else _shown_path(unknown.path)
    then, stamped = ("at the last turn", "the last entry") if since is None else (f"at entry {since}", f"entry {since}")
    when = then if unknown.side is Side.THEN else "now"
    texts = {
        UnknownReason.NO_PATH: f"there was no folder to look at {when}",
        UnknownReason.NOT_A_REPOSITORY: f"the folder was in no git repository {when}"
        if unknown.side is Side.THEN
        else "the folder is in no git repository",
        UnknownReason.BARE_REPOSITORY: "the repository has no work tree there",
        UnknownReason.UNREADABLE_PATH: f"{path} {'was' if unknown.side is Side.THEN else 'is'} unreadable",
        UnknownReason.UNSUPPORTED_FEATURE: f"the repository uses a feature that {when} could not be read",
        UnknownReason.TIMED_OUT: f"looking took too long {when}",
        UnknownReason.GIT_FAILED: f"git failed {when}",
        UnknownReason.UNSTAMPED: f"{stamped} carries no file state",
        UnknownReason.STAMP_VERSION: f"{stamped}'s file state is of a version that this Bridge does not read",
        UnknownReason.BASE_UNAVAILABLE: "what the files were then is not available",
    }
    text = texts[unknown.reason]
    if unknown.detail and unknown.reason in _DETAILED:
        text += f" ({quoted_text(unknown.detail, MAX_DETAIL)})"
    return text


_DETAILED: Final = frozenset(
    {UnknownReason.GIT_FAILED, UnknownReason.UNSUPPORTED_FEATURE, UnknownReason.BASE_UNAVAILABLE}
)


def _shown_path(path: str) -> str:
    return _shortened(path if path.startswith('"') else f'"{path}"', MAX_QUOTED)


def _shortened(quotation: str, limit: int) -> str:
    """Return a quotation of at most ``limit`` characters, without its middle if need be, no escape cut in two."""
    if len(quotation) <= limit:
        return quotation
    elements = _ELEMENT.findall(quotation[1:-1])
    room = limit - len('"…"')
    return f'"{_taken(elements, room - room // 3)}…{_taken(reversed(elements), room // 3, is_reversed=True)}"'


def _taken(elements: Iterable[str], room: int, *, is_reversed: bool = False) -> str:
    taken: list[str] = []
    for element in elements:
        room -= len(element)
        if room < 0:
            break
        taken.append(element)
    return "".join(reversed(taken) if is_reversed else taken)
