"""The worker result contract: what a worker hands in is read strictly, and never raises (design §6).

Two schemas: ``worker-result/v2-submission`` is what a worker may say, ``worker-result/v2`` is what is recorded
after the controller has added what only it can know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.foundation.canonical import canonical_bytes, parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.redaction import redact, redact_text
from bridge.semantics.errors import InvalidOutputSchema
from bridge.semantics.schemas import FieldError, field_errors, foreign_validator, validator

#: Largest result that is read, in bytes; what is bigger belongs into a file that the result names.
MAX_RESULT_BYTES = 1024 * 1024
#: Largest output schema of a delegation, in bytes of canonical JSON.
MAX_OUTPUT_SCHEMA_BYTES = 256 * 1024

SUBMISSION_SCHEMA: Final = "worker-result/v2-submission"
RECORDED_SCHEMA: Final = "worker-result/v2"


class ResultStatus(StrEnum):
    """How a delegation ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    NEEDS_DELEGATION = "needs_delegation"
    #: The output broke the contract. Only the controller says so, never the worker.
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class ResultCheck:
    """What came of reading a worker's result.

    Parameters
    ----------
    valid
        Whether it keeps the contract and the delegation's own output schema.
    value
        The submitted object after redaction, floats as first written; None unless it is valid.
    fields
        What is wrong, field by field, as JSON pointers into the submission; empty if it is valid.
    raw_text
        What the worker wrote, for the record, after redaction; bytes that are not UTF-8 appear as ``\\xff``.
    is_raw_text_cut
        Whether ``raw_text`` holds only the first :data:`MAX_RESULT_BYTES` bytes.
    """

    valid: bool
    value: dict[str, Any] | None
    fields: list[FieldError]
    raw_text: str
    is_raw_text_cut: bool = False


def validate_result(
    raw: bytes,
    output_schema: dict[str, Any] | None = None,
    *,
    max_bytes: int = MAX_RESULT_BYTES,
) -> ResultCheck:
    """Read what a worker handed in: exactly one JSON object that keeps the contract, and nothing around it.

    Secrets are masked before anything is checked, as in every write. ``data`` must fit the output schema where
    it is present, and must be present in a completed result if there is an output schema.

    Parameters
    ----------
    raw
        The bytes as the worker wrote them.
    output_schema
        The delegation's own schema for ``data``; None if it asked for none.
    max_bytes
        Size limit, :data:`MAX_RESULT_BYTES` unless given.

    Raises
    ------
    InvalidOutputSchema
        If the output schema itself is unusable; whatever the worker wrote never raises.
    """
    checker = None if output_schema is None else _compile(output_schema)
    raw_text, _ = redact_text(raw[:max_bytes].decode("utf-8", errors="backslashreplace"))
    if len(raw) > max_bytes:
        return _refused([_whole(f"is larger than {max_bytes} bytes")], raw_text, is_raw_text_cut=True)
    if not raw.strip():
        return _refused([_whole("is empty")], raw_text)
    try:
        value = redact(parse_json(raw)).value
    except NotCanonical as error:
        return _refused([_whole(f"is not one plain JSON object: {error.message.rstrip('.')}")], raw_text)
    fields = field_errors(validator(SUBMISSION_SCHEMA), value)
    if not fields and checker is not None:
        fields = _data_errors(checker, value)
    return _refused(fields, raw_text) if fields else ResultCheck(valid=True, value=value, fields=[], raw_text=raw_text)


def check_output_schema(schema: Any) -> None:
    """Check that a delegation's output schema can be used, before anything is started.

    Raises
    ------
    InvalidOutputSchema
        If it is not an object, not a valid JSON Schema, larger than :data:`MAX_OUTPUT_SCHEMA_BYTES`, or refers
        to anything outside itself; ``details`` holds ``reason``.
    """
    _compile(schema)


def _compile(schema: Any) -> Any:
    if not isinstance(schema, dict):
        raise _unusable("it is not a JSON object")
    try:
        text = canonical_bytes(schema)
    except NotCanonical as error:
        raise _unusable(error.message.rstrip(".")) from error
    if len(text) > MAX_OUTPUT_SCHEMA_BYTES:
        raise _unusable(f"it is larger than {MAX_OUTPUT_SCHEMA_BYTES} bytes")
    try:
        return foreign_validator(text)
    except ValueError as error:  # jsonschema_rs.ValidationError is one; its first line says what is wrong
        raise _unusable(str(error).partition("\n")[0][:300]) from error


def _unusable(reason: str) -> InvalidOutputSchema:
    return InvalidOutputSchema(
        f"The output schema cannot be used: {reason}. Nothing was started.", details={"reason": reason}
    )


def _data_errors(checker: Any, value: dict[str, Any]) -> list[FieldError]:
    if "data" not in value:
        if value["status"] != ResultStatus.COMPLETED:
            return []
        return [{"path": "/data", "message": "is missing; the delegation asked for typed data"}]
    return [
        {"path": "/data" + error["path"], "message": error["message"]} for error in field_errors(checker, value["data"])
    ]


def _refused(fields: list[FieldError], raw_text: str, *, is_raw_text_cut: bool = False) -> ResultCheck:
    return ResultCheck(valid=False, value=None, fields=fields, raw_text=raw_text, is_raw_text_cut=is_raw_text_cut)


def _whole(message: str) -> FieldError:
    return {"path": "", "message": message}
