"""From an active path to what an agent gets as its restored context. Pure: a path in, messages out.

Only eligible entries whose meaning is known are projected; stamps, ids of the database and bookkeeping kinds
are not. The newest compaction that fits the path is the boundary: its summary stands for all that lies before
its first retained entry. One that does not fit is passed over for an older one. At a cold start a checkpoint is a
boundary as well: nothing before it is told but its summary.

With a budget, parts are taken in a fixed order until the next does not fit: the newest group, what is said about the
files, the boundary's summary, the decisions, then older groups, each newer than the next. The order does not depend on
the budget, so a larger one never shows less. A path is read from its leaf up, no further than that takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from bridge.conversations.contextmessages import ContextMessage, bytes_of, message_of
from bridge.conversations.contexttext import (
    Omission,
    OmissionReason,
    Part,
    Preface,
    bytes_of_decisions,
    bytes_of_divergence,
    bytes_of_preface,
    cut_divergence,
    text_of,
)
from bridge.conversations.grouping import TOOL_KINDS, Group, Grouping
from bridge.conversations.models import Entry
from bridge.conversations.pathsource import EntriesInMemory, Mark, PathSource
from bridge.conversations.tokens import BYTES_PER_TOKEN, estimate_tokens
from bridge.foundation.garbage import uncollected
from bridge.semantics.interpretation import meaning_of, require_readable
from bridge.semantics.results import ResultStatus

#: Decisions that a context lists; of more, the last ones.
MAX_DECISIONS: Final = 200
COMPACTION: Final = "compaction"
CHECKPOINT: Final = "checkpoint"
#: Kinds whose decisions are united.
_DECIDING: Final = (CHECKPOINT, COMPACTION, "worker.result")


@dataclass(frozen=True)
class Projection:
    """A projected context.

    Parameters
    ----------
    messages
        What was said and done, oldest first. With a boundary for which there is room, the compaction or checkpoint
        comes first.
    preface
        What holds for all of it: where it ends, the latest model and effort, what is said about the files, the
        decisions, what was left out.
    boundary_entry_id
        The compaction or checkpoint that stands for what lies before; None if there is none.
    budget_tokens
        What the text had to fit; None if nothing was asked.
    """

    messages: tuple[ContextMessage, ...]
    preface: Preface
    boundary_entry_id: str | None = None
    budget_tokens: int | None = None

    @property
    def model(self) -> str | None:
        """The latest on the path; None if it was never set."""
        return self.preface.model

    @property
    def effort(self) -> str | None:
        """The latest on the path; None if it was never set."""
        return self.preface.effort

    @property
    def decisions(self) -> tuple[str, ...]:
        """What compactions, checkpoints and workers' results say was decided, in order, each once."""
        return self.preface.decisions

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """Entries that are not told, oldest first."""
        return self.preface.omissions

    @cached_property
    def tokens(self) -> int:
        """Estimate of what the text takes."""
        return estimate_tokens(self.text())

    @property
    def is_oversized(self) -> bool:
        """Whether it is larger than its budget: only where the newest group alone, or the summary in its stead, is."""
        return self.budget_tokens is not None and self.tokens > self.budget_tokens

    def text(self) -> str:
        """Return the context as one text for an agent; the same bytes for the same projection."""
        return text_of(self.preface, self.messages)

    def to_json(self) -> dict[str, Any]:
        preface = self.preface
        return {
            "messages": [message.to_json() for message in self.messages],
            "boundary_entry_id": self.boundary_entry_id,
            "model": preface.model,
            "effort": preface.effort,
            "decisions": list(preface.decisions),
            "divergence_line": preface.divergence_line or None,
            "omitted": [omission.to_json() for omission in preface.omissions],
            "untold": [str(part) for part in preface.untold],
            "tokens": self.tokens,
            "budget_tokens": self.budget_tokens,
            "is_oversized": self.is_oversized,
        }


class _Boundary(NamedTuple):
    """What stands for the beginning of a path, and the place from which it is told itself."""

    message: ContextMessage
    start: int


