"""Reads transcripts of Claude Code.

The format is its owner's and changes: a type that is not known here is kept opaque. One reply of the model lies on
several lines with one message id, whose usage is counted once; a compaction begins a chain of its own that names the
old leaf as its logical parent; what a sub-agent says lies in a file of its own, or on lines that name the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from bridge.transcripts.claude.blocks import COMPACTED, assistant_parts, user_parts
from bridge.transcripts.foreign.neutral import (
    Hints,
    Item,
    Neutral,
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

FORMAT: Final = "claude-code"
#: Types by which such a file is recognised.
_TYPES: Final = frozenset(
    {
        "user",
        "assistant",
        "system",
        "summary",
        "attachment",
        "progress",
        "file-history-snapshot",
        "file-history-delta",
        "queue-operation",
        "custom-title",
        "ai-title",
        "agent-name",
        "last-prompt",
        "mode",
        "pr-link",
    }
)
#: Types that tell a title, and the field that does.
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "agent-name": "agentName"}
#: Fields around a record that its entry has by itself, or that differ between copies of one record.
_ENVELOPE: Final = frozenset(
    {
        "uuid",
        "parentUuid",
        "logicalParentUuid",
        "sessionId",
        "timestamp",
        "cwd",
        "gitBranch",
        "version",
        "userType",
        "entrypoint",
        "isSidechain",
        "slug",
    }
)
#: Messages whose usage was counted, and tools that were called: the last so many are remembered.
_REMEMBERED: Final = 512
#: Digits of a digest that are the key of a record without an id of its own.
_KEY_DIGITS: Final = 32


def recognises(value: Mapping[str, Any]) -> bool:
    """Return whether a record is of this form."""
    kind = text_or_none(value.get("type"))
    if kind not in _TYPES:
        return False
    if "uuid" in value:
        return "sessionId" in value or "parentUuid" in value or "message" in value
    named = ("sessionId", "leafUuid", "snapshot")
    return kind not in {"user", "assistant"} and any(name in value for name in named)


class ClaudeReader:
    """Reads the records of one transcript.

    Parameters
    ----------
    hints
        The file's name is the session's id, where records name none.
    state
        What :meth:`state` returned when reading ended.
    """

    def __init__(self, hints: Hints, state: Mapping[str, Any] | None = None) -> None:
        known = state or {}
        self._hints = hints
        self._named = name_of(hints.name, "unnamed")
        self._session: str = known.get("session", self._named)
        self._leaves: dict[str, str] = dict(known.get("leaves", {}))
        self._told: dict[str, list[Any]] = dict(known.get("told", {}))
        self._usage = Recent(_REMEMBERED, known.get("usage"))
        self._tools = Recent(_REMEMBERED, known.get("tools"))

    def state(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "leaves": dict(list(self._leaves.items())[-_REMEMBERED:]),
            "told": dict(list(self._told.items())[-_REMEMBERED:]),
            "usage": self._usage.to_json(),
            "tools": self._tools.to_json(),
        }

    def read(self, record: Record) -> Iterable[Item]:
        value = record.value
        kind = text_or_none(value.get("type"))
        session = self._session_of(value)
        items: list[Item] = []
        facts = self._facts(session, value)
        if facts is not None:
            items.append(facts)
        key = text_or_none(value.get("uuid"))
        if key is None:
            items.extend(self._without_id(session, kind, record))
            return items
        parent = text_or_none(value.get("parentUuid"))
        logical = text_or_none(value.get("logicalParentUuid")) if parent is None else None
        # A side chain that lies in the file of its session is a branch, and never where the conversation goes on.
        is_side = value.get("isSidechain") is True and not value.get("agentId")
        found = chain(session, key, parent, list(self._parts(kind, record)), _time_of(value), aside=is_side)
        if logical is not None and found:
            found[0] = found[0]._replace(logical_parent=logical)
        items.extend(found)
        if not is_side:
            self._leaves[session] = key
        return items

    def _session_of(self, value: Mapping[str, Any]) -> str:
        named = text_or_none(value.get("sessionId")) or text_or_none(value.get("session_id"))
        session = named[:200] if named is not None else self._session
        agent = text_or_none(value.get("agentId"))
        if agent is not None and value.get("isSidechain") is True:
            session = f"{session}/agent-{agent[:100]}"
        self._session = session if agent is None else self._session
        return session

    def _facts(self, session: str, value: Mapping[str, Any]) -> SessionFacts | None:
        """Return what is known of a session now, if a record is its first or says where it works now."""
        title = _title_of(value)
        place = [text_or_none(value.get("cwd")), text_or_none(value.get("gitBranch"))]
        known = self._told.get(session)
        if known is not None and title is None and (place[0] is None or known == place):
            return None
        if place[0] is not None or known is None:
            self._told[session] = place
        agent = text_or_none(value.get("agentId")) if "/agent-" in session else None
        meta = self._hints.meta if agent is not None else {}
        return SessionFacts(
            session=session,
            kind="chat" if agent is None else "worker",
            cwd=place[0],
            branch=place[1],
            title=title or text_or_none(meta.get("description")) or text_or_none(meta.get("agentType")),
            version=text_or_none(value.get("version")),
            created_at=text_or_none(value.get("timestamp")),
            parent=None if agent is None else session.partition("/agent-")[0],
            relation=None if agent is None else "delegated",
            parent_key=text_or_none(meta.get("toolUseId")),
            depth=None if agent is None else count_of(meta.get("spawnDepth")) or 1,
            extra=without_nothing(agent_id=agent, agent_type=text_or_none(meta.get("agentType"))),
        )

    def _without_id(self, session: str, kind: Any, record: Record) -> Iterator[Item]:
        """Yield what a record without an id is: it stands beside the conversation, where that is now."""
        value = record.value
        key = f"{name_of(kind, 'record')[:60]}:{record.digest[:_KEY_DIGITS]}"
        timestamp = _time_of(value) or text_or_none(mapping(value.get("snapshot")).get("timestamp"))
        parent = self._leaves.get(session)
        leaf = text_or_none(value.get("leafUuid"))
        summary = text_or_none(value.get("summary"))
        if kind == "summary" and summary is not None and leaf is not None:
            payload = {"summary": summary, "from_entry_id": leaf[:1024]}
            yield Neutral(
                session, key, parent, "branch.summary", payload, timestamp, is_aside=True, visibility="hidden"
            )
            return
        yield Neutral(session, key, parent, "provider.unknown", _opaque(kind, record), timestamp, is_aside=True)

    def _parts(self, kind: Any, record: Record) -> Iterator[Part]:
        """Yield the entries that a record is: kind, payload, visibility."""
        value = record.value
        message = value.get("message")
        if kind == "assistant" and isinstance(message, dict):
            if value.get("isApiErrorMessage") is True:
                text = _plain_text(message.get("content")) or "the model's server answered with an error"
                yield "error", without_nothing(message=text, code=text_or_none(value.get("error"))), None
                return
            usage = self._new_usage(message)
            if usage is not None:
                yield "usage.updated", usage, None
            yield from assistant_parts(message, self._tools, _meta_of(value)) or [
                ("provider.unknown", _opaque("assistant", record), None)
            ]
        elif kind == "user" and isinstance(message, dict):
            yield from self._user(message, record)
        elif kind == "system":
            yield from _system(value, record)
        else:
            yield "provider.unknown", _opaque(kind, record), None

    def _user(self, message: Mapping[str, Any], record: Record) -> Iterator[Part]:
        value = record.value
        content = message.get("content")
        if value.get("isCompactSummary") is True:
            text = _plain_text(content)
            payload = without_nothing(harness=FORMAT, summary=text or None, reason="summary")
            yield COMPACTED, payload, None
            return
        if (
            value.get("isMeta") is True
            or value.get("isReplay") is True
            or value.get("isVisibleInTranscriptOnly") is True
        ):
            yield "provider.unknown", _opaque("user.meta", record), None
            return
        parts = user_parts(message, self._tools, value)
        if parts:
            yield from parts
        else:
            yield "provider.unknown", _opaque("user", record), None

    def _new_usage(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a reply used beyond what was counted for its id before; None if that is nothing."""
        usage, key = message.get("usage"), text_or_none(message.get("id"))
        if not isinstance(usage, dict):
            return None
        counts = {
            "input": count_of(usage.get("input_tokens")),
            "output": count_of(usage.get("output_tokens")),
            "cache_read": count_of(usage.get("cache_read_input_tokens")),
            "cache_write": count_of(usage.get("cache_creation_input_tokens")),
        }
        before = self._usage.get(key) if key is not None else None
        if key is not None:
            self._usage[key] = counts if before is None else {n: max(c, before.get(n, 0)) for n, c in counts.items()}
        new = {name: count - (before or {}).get(name, 0) for name, count in counts.items()}
        tokens = {name: count for name, count in new.items() if count > 0}
        if not tokens:
            return None
        meta = None if key is None else {"message_id": key[:1024]}
        return without_nothing(tokens=tokens, model=text_or_none(message.get("model")), provider_meta=meta)


