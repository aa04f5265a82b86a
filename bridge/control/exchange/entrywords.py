"""What an entry says in a document for people, kind by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bridge.control.reading.views import gap_before, summary_of, unreadable
from bridge.conversations.facets import problem_of
from bridge.conversations.models import Entry
from bridge.foundation.ids import short_entry
from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.semantics.interpretation import interpret
from bridge.semantics.kinds import HIDDEN
from bridge.semantics.stamps import UNBORN, RepositoryState, UnknownReason
from bridge.storage.transaction import Connection
from bridge.transcripts.document import Block, Fields, Fold, Link, Part, Prose, Role, Verbatim
from bridge.workspaces.store import load_state

#: Digits shown of a commit id.
SHOWN_DIGITS: Final = 10
#: Role and title of kinds that are texts.
_TEXTS: Final[dict[str, tuple[Role, str]]] = {
    "user.message": ("user", "User"),
    "assistant.message": ("assistant", "Assistant"),
    "note": ("note", "Note"),
    "handoff.brief": ("note", "Brief"),
    "branch.summary": ("note", "Summary of a branch"),
    "compaction": ("note", "Compaction"),
    "checkpoint": ("note", "Checkpoint"),
    "error": ("problem", "Error"),
}
_TEXT_FIELDS: Final = ("text", "summary", "message")
#: Fields of a worker's result that are shown in its table, with their names there.
_RESULT_FIELDS: Final = (
    ("status", "status"),
    ("delegation_id", "task"),
    ("files_changed", "files changed"),
    ("tests", "tests"),
    ("decisions", "decisions"),
    ("risks", "risks"),
    ("remaining_work", "remaining work"),
    ("base_commit", "base commit"),
    ("result_commit", "result commit"),
)
_CHECKPOINT_FIELDS: Final = (
    ("decisions", "decisions"),
    ("files_touched", "files touched"),
    ("open_work", "open work"),
    ("reason", "reason"),
    ("tokens_before", "tokens before"),
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of an entry besides itself: the turn that begins with it, its names, the other ways from it."""

    turn: int | None = None
    labels: Sequence[str] = ()
    branches: Sequence[Link] = ()

    def joined(self, later: Surroundings) -> Surroundings:
        """Return these for two entries that are shown as one."""
        turn = later.turn if self.turn is None else self.turn
        return Surroundings(turn, [*self.labels, *later.labels], [*self.branches, *later.branches])


class EntryWords:
    """Makes blocks of entries in their order; a tool's call waits for its result and is shown with it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stamp: str | None = None
        self._states: tuple[str, str] = ("", "")
        #: Calls without a result so far, by id.
        self._calls: dict[str, tuple[Entry, dict[str, Any], Surroundings]] = {}

    def block(self, entry: Entry, around: Surroundings) -> Block | None:
        """Return what an entry says; None for a tool's call, which comes with its result."""
        if unreadable(entry) is not None:
            words = f"semantic schema version {entry.semantic_schema_version} cannot be read"
            parts: list[Part] = [Fold("as it is stored", [Verbatim(entry.payload_text)])]
            return self._made([entry], "event", f"{entry.kind}: {words}", parts, around)
        meaning = interpret(entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id)
        payload = meaning.payload
        if meaning.opaque:
            parts = [Fold("as it is stored", [Verbatim(entry.payload_text)])]
            return self._made([entry], "event", entry.kind, parts, around)
        call = str(payload.get("tool_call_id"))
        if entry.kind == "tool.started":
            self._calls[call] = (entry, payload, around)
            return None
        if entry.kind == "tool.completed":
            started = self._calls.pop(call, None)
            if started is not None:
                first, asked, before = started
                return self._tool([first, entry], {**asked, **payload}, before.joined(around))
            return self._tool([entry], payload, around)
        role, title, parts = _words(entry, payload)
        missing = gap_before(entry)
        if missing is not None:
            parts = [Fields([("gap", f"{missing}, which came before, is not here")]), *parts]
        return self._made([entry], role, title, parts, around)

    def unanswered(self) -> Iterator[Block]:
        """Yield the calls that got no result."""
        waiting, self._calls = self._calls, {}
        for entry, payload, around in waiting.values():
            yield self._tool([entry], {**payload, "status": "no result"}, around)

    def _tool(self, entries: list[Entry], payload: dict[str, Any], around: Surroundings) -> Block:
        name = _plain(payload.get("name"))
        words = summary_of(entries[0]).removeprefix(name).removesuffix(_plain(payload.get("status"))).strip()
        summary = ": ".join(filter(None, (_plain(payload.get("status")), words))) or "called"
        parts = [Verbatim(_plain(payload[name]), name) for name in ("input", "output") if payload.get(name) is not None]
        problem = problem_of(entries[-1])
        shown: list[Part] = [Fold(summary, parts, is_open=problem is not None)] if parts else [Verbatim(summary)]
        return self._made(entries, "tool", name or "Tool", shown, around)

    def _made(self, entries: list[Entry], role: Role, title: str, parts: Sequence[Part], around: Surroundings) -> Block:
        last = entries[-1]
        return Block(
            anchors=[entry.id for entry in entries],
            reference=short_entry(entries[0].id),
            time=time_words(entries[0].created_at),
            role=role,
            title=title,
            parts=parts,
            stamp=self._stamp_of(last),
            turn=around.turn,
            problem=problem_of(last),
            is_hidden=last.context_visibility == HIDDEN,
            labels=around.labels,
            branches=around.branches,
        )

    def _stamp_of(self, entry: Entry) -> str | None:
        """Return the state of the files in short where it is another than before."""
        if entry.state_digest is None:
            words = f"files unknown: {entry.unknown_reason}"
        elif entry.state_digest == self._states[0]:
            words = self._states[1]
        else:
            words = state_words(load_state(self._connection, entry.state_digest))
            self._states = (entry.state_digest, words)
        if words == self._stamp:
            return None
        self._stamp = words
        return words