def project(
    path: Sequence[Entry],
    *,
    budget_tokens: int | None = None,
    divergence_line: str | None = None,
    cold_start: bool = False,
) -> Projection:
    """Return the context that a path, root first, restores.

    Parameters
    ----------
    budget_tokens
        How large the text may be, by the estimate of ``tokens``; None means all of it.
    divergence_line
        What an agent should know about its files; cut where it is too long.
    cold_start
        Whether a checkpoint is a boundary too: for an agent that knows nothing of the conversation.

    Raises
    ------
    UnsupportedSemanticVersion
        If any entry of the path was written under a version that this Bridge does not read: a context with a
        hole that nobody sees would be worse than none.
    ValueError
        If the budget is not positive.
    """
    return project_source(
        EntriesInMemory(path), budget_tokens=budget_tokens, divergence_line=divergence_line, cold_start=cold_start
    )


def project_source(
    source: PathSource,
    *,
    budget_tokens: int | None = None,
    divergence_line: str | None = None,
    cold_start: bool = False,
) -> Projection:
    """Return the context that a path restores, as :func:`project` does, reading no more of it than that takes."""
    if budget_tokens is not None and budget_tokens < 1:
        raise ValueError("a budget is at least one token")
    for mark in source.marks:
        require_readable(mark.version, entry_id=mark.entry_id)
    boundary = find_boundary(source, cold_start=cold_start)
    preface = Preface(
        leaf_entry_id=source.leaf_entry_id,
        model=_latest(source, "model.changed", "model"),
        effort=_latest(source, "effort.changed", "effort"),
        divergence_line=cut_divergence(divergence_line or ""),
        decisions=united_decisions(source),
    )
    if budget_tokens is None:
        with uncollected():
            return _whole(source, boundary, preface)
    return _within(source, boundary, preface, budget_tokens)


def find_boundary(source: PathSource, *, cold_start: bool = False) -> _Boundary | None:
    """Return the newest entry that stands for the beginning of a path, None if none is usable."""
    for mark in reversed(source.marks):
        if not mark.is_told or not (mark.kind == COMPACTION or (cold_start and mark.kind == CHECKPOINT)):
            continue
        payload = _meaning(source, mark)
        place = source.position(mark.entry_id)
        if payload is None or place is None or not payload["summary"].strip():
            continue
        # A summary written for another branch does not speak of this one.
        start = _after_checkpoint(source, payload, place) if mark.kind == CHECKPOINT else _retained(source, payload)
        if start is not None and start <= place:
            payload.pop("provider_meta", None)
            return _Boundary(ContextMessage(mark.entry_id, mark.kind, payload), start)
    return None


def _retained(source: PathSource, compaction: dict[str, Any]) -> int | None:
    return source.position(compaction["first_retained_entry_id"])


def _after_checkpoint(source: PathSource, checkpoint: dict[str, Any], place: int) -> int:
    """Return where what a checkpoint does not speak of begins: it may have been written while more was said."""
    through = source.position(checkpoint.get("through_entry_id", ""))
    return place if through is None or through >= place else through + 1


def united_decisions(source: PathSource) -> tuple[str, ...]:
    """Return what was decided on a path, in order, each once; the last :data:`MAX_DECISIONS`."""
    found: dict[str, None] = {}
    for mark in source.marks:
        if mark.kind not in _DECIDING or not mark.is_told:
            continue
        payload = _meaning(source, mark)
        if payload is None or payload.get("status") == ResultStatus.INVALID:
            continue
        for decision in payload.get("decisions", ()):
            found.setdefault(" ".join(decision.split()))
    found.pop("", None)
    return tuple(found)[-MAX_DECISIONS:]


