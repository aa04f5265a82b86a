"""Reads sessions of Pi, versions 1, 2 and 3; a later version is refused by name.

Version 1 has no ids: its entries follow one another. Version 2 has a tree, version 3 renamed one role. The active leaf
is the last line, labels included, as Pi itself has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from bridge.transcripts.errors import UnsupportedTranscriptVersion
from bridge.transcripts.foreign.neutral import (
    Hints,
    Item,
    LabelSet,
    Part,
    Recent,
    SessionFacts,
    chain,
    mapping,
    name_of,
    opaque,
    text_or_none,
    without_nothing,
)
from bridge.transcripts.foreign.records import Damage, Record
from bridge.transcripts.pi.messages import bash_parts, message_parts, tokens_of

FORMAT: Final = "pi"
#: Versions that are read; a header without one is of version 1.
VERSIONS: Final = (1, 2, 3)
HEADER_TYPE: Final = "session"
_REMEMBERED: Final = 512
_KEY_DIGITS: Final = 32


def recognises(value: Mapping[str, Any]) -> bool:
    """Return whether a record is the header of such a session; whatever its version."""
    if value.get("type") != HEADER_TYPE or not isinstance(value.get("id"), str):
        return False
    version = value.get("version")
    # Version 1 has a folder and no version; session files of the other kind have a version 1 and no folder.
    return "cwd" in value or (type(version) is int and version > 1)


def is_record(value: Mapping[str, Any]) -> bool:
    """Return whether an object can be a line of such a session."""
    return recognises(value) or ("type" in value and ("parentId" in value or "message" in value))


class PiReader:
    """Reads the records of one session.

    Parameters
    ----------
    hints
        The file's name, which ends with the session's id.
    state
        What :meth:`state` returned when reading ended.
    """

    def __init__(self, hints: Hints, state: Mapping[str, Any] | None = None) -> None:
        known = state or {}
        self._session: str = known.get("session") or name_of(hints.name.rpartition("_")[2], "unnamed")
        self._version: int | None = known.get("version")
        self._leaf: str | None = known.get("leaf")
        self._tools = Recent(_REMEMBERED, known.get("tools"))

    def state(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "version": self._version,
            "leaf": self._leaf,
            "tools": self._tools.to_json(),
        }

    def read(self, record: Record) -> Iterable[Item]:
        """Return what a record says.

        Raises
        ------
        UnsupportedTranscriptVersion
            If the header is of a version that is not read.
        """
        value = record.value
        kind = value.get("type")
        if kind == HEADER_TYPE:
            return self._header(value, record)
        if self._version is None:
            self._version = VERSIONS[0]
        key, parent = text_or_none(value.get("id")), text_or_none(value.get("parentId"))
        if self._version == 1 or key is None:
            # What comes next is below it, as Pi reads a line without ids.
            key, parent = f"line:{record.digest[:_KEY_DIGITS]}", self._leaf
        key = key[:200]
        items: list[Item] = []
        parts = list(self._parts(kind, value, record))
        items.extend(chain(self._session, key, parent, parts, _time_of(value)))
        self._leaf = key
        if kind == "label" and text_or_none(value.get("targetId")):
            items.append(LabelSet(self._session, value["targetId"], text_or_none(value.get("label"))))
        elif kind == "session_info" and text_or_none(value.get("name")):
            items.append(SessionFacts(session=self._session, title=value["name"]))
        return items

    def _header(self, value: Mapping[str, Any], record: Record) -> list[Item]:
        version = value.get("version", VERSIONS[0])
        if type(version) is not int or version not in VERSIONS:
            raise UnsupportedTranscriptVersion(
                f"The session of Pi has version {version!r:.40}; this Bridge reads {VERSIONS[0]} to {VERSIONS[-1]}. "
                "Nothing was taken in.",
                hint="Import it with a newer Bridge.",
                details={
                    "line": record.line.number,
                    "offset": record.line.offset,
                    "reason": "unsupported_version",
                    "found": version if isinstance(version, (int, str)) else repr(version)[:40],
                    "supported": list(VERSIONS),
                },
            )
        if self._version is not None:
            message = "a second header; what follows is read as part of the first session"
            return [Damage("second_header", message, record.line.number, record.line.offset)]
        self._version = version
        self._session = name_of(value.get("id"), self._session)[:200]
        origin = text_or_none(value.get("parentSession"))
        parent = None if origin is None else origin.replace("\\", "/").rpartition("/")[2]
        parent = None if parent is None else parent.removesuffix(".jsonl").rpartition("_")[2]
        return [
            SessionFacts(
                session=self._session,
                cwd=text_or_none(value.get("cwd")),
                version=str(version),
                created_at=text_or_none(value.get("timestamp")),
                parent=parent or None,
                relation="forked" if parent else None,
            )
        ]

    def _parts(self, kind: Any, value: Mapping[str, Any], record: Record) -> Iterator[Part]:
        message = value.get("message")
        if kind == "message" and isinstance(message, dict):
            yield from self._message(message, record)
        elif kind == "model_change" and text_or_none(value.get("modelId")):
            provider = text_or_none(value.get("provider"))
            yield "model.changed", without_nothing(model=name_of(value["modelId"], ""), provider=provider), None
        elif kind == "thinking_level_change" and text_or_none(value.get("thinkingLevel")):
            yield "effort.changed", {"effort": name_of(value["thinkingLevel"], "")}, None
        elif kind == "compaction":
            yield from self._compaction(value)
        elif kind == "branch_summary" and text_or_none(value.get("summary")):
            origin = name_of(value.get("fromId"), "unknown")
            yield "branch.summary", {"summary": value["summary"], "from_entry_id": origin}, None
        else:
            yield "provider.unknown", opaque(kind, record), None

    def _compaction(self, value: Mapping[str, Any]) -> Iterator[Part]:
        before = value.get("tokensBefore")
        kept = text_or_none(value.get("firstKeptEntryId"))
        index = value.get("firstKeptEntryIndex")
        meta = without_nothing(
            first_kept=kept, first_kept_index=index if type(index) is int else None, from_hook=value.get("fromHook")
        )
        yield (
            "context.compacted",
            without_nothing(
                harness=FORMAT,
                summary=text_or_none(value.get("summary")),
                tokens_before=before if type(before) is int and before >= 0 else None,
                provider_meta=meta or None,
            ),
            None,
        )

    def _message(self, message: Mapping[str, Any], record: Record) -> Iterator[Part]:
        role = message.get("role")
        if role == "assistant":
            tokens = tokens_of(mapping(message.get("usage")))
            if tokens:
                model = text_or_none(message.get("model"))
                yield "usage.updated", without_nothing(tokens=tokens, model=model), None
        if role == "bashExecution":
            yield from bash_parts(message, record)
            return
        parts = message_parts(message, self._tools)
        yield from parts or [("provider.unknown", opaque(f"message.{role}"[:1024], record), None)]


def _time_of(value: Mapping[str, Any]) -> Any:
    """Return when an entry was written: its own time, else the milliseconds of its message."""
    own = value.get("timestamp")
    if isinstance(own, str) and own:
        return own
    inner = mapping(value.get("message")).get("timestamp")
    return inner if isinstance(inner, (int, float)) and not isinstance(inner, bool) else None
