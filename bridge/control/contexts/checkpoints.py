"""Checkpoints: a conversation's agent is asked what somebody who knows nothing of it must know, and that is recorded.

The agent supplies the words. Ids, counts and the reason are the host's to fill in, and so is what the branch shows and
the agent left out (``checkpointevidence``), marked as added. An answer that does not keep the contract is handed back
once with what is wrong; after that the failure is recorded and typed. Whoever can ask an agent can drive this: it takes
any function from a text to an answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from anyio import to_thread

from bridge.control.contexts.checkpointanswer import Answer, read_answer
from bridge.control.contexts.checkpointevidence import Evidence, gather
from bridge.control.contexts.compacting import (
    Compaction,
    append_stamped,
    first_to_retain,
    leaf_of,
    record_compaction,
    record_compaction_failure,
    request_compaction,
    under_branch,
)
from bridge.control.controller import Controller
from bridge.control.errors import CheckpointFailed, CheckpointInvalid
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import Appended, Entry, EntryDraft
from bridge.conversations.projection import CHECKPOINT
from bridge.foundation.errors import BridgeError
from bridge.foundation.ids import short_entry
from bridge.semantics.schemas import FieldError

#: Puts a text to the agent and returns what it answers.
Ask: TypeAlias = Callable[[str], Awaitable[str]]

#: Answers that an agent may give: the first, and one repair.
MAX_ANSWERS: Final = 2
#: Tokens of the newest part of a conversation that a compaction keeps as it is, unless told otherwise.
KEEP_TOKENS: Final = 20_000
#: Characters of an unusable answer that are kept with the failure.
MAX_KEPT_CHARACTERS: Final = 8_000

_REQUEST = """\
This conversation may be taken up later by somebody who has read none of it. Please write down what they need to know.
Answer with one JSON object and nothing else:

{"summary": "what was asked for, what was done, how it stands now",
 "decisions": ["each thing that was decided and still holds, with its reason where that matters"],
 "files_touched": ["each file that was created, changed or removed, relative to the top of the repository"],
 "open_work": ["what is left to do, the next step first"]}

