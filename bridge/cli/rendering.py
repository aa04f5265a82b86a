"""How sessions and entries look to people: short ids, times, one line for an entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.cli.output import Output, printable
from bridge.control.views import summary_of, unreadable
from bridge.conversations.models import Entry, Session
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.ids import short_entry, short_session
from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.semantics.stamps import UNBORN, RepositoryState, UnknownReason

#: Width of lines when stdout is no terminal, in characters: the start of a text is enough there as well.
PIPE_LINE_WIDTH: Final = 120
#: Narrowest line for which room is made for text.
MIN_TEXT_WIDTH: Final = 20
#: Digits shown of a commit id or a digest.
SHOWN_DIGITS: Final = 12
#: Stands before an entry that this Bridge cannot read.
UNREADABLE_MARK: Final = "!"


def line_width(output: Output) -> int:
    """Return how wide a line of the listings may be."""
    return output.columns if output.stdout_is_terminal else PIPE_LINE_WIDTH


def local_time(timestamp: str) -> str:
    """Return a timestamp in the local time zone, to the second; ``--json`` has the exact one."""
    return parse_timestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def cut(text: str, width: int) -> str:
    """Return a text, its control characters escaped, with an ellipsis where it is longer than ``width``."""
    shown = printable(text)
    return shown if len(shown) <= width else shown[: max(width, 1) - 1] + "…"


def entry_words(entry: Entry) -> str:
    """Return what an entry says in short, or why it cannot be read."""
    problem = unreadable(entry)
    return summary_of(entry) if problem is None else unreadable_words(entry.semantic_schema_version)


def unreadable_words(version: int) -> str:
    """Return the words that stand for the text of an entry that cannot be read."""
    return f"(unreadable: semantic schema version {version})"


def entry_lines(entries: Sequence[Entry], labels: dict[str, list[str]], *, head_entry_id: str, width: int) -> list[str]:
    """Return one line per entry: a mark for the head or an unreadable one, short id, time, kind, text."""
    id_width = max((len(short_entry(entry.id)) for entry in entries), default=0)
    kind_width = max((len(entry.kind) for entry in entries), default=0)
    lines = []
    for entry in entries:
        mark = "*" if entry.id == head_entry_id else " "
        mark = UNREADABLE_MARK if unreadable(entry) is not None else mark
        start = (
            f"{mark} {short_entry(entry.id):<{id_width}}  {local_time(entry.created_at)}  {entry.kind:<{kind_width}}"
        )
        names = label_words(labels.get(entry.id, ()))
        room = max(width - len(start) - 2, MIN_TEXT_WIDTH)
        lines.append(f"{printable(start)}  {cut(names + entry_words(entry), room)}".rstrip())
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
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def facts(pairs: Sequence[tuple[str, str | None]]) -> str:
    """Return names and values as aligned lines; values that are None are left out, further lines are indented."""
    shown = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown)
