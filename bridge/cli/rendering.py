"""How sessions and entries look to people: short ids, times, one line for an entry."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final

from bridge.cli.output import Output, printable
from bridge.control.reading.paging import Annotated
from bridge.control.reading.views import summary_of, unreadable
from bridge.conversations.models import Entry, ListedEntry, Session
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.ids import short_entry, short_session
from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.semantics.kinds import HIDDEN, default_visibility
from bridge.semantics.stamps import UNBORN, RepositoryState, UnknownReason

#: Width of lines when stdout is no terminal, in characters: the start of a text is enough there as well.
PIPE_LINE_WIDTH: Final = 120
#: Least room that is made for text, in columns.
MIN_TEXT_WIDTH: Final = 12
#: Below these widths, in columns, lines go without the date, and without the time and the end of the kind.
WIDE: Final = 90
NARROW: Final = 64
#: Digits shown of a commit id or a digest.
SHOWN_DIGITS: Final = 12
#: Stands before an entry that tells of a problem, or that this Bridge cannot read.
PROBLEM_MARK: Final = "!"


def line_width(output: Output) -> int:
    """Return how wide a line of the listings may be."""
    return output.columns if output.stdout_is_terminal else PIPE_LINE_WIDTH


def local_time(timestamp: str) -> str:
    """Return a timestamp in the local time zone, to the second; ``--json`` has the exact one."""
    return parse_timestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def text_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def cut(text: str, width: int) -> str:
    """Return a text, its control characters escaped, with an ellipsis where it is wider than ``width`` columns."""
    shown = printable(text)
    if text_width(shown) <= width:
        return shown
    room, end = max(width, 1) - 1, 0
    for character in shown:
        room -= _character_width(character)
        if room < 0:
            break
        end += 1
    return shown[:end] + "…"


def pad(text: str, width: int) -> str:
    """Return a text filled up with spaces to so many columns."""
    return text + " " * (width - text_width(text))


def entry_words(entry: Entry | ListedEntry) -> str:
    """Return what an entry says in short, or why it cannot be read."""
    problem = unreadable(entry)
    return summary_of(entry) if problem is None else unreadable_words(entry.semantic_schema_version)


def unreadable_words(version: int) -> str:
    """Return the words that stand for the text of an entry that cannot be read."""
    return f"(unreadable: semantic schema version {version})"


def entry_lines(
    rows: Sequence[Annotated], labels: dict[str, list[str]], *, head_entry_id: str, width: int
) -> list[str]:
    """Return one line per entry: marks for the head and for a problem, short id, time, kind, text.

    A narrow line goes without the date, a very narrow one without the time and the end of the kind as well.
    """
    entries = [row.entry for row in rows]
    kinds = [entry.kind if width >= NARROW else entry.kind.partition(".")[0] for entry in entries]
    id_width = max((len(short_entry(entry.id)) for entry in entries), default=0)
    kind_width = max(map(text_width, kinds), default=0)
    lines = []
    for row, kind in zip(rows, kinds, strict=True):
        entry = row.entry
        marks = ("*" if entry.id == head_entry_id else " ") + (" " if row.annotation.problem is None else PROBLEM_MARK)
        time = "" if width < NARROW else local_time(entry.created_at)[0 if width >= WIDE else 11 :] + "  "
        start = f"{marks} {short_entry(entry.id):<{id_width}}  {time}{printable(pad(kind, kind_width))}"
        names = label_words(labels.get(entry.id, ())) + hidden_words(entry.kind, entry.context_visibility)
        room = max(width - text_width(start) - 2, MIN_TEXT_WIDTH)
        lines.append(f"{start}  {cut(names + entry_words(entry), room)}".rstrip())
    return lines


def state_words(state: RepositoryState) -> str:
    """Return a state in short: commit, branch, operation, and whether anything is uncommitted."""
    head = "no commit yet" if state.head == UNBORN else state.head[:SHOWN_DIGITS]
    ref = "detached" if state.ref is None else f"on {state.ref.removeprefix('refs/heads/')}"
    dirty = (
        "clean" if state.dirty_hash == CLEAN_DIRTY_HASH else f"uncommitted changes ({state.dirty_hash[:SHOWN_DIGITS]})"
    )
    operation = "" if state.operation is None else f", in a {state.operation}"
    return f"{head} {ref}{operation}, {dirty}"


def stamp_words(entry: Entry, state: RepositoryState | UnknownReason | None) -> str:
    """Return an entry's stamp in short, or why the state is unknown."""
    if isinstance(state, RepositoryState):
        return state_words(state)
    stamp = entry.stamp
    about = " ".join(filter(None, (stamp.unknown_path, one_line(stamp.unknown_detail or ""))))
    return f"unknown: {state or stamp.unknown_reason}" + (f" ({about})" if about else "")


def label_words(labels: Sequence[str]) -> str:
    """Return labels in brackets with a space behind, or nothing."""
    return f"[{', '.join(labels)}] " if labels else ""


def hidden_words(kind: str, visibility: str) -> str:
    """Return a mark with a space behind for an entry that its writer kept out of restored context, or nothing."""
    return "(hidden) " if visibility == HIDDEN and default_visibility(kind) != HIDDEN else ""


def session_title(session: Session) -> str:
    """Return how a session is called in a heading: its short id and its label."""
    return " ".join(filter(None, (short_session(session.id), one_line(session.label or ""))))


def one_line(text: str) -> str:
    """Return free text on one line, its control characters escaped."""
    return printable(" ".join(text.split()))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns; the last one is left as wide as it is."""
    if not rows:
        return ""
    widths = [max(text_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def facts(pairs: Sequence[tuple[str, str | None]]) -> str:
    """Return names and values as aligned lines; values that are None are left out, further lines are indented."""
    shown = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown)
