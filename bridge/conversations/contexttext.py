"""A projected context as one text: blocks under rules, each one entry, and first what holds for all of it.

What entries say stands as it was said; a line of it that would pass for a rule gets a backslash in front, so that
nobody's words can begin a block. Sizes are bounds that are cheap to tell, never less than what is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from bridge.conversations.contextmessages import ContextMessage, Marker
from bridge.foundation.canonical import canonical_text
from bridge.foundation.ids import short_entry, split_entry_id

#: Characters of what is said about the files; a longer text is cut.
MAX_DIVERGENCE_CHARACTERS: Final = 2_000
#: Payload fields that are a message's own words; the first present stands first, without its name.
_WORDS: Final = ("text", "summary", "message")
#: What of a summary's payload is told beside the words; its decisions are among the united ones.
_SUMMARY_KINDS: Final = frozenset({"compaction", "checkpoint"})
_SUMMARY_FIELDS: Final = frozenset({"summary", "files_touched", "open_work"})
_RULE: Final = re.compile(r"(^|[\n\r])(\\*---)")
#: Bytes kept free for saying what was left out: three lines with counts and ids of any length.
_OMISSION_BYTES: Final = 900
#: Bytes of a block's frame beside its name.
_BLOCK_BYTES: Final = 8

_MARKER_WORDS: Final = {
    Marker.NO_RESULT: "No result of this call is recorded here.",
    Marker.NO_CALL: "The call of this result is not recorded here.",
}


class OmissionReason(StrEnum):
    """Why entries of a path are not told."""

    #: A compaction or checkpoint stands for them.
    SUMMARISED = "summarised"
    #: The budget was used up.
    NO_ROOM = "no_room"


@dataclass(frozen=True, slots=True)
class Omission:
    """Consecutive entries of a path, of any kind, that are not told."""

    reason: OmissionReason
    entries: int
    first_entry_id: str
    last_entry_id: str

    def to_json(self) -> dict[str, Any]:
        return {
            "reason": str(self.reason),
            "entries": self.entries,
            "first_entry_id": self.first_entry_id,
            "last_entry_id": self.last_entry_id,
        }


class Part(StrEnum):
    """What a context may say before its messages, in the order in which it gets room."""

    DIVERGENCE = "divergence"
    SUMMARY = "summary"
    DECISIONS = "decisions"


class Preface(NamedTuple):
    """What a context says before its messages. ``untold`` names the parts for which there was no room."""

    leaf_entry_id: str | None
    model: str | None = None
    effort: str | None = None
    omissions: tuple[Omission, ...] = ()
    divergence_line: str = ""
    decisions: tuple[str, ...] = ()
    untold: tuple[Part, ...] = ()


def text_of(preface: Preface, messages: tuple[ContextMessage, ...]) -> str:
    """Return the text of a context; empty if there is nothing to tell."""
    if preface.leaf_entry_id is None and not messages and not preface.divergence_line:
        return ""
    blocks = [_head(preface)]
    if preface.divergence_line:
        blocks.append(_block("files", preface.divergence_line))
    if preface.decisions:
        blocks.append(_block("decisions", _decision_lines(preface.decisions)))
    blocks.extend(_block(f"{message.kind} ({short_entry(message.entry_id)})", body_of(message)) for message in messages)
    return "\n\n".join(blocks) + "\n"


def body_of(message: ContextMessage) -> str:
    """Return what a message says, without its rule and before any line of it is escaped."""
    payload = message.payload
    if message.kind in _SUMMARY_KINDS:
        payload = {name: value for name, value in payload.items() if name in _SUMMARY_FIELDS}
    words = next((name for name in _WORDS if isinstance(payload.get(name), str)), None)
    lines = [] if words is None else [payload[words]]
    lines.extend(_field(name, value) for name, value in payload.items() if name != words)
    if message.marker is not None:
        lines.append(_MARKER_WORDS[message.marker])
    return "\n".join(lines)


def cut_divergence(text: str) -> str:
    """Return what is said about the files, cut at its limit."""
    limit = MAX_DIVERGENCE_CHARACTERS
    return text if len(text) <= limit else text[: limit - 1] + "…"


def bytes_of_preface(preface: Preface) -> int:
    """Return no fewer bytes than the head takes, whatever will be left out; the other parts are counted apart."""
    return _size(_head(preface._replace(omissions=(), untold=()))) + _OMISSION_BYTES


def bytes_of_divergence(text: str) -> int:
    """Return no fewer bytes than the block about the files takes; none if nothing is said."""
    return 0 if not text else _size(_block("files", text)) + _BLOCK_BYTES


def bytes_of_decisions(decisions: tuple[str, ...]) -> int:
    """Return no fewer bytes than the block of decisions takes; none if there are none."""
    return 0 if not decisions else _size(_block("decisions", _decision_lines(decisions))) + _BLOCK_BYTES


def _head(preface: Preface) -> str:
    lines = []
    if preface.leaf_entry_id is not None:
        session_id, _ = split_entry_id(preface.leaf_entry_id)
        words = [f"Conversation {session_id} up to {short_entry(preface.leaf_entry_id)}."]
        words += [f"Model: {preface.model}."] if preface.model else []
        words += [f"Effort: {preface.effort}."] if preface.effort else []
        lines.append(" ".join(words))
    lines.extend(_omission_line(omission, preface.untold) for omission in preface.omissions)
    if preface.untold:
        lines.append(f"Left out for lack of room: {', '.join(_PART_WORDS[part] for part in preface.untold)}.")
    return _block("bridge", "\n".join(lines))


_PART_WORDS: Final = {
    Part.DIVERGENCE: "what changed in the files",
    Part.SUMMARY: "the summary of what lies before",
    Part.DECISIONS: "the decisions",
}


def _omission_line(omission: Omission, untold: tuple[Part, ...]) -> str:
    first, last = short_entry(omission.first_entry_id), short_entry(omission.last_entry_id)
    count = "1 entry" if omission.entries == 1 else f"{omission.entries} entries"
    which = f"{count}, {first}" if omission.entries == 1 else f"{count}, {first} to {last}"
    if omission.reason is OmissionReason.NO_ROOM:
        return f"Left out for lack of room: {which}."
    if Part.SUMMARY in untold:
        return f"Left out: {which}."
    return f"Left out: {which}; the summary below stands for them."


def _decision_lines(decisions: tuple[str, ...]) -> str:
    return "\n".join(f"- {decision}" for decision in decisions)


def _block(name: str, body: str) -> str:
    rule = f"--- {name}"
    return f"{rule}\n{_RULE.sub(_escaped, body)}" if body else rule


def _escaped(match: re.Match[str]) -> str:
    return f"{match.group(1)}\\{match.group(2)}"


def _field(name: str, value: Any) -> str:
    shown = value if isinstance(value, str) else canonical_text(value)
    return f"{name}:\n{shown}" if "\n" in shown else f"{name}: {shown}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
