"""Reads chats of Gemini CLI.

A message may be written again with more in it, under the same id: what is new is taken as further entries. ``$set``
replaces fields of the chat, its messages among them; ``$rewindTo`` goes back before a message. An older version writes
one document with all messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from bridge.transcripts.foreign.neutral import (
    Hints,
    Item,
    LeafMoved,
    Neutral,
    Part,
    Recent,
    SessionFacts,
    mapping,
    name_of,
    opaque,
    text_or_none,
    without_nothing,
)
from bridge.transcripts.foreign.records import Damage, Record
from bridge.transcripts.gemini.messages import call_parts, is_context, text_of, thoughts_of, tokens_of

FORMAT: Final = "gemini"
#: Messages that can still be written again or gone back to: the last so many are remembered.
_REMEMBERED: Final = 1024
_KEY_DIGITS: Final = 32
_TYPES: Final = frozenset({"user", "gemini", "info", "error", "warning"})


def recognises(value: Mapping[str, Any]) -> bool:
    """Return whether a record is the header of such a chat, or all of one in the older form."""
    return isinstance(value.get("sessionId"), str) and "projectHash" in value


def is_record(value: Mapping[str, Any]) -> bool:
    """Return whether an object can be a line of such a chat."""
    return recognises(value) or "$set" in value or ("id" in value and text_or_none(value.get("type")) in _TYPES)


class GeminiReader:
    """Reads the records of one chat.

    Parameters
    ----------
    hints
        ``cwd`` is the project's folder, which the chat itself names by a hash.
    state
        What :meth:`state` returned when reading ended.
    """

    def __init__(self, hints: Hints, state: Mapping[str, Any] | None = None) -> None:
        known = state or {}
        self._hints = hints
        self._session: str = known.get("session") or name_of(hints.name, "unnamed")
        self._leaf: str | None = known.get("leaf")
        # Of each message: the entry before it, the digest of the text that was taken, whether usage was counted, the
        # stages of its calls.
        self._known = Recent(_REMEMBERED, known.get("known"))

    def state(self) -> dict[str, Any]:
        return {"session": self._session, "leaf": self._leaf, "known": self._known.to_json()}

    def read(self, record: Record) -> Iterable[Item]:
        value = record.value
        if recognises(value):
            return [self._header(value), *self._all(value.get("messages"), record)]
        if "$set" in value:
            return list(self._set(mapping(value["$set"]), record))
        if "$rewindTo" in value:
            return self._rewind(value["$rewindTo"], record)
        if isinstance(value.get("id"), str) and text_or_none(value.get("type")) in _TYPES:
            return list(self._message(value, record))
        key = f"line:{record.digest[:_KEY_DIGITS]}"
        part: Part = ("provider.unknown", opaque(value.get("type"), record), None)
        return list(self._add(key, [part], text_or_none(value.get("timestamp"))))

    def _header(self, value: Mapping[str, Any]) -> SessionFacts:
        self._session = name_of(value.get("sessionId"), self._session)[:200]
        is_agent = value.get("kind") == "subagent"
        return SessionFacts(
            session=self._session,
            kind="worker" if is_agent else "chat",
            cwd=self._hints.cwd,
            title=text_or_none(value.get("summary")),
            created_at=text_or_none(value.get("startTime")),
            relation=None,
            depth=1 if is_agent else None,
            extra=without_nothing(project_hash=text_or_none(value.get("projectHash"))),
        )

    def _set(self, fields: Mapping[str, Any], record: Record) -> Iterator[Item]:
        yield from self._all(fields.get("messages"), record)
        if text_or_none(fields.get("summary")):
            yield SessionFacts(session=self._session, title=fields["summary"])

    def _all(self, messages: Any, record: Record) -> Iterator[Item]:
        for message in messages if isinstance(messages, list) else []:
            if isinstance(message, dict) and isinstance(message.get("id"), str):
                yield from self._message(message, record)

    def _rewind(self, target: Any, record: Record) -> list[Item]:
        known = self._known.get(target) if isinstance(target, str) else None
        if known is None:
            return [Damage("unknown_target", "goes back to an unknown message", record.line.number, record.line.offset)]
        self._leaf = known["before"]
        return [LeafMoved(self._session, self._leaf)]

    def _message(self, message: Mapping[str, Any], record: Record) -> Iterator[Item]:
        identity = message["id"][:200]
        timestamp = text_or_none(message.get("timestamp"))
        known = self._known.get(identity)
        if known is None:
            known = {"before": self._leaf, "text": "", "counted": False, "calls": {}}
        text, taken = text_of(message.get("content")), known["text"]
        # Only its digest is kept: there may be many, and long ones.
        digest = sha256(text.encode()).hexdigest()[:_KEY_DIGITS] if text else ""
        if text and taken and digest != taken:
            message_text = f"message {identity} was written again with another text; the first one stays"
            yield Damage("conflict", message_text, record.line.number, record.line.offset)
        parts: list[tuple[str, Part]] = []
        tokens = tokens_of(mapping(message.get("tokens")))
        if tokens and not known["counted"]:
            known["counted"] = True
            used = without_nothing(tokens=tokens, model=text_or_none(message.get("model")))
            parts.append(("#usage", ("usage.updated", used, None)))
            thoughts = thoughts_of(message.get("thoughts"))
            if thoughts:
                parts.append(("#thoughts", ("reasoning.completed", {"text": thoughts}, None)))
        if text and not taken:
            known["text"] = digest
            parts.append(("", self._said(message, text, record)))
        parts.extend(call_parts(message, known["calls"]))
        if not parts and self._known.get(identity) is None:
            # A reply that only calls tools is written before the calls: there is something to hang them on.
            raw_type = f"message.{name_of(message.get('type'), 'unknown')}"[:1024]
            if message.get("type") != "gemini" and not _only_results(message.get("content")):
                parts.append(("", ("provider.unknown", opaque(raw_type, record, message), None)))
        self._known[identity] = known
        for suffix, part in parts:
            yield from self._add(f"{identity}{suffix}", [part], timestamp)

    def _said(self, message: Mapping[str, Any], text: str, record: Record) -> Part:
        kind = message.get("type")
        if kind == "gemini":
            model = text_or_none(message.get("model"))
            return "assistant.message", {"text": text, **without_nothing(model=model)}, None
        if kind == "user" and not is_context(text):
            return "user.message", {"text": text}, None
        if kind == "error":
            return "error", {"message": text}, None
        return "provider.unknown", opaque(f"message.{name_of(kind, 'unknown')}"[:1024], record, message), None

    def _add(self, key: str, parts: list[Part], timestamp: str | None) -> Iterator[Neutral]:
        for kind, payload, visibility in parts:
            yield Neutral(self._session, key, self._leaf, kind, payload, timestamp, visibility=visibility)
            self._leaf = key


def _only_results(content: Any) -> bool:
    """Return whether a message of the person's side only repeats what tools gave back."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, dict) and "functionResponse" in part for part in content)
    )