def _opaque(kind: Any, record: Record) -> dict[str, Any]:
    """Return the payload of a record without a meaning here: what is its own, without what lies around it."""
    return opaque(kind, record, {name: item for name, item in record.value.items() if name not in _ENVELOPE})


def _time_of(value: Mapping[str, Any]) -> str | None:
    return text_or_none(value.get("timestamp"))


def _title_of(value: Mapping[str, Any]) -> str | None:
    name = _TITLES.get(str(value.get("type")))
    return None if name is None else text_or_none(value.get(name)) or text_or_none(value.get("title"))


def _meta_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a record's envelope is kept with its entries."""
    message = mapping(value.get("message"))
    return without_nothing(
        message_id=text_or_none(message.get("id")),
        request_id=text_or_none(value.get("requestId")),
        is_sidechain=True if value.get("isSidechain") is True else None,
    )


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def _system(value: Mapping[str, Any], record: Record) -> Iterator[Part]:
    subtype = value.get("subtype")
    if subtype == "compact_boundary":
        meta = mapping(value.get("compactMetadata"))
        kept = {name: item for name, item in meta.items() if name not in {"trigger", "preTokens", "postTokens"}}
        yield (
            COMPACTED,
            without_nothing(
                harness=FORMAT,
                reason=text_or_none(meta.get("trigger")),
                tokens_before=count_of(meta.get("preTokens")) or None,
                tokens_after=count_of(meta.get("postTokens")) or None,
                provider_meta={"compact": kept} if kept and len(orjson.dumps(kept)) < 16_384 else None,
            ),
            None,
        )
    elif subtype == "api_error":
        error = mapping(value.get("error"))
        text = text_or_none(error.get("message")) or text_or_none(value.get("content")) or "an error of the server"
        yield "error", {"message": text, "code": "api_error"}, None
    else:
        name = f"system.{subtype}" if isinstance(subtype, str) else "system"
        yield "provider.unknown", _opaque(name, record), None
