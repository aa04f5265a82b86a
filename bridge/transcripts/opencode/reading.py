"""Reads the rows of OpenCode's sessions as :mod:`bridge.transcripts.opencode.database` gives them.

Rows change while the agent works, entries do not: a reply is taken once it is complete, and what follows it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from bridge.transcripts.foreign.neutral import (
    Hints,
    Item,
    LeafMoved,
    Neutral,
    Part,
    SessionFacts,
    count_of,
    mapping,
    name_of,
    opaque,
    text_or_none,
    without_nothing,
)
from bridge.transcripts.foreign.records import Damage, Record

FORMAT: Final = "opencode"
_ENDS: Final = {"completed": "completed", "error": "failed"}
_READING: Final = frozenset({"read"})
_WRITING: Final = frozenset({"edit", "write"})


class OpenCodeReader:
    """Reads the rows of one session. It keeps no state: a session is always read from its beginning."""

    def __init__(self, hints: Hints, state: Mapping[str, Any] | None = None) -> None:
        del hints, state
        self._session = "unnamed"
        self._leaf: str | None = None
        self._message: Mapping[str, Any] = {}
        self._before: dict[str, str | None] = {}
        self._is_waiting = False
        self._revert: str | None = None
        self._place: tuple[str | None, str | None] = (None, None)

    def state(self) -> dict[str, Any]:
        return {}

    def read(self, record: Record) -> Iterable[Item]:
        table, row = record.value.get("table"), mapping(record.value.get("row"))
        if table == "session":
            return [self._facts(row)]
        if table == "end":
            return self._end()
        try:
            data = mapping(orjson.loads(row.get("data") or "null"))
        except (orjson.JSONDecodeError, TypeError):
            message = f"the data of {table} {str(row.get('id'))[:80]} is no JSON"
            return [Damage("not_json", message, record.line.number, record.line.offset)]
        identity = name_of(row.get("id"), "unknown")[:200]
        if table == "message":
            return list(self._begin(identity, row, data, record))
        return list(self._part(identity, row, data, record))

    def _facts(self, row: Mapping[str, Any]) -> SessionFacts:
        self._session = name_of(row.get("id"), "unnamed")[:200]
        parent = text_or_none(row.get("parent_id"))
        try:
            revert = mapping(orjson.loads(row.get("revert") or "null"))
        except (orjson.JSONDecodeError, TypeError):
            revert = {}
        self._revert = text_or_none(revert.get("messageID"))
        return SessionFacts(
            session=self._session,
            kind="chat" if parent is None else "worker",
            cwd=text_or_none(row.get("directory")),
            title=text_or_none(row.get("title")),
            version=text_or_none(row.get("version")),
            created_at=_moment(row.get("time_created")),
            parent=parent,
            relation=None if parent is None else "delegated",
            depth=None if parent is None else 1,
            extra=without_nothing(project_id=text_or_none(row.get("project_id"))),
        )

    def _begin(self, identity: str, row: Mapping[str, Any], data: Mapping[str, Any], record: Record) -> Iterator[Item]:
        time = mapping(data.get("time"))
        self._message = {**data, "id": identity, "moment": _moment(row.get("time_created"))}
        self._before[identity] = self._leaf
        is_reply = data.get("role") == "assistant"
        self._is_waiting = self._is_waiting or (is_reply and "completed" not in time and not data.get("error"))
        failure = mapping(data.get("error"))
        if failure and not self._is_waiting:
            text = text_or_none(mapping(failure.get("data")).get("message")) or name_of(failure.get("name"), "error")
            shown = {"message": text, "code": name_of(failure.get("name"), "error")}
            yield from self._add(f"{identity}#error", ("error", shown, None), self._message["moment"])

    def _part(self, identity: str, row: Mapping[str, Any], data: Mapping[str, Any], record: Record) -> Iterator[Item]:
        if self._is_waiting:
            return
        moment = _moment(row.get("time_created")) or self._message.get("moment")
        kind = data.get("type")
        if kind == "tool":
            yield from self._tool(identity, data, moment)
            return
        part = self._simple(kind, data, record)
        if part is not None:
            yield from self._add(identity, part, moment)

    def _simple(self, kind: Any, data: Mapping[str, Any], record: Record) -> Part | None:
        model = name_of(self._message.get("modelID"), "") or None
        text = text_or_none(data.get("text"))
        is_reply = self._message.get("role") == "assistant"
        if kind == "text" and text is not None and is_reply:
            if self._message.get("summary") is True:
                return "context.compacted", {"harness": FORMAT, "summary": text}, None
            return "assistant.message", {"text": text, **without_nothing(model=model)}, None
        if kind == "text" and text is not None and data.get("synthetic") is not True:
            return "user.message", {"text": text}, None
        if kind == "reasoning":
            return "reasoning.completed", {"text": text or "", **without_nothing(model=model)}, None
        if kind == "compaction":
            return "context.compacted", {"harness": FORMAT, "reason": "auto" if data.get("auto") else "manual"}, None
        if kind == "step-finish":
            return self._usage(data, model)
        if kind == "step-start":
            return None
        return "provider.unknown", opaque(f"part.{name_of(kind, 'unknown')}"[:1024], record, data), None

    def _usage(self, data: Mapping[str, Any], model: str | None) -> Part | None:
        tokens, cache = mapping(data.get("tokens")), mapping(mapping(data.get("tokens")).get("cache"))
        counts = {
            "input": count_of(tokens.get("input")),
            "output": count_of(tokens.get("output")),
            "reasoning": count_of(tokens.get("reasoning")),
            "cache_read": count_of(cache.get("read")),
            "cache_write": count_of(cache.get("write")),
        }
        counts = {name: count for name, count in counts.items() if count}
        cost = data.get("cost")
        price = {"amount": cost, "currency": "USD"} if isinstance(cost, (int, float)) and cost > 0 else None
        return ("usage.updated", without_nothing(tokens=counts, model=model, cost=price), None) if counts else None

    def _tool(self, identity: str, data: Mapping[str, Any], moment: str | None) -> Iterator[Item]:
        state = mapping(data.get("state"))
        name = name_of(data.get("tool"), "unknown")
        path = text_or_none(mapping(state.get("input")).get("filePath"))
        paths: dict[str, Any] = {}
        if path is not None and name in _READING:
            paths = {"paths_read": [path]}
        elif path is not None and name in _WRITING:
            paths = {"paths_written": [path]}
        common = {"tool_call_id": name_of(data.get("callID"), identity), "name": name, **paths}
        started = {**common, **without_nothing(input=state.get("input"), title=text_or_none(state.get("title")))}
        time = mapping(state.get("time"))
        begun, ended = _moment(time.get("start")) or moment, _moment(time.get("end")) or moment
        yield from self._add(f"{identity}#call", ("tool.started", started, None), begun)
        status = _ENDS.get(str(state.get("status")))
        if status is not None:
            output = state.get("output") if "output" in state else state.get("error")
            completed = {**common, **without_nothing(output=output), "status": status}
            yield from self._add(identity, ("tool.completed", completed, None), ended)

    def _add(self, key: str, part: Part, moment: str | None) -> Iterator[Neutral]:
        yield Neutral(self._session, key, self._leaf, part[0], part[1], moment, visibility=part[2])
        self._leaf = key

    def _end(self) -> list[Item]:
        """Return where the session goes on, if it was taken back to before a message."""
        if self._revert is None or self._revert not in self._before:
            return []
        return [LeafMoved(self._session, self._before[self._revert])]


def _moment(value: Any) -> Any:
    """Return milliseconds as they are; everything else is no time."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None