def _whole(source: PathSource, boundary: _Boundary | None, preface: Preface) -> Projection:
    start = 0 if boundary is None else boundary.start
    newest_first: list[ContextMessage] = []
    append = newest_first.append
    grouping = Grouping()
    is_between = False
    for entry_id, place, row in source.upwards():
        if place < start and not is_between:
            break
        payload = row[2]
        # A version that nobody reads is refused by its mark; hidden entries are not told.
        message = None if payload is None else message_of(entry_id, row[0], row[1], payload)
        if message is None:
            continue
        if not is_between and row[1] not in TOOL_KINDS:
            # Most of a conversation, so that nothing is made for it but the message itself.
            append(message)
            continue
        for group in grouping.add(message, place):
            if group.newest_position >= start:
                newest_first.extend(reversed(group.messages))
        is_between = grouping.is_between
    for group in grouping.finish():
        if group.newest_position >= start:
            newest_first.extend(reversed(group.messages))
    if boundary is not None:
        append(boundary.message)
    newest_first.reverse()
    preface = preface._replace(omissions=_summarised(source, start))
    return Projection(tuple(newest_first), preface, _id_of(boundary))


def _within(source: PathSource, boundary: _Boundary | None, preface: Preface, budget_tokens: int) -> Projection:
    """Take parts in their fixed order, as long as they fit."""
    limit = budget_tokens * BYTES_PER_TOKEN
    start = 0 if boundary is None else boundary.start
    groups = _groups(source, start)
    newest = next(groups, None)
    summary = 0 if boundary is None else bytes_of(boundary.message)
    # Where nothing was said since the boundary, its summary is the newest there is, and is told whatever its size.
    used = bytes_of_preface(preface) + (summary if newest is None else _bytes(newest))
    sizes = {
        Part.DIVERGENCE: bytes_of_divergence(preface.divergence_line),
        Part.SUMMARY: 0 if newest is None else summary,
        Part.DECISIONS: bytes_of_decisions(preface.decisions),
    }
    untold: list[Part] = []
    for part, size in sizes.items():
        # Whatever comes after what did not fit is left out as well: else a larger budget could show less of it.
        if size and (untold or used + size > limit):
            untold.append(part)
        else:
            used += size
    kept = [] if newest is None else [newest]
    cut = start
    for group in groups:
        size = _bytes(group)
        if untold or used + size > limit:
            cut = group.newest_position + 1
            break
        used += size
        kept.append(group)
    omissions = _summarised(source, start)
    if cut > start:
        omissions += (_omission(source, OmissionReason.NO_ROOM, start, cut),)
    messages = [message for group in reversed(kept) for message in group.messages]
    if boundary is not None and Part.SUMMARY not in untold:
        messages.insert(0, boundary.message)
    preface = preface._replace(
        omissions=omissions,
        divergence_line="" if Part.DIVERGENCE in untold else preface.divergence_line,
        decisions=() if Part.DECISIONS in untold else preface.decisions,
        untold=tuple(untold),
    )
    return Projection(tuple(messages), preface, _id_of(boundary), budget_tokens)


def _id_of(boundary: _Boundary | None) -> str | None:
    return None if boundary is None else boundary.message.entry_id


def _summarised(source: PathSource, start: int) -> tuple[Omission, ...]:
    return () if start == 0 else (_omission(source, OmissionReason.SUMMARISED, 0, start),)


def _omission(source: PathSource, reason: OmissionReason, start: int, end: int) -> Omission:
    return Omission(reason, end - start, source.id_at(start), source.id_at(end - 1))


def _bytes(group: Group) -> int:
    return sum(bytes_of(message) for message in group.messages)


def _latest(source: PathSource, kind: str, field: str) -> str | None:
    for mark in reversed(source.marks):
        if mark.kind == kind:
            payload = _meaning(source, mark)
            if payload is not None:
                return str(payload[field])
    return None


def _meaning(source: PathSource, mark: Mark) -> dict[str, Any] | None:
    return meaning_of(mark.version, mark.kind, source.payload_of(mark.entry_id), entry_id=mark.entry_id)


def _groups(source: PathSource, start: int) -> Iterator[Group]:
    """Yield the groups from the leaf up to a place, newest first; one that reaches beyond it is whole all the same."""
    grouping = Grouping()
    for entry_id, place, row in source.upwards():
        if place < start and not grouping.is_between:
            break
        message = None if row[2] is None else message_of(entry_id, row[0], row[1], row[2])
        if message is not None:
            yield from (group for group in grouping.add(message, place) if group.newest_position >= start)
    yield from (group for group in grouping.finish() if group.newest_position >= start)