All four fields are needed; a list may be empty. Change no file for this and call no tool.
"""
_REPAIR = """\
That answer could not be used:
{problems}
Please answer again with one JSON object that has the fields "summary" (text), "decisions", "files_touched" and
"open_work" (lists of texts), and nothing else.
"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A recorded checkpoint.

    Parameters
    ----------
    entry
        As recorded.
    appended
        Where that left the head.
    was_repaired
        Whether the agent's first answer was unusable.
    """

    entry: Entry
    appended: Appended
    was_repaired: bool = False

    @property
    def added(self) -> dict[str, Any]:
        """What the host added, by list, each with the entry that shows it."""
        found: dict[str, Any] = self.entry.payload.get("added", {})
        return found


def request_text() -> str:
    """Return what an agent is asked for a checkpoint."""
    return _REQUEST


def repair_text(fields: Sequence[FieldError]) -> str:
    """Return what an agent is told about an answer that could not be used."""
    problems = "\n".join(f"- {field['path'].lstrip('/') or 'the answer'} {field['message']}" for field in fields)
    return _REPAIR.format(problems=problems)


async def request_checkpoint(
    controller: Controller,
    session_id: str,
    ask: Ask,
    *,
    reason: str,
    cursor: str | None = None,
    model: str | None = None,
    turn_id: str | None = None,
) -> Checkpoint:
    """Ask an agent for a checkpoint of its branch and record it; hand an unusable answer back once.

    Parameters
    ----------
    ask
        Called once or twice, on this task.
    cursor
        The branch: a cursor's, or the head's.
    model
        The model that writes it.

    Raises
    ------
    CheckpointFailed
        If the second answer is unusable as well; recorded before as ``compaction.failed``.
    BridgeError
        What ``ask`` raises, recorded in the same way, and what reading and appending raise.
    """
    evidence = await to_thread.run_sync(partial(evidence_at, controller, session_id, cursor=cursor))
    fail = partial(record_compaction_failure, controller, session_id, turn_id=turn_id, cursor=cursor)
    text, raw, problems = request_text(), "", ()
    for attempt in range(MAX_ANSWERS):
        try:
            raw = await ask(text)
        except BridgeError as error:
            await to_thread.run_sync(partial(fail, error.code, error.message))
            raise
        accept = partial(accept_checkpoint, controller, evidence, raw, reason=reason, model=model, turn_id=turn_id)
        try:
            checkpoint = await to_thread.run_sync(accept)
        except CheckpointInvalid as error:
            problems = tuple(error.details["fields"])
            text = repair_text(problems)
            continue
        return Checkpoint(checkpoint.entry, checkpoint.appended, was_repaired=attempt > 0)
    kept = {"fields": list(problems), "raw_text": raw[:MAX_KEPT_CHARACTERS]}
    message = f"No usable checkpoint in {MAX_ANSWERS} answers: {_in_words(problems)}."
    failure = await to_thread.run_sync(partial(fail, CheckpointFailed.code, message, kept=kept))
    raise CheckpointFailed(
        f"{message} The failure is recorded as {short_entry(failure.entry.id)}; nothing else was changed.",
        details={"entry_id": failure.entry.id, "fields": list(problems)},
    )


async def request_compacting(
    controller: Controller,
    session_id: str,
    ask: Ask,
    *,
    reason: str,
    keep_tokens: int = KEEP_TOKENS,
    cursor: str | None = None,
    model: str | None = None,
    turn_id: str | None = None,
) -> tuple[Checkpoint, Appended]:
    """Ask for a checkpoint and let it stand for all but the newest part of the branch; return both entries.

    Recorded are ``compaction.requested``, the checkpoint, and the compaction that names it. Raises as
    :func:`request_checkpoint`.
    """
    asked = partial(request_compaction, controller, session_id, reason, turn_id=turn_id, cursor=cursor)
    await to_thread.run_sync(asked)
    checkpoint = await request_checkpoint(
        controller, session_id, ask, reason=reason, cursor=cursor, model=model, turn_id=turn_id
    )

    def compact() -> Appended:
        payload = checkpoint.entry.payload
        compaction = Compaction(
            summary=payload["summary"],
            first_retained_entry_id=first_to_retain(controller, session_id, keep_tokens, at=checkpoint.entry.id),
            reason=reason,
            tokens_before=payload["tokens_before"],
            decisions=tuple(payload["decisions"]),
            files_touched=tuple(payload["files_touched"]),
            open_work=tuple(payload["open_work"]),
            checkpoint_entry_id=checkpoint.entry.id,
            model=model,
            turn_id=turn_id,
        )
        return record_compaction(controller, session_id, compaction, branch_of=checkpoint.entry.id)

    return checkpoint, await to_thread.run_sync(compact)


def evidence_at(controller: Controller, session_id: str, *, cursor: str | None = None) -> Evidence:
    """Return what the branch of the head, or of a cursor, shows. Blocking."""
    with controller.store.read() as connection:
        leaf = leaf_of(connection, session_id, cursor)
    return gather(controller, session_id, leaf)


def accept_checkpoint(
    controller: Controller,
    evidence: Evidence,
    raw: str,
    *,
    reason: str,
    model: str | None = None,
    turn_id: str | None = None,
) -> Checkpoint:
    """Record an agent's answer as a checkpoint of the branch that the evidence was read from. Blocking.

    It goes to the head if that still lies on this branch, with whatever was said meanwhile; else under the entry that
    it speaks of, where the conversation was left.

    Raises
    ------
    CheckpointInvalid
        If the answer does not keep the contract; nothing is recorded.
    """
    answer = read_answer(raw)
    if answer.value is None:
        raise CheckpointInvalid(
            f"The answer is no checkpoint: {_in_words(answer.fields)}. Nothing was recorded.",
            details={"fields": list(answer.fields)},
        )
    payload = _payload(answer, answer.value, evidence)
    payload |= {name: value for name, value in (("reason", reason), ("model", model), ("turn_id", turn_id)) if value}

    def place(recording: RecordingTransaction) -> str | None:
        return under_branch(recording.tx.connection, evidence.session_id, evidence.leaf_entry_id)

    draft = EntryDraft(kind=CHECKPOINT, payload=payload)
    appended = append_stamped(controller, evidence.session_id, draft, place=place)
    return Checkpoint(appended.entry, appended)


def _payload(answer: Answer, value: dict[str, Any], evidence: Evidence) -> dict[str, Any]:
    """Return the answer with what the host knows: ids, counts, and what the evidence shows beyond it."""
    files = list(dict.fromkeys(evidence.plain(path) for path in value["files_touched"]))
    told = {_folded(decision) for decision in value["decisions"]}
    more_decisions = {text: shown for text, shown in evidence.decisions.items() if _folded(text) not in told}
    more_files = {path: shown for path, shown in evidence.files.items() if path not in files}
    payload: dict[str, Any] = {
        "summary": value["summary"],
        "decisions": [*value["decisions"], *more_decisions],
        "files_touched": [*files, *more_files],
        "open_work": value["open_work"],
        "through_entry_id": evidence.leaf_entry_id,
        "entries": evidence.entries,
        "tokens_before": evidence.tokens,
    }
    added = {"decisions": _shown("decision", more_decisions), "files_touched": _shown("path", more_files)}
    if any(added.values()):
        payload["added"] = {name: items for name, items in added.items() if items}
    if answer.ignored:
        payload["provider_meta"] = {"ignored_fields": list(answer.ignored)}
    return payload


def _shown(name: str, found: dict[str, str | None]) -> list[dict[str, str]]:
    return [{name: text} if entry is None else {name: text, "entry_id": entry} for text, entry in found.items()]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")


def _in_words(fields: Sequence[FieldError]) -> str:
    first = fields[0]
    more = f", and {len(fields) - 1} more" if len(fields) > 1 else ""
    return f"{first['path'].lstrip('/') or 'it'} {first['message']}{more}"
