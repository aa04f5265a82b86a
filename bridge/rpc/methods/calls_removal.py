"""Calls that take away what was recorded, and the one that says what changed since a root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.control.checks.syncing import MAX_ENTRIES, changes_since
from bridge.control.removal.erasing import erase
from bridge.control.removal.pruning import DEFAULT_KEEP, prune
from bridge.rpc.methods.calls import REFERENCE, Call, OfSession
from bridge.rpc.methods.shapes import Names, param


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseParams:
    entry: str = param("The entry: id, short reference or label.", names=Names.ENTRY, **REFERENCE)
    pattern: str | None = param(
        "Regular expression; only what it matches is masked. Null: all.", default=None, minLength=1, maxLength=1000
    )


def sessions_erase(call: Call, params: EraseParams) -> dict[str, Any]:
    return erase(call.controller, call.standpoint, params.entry, pattern=params.pattern).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneParams:
    keep: int = param("How many chats stay, those touched last.", default=DEFAULT_KEEP, minimum=0, maximum=2**31)
    dry_run: bool = param("Whether it is only said what would go.", default=False)


def sessions_prune(call: Call, params: PruneParams) -> dict[str, Any]:
    return prune(call.controller, keep=params.keep, dry_run=params.dry_run).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncParams(OfSession):
    session_root: str | None = param(
        "The root that the caller holds; null: nothing, or only a part.", default=None, pattern="^[0-9a-f]{64}$"
    )
    known: int | None = param("The last sequence that the caller holds.", default=None, minimum=-1, maximum=2**53)
    limit: int = param("At most so many entries.", default=MAX_ENTRIES, minimum=1, maximum=MAX_ENTRIES)


def sessions_sync(call: Call, params: SyncParams) -> dict[str, Any]:
    found = changes_since(
        call.controller,
        call.standpoint,
        params.session,
        session_root=params.session_root,
        known=params.known,
        limit=params.limit,
    )
    return found.to_json()
