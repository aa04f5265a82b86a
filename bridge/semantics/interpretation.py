"""What a stored row means today: one door for every reader, whatever version the row was written under.

A version is readable if it is current or has an upcast here. Upcasts go one version up and are chained, so a
further version adds one module (``upcast_v<n>``), one line below and one folder under ``schema/semantic/``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import orjson

from bridge.semantics import upcast_v1
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.kinds import CURRENT_VERSION, HIDDEN, KINDS, READABLE_VERSIONS, Visibility
from bridge.semantics.schemas import is_valid, validator

#: How a payload of a version reads one version later.
_UPCASTS: Final[MappingProxyType[int, Callable[[str, dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {1: upcast_v1.upcast}
)


class OpaqueReason(StrEnum):
    """Why an entry is kept and shown but given no meaning."""

    UNKNOWN_KIND = "unknown_kind"
    INCOMPLETE = "incomplete"
    UNREADABLE_PAYLOAD = "unreadable_payload"


@dataclass(frozen=True, slots=True)
class Interpretation:
    """A row as the current contract reads it.

    Parameters
    ----------
    kind
        The stored kind, never changed.
    payload
        The payload under the current contract; of an opaque entry the stored object as it is, or ``{}`` if it
        is none. Its floats are plain: whoever needs the bytes takes the stored text.
    visibility_override
        ``"hidden"`` for an opaque entry, whatever its row says; else None.
    opaque
        Whether the entry must be kept and shown but neither projected nor resolved.
    reason
        Why it is opaque; None if it is not.
    """

    kind: str
    payload: dict[str, Any]
    visibility_override: Visibility | None = None
    opaque: bool = False
    reason: OpaqueReason | None = None


def interpret(version: int, kind: str, payload_text: str | bytes, *, entry_id: str | None = None) -> Interpretation:
    """Return what a stored row means under the current contract.

    Raises
    ------
    UnsupportedSemanticVersion
        If the row was written under a version that this Bridge does not read; ``details`` holds ``entry``,
        ``found`` and ``supported``.
    """
    require_readable(version, entry_id=entry_id)
    try:
        payload = orjson.loads(payload_text)
    except orjson.JSONDecodeError:
        payload = None  # not what Bridge writes; the row is shown as it is, its neighbours stay usable
    if not isinstance(payload, dict):
        return _opaque(kind, {}, OpaqueReason.UNREADABLE_PAYLOAD)
    if kind not in KINDS:
        return _opaque(kind, payload, OpaqueReason.UNKNOWN_KIND)
    current = payload
    for step in range(version, CURRENT_VERSION):
        current = _UPCASTS[step](kind, current)
    if not is_valid(validator(f"semantic/v{CURRENT_VERSION}/{kind}"), current):
        return _opaque(kind, payload, OpaqueReason.INCOMPLETE)
    return Interpretation(kind, current)


def require_readable(version: object, *, entry_id: str | None = None) -> None:
    """Refuse a version that this Bridge does not read, without looking at the payload. Raises as :func:`interpret`."""
    # By exact type: a database column may hold text, a float or a boolean that equals a version.
    if type(version) is int and version in READABLE_VERSIONS:
        return
    supported = " and ".join(str(known) for known in READABLE_VERSIONS)
    raise UnsupportedSemanticVersion(
        f"{f'Entry {entry_id}' if entry_id else 'An entry'} was written under semantic schema version "
        f"{version!r:.80}; this Bridge reads {supported}. Nothing was changed.",
        details={"entry": entry_id, "found": _json_safe(version), "supported": list(READABLE_VERSIONS)},
    )


def _json_safe(version: object) -> int | float | str | None:
    return version if version is None or isinstance(version, (int, float, str)) else repr(version)


def _opaque(kind: str, payload: dict[str, Any], reason: OpaqueReason) -> Interpretation:
    return Interpretation(kind, payload, visibility_override=HIDDEN, opaque=True, reason=reason)
