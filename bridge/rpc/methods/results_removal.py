"""The shapes of what erasing, removing and keeping copies up to date return."""

from __future__ import annotations

from typing import Final

from bridge.rpc.methods.results import ENTRY, Schema, listing, record

_TEXT: Final[Schema] = {"type": "string"}
_OPTIONAL_TEXT: Final[Schema] = {"type": ["string", "null"]}
_NUMBER: Final[Schema] = {"type": "integer"}
_OPTIONAL_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
_FLAG: Final[Schema] = {"type": "boolean"}

_NOT_REACHED: Final = {"states_dropped": _NUMBER, "backups": listing(_TEXT), "not_scrubbed": _OPTIONAL_TEXT}
ERASED: Final = record(
    "What was erased, and where the text still is.",
    entry_id=_TEXT,
    session_id=_TEXT,
    payload_hash=_TEXT,
    matches=_OPTIONAL_NUMBER,
    raw_texts=_NUMBER,
    also_in=listing(_TEXT),
    left=listing(_TEXT),
    **_NOT_REACHED,
)
PRUNED: Final = record(
    "What was removed, or would be, and what stays for a reason.",
    dry_run=_FLAG,
    removed=listing(_TEXT),
    entries=_NUMBER,
    kept=listing(record("A session that stays.", session_id=_TEXT, reason=_TEXT, message=_TEXT)),
    **_NOT_REACHED,
)
SESSION_CHANGES: Final = record(
    "What changed in a session since a root; full: everything, since that root is not known. Without a root there is "
    "more to fetch: ask again with no root and the sequence as known.",
    session_id=_TEXT,
    status={"type": "string", "enum": ["current", "changed", "full"]},
    session_root=_OPTIONAL_TEXT,
    sequence=_NUMBER,
    active_entry_id=_TEXT,
    entries=listing(ENTRY),
    branch_points=listing(
        record("An entry with several children.", entry_id=_TEXT, subtree_hash=_TEXT, children=listing(_TEXT))
    ),
    labels=listing(record("A name, and what it names now.", name=_TEXT, entry_id=_OPTIONAL_TEXT)),
    hasMore=_FLAG,
)
