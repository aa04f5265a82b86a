"""The shapes of what erasing, removing and keeping copies up to date return."""

from __future__ import annotations

from typing import Final

from bridge.rpc.methods.forms import FLAG, NUMBER, OPTIONAL_NUMBER, OPTIONAL_TEXT, TEXT, listing, record
from bridge.rpc.methods.results import ENTRY

_NOT_REACHED: Final = {"states_dropped": NUMBER, "backups": listing(TEXT), "not_scrubbed": OPTIONAL_TEXT}
ERASED: Final = record(
    "What was erased, and where the text still is.",
    entry_id=TEXT,
    session_id=TEXT,
    payload_hash=TEXT,
    matches=OPTIONAL_NUMBER,
    raw_texts=NUMBER,
    also_in=listing(TEXT),
    left=listing(TEXT),
    **_NOT_REACHED,
)
PRUNED: Final = record(
    "What was removed, or would be, and what stays for a reason.",
    dry_run=FLAG,
    removed=listing(TEXT),
    entries=NUMBER,
    kept=listing(record("A session that stays.", session_id=TEXT, reason=TEXT, message=TEXT)),
    **_NOT_REACHED,
)
SESSION_CHANGES: Final = record(
    "What changed in a session since a root; full: everything, since that root is not known. Without a root there is "
    "more to fetch: ask again with no root and the sequence as known.",
    session_id=TEXT,
    status={"type": "string", "enum": ["current", "changed", "full"]},
    session_root=OPTIONAL_TEXT,
    sequence=NUMBER,
    active_entry_id=TEXT,
    entries=listing(ENTRY),
    branch_points=listing(
        record("An entry with several children.", entry_id=TEXT, subtree_hash=TEXT, children=listing(TEXT))
    ),
    labels=listing(record("A name, and what it names now.", name=TEXT, entry_id=OPTIONAL_TEXT)),
    hasMore=FLAG,
)
