"""What a stored row means today: one door for every reader, whatever version the row was written under.

Which versions are readable, and how an older one reads, is in ``registry``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.kinds import CURRENT_VERSION, HIDDEN, KINDS, Visibility
from bridge.semantics.registry import REGISTRY, Registry
from bridge.semantics.schemas import is_valid, validator

_CONTRACT: Final = f"semantic/v{CURRENT_VERSION}/"
#: Bound methods by kind: looking them up anew costs as much as the check, ten thousand times in a long path.
_FITS: Final[dict[str, Callable[[Any], bool]]] = {}


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


def interpret(
    version: int,
    kind: str,
    payload_text: str | bytes,
    *,
    entry_id: str | None = None,
    registry: Registry = REGISTRY,
) -> Interpretation:
    """Return what a stored row means under the current contract.

    Parameters
    ----------
    entry_id
        Named where the row is refused.
    registry
        The contracts that count.

    Raises
    ------
    UnsupportedSemanticVersion
        If the row was written under a version that this Bridge does not read; ``details`` holds ``entry``,
        ``found`` and ``supported``.
    """
    require_readable(version, entry_id=entry_id, registry=registry)
    try:
        payload = orjson.loads(payload_text)
    except orjson.JSONDecodeError:
        payload = None  # not what Bridge writes; the row is shown as it is, its neighbours stay usable
    if not isinstance(payload, dict):
        return _opaque(kind, {}, OpaqueReason.UNREADABLE_PAYLOAD)
    if kind not in registry.current.kinds:
        return _opaque(kind, payload, OpaqueReason.UNKNOWN_KIND)
    current = registry.upcast(version, kind, payload)
    if not is_valid(validator(f"semantic/v{registry.current.version}/{kind}"), current):
        return _opaque(kind, payload, OpaqueReason.INCOMPLETE)
    return Interpretation(kind, current)


def meaning_of(
    version: int, kind: str, payload_text: str | bytes, *, entry_id: str | None = None
) -> dict[str, Any] | None:
    """Return the payload that :func:`interpret` would, None for an opaque entry; what long paths are read with.

    Raises as :func:`interpret`.
    """
    if version != CURRENT_VERSION or type(version) is not int:
        found = interpret(version, kind, payload_text, entry_id=entry_id)
        return None if found.opaque else found.payload
    fits = _FITS.get(kind) or _contract_of(kind)
    if fits is None:
        return None
    try:
        payload: dict[str, Any] = orjson.loads(payload_text)
    except orjson.JSONDecodeError:
        return None
    # The contract of a kind takes objects alone.
    return payload if fits(payload) else None


def _contract_of(kind: str) -> Callable[[Any], bool] | None:
    """Return what tells whether a payload keeps the current contract of a kind; None for a kind that it lacks."""
    if kind not in KINDS:
        return None
    _FITS[kind] = validator(_CONTRACT + kind).is_valid
    return _FITS[kind]


def require_readable(version: object, *, entry_id: str | None = None, registry: Registry = REGISTRY) -> None:
    """Refuse a version that this Bridge does not read, without looking at the payload. Raises as :func:`interpret`."""
    # By exact type: a database column may hold text, a float or a boolean that equals a version.
    if type(version) is int and version in registry.readable:
        return
    supported = " and ".join(str(known) for known in registry.readable)
    raise UnsupportedSemanticVersion(
        f"{f'Entry {entry_id}' if entry_id else 'An entry'} was written under semantic schema version "
        f"{version!r:.80}; this Bridge reads {supported}. Nothing was changed.",
        details={"entry": entry_id, "found": _json_safe(version), "supported": list(registry.readable)},
    )


def _json_safe(version: object) -> int | float | str | None:
    return version if version is None or isinstance(version, (int, float, str)) else repr(version)


def _opaque(kind: str, payload: dict[str, Any], reason: OpaqueReason) -> Interpretation:
    return Interpretation(kind, payload, visibility_override=HIDDEN, opaque=True, reason=reason)
