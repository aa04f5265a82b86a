"""The shapes of what methods return. They are open: later versions may add fields, and callers must let them."""

from __future__ import annotations

from typing import Final

from bridge.rpc.methods.forms import (
    ANY_OBJECT,
    FLAG,
    NUMBER,
    OPTIONAL_NUMBER,
    OPTIONAL_TEXT,
    TEXT,
    listing,
    or_null,
    record,
)

PONG: Final = record("Who answers.", version=TEXT, pid=NUMBER)
RESIDENT: Final = record(
    "A resident controller, and what it has under way.",
    pid=NUMBER,
    build=TEXT,
    home=TEXT,
    uptime_seconds={"type": "number"},
    connections=NUMBER,
    calls=NUMBER,
    workers=listing(record("A worker.", id=TEXT, name=OPTIONAL_TEXT, status=TEXT)),
    watches={"type": ["object", "null"]},
    idle_limit_seconds={"type": ["number", "null"]},
)
STOPPED: Final = record("Who ends, and the delegations that are cancelled.", pid=NUMBER, cancelled=listing(TEXT))
RAN: Final = record("How a command ended.", exit_status=NUMBER)
CANCELLED: Final = record(
    "What became of the call: it was given up, is a change that has begun and is finished, or is not under way.",
    id={"type": ["string", "integer"]},
    state={"type": "string", "enum": ["cancelled", "finishing", "unknown"]},
)
SESSION: Final = record(
    "A session.",
    id=TEXT,
    session_id=TEXT,
    kind={"type": "string", "enum": ["chat", "worker", "hidden"]},
    workspace_id=OPTIONAL_TEXT,
    agent_id=OPTIONAL_TEXT,
    harness=OPTIONAL_TEXT,
    label=OPTIONAL_TEXT,
    status=TEXT,
    parent_session_id=OPTIONAL_TEXT,
    parent_relation=OPTIONAL_TEXT,
    created_at=TEXT,
    updated_at=TEXT,
    active_entry_id=TEXT,
    entries=NUMBER,
)
SESSIONS: Final = record(
    "A page of sessions, and what to ask the next one with.",
    sessions=listing(SESSION),
    hasMore=FLAG,
    next=OPTIONAL_TEXT,
)
STAMP: Final = record("A repository state, or why it is unknown.", observed_at=OPTIONAL_TEXT)
ENTRY: Final = record(
    "An entry; one that this Bridge cannot read has readable false and no payload. In a list a long payload is null, "
    "and payload_bytes says how long it is.",
    id=TEXT,
    session_id=TEXT,
    parent_entry_id=OPTIONAL_TEXT,
    sequence=NUMBER,
    semantic_schema_version=NUMBER,
    kind=TEXT,
    payload={},
    context_visibility=TEXT,
    stamp=STAMP,
    external_id=OPTIONAL_TEXT,
    created_at=TEXT,
    payload_hash=TEXT,
    entry_hash=TEXT,
    labels=listing(TEXT),
    readable=FLAG,
)
APPENDED: Final = {
    **ENTRY,
    "description": "The entry, and the head afterwards; recorded is false if the entry was there already.",
    "properties": {**ENTRY["properties"], "active_entry_id": TEXT, "recorded": FLAG},
    "required": sorted([*ENTRY["required"], "active_entry_id", "recorded"]),
}
LOG: Final = record(
    "A page of the entries of a session.",
    session_id=TEXT,
    active_entry_id=TEXT,
    entries=listing(ENTRY),
    hasMore=FLAG,
)
NODE: Final = record(
    "An entry's place in the tree of its session.",
    id=TEXT,
    session_id=TEXT,
    parent_entry_id=OPTIONAL_TEXT,
    sequence=NUMBER,
    kind=TEXT,
    active=FLAG,
    is_head=FLAG,
    children=NUMBER,
    labels=listing(TEXT),
    readable=FLAG,
    text=TEXT,
)
TREE: Final = record(
    "A page of the entries of a session, without its root.",
    session_id=TEXT,
    active_entry_id=TEXT,
    nodes=listing(NODE),
    hasMore=FLAG,
)
MOVE: Final = record(
    "Where a head is and where it was.",
    session_id=TEXT,
    active_entry_id=TEXT,
    previous_entry_id=TEXT,
    moved=FLAG,
)
LABELLED: Final = record(
    "A label's entry, and the entry that had the label before.",
    session_id=TEXT,
    entry_id=TEXT,
    label=TEXT,
    previous_entry_id=OPTIONAL_TEXT,
    removed=FLAG,
)
CONTEXT: Final = record(
    "The context that an agent gets when it goes on.",
    session_id=TEXT,
    active_entry_id=TEXT,
    messages=listing(record("A message.", entry_id=TEXT, kind=TEXT, payload=ANY_OBJECT)),
    boundary_entry_id=OPTIONAL_TEXT,
    model=OPTIONAL_TEXT,
    effort=OPTIONAL_TEXT,
    decisions=listing(TEXT),
    divergence=OPTIONAL_TEXT,
    divergence_line=OPTIONAL_TEXT,
    omitted=listing(
        record("Entries that are not told.", reason=TEXT, entries=NUMBER, first_entry_id=TEXT, last_entry_id=TEXT)
    ),
    untold=listing(TEXT),
    tokens=NUMBER,
    budget_tokens=OPTIONAL_NUMBER,
    is_oversized=FLAG,
    text=TEXT,
)
RECALLED: Final = record(
    "Entries that were found in a session, the best first.",
    session_id=TEXT,
    hits=listing(
        record(
            "An entry that was found.",
            id=TEXT,
            session_id=TEXT,
            parent_entry_id=OPTIONAL_TEXT,
            sequence=NUMBER,
            kind=TEXT,
            created_at=TEXT,
            active=FLAG,
            source=FLAG,
            excerpt=TEXT,
        )
    ),
    hasMore=FLAG,
    relaxed=FLAG,
    ignored=NUMBER,
    empty_query=FLAG,
    complete=FLAG,
)
FOUND_CHATS: Final = record(
    "Chats that were found, the best first, and how the question was understood.",
    chats=listing(
        record(
            "A chat that was found.",
            session_id=TEXT,
            title=TEXT,
            label=OPTIONAL_TEXT,
            kind=TEXT,
            status=TEXT,
            harness=OPTIONAL_TEXT,
            workspace_id=OPTIONAL_TEXT,
            created_at=TEXT,
            updated_at=TEXT,
            matches=NUMBER,
            has_all=FLAG,
            entry_id=OPTIONAL_TEXT,
            active={"type": ["boolean", "null"]},
            score={"type": "number"},
        )
    ),
    hasMore=FLAG,
    confident={**FLAG, "description": "Whether the first chat here is surely the one that is meant."},
    relaxed={**FLAG, "description": "Whether chats that hold only some of the words count as well."},
    complete=FLAG,
    missing_entries=NUMBER,
    unreadable=listing(record("A chat that cannot be read.", session_id=TEXT, reason=TEXT)),
    nowhere={**FLAG, "description": "Whether there is no workspace here, so that there was nothing to search."},
    question=record(
        "How the question was understood.",
        words=listing(
            record("A word that was looked up.", text=TEXT, looked_up=listing(TEXT), documents=NUMBER, known=FLAG)
        ),
        unseen=listing(TEXT),
        ignored=listing(TEXT),
        after=OPTIONAL_TEXT,
        before=OPTIONAL_TEXT,
        time=OPTIONAL_TEXT,
        harness=OPTIONAL_TEXT,
        empty=FLAG,
    ),
)
DELEGATION: Final = record("A delegation.", id=TEXT, status=TEXT)
DELEGATIONS: Final = record("Delegations, oldest first.", delegations=listing(DELEGATION), hasMore=FLAG)
EVIDENCE: Final = record(
    "A result that may be cited: its payload, and the digest of its stored bytes.",
    reference=TEXT,
    session_id=TEXT,
    digest=TEXT,
    payload=ANY_OBJECT,
)
DIVERGENCE: Final = record(
    "How the files are to a conversation.",
    session_id=TEXT,
    entry_id=TEXT,
    divergence={"type": "string", "enum": ["aligned", "diverged", "unknown"]},
    reason=OPTIONAL_TEXT,
    paths=listing(ANY_OBJECT),
    agent_text=TEXT,
)
_VERDICT: Final = {
    "status": {"type": "string", "enum": ["healthy", "removed", "faulty"]},
    "checked": NUMBER,
    "withheld": NUMBER,
    "problems": NUMBER,
    "findings": listing(record("A row that is not as recorded.", code=TEXT, subject=TEXT, message=TEXT, breaks=TEXT)),
}
VERIFICATION: Final = record(
    "What a verification found.",
    status={"type": "string", "enum": ["healthy", "faulty"]},
    sessions=listing(record("About a session.", session_id=TEXT, session_root=OPTIONAL_TEXT, **_VERDICT)),
    chains=listing(record("About a chain that is no session's.", chain_id=TEXT, **_VERDICT)),
    stored=listing(record("About the texts or the states of the whole store.", part=TEXT, **_VERDICT)),
    log=or_null(
        record(
            "About the log of all events, and what it was compared with.",
            size=NUMBER,
            root=TEXT,
            anchors=listing(record("An anchor.", source=TEXT, size=NUMBER, root=TEXT)),
            since=or_null(
                record(
                    "About the earlier log that was asked about.",
                    size=NUMBER,
                    root=TEXT,
                    proven=FLAG,
                    proof=listing(TEXT),
                )
            ),
            **_VERDICT,
        )
    ),
    index=or_null(record("About the search index.", **_VERDICT)),
)
ROOT: Final = record(
    "The root of a session, and the last sequence it covers.", session_id=TEXT, session_root=TEXT, sequence=NUMBER
)
PROOF: Final = record(
    "The proof bundle of an entry, as schema/proof/v1/bundle.json describes it.",
    type=TEXT,
    format_version=NUMBER,
    made_at=TEXT,
    entry=ANY_OBJECT,
    ancestry=listing(ANY_OBJECT),
    state=or_null(ANY_OBJECT),
    result=or_null(ANY_OBJECT),
    tree=ANY_OBJECT,
    events=listing(ANY_OBJECT),
    log=ANY_OBJECT,
    anchors=listing(ANY_OBJECT),
)
WORKSPACE: Final = record(
    "A workspace.",
    id=TEXT,
    kind={"type": "string", "enum": ["repository", "task", "worker"]},
    parent_id=OPTIONAL_TEXT,
    path=TEXT,
    label=OPTIONAL_TEXT,
    status=TEXT,
    created_at=TEXT,
)
WORKSPACES: Final = record("A page of workspaces.", workspaces=listing(WORKSPACE), hasMore=FLAG)
REGISTERED: Final = {
    **WORKSPACE,
    "description": "The workspace, and whether it was registered now.",
    "properties": {**WORKSPACE["properties"], "registered": FLAG},
    "required": sorted([*WORKSPACE["required"], "registered"]),
}
RELINKED: Final = {
    **WORKSPACE,
    "description": "The workspace, and whether it stands for the place now and did not before.",
    "properties": {**WORKSPACE["properties"], "relinked": FLAG, "moved_sessions": NUMBER},
    "required": sorted([*WORKSPACE["required"], "relinked", "moved_sessions"]),
}
OBSERVED: Final = record(
    "A workspace and what its files are now.",
    workspace=WORKSPACE,
    stamp=STAMP,
    clean=FLAG,
    paths=listing(TEXT),
    omitted=NUMBER,
)
AGENT: Final = record(
    "An agent.",
    id=TEXT,
    parent_agent_id=OPTIONAL_TEXT,
    session_id=OPTIONAL_TEXT,
    role=TEXT,
    depth=NUMBER,
    harness=OPTIONAL_TEXT,
    status=TEXT,
    created_at=TEXT,
)
AGENTS: Final = record("A page of agents.", agents=listing(AGENT), hasMore=FLAG)
_LABEL: Final = record("A label.", name=TEXT, entry_id=TEXT)
SNAPSHOT: Final = record(
    "A session at one moment: its entries of all branches, and the cursor to subscribe from.",
    session=SESSION,
    active_entry_id=TEXT,
    entries=listing(ENTRY),
    labels=listing(_LABEL),
    cursors=listing(record("A writer's place.", owner=TEXT, leaf_entry_id=TEXT)),
    hasMore=FLAG,
    event_cursor=TEXT,
)
BRANCHES: Final = record(
    "The ends of a session's branches.",
    session_id=TEXT,
    branches=listing(record("A branch.", leaf_entry_id=TEXT, entries=NUMBER, active=FLAG, text=TEXT)),
    hasMore=FLAG,
)
EXPORTED: Final = record("A session as the text of a file.", session_id=TEXT, entries=NUMBER, bytes=NUMBER, text=TEXT)
IMPORTED: Final = record(
    "What became of a file that was taken in.",
    session_id=TEXT,
    digest=TEXT,
    dry_run=FLAG,
    added=NUMBER,
    sessions=listing(record("Of one session.", session_id=TEXT, status=TEXT, added=NUMBER, entries=NUMBER)),
)
STATUS: Final = record(
    "What this controller is, and what has not ended.",
    version=TEXT,
    pid=NUMBER,
    home=TEXT,
    database=TEXT,
    place=TEXT,
    schema_version=NUMBER,
    open_delegations=listing(DELEGATION),
)
MACHINE: Final = record(
    "What the controller stands on.",
    version=TEXT,
    python=TEXT,
    git=TEXT,
    sqlite=TEXT,
    home=TEXT,
    disk_free_bytes=NUMBER,
)
DATABASE: Final = record(
    "What the store is; the size of one on a server is null.",
    database=TEXT,
    place=TEXT,
    schema_version=NUMBER,
    size_bytes={"type": ["integer", "null"]},
)
CHECKED: Final = record(
    "What a check of the store found.",
    sound=FLAG,
    problems=listing(ANY_OBJECT),
    flaws=listing(ANY_OBJECT),
    quarantined=listing(TEXT),
    released=listing(TEXT),
)
USAGE: Final = record("How much there is.", rows=ANY_OBJECT, size_bytes={"type": ["integer", "null"]})
SUBSCRIBED: Final = record("The subscription, and the cursor that it stands behind.", subscription=TEXT, cursor=TEXT)
EVENT_NOTICE: Final = record(
    "An event; a subscription that begins with the cursor goes on behind it.",
    subscription=TEXT,
    cursor=TEXT,
    event=record(
        "What was recorded, with its facts: ids and hashes, no texts.",
        type=TEXT,
        at=TEXT,
        chain_id=TEXT,
        ordinal=NUMBER,
        session_id=OPTIONAL_TEXT,
        workspace_id=OPTIONAL_TEXT,
        facts=ANY_OBJECT,
    ),
)
LAGGED: Final = record(
    "Where the subscription stands, and how many events are at most still to come.",
    subscription=TEXT,
    cursor=TEXT,
    behind=NUMBER,
)
EVIDENCE_PAGE: Final = record(
    "A page of the exact stored bytes of a result; digest is that of all of them.",
    reference=TEXT,
    digest=TEXT,
    bytes=NUMBER,
    offset=NUMBER,
    encoding={"type": "string", "enum": ["text", "base64"]},
    content=TEXT,
    next_offset={"type": ["integer", "null"]},
    hasMore=FLAG,
)
HANDED: Final = record(
    "What became of a result that was handed in; where it is not accepted, errors says what to mend.",
    accepted=FLAG,
    delegation_id=TEXT,
    errors=listing(record("Where it breaks its contract: a JSON pointer.", path=TEXT, message=TEXT)),
    attempt=NUMBER,
    attempts_permitted=NUMBER,
    is_last_permitted_attempt=FLAG,
    tries_left=NUMBER,
)
NOTE: Final = record(
    "A note.",
    id=TEXT,
    session_id=TEXT,
    sequence=NUMBER,
    created_at=TEXT,
    sender=OPTIONAL_TEXT,
    recipient=TEXT,
    type=TEXT,
    text=TEXT,
    cut=FLAG,
)
NOTES: Final = record(
    "Notes, oldest first; received are those that others addressed to the session's agent.",
    session_id=OPTIONAL_TEXT,
    notes=listing(NOTE),
    received=listing(NOTE),
    hasOlder=FLAG,
    stop=OPTIONAL_TEXT,
)
_LEFT: Final = record("A task.", id=TEXT, name=OPTIONAL_TEXT, status=TEXT, reference=OPTIONAL_TEXT)
WOKEN: Final = record(
    "A session, and what matters on waking up in it; text says in words how the files are.",
    session_id=TEXT,
    new=FLAG,
    predecessor=OPTIONAL_TEXT,
    predecessor_age_seconds={"type": ["integer", "null"]},
    spark=OPTIONAL_TEXT,
    stale=FLAG,
    divergence=OPTIONAL_TEXT,
    text=TEXT,
    open_tasks=listing(_LEFT),
    unread_results=listing(_LEFT),
    worktrees=listing(record("A worktree that is still there.", task=TEXT, path=TEXT, status=TEXT)),
)
