"""Calls that an agent works by: the exact bytes of evidence, and handing in its own result."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from bridge.control.delegations.results import resolve_result
from bridge.control.delegations.submitting import submit_result
from bridge.control.delegations.tasks import session_of
from bridge.conversations.references import CURRENT
from bridge.rpc.calls import Call, OfSession, ReferenceParams
from bridge.rpc.errors import InvalidParams
from bridge.rpc.shapes import param

#: Bytes of evidence in one answer, unless another number is asked for, and at most.
EVIDENCE_PAGE_BYTES: Final = 64 * 1024
MAX_EVIDENCE_PAGE_BYTES: Final = 1024 * 1024
#: Least that may be asked for: one character takes up to four bytes.
MIN_EVIDENCE_PAGE_BYTES: Final = 4


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


def _is_inside_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80
