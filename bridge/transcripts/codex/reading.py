"""Reads rollouts of Codex.

Content comes from the ``response_item`` lines; events that repeat it are passed over (their lines are kept all the
same). Turns, usage, errors and rollbacks come from the events, since nothing else tells them. A rollout is a line
without parents: each entry follows the one before, and a rollback goes back by so many prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

import orjson

from bridge.transcripts.codex.events import REPEATED, TURN_EVENTS, event_parts
from bridge.transcripts.codex.items import CALLS, RESULTS, call_of, item_parts, result_of
from bridge.transcripts.foreign.neutral import (
    Hints,
    Item,
    Part,
    Recent,
    SessionFacts,
    chain,
    count_of,
    mapping,
    name_of,
    opaque,
    text_or_none,
    without_nothing,
)
from bridge.transcripts.foreign.records import Record

FORMAT: Final = "codex"
#: Tools that were called, and prompts that can be gone back to: the last so many are remembered.
_REMEMBERED: Final = 512
_KEY_DIGITS: Final = 32
#: Lines that carry no conversation and change nothing: kept among the raw lines only.
_SILENT: Final = frozenset({"world_state", "token_usage_record"})
_TYPES: Final = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})


def recognises(value: Mapping[str, Any]) -> bool:
    """Return whether a record is of this form."""
    return text_or_none(value.get("type")) in _TYPES and isinstance(value.get("payload"), dict) and "timestamp" in value


class CodexReader:
    """Reads the records of one rollout.

    Parameters
    ----------
    hints
        The file's name, which ends with the session's id.
    state
        What :meth:`state` returned when reading ended.
    """

    def __init__(self, hints: Hints, state: Mapping[str, Any] | None = None) -> None:
        known = state or {}
        self._session: str = known.get("session") or name_of(hints.name[-36:], "unnamed")
        self._has_meta: bool = known.get("has_meta", False)
        self._leaf: str | None = known.get("leaf")
        self._turn: str | None = known.get("turn")
        self._model: str | None = known.get("model")
        self._effort: str | None = known.get("effort")
        self._total: Any = known.get("total")
        self._prompts: list[Any] = list(known.get("prompts", ()))
        self._tools = Recent(_REMEMBERED, known.get("tools"))

    def state(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "has_meta": self._has_meta,
            "leaf": self._leaf,
            "turn": self._turn,
            "model": self._model,
            "effort": self._effort,
            "total": self._total,
            "prompts": self._prompts[-_REMEMBERED:],
            "tools": self._tools.to_json(),
        }

    def read(self, record: Record) -> Iterable[Item]:
        value = record.value
        kind, payload = text_or_none(value.get("type")), mapping(value.get("payload"))
        if kind == "session_meta":
            return self._meta(payload, record)
        if kind in _SILENT:
            return ()
        key = self._key(payload, record)
        if kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            self._go_back(count_of(payload.get("num_turns")) or 1)
        parts = list(self._parts(kind, payload, record))
        if not parts:
            return ()
        before = self._leaf
        self._leaf = key
        if any(part[0] == "user.message" for part in parts):
            self._prompts.append([key, before])
            del self._prompts[: -2 * _REMEMBERED]
        return chain(self._session, key, before, parts, text_or_none(value.get("timestamp")))

    def _key(self, payload: Mapping[str, Any], record: Record) -> str:
        """Return what names a record; the copy of it in a fork, which is written at another time, has the same name."""
        kind, event = text_or_none(record.value.get("type")), text_or_none(payload.get("type"))
        turn = text_or_none(payload.get("turn_id"))
        if kind == "response_item" and text_or_none(payload.get("id")):
            return str(payload["id"])[:200]
        if kind == "event_msg" and turn is not None and event in TURN_EVENTS:
            return f"{event}:{turn}"[:200]
        if kind == "turn_context" and turn is not None:
            return f"context:{turn}:{payload.get('model')}:{payload.get('effort')}"[:200]
        if (kind == "event_msg" and event == "token_count") or kind == "compacted":
            return f"{event or kind}:{sha256(orjson.dumps(payload)).hexdigest()[:_KEY_DIGITS]}"
        return f"line:{record.digest[:_KEY_DIGITS]}"

    def _meta(self, payload: Mapping[str, Any], record: Record) -> list[Item]:
        """Return what the header says. A fork repeats the header of its origin further down: the first one counts."""
        if self._has_meta:
            return []
        self._has_meta = True
        self._session = name_of(payload.get("id"), self._session)[:200]
        git = mapping(payload.get("git"))
        spawned = _spawn_of(payload)
        forked = text_or_none(payload.get("forked_from_id"))
        parent = spawned.get("parent") or forked
        return [
            SessionFacts(
                session=self._session,
                kind="worker" if spawned else "chat",
                cwd=text_or_none(payload.get("cwd")),
                branch=text_or_none(git.get("branch")),
                commit=text_or_none(git.get("commit_hash")),
                repository_url=text_or_none(git.get("repository_url")),
                title=text_or_none(payload.get("agent_nickname")),
                version=text_or_none(payload.get("cli_version")),
                created_at=text_or_none(payload.get("timestamp")) or text_or_none(record.value.get("timestamp")),
                parent=parent,
                relation=None if parent is None else "delegated" if spawned else "forked",
                depth=spawned.get("depth"),
                extra=without_nothing(
                    originator=text_or_none(payload.get("originator")),
                    model_provider=text_or_none(payload.get("model_provider")),
                    agent_role=text_or_none(payload.get("agent_role")),
                    agent_path=text_or_none(payload.get("agent_path")),
                    forked_from=forked if spawned else None,
                ),
            )
        ]

    def _parts(self, kind: Any, payload: Mapping[str, Any], record: Record) -> Iterator[Part]:
        if kind == "response_item":
            yield from self._item(payload, record)
        elif kind == "event_msg":
            yield from self._event(payload, record)
        elif kind == "turn_context":
            yield from self._context(payload)
        elif kind == "compacted":
            summary = text_or_none(payload.get("message"))
            yield "context.compacted", without_nothing(harness=FORMAT, summary=summary, turn_id=self._turn), None
        else:
            yield "provider.unknown", opaque(kind, record), None

    def _item(self, payload: Mapping[str, Any], record: Record) -> Iterator[Part]:
        kind = text_or_none(payload.get("type"))
        turn = text_or_none(mapping(payload.get("internal_chat_message_metadata_passthrough")).get("turn_id"))
        common = without_nothing(turn_id=turn or self._turn)
        if kind in CALLS:
            call = call_of(payload)
            self._tools[call["tool_call_id"]] = call["name"]
            yield "tool.started", {**call, **common}, None
        elif kind in RESULTS:
            yield "tool.completed", {**result_of(payload, self._tools), **common}, None
        else:
            for name, own, visibility in item_parts(payload, record):
                yield name, {**own, **common, **self._model_of(name)}, visibility

    def _model_of(self, kind: str) -> dict[str, str]:
        is_models = kind in {"assistant.message", "reasoning.completed"}
        return {"model": self._model} if is_models and self._model is not None else {}

    def _event(self, payload: Mapping[str, Any], record: Record) -> Iterator[Part]:
        kind = text_or_none(payload.get("type"))
        if kind in REPEATED:
            return
        if kind == "token_count":
            yield from self._usage(payload)
            return
        if kind in {"task_started", "turn_started"}:
            self._turn = text_or_none(payload.get("turn_id"))
        yield from event_parts(payload, record, self._turn)
        if kind in TURN_EVENTS and kind not in {"task_started", "turn_started"}:
            self._turn = None

    def _usage(self, payload: Mapping[str, Any]) -> Iterator[Part]:
        """Yield what the last call used; told again without a further call, it counts once."""
        info = mapping(payload.get("info"))
        total = mapping(info.get("total_token_usage"))
        last = mapping(info.get("last_token_usage"))
        if not last or dict(total) == self._total:
            return
        self._total = dict(total)
        cached = count_of(last.get("cached_input_tokens"))
        tokens = {
            "input": max(count_of(last.get("input_tokens")) - cached, 0),
            "output": count_of(last.get("output_tokens")),
            "cache_read": cached,
            "reasoning": count_of(last.get("reasoning_output_tokens")),
        }
        tokens = {name: count for name, count in tokens.items() if count}
        window = count_of(info.get("model_context_window")) or None
        if tokens:
            yield (
                "usage.updated",
                without_nothing(tokens=tokens, model=self._model, context_window_tokens=window, turn_id=self._turn),
                None,
            )

    def _context(self, payload: Mapping[str, Any]) -> Iterator[Part]:
        self._turn = text_or_none(payload.get("turn_id")) or self._turn
        model, effort = text_or_none(payload.get("model")), text_or_none(payload.get("effort"))
        if model is not None and model != self._model:
            previous, self._model = self._model, model
            yield "model.changed", without_nothing(model=model, previous=previous, turn_id=self._turn), None
        if effort is not None and effort != self._effort:
            previous, self._effort = self._effort, effort
            yield "effort.changed", without_nothing(effort=effort, previous=previous, turn_id=self._turn), None

    def _go_back(self, prompts: int) -> None:
        """Go on from before the last so many prompts."""
        if prompts <= len(self._prompts):
            self._leaf = self._prompts[-prompts][1]
            del self._prompts[-prompts:]
        else:
            self._leaf, self._prompts = None, []


def _spawn_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return parent and depth of a sub-agent; nothing for a session of a person."""
    spawn = mapping(mapping(mapping(payload.get("source")).get("subagent")).get("thread_spawn"))
    parent = text_or_none(spawn.get("parent_thread_id")) or text_or_none(payload.get("parent_thread_id"))
    is_agent = isinstance(payload.get("source"), dict) and "subagent" in payload["source"]
    if parent is None and not is_agent:
        return {}
    return {"parent": parent, "depth": count_of(spawn.get("depth")) or 1}