def state_words(state: RepositoryState | UnknownReason) -> str:
    """Return a state of the files in a few words: branch, commit, and whether anything is uncommitted."""
    if isinstance(state, UnknownReason):
        return f"files unknown: {state}"
    ref = "detached" if state.ref is None else state.ref.removeprefix("refs/heads/")
    head = "no commit" if state.head == UNBORN else state.head[:SHOWN_DIGITS]
    dirty = "clean" if state.dirty_hash == CLEAN_DIRTY_HASH else "uncommitted changes"
    return ", ".join(filter(None, (f"{ref} @ {head}", dirty, state.operation)))


def time_words(timestamp: str) -> str:
    """Return a timestamp to the second, in UTC: the same file whoever exports it."""
    return f"{timestamp[:10]} {timestamp[11:19]} UTC"


def _words(entry: Entry, payload: dict[str, Any]) -> tuple[Role, str, list[Part]]:
    kind = entry.kind
    if kind == "worker.result":
        return "result", "Result of a worker", _result(payload)
    if kind == "reasoning.completed":
        return "event", "Thinking", [Fold(summary_of(entry) or "not shown", [Prose(_plain(payload.get("text")))])]
    if kind in _TEXTS:
        role, title = _TEXTS[kind]
        text = next((payload[name] for name in _TEXT_FIELDS if isinstance(payload.get(name), str)), "")
        parts: list[Part] = [Verbatim(text)] if role == "problem" else [Prose(text, breaks=role == "user")]
        return role, title, parts + _fields(payload, _CHECKPOINT_FIELDS)
    rest = {name: value for name, value in payload.items() if name != "provider_meta"}
    parts = [Verbatim(summary_of(entry))] if len(rest) <= 1 else [Fold(summary_of(entry) or kind, [_pretty(rest)])]
    return "event", kind, parts if rest else []


def _result(payload: dict[str, Any]) -> list[Part]:
    parts: list[Part] = [Prose(_plain(payload.get("summary"))), *_fields(payload, _RESULT_FIELDS)]
    data = payload.get("data")
    return [*parts, Fold("data", [_pretty(data)])] if data else parts


def _fields(payload: dict[str, Any], names: Sequence[tuple[str, str]]) -> list[Part]:
    rows = [(shown, _listed(payload[name])) for name, shown in names if payload.get(name) not in (None, [], "")]
    return [Fields(rows)] if rows else []


def _listed(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(_listed(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_listed(item)}" for name, item in value.items() if item not in (None, ""))
    return _plain(value)


def _plain(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return _pretty(value).text if isinstance(value, (dict, list)) else orjson.dumps(value).decode()


def _pretty(value: Any) -> Verbatim:
    return Verbatim(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
