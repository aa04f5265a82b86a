"""Calls that an agent works by: the exact bytes of evidence, handing in its own result, notes, waking up."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from bridge.control.delegations.results import resolve_result
from bridge.control.delegations.submitting import submit_result
from bridge.control.delegations.tasks import session_of
from bridge.control.lineage.notes import DEFAULT_LIMIT as NOTES
from bridge.control.lineage.notes import DEFAULT_TYPE, EVERYBODY, MAX_NOTE_CHARACTERS, read_notes, write_note
from bridge.control.lineage.notes import MAX_LIMIT as MAX_NOTES
from bridge.control.lineage.waking import resume, wake
from bridge.conversations.references import CURRENT
from bridge.rpc.errors import InvalidParams
from bridge.rpc.methods.calls import REFERENCE, Call, OfSession, ReferenceParams
from bridge.rpc.methods.shapes import Names, param
from bridge.rpc.roles import WRITERS

#: Bytes of evidence in one answer, unless another number is asked for, and at most.
EVIDENCE_PAGE_BYTES: Final = 64 * 1024
MAX_EVIDENCE_PAGE_BYTES: Final = 1024 * 1024
#: Least that may be asked for: one character takes up to four bytes.
MIN_EVIDENCE_PAGE_BYTES: Final = 4
#: Who says a note that comes from no agent.
OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadParams(ReferenceParams):
    offset: int = param("The byte to begin with; as text the beginning of a character.", default=0, minimum=0)
    limit: int = param(
        "At most so many bytes.",
        default=EVIDENCE_PAGE_BYTES,
        minimum=MIN_EVIDENCE_PAGE_BYTES,
        maximum=MAX_EVIDENCE_PAGE_BYTES,
    )
    encoding: Literal["text", "base64"] = param(
        "The form of the bytes; as text they end with a character.", default="text"
    )


def references_read(call: Call, params: ReadParams) -> dict[str, Any]:
    found = resolve_result(call.controller, call.standpoint, params.reference, session=params.session)
    payload = found.evidence.payload
    end = min(params.offset + params.limit, len(payload))
    if params.encoding == "text":
        if params.offset < len(payload) and _is_inside_character(payload[params.offset]):
            raise InvalidParams(
                "offset lies inside a character. Nothing was read.",
                details={"fields": [{"path": "/offset", "message": "must be the beginning of a character"}]},
            )
        while end < len(payload) and _is_inside_character(payload[end]):
            end -= 1
    page = payload[params.offset : end]
    return {
        "reference": found.evidence.reference,
        "digest": found.evidence.digest,
        "bytes": len(payload),
        "offset": params.offset,
        "encoding": params.encoding,
        "content": page.decode() if params.encoding == "text" else base64.b64encode(page).decode("ascii"),
        "next_offset": end if end < len(payload) else None,
        "hasMore": end < len(payload),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitParams(OfSession):
    result: Mapping[str, Any] = param("The result, as schema/worker-result/v2-submission.json describes it.")


def delegations_submit(call: Call, params: SubmitParams) -> dict[str, Any]:
    session_id = session_of(call.controller, call.standpoint, params.session or CURRENT)
    return submit_result(call.controller, session_id, params.result).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNoteParams(OfSession):
    text: str = param("What to remember.", minLength=1, maxLength=MAX_NOTE_CHARACTERS)
    recipient: str = param(
        "Whom it is for: an agent's id, or * for whoever reads the session.",
        default=EVERYBODY,
        pattern=r"^(\*|[A-Za-z0-9_-]{1,64})$",
    )
    type: str = param("What kind of remark it is.", default=DEFAULT_TYPE, pattern="^[A-Za-z0-9_.-]{1,64}$")


def notes_add(call: Call, params: AddNoteParams) -> dict[str, Any]:
    return write_note(
        call.controller,
        call.standpoint,
        params.session,
        params.text,
        sender=OPERATOR if call.caller.session_id is None else None,
        recipient=params.recipient,
        note_type=params.type,
    ).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNotesParams(OfSession):
    of: str | None = param(
        "Whose notes: previous for the session that it continues, or that session's id. Default: its own.",
        default=None,
        names=Names.LINEAGE,
        **REFERENCE,
    )
    include_previous: bool = param("Go on with the sessions before, as long as the limit has room.", default=False)
    limit: int = param("At most so many together; the newest are kept.", default=NOTES, minimum=1, maximum=MAX_NOTES)


def notes_read(call: Call, params: ReadNotesParams) -> dict[str, Any]:
    return read_notes(
        call.controller,
        call.standpoint,
        params.session,
        of=params.of,
        include_previous=params.include_previous,
        limit=params.limit,
    ).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeParams(OfSession):
    from_session: str | None = param(
        "The session to continue. Default: the last one of this workspace.",
        default=None,
        roles=WRITERS,
        **REFERENCE,
    )
    label: str | None = param("A name for people.", default=None, maxLength=200, roles=WRITERS)
    harness: str | None = param("The agent program; only shown.", default=None, maxLength=200, roles=WRITERS)


def sessions_wake(call: Call, params: WakeParams) -> dict[str, Any]:
    if params.session is not None:
        return resume(call.controller, call.standpoint, params.session).to_json()
    return wake(
        call.controller,
        call.standpoint,
        from_session=params.from_session,
        label=params.label,
        harness=params.harness,
    ).to_json()


def _is_inside_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80
