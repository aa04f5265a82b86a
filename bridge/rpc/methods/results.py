"""The shapes of what methods return. They are open: later versions may add fields, and callers must let them."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_OPTIONAL_TEXT: Final[Schema] = {"type": ["string", "null"]}
_NUMBER: Final[Schema] = {"type": "integer"}
_OPTIONAL_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
_FLAG: Final[Schema] = {"type": "boolean"}
_ANY_OBJECT: Final[Schema] = {"type": "object"}


def record(description: str, **properties: Schema) -> Schema:
    """Return the schema of an object that always has some fields, and may have others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": sorted(properties),
    }


def _or_null(shape: Schema) -> Schema:
    """Return the schema of a value that may be missing."""
    return {**shape, "type": [shape["type"], "null"]}


def listing(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


PONG: Final = record("Who answers.", version=_TEXT, pid=_NUMBER)
RESIDENT: Final = record(
    "A resident controller, and what it has under way.",
    pid=_NUMBER,
    build=_TEXT,
    home=_TEXT,
    uptime_seconds={"type": "number"},
    connections=_NUMBER,
    calls=_NUMBER,
    workers=listing(record("A worker.", id=_TEXT, name=_OPTIONAL_TEXT, status=_TEXT)),
    watches={"type": ["object", "null"]},
    idle_limit_seconds={"type": ["number", "null"]},
)
STOPPED: Final = record("Who ends, and the delegations that are cancelled.", pid=_NUMBER, cancelled=listing(_TEXT))
RAN: Final = record("How a command ended.", exit_status=_NUMBER)
CANCELLED: Final = record(
    "What became of the call: it was given up, is a change that has begun and is finished, or is not under way.",
    id={"type": ["string", "integer"]},
    state={"type": "string", "enum": ["cancelled", "finishing", "unknown"]},
)
SESSION: Final = record(
    "A session.",
    id=_TEXT,
    session_id=_TEXT,
    kind={"type": "string", "enum": ["chat", "worker", "hidden"]},
    workspace_id=_OPTIONAL_TEXT,
    agent_id=_OPTIONAL_TEXT,
    harness=_OPTIONAL_TEXT,
    label=_OPTIONAL_TEXT,
    status=_TEXT,
    parent_session_id=_OPTIONAL_TEXT,
    parent_relation=_OPTIONAL_TEXT,
    created_at=_TEXT,
    updated_at=_TEXT,
    active_entry_id=_TEXT,
    entries=_NUMBER,
)
SESSIONS: Final = record(
    "A page of sessions, and what to ask the next one with.",
    sessions=listing(SESSION),
    hasMore=_FLAG,
    next=_OPTIONAL_TEXT,
)
STAMP: Final = record("A repository state, or why it is unknown.", observed_at=_OPTIONAL_TEXT)
ENTRY: Final = record(
    "An entry; one that this Bridge cannot read has readable false and no payload. In a list a long payload is null, "
    "and payload_bytes says how long it is.",
    id=_TEXT,
    session_id=_TEXT,
    parent_entry_id=_OPTIONAL_TEXT,
    sequence=_NUMBER,
    semantic_schema_version=_NUMBER,
    kind=_TEXT,
    payload={},
    context_visibility=_TEXT,
    stamp=STAMP,
    external_id=_OPTIONAL_TEXT,
    created_at=_TEXT,
    payload_hash=_TEXT,
    entry_hash=_TEXT,
    labels=listing(_TEXT),
    readable=_FLAG,
)
APPENDED: Final = {
    **ENTRY,
    "description": "The entry, and the head afterwards; recorded is false if the entry was there already.",
    "properties": {**ENTRY["properties"], "active_entry_id": _TEXT, "recorded": _FLAG},
    "required": sorted([*ENTRY["required"], "active_entry_id", "recorded"]),
}
LOG: Final = record(
    "A page of the entries of a session.",
    session_id=_TEXT,
    active_entry_id=_TEXT,
    entries=listing(ENTRY),
    hasMore=_FLAG,
)
NODE: Final = record(
    "An entry's place in the tree of its session.",
    id=_TEXT,
    session_id=_TEXT,
    parent_entry_id=_OPTIONAL_TEXT,
    sequence=_NUMBER,
    kind=_TEXT,
    active=_FLAG,
    is_head=_FLAG,
    children=_NUMBER,
    labels=listing(_TEXT),
    readable=_FLAG,
    text=_TEXT,
)
TREE: Final = record(
    "A page of the entries of a session, without its root.",
    session_id=_TEXT,
    active_entry_id=_TEXT,
    nodes=listing(NODE),
    hasMore=_FLAG,
)
MOVE: Final = record(
    "Where a head is and where it was.",
    session_id=_TEXT,
    active_entry_id=_TEXT,
    previous_entry_id=_TEXT,
    moved=_FLAG,
)
LABELLED: Final = record(
    "A label's entry, and the entry that had the label before.",
    session_id=_TEXT,
    entry_id=_TEXT,
    label=_TEXT,
    previous_entry_id=_OPTIONAL_TEXT,
    removed=_FLAG,
)
CONTEXT: Final = record(
    "The context that an agent gets when it goes on.",
    session_id=_TEXT,
    active_entry_id=_TEXT,
    messages=listing(record("A message.", entry_id=_TEXT, kind=_TEXT, payload=_ANY_OBJECT)),
    boundary_entry_id=_OPTIONAL_TEXT,
    model=_OPTIONAL_TEXT,
    effort=_OPTIONAL_TEXT,
    decisions=listing(_TEXT),
    divergence=_OPTIONAL_TEXT,
    divergence_line=_OPTIONAL_TEXT,
    omitted=listing(
        record("Entries that are not told.", reason=_TEXT, entries=_NUMBER, first_entry_id=_TEXT, last_entry_id=_TEXT)
    ),
    untold=listing(_TEXT),
    tokens=_NUMBER,
    budget_tokens=_OPTIONAL_NUMBER,
    is_oversized=_FLAG,
    text=_TEXT,
)
RECALLED: Final = record(
    "Entries that were found in a session, the best first.",
    session_id=_TEXT,
    hits=listing(
        record(
            "An entry that was found.",
            id=_TEXT,
            session_id=_TEXT,
            sequence=_NUMBER,
            kind=_TEXT,
            created_at=_TEXT,
            active=_FLAG,
            source=_FLAG,
            excerpt=_TEXT,
        )
    ),
    hasMore=_FLAG,
    relaxed=_FLAG,
    ignored=_NUMBER,
    empty_query=_FLAG,
    complete=_FLAG,
)
FOUND_CHATS: Final = record(
    "Chats that were found, the best first, and how the question was understood.",
    chats=listing(
        record(
            "A chat that was found.",
            session_id=_TEXT,
            title=_TEXT,
            label=_OPTIONAL_TEXT,
            kind=_TEXT,
            status=_TEXT,
            harness=_OPTIONAL_TEXT,
            workspace_id=_OPTIONAL_TEXT,
            created_at=_TEXT,
            updated_at=_TEXT,
            matches=_NUMBER,
            has_all=_FLAG,
            entry_id=_OPTIONAL_TEXT,
        )
    ),
    hasMore=_FLAG,
    confident=_FLAG,
    relaxed=_FLAG,
    complete=_FLAG,
    missing_entries=_NUMBER,
    unreadable=listing(record("A chat that cannot be read.", session_id=_TEXT, reason=_TEXT)),
    nowhere=_FLAG,
    question=_ANY_OBJECT,
)
DELEGATION: Final = record("A delegation.", id=_TEXT, status=_TEXT)
DELEGATIONS: Final = record("Delegations, oldest first.", delegations=listing(DELEGATION), hasMore=_FLAG)
EVIDENCE: Final = record(
    "A result that may be cited: its payload, and the digest of its stored bytes.",
    reference=_TEXT,
    session_id=_TEXT,
    digest=_TEXT,
    payload=_ANY_OBJECT,
)
DIVERGENCE: Final = record(
    "How the files are to a conversation.",
    session_id=_TEXT,
    entry_id=_TEXT,
    divergence={"type": "string", "enum": ["aligned", "diverged", "unknown"]},
    reason=_OPTIONAL_TEXT,
    paths=listing(_ANY_OBJECT),
    agent_text=_TEXT,
)
_VERDICT: Final = {
    "status": {"type": "string", "enum": ["healthy", "removed", "faulty"]},
    "checked": _NUMBER,
    "withheld": _NUMBER,
    "problems": _NUMBER,
    "findings": listing(
        record("A row that is not as recorded.", code=_TEXT, subject=_TEXT, message=_TEXT, breaks=_TEXT)
    ),
}
VERIFICATION: Final = record(
    "What a verification found.",
    status={"type": "string", "enum": ["healthy", "faulty"]},
    sessions=listing(record("About a session.", session_id=_TEXT, session_root=_OPTIONAL_TEXT, **_VERDICT)),
    chains=listing(record("About a chain that is no session's.", chain_id=_TEXT, **_VERDICT)),
    stored=listing(record("About the texts or the states of the whole store.", part=_TEXT, **_VERDICT)),
    log=_or_null(
        record(
            "About the log of all events, and what it was compared with.",
            size=_NUMBER,
            root=_TEXT,
            anchors=listing(record("An anchor.", source=_TEXT, size=_NUMBER, root=_TEXT)),
            since=_or_null(
                record(
                    "About the earlier log that was asked about.",
                    size=_NUMBER,
                    root=_TEXT,
                    proven=_FLAG,
                    proof=listing(_TEXT),
                )
            ),
            **_VERDICT,
        )
    ),
    index=_or_null(record("About the search index.", **_VERDICT)),
)
ROOT: Final = record(
    "The root of a session, and the last sequence it covers.", session_id=_TEXT, session_root=_TEXT, sequence=_NUMBER
)
PROOF: Final = record(
    "The proof bundle of an entry, as schema/proof/v1/bundle.json describes it.",
    type=_TEXT,
    format_version=_NUMBER,
    made_at=_TEXT,
    entry=_ANY_OBJECT,
    ancestry=listing(_ANY_OBJECT),
    state=_or_null(_ANY_OBJECT),
    result=_or_null(_ANY_OBJECT),
    tree=_ANY_OBJECT,
    events=listing(_ANY_OBJECT),
    log=_ANY_OBJECT,
    anchors=listing(_ANY_OBJECT),
)
WORKSPACE: Final = record(
    "A workspace.",
    id=_TEXT,
    kind={"type": "string", "enum": ["repository", "task", "worker"]},
    parent_id=_OPTIONAL_TEXT,
    path=_TEXT,
    label=_OPTIONAL_TEXT,
    status=_TEXT,
    created_at=_TEXT,
)
WORKSPACES: Final = record("A page of workspaces.", workspaces=listing(WORKSPACE), hasMore=_FLAG)
REGISTERED: Final = {
    **WORKSPACE,
    "description": "The workspace, and whether it was registered now.",
    "properties": {**WORKSPACE["properties"], "registered": _FLAG},
    "required": sorted([*WORKSPACE["required"], "registered"]),
}
RELINKED: Final = {
    **WORKSPACE,
    "description": "The workspace, and whether it stands for the place now and did not before.",
    "properties": {**WORKSPACE["properties"], "relinked": _FLAG, "moved_sessions": _NUMBER},
    "required": sorted([*WORKSPACE["required"], "relinked", "moved_sessions"]),
}
OBSERVED: Final = record(
    "A workspace and what its files are now.",
    workspace=WORKSPACE,
    stamp=STAMP,
    clean=_FLAG,
    paths=listing(_TEXT),
    omitted=_NUMBER,
)
AGENT: Final = record(
    "An agent.",
    id=_TEXT,
    parent_agent_id=_OPTIONAL_TEXT,
    session_id=_OPTIONAL_TEXT,
    role=_TEXT,
    depth=_NUMBER,
    harness=_OPTIONAL_TEXT,
    status=_TEXT,
    created_at=_TEXT,
)
AGENTS: Final = record("A page of agents.", agents=listing(AGENT), hasMore=_FLAG)
_LABEL: Final = record("A label.", name=_TEXT, entry_id=_TEXT)
SNAPSHOT: Final = record(
    "A session at one moment: its entries of all branches, and the cursor to subscribe from.",
    session=SESSION,
    active_entry_id=_TEXT,
    entries=listing(ENTRY),
    labels=listing(_LABEL),
    cursors=listing(record("A writer's place.", owner=_TEXT, leaf_entry_id=_TEXT)),
    hasMore=_FLAG,
    event_cursor=_TEXT,
)
BRANCHES: Final = record(
    "The ends of a session's branches.",
    session_id=_TEXT,
    branches=listing(record("A branch.", leaf_entry_id=_TEXT, entries=_NUMBER, active=_FLAG, text=_TEXT)),
    hasMore=_FLAG,
)
EXPORTED: Final = record(
    "A session as the text of a file.", session_id=_TEXT, entries=_NUMBER, bytes=_NUMBER, text=_TEXT
)
IMPORTED: Final = record(
    "What became of a file that was taken in.",
    session_id=_TEXT,
    digest=_TEXT,
    dry_run=_FLAG,
    added=_NUMBER,
    sessions=listing(record("Of one session.", session_id=_TEXT, status=_TEXT, added=_NUMBER, entries=_NUMBER)),
)
WAITED: Final = {
    **DELEGATION,
    "description": "The delegation, and whether it has ended.",
    "properties": {**DELEGATION["properties"], "ended": _FLAG},
    "required": sorted([*DELEGATION["required"], "ended"]),
}
MESSAGE: Final = record(
    "What was said to a worker, and when it was told.",
    delegation_id=_TEXT,
    number=_NUMBER,
    text=_TEXT,
    entry_id=_TEXT,
    sent_at=_TEXT,
    handed_over_at=_OPTIONAL_TEXT,
)
TASK_DIFF: Final = record(
    "What a worker changed: its worktree as it is now if live, else its result.",
    id=_TEXT,
    base_commit=_TEXT,
    live=_FLAG,
    files=listing(
        record(
            "A path that differs.",
            status=_TEXT,
            path=_TEXT,
            old_path=_OPTIONAL_TEXT,
            additions={"type": ["integer", "null"]},
            deletions={"type": ["integer", "null"]},
        )
    ),
    patch=_OPTIONAL_TEXT,
)
APPROVAL: Final = record(
    "Something that a worker wants allowed.",
    id=_TEXT,
    delegation_id=_TEXT,
    status={"type": "string", "enum": ["pending", "allowed", "denied", "timed_out", "lapsed"]},
    title=_TEXT,
    tool_kind=_TEXT,
    paths=listing(_TEXT),
    options=listing(_ANY_OBJECT),
    requested_at=_TEXT,
    expires_at=_TEXT,
    decided_by=_OPTIONAL_TEXT,
)
APPROVALS: Final = record("What workers want allowed.", approvals=listing(APPROVAL), hasMore=_FLAG)
PAUSES: Final = record(
    "Credentials whose quota is used up.",
    pauses=listing(
        record(
            "A paused credential.",
            credential=_TEXT,
            paused_at=_TEXT,
            resets_at=_TEXT,
            is_reset_known=_FLAG,
            delegation_id=_TEXT,
        )
    ),
)
_VERIFICATION: Final = record(
    "What the tests that a worker ran say about the adopted files: none, holds or reopened.", status=_TEXT
)
ADOPTION: Final = record(
    "What an adoption did.",
    tasks=listing(
        record(
            "One task of it.",
            task=DELEGATION,
            method=_TEXT,
            files_changed=listing(_TEXT),
            out_of_scope=listing(_TEXT),
            verification=_VERIFICATION,
        )
    ),
    branch=_TEXT,
    previous=_TEXT,
    commit=_TEXT,
    is_checked_out=_FLAG,
    files_changed=listing(_TEXT),
    was_contained=_FLAG,
    undo=_TEXT,
    check={"type": ["object", "null"]},
)
_OBSTACLE: Final = record("What stands in the way.", code=_TEXT, message=_TEXT, details=_ANY_OBJECT)
PREVIEW: Final = record(
    "What an adoption would do.",
    is_adoptable=_FLAG,
    tasks=listing(
        record(
            "One task of it.",
            task=DELEGATION,
            method=_TEXT,
            files_changed=listing(_TEXT),
            out_of_scope=listing(_TEXT),
            conflicts=listing(_TEXT),
            conflicts_with=listing(_TEXT),
            base_commit=_OPTIONAL_TEXT,
            has_base_moved=_FLAG,
            verification=_VERIFICATION,
            obstacle={"anyOf": [_OBSTACLE, {"type": "null"}]},
        )
    ),
    branch=_OPTIONAL_TEXT,
    tip=_OPTIONAL_TEXT,
    is_checked_out=_FLAG,
    files_changed=listing(_TEXT),
    blocked_by=listing(_OBSTACLE),
    check={"type": ["object", "null"]},
)
STATUS: Final = record(
    "What this controller is, and what has not ended.",
    version=_TEXT,
    pid=_NUMBER,
    home=_TEXT,
    database=_TEXT,
    place=_TEXT,
    schema_version=_NUMBER,
    open_delegations=listing(DELEGATION),
)
MACHINE: Final = record(
    "What the controller stands on.",
    version=_TEXT,
    python=_TEXT,
    git=_TEXT,
    sqlite=_TEXT,
    home=_TEXT,
    disk_free_bytes=_NUMBER,
)
DATABASE: Final = record(
    "What the store is; the size of one on a server is null.",
    database=_TEXT,
    place=_TEXT,
    schema_version=_NUMBER,
    size_bytes={"type": ["integer", "null"]},
)
CHECKED: Final = record(
    "What a check of the store found.",
    sound=_FLAG,
    problems=listing(_ANY_OBJECT),
    flaws=listing(_ANY_OBJECT),
    quarantined=listing(_TEXT),
    released=listing(_TEXT),
)
USAGE: Final = record("How much there is.", rows=_ANY_OBJECT, size_bytes={"type": ["integer", "null"]})
SUBSCRIBED: Final = record("The subscription, and the cursor that it stands behind.", subscription=_TEXT, cursor=_TEXT)
EVENT_NOTICE: Final = record(
    "An event; a subscription that begins with the cursor goes on behind it.",
    subscription=_TEXT,
    cursor=_TEXT,
    event=record(
        "What was recorded, with its facts: ids and hashes, no texts.",
        type=_TEXT,
        at=_TEXT,
        chain_id=_TEXT,
        ordinal=_NUMBER,
        session_id=_OPTIONAL_TEXT,
        workspace_id=_OPTIONAL_TEXT,
        facts=_ANY_OBJECT,
    ),
)
LAGGED: Final = record(
    "Where the subscription stands, and how many events are at most still to come.",
    subscription=_TEXT,
    cursor=_TEXT,
    behind=_NUMBER,
)
EVIDENCE_PAGE: Final = record(
    "A page of the exact stored bytes of a result; digest is that of all of them.",
    reference=_TEXT,
    digest=_TEXT,
    bytes=_NUMBER,
    offset=_NUMBER,
    encoding={"type": "string", "enum": ["text", "base64"]},
    content=_TEXT,
    next_offset={"type": ["integer", "null"]},
    hasMore=_FLAG,
)
HANDED: Final = record(
    "What became of a result that was handed in; where it is not accepted, errors says what to mend.",
    accepted=_FLAG,
    delegation_id=_TEXT,
    errors=listing(record("Where it breaks its contract: a JSON pointer.", path=_TEXT, message=_TEXT)),
    attempt=_NUMBER,
    attempts_permitted=_NUMBER,
    is_last_permitted_attempt=_FLAG,
    tries_left=_NUMBER,
)
NOTE: Final = record(
    "A note.",
    id=_TEXT,
    session_id=_TEXT,
    sequence=_NUMBER,
    created_at=_TEXT,
    sender=_OPTIONAL_TEXT,
    recipient=_TEXT,
    type=_TEXT,
    text=_TEXT,
    cut=_FLAG,
)
NOTES: Final = record(
    "Notes, oldest first; received are those that others addressed to the session's agent.",
    session_id=_OPTIONAL_TEXT,
    notes=listing(NOTE),
    received=listing(NOTE),
    hasOlder=_FLAG,
    stop=_OPTIONAL_TEXT,
)
_LEFT: Final = record("A task.", id=_TEXT, name=_OPTIONAL_TEXT, status=_TEXT, reference=_OPTIONAL_TEXT)
WOKEN: Final = record(
    "A session, and what matters on waking up in it; text says in words how the files are.",
    session_id=_TEXT,
    new=_FLAG,
    predecessor=_OPTIONAL_TEXT,
    predecessor_age_seconds={"type": ["integer", "null"]},
    spark=_OPTIONAL_TEXT,
    stale=_FLAG,
    divergence=_OPTIONAL_TEXT,
    text=_TEXT,
    open_tasks=listing(_LEFT),
    unread_results=listing(_LEFT),
    worktrees=listing(record("A worktree that is still there.", task=_TEXT, path=_TEXT, status=_TEXT)),
)
