"""The shapes of what methods about work that was asked for return (see :mod:`bridge.rpc.methods.results`)."""

from __future__ import annotations

from typing import Final

from bridge.rpc.methods.forms import ANY_OBJECT, FLAG, NUMBER, OPTIONAL_TEXT, TEXT, listing, record
from bridge.rpc.methods.results import DELEGATION

WAITED: Final = {
    **DELEGATION,
    "description": "The delegation, and whether it has ended.",
    "properties": {**DELEGATION["properties"], "ended": FLAG},
    "required": sorted([*DELEGATION["required"], "ended"]),
}
ASKED: Final = {
    **DELEGATION,
    "description": "The delegation as it was asked for, and what of it cannot be kept.",
    "properties": {**DELEGATION["properties"], "notices": listing(TEXT)},
    "required": sorted([*DELEGATION["required"], "notices"]),
}
MESSAGE: Final = record(
    "What was said to a worker, and when it was told.",
    delegation_id=TEXT,
    number=NUMBER,
    text=TEXT,
    entry_id=TEXT,
    sent_at=TEXT,
    handed_over_at=OPTIONAL_TEXT,
)
TASK_DIFF: Final = record(
    "What a worker changed: its worktree as it is now if live, else its result.",
    id=TEXT,
    base_commit=TEXT,
    live=FLAG,
    files=listing(
        record(
            "A path that differs.",
            status=TEXT,
            path=TEXT,
            old_path=OPTIONAL_TEXT,
            additions={"type": ["integer", "null"]},
            deletions={"type": ["integer", "null"]},
        )
    ),
    patch=OPTIONAL_TEXT,
)
APPROVAL: Final = record(
    "Something that a worker wants allowed.",
    id=TEXT,
    delegation_id=TEXT,
    status={"type": "string", "enum": ["pending", "allowed", "denied", "timed_out", "lapsed"]},
    title=TEXT,
    tool_kind=TEXT,
    paths=listing(TEXT),
    options=listing(ANY_OBJECT),
    requested_at=TEXT,
    expires_at=TEXT,
    decided_by=OPTIONAL_TEXT,
)
APPROVALS: Final = record("What workers want allowed.", approvals=listing(APPROVAL), hasMore=FLAG)
PAUSES: Final = record(
    "Credentials whose quota is used up.",
    pauses=listing(
        record(
            "A paused credential.",
            credential=TEXT,
            paused_at=TEXT,
            resets_at=TEXT,
            is_reset_known=FLAG,
            delegation_id=TEXT,
        )
    ),
)
_VERIFICATION: Final = record(
    "What the tests that a worker ran say about the adopted files: none, holds or reopened.", status=TEXT
)
ADOPTION: Final = record(
    "What an adoption did.",
    tasks=listing(
        record(
            "One task of it.",
            task=DELEGATION,
            method=TEXT,
            files_changed=listing(TEXT),
            out_of_scope=listing(TEXT),
            verification=_VERIFICATION,
        )
    ),
    branch=TEXT,
    previous=TEXT,
    commit=TEXT,
    is_checked_out=FLAG,
    files_changed=listing(TEXT),
    was_contained=FLAG,
    undo=TEXT,
    check={"type": ["object", "null"]},
)
_OBSTACLE: Final = record("What stands in the way.", code=TEXT, message=TEXT, details=ANY_OBJECT)
PREVIEW: Final = record(
    "What an adoption would do.",
    is_adoptable=FLAG,
    tasks=listing(
        record(
            "One task of it.",
            task=DELEGATION,
            method=TEXT,
            files_changed=listing(TEXT),
            out_of_scope=listing(TEXT),
            conflicts=listing(TEXT),
            conflicts_with=listing(TEXT),
            base_commit=OPTIONAL_TEXT,
            has_base_moved=FLAG,
            verification=_VERIFICATION,
            obstacle={"anyOf": [_OBSTACLE, {"type": "null"}]},
        )
    ),
    branch=OPTIONAL_TEXT,
    tip=OPTIONAL_TEXT,
    is_checked_out=FLAG,
    files_changed=listing(TEXT),
    blocked_by=listing(_OBSTACLE),
    check={"type": ["object", "null"]},
)
