"""Which columns of the database a verification covers, by what; and of the others, why not. One table for all.

The page ``docs/verified-columns.md`` and the tests that alter every covered column are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

#: The parts of a verification, as ``--only`` names them.
Part = Literal["tree", "chain", "log", "states", "index"]

_DERIVED = "derived from the entries; made anew when it is dropped (bridge db reindex)"
_PLACE = "where something is; asked of git before it is used"
_PROCESS = "a running program; asked of the system before it is used"
_TASK = "how a task is run; what it came to is an entry, and its events are in the chain"
_CAPTURE = "how far an agent program was followed; what it said is entries"
_SOURCE = "where entries were read; they themselves are covered by the digest that was recorded with them"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether a column is covered: by which part, and how; or why not (then ``part`` is None)."""

    part: Part | None
    reason: str


def _by(part: Part, reason: str, names: str) -> dict[str, Coverage]:
    return {name: Coverage(part, reason) for name in names.split()}


def _not(reason: str, names: str) -> dict[str, Coverage]:
    return {name: Coverage(None, reason) for name in names.split()}


#: Every column, by table and name.
COVERAGE: Final = MappingProxyType(
    {
        "session_entries": {
            **_by("tree", "the entry's hash, and those of all that descends from it", "id parent_entry_id kind"
                  " semantic_schema_version context_visibility state_digest external_id created_at payload_hash"),
            **_by("tree", "known or unknown, never both; the reason is in the entry's hash", "unknown_reason"),
            **_by("tree", "the entry's id holds both", "session_id sequence"),
            **_by("tree", "recomputed, and compared with the entry's event", "entry_hash"),
            **_by("tree", "the hash of the payload", "payload"),
            **_by("tree", "compared with the long text", "blob_digest payload_bytes payload_outline"),
            **_by("chain", "the entry's event, or the digest that an import recorded",
                  "observed_at unknown_path unknown_detail external_source"),
        },
        "blobs": _by("tree", "the digest of the text, and the entries that have it", "digest size body"),
        "sessions": {
            **_by("chain", "the events that made and changed the row", "kind workspace_id agent_id harness label status"
                  " parent_session_id parent_relation created_at updated_at"),
            **_by("chain", "the entries and the chain of that session", "id"),
        },
        "session_heads": _by("chain", "the last event that moved the head, and the last entry",
                             "session_id active_entry_id next_sequence updated_at"),
        "branch_cursors": _by("chain", "the events of the cursor, and the entries added since",
                              "session_id owner leaf_entry_id created_at"),
        "entry_labels": _by("chain", "the events that set and removed labels", "session_id name entry_id created_at"),
        "legacy_events": _not("what an older history, which had no hashes, held beyond what an entry can hold",
                              "session_id entry_id original"),
        "quarantined_sessions": {
            **_by("chain", "the events that set sessions aside and released them", "session_id"),
            **_not("what the last check found; made anew by the next", "reason found_at findings"),
        },
        "audit_events": _by("chain", "the event's hash, which covers its columns and the event before",
                            "chain_id ordinal event_type created_at event_hash body"),
        "event_order": _by("log", "the leaves, from the first root or proof after it on", "position chain_id ordinal"),
        "withheld_entries": _by("chain", "the events of the erasures, and imports of what was erased",
                                "session_id entry_id tombstone_hash payload_hash erased_at"),
        "removed_sessions": _by("chain", "the last event of the chain of the session that was removed",
                                "session_id session_root next_sequence events event_hash removed_at"),
        "handed_roots": _not("a client that is told too little does not arrive at the root, and fetches all",
                             "session_id session_root sequence events"),
        "log_leaves": _by("log", "recomputed from the events", "leaf chain_id ordinal position hashes"),
        "subtree_pages": _by("tree", "recomputed from the entries", "session_id page data"),
        "subtree_marks": _by("tree", "recomputed from the entries", "session_id exact_through"),
        "repository_states": {
            **_by("states", "the digest of the state", "state_digest state"),
            **_by("states", "compared with the state", "dirty_hash"),
            **_not("when the state was first stored; nothing rests on it", "created_at"),
        },
        "manifests": {
            **_by("states", "the hash over the pages", "dirty_hash page_index"),
            **_not("when the manifest was first stored; nothing rests on it", "created_at"),
        },
        "manifest_pages": _by("states", "the digest of the page", "page_digest body"),
        "workspace_links": _by("chain", "the events of the relinkings", "workspace_id number old_repository_id"
                               " old_worktree_id new_repository_id new_worktree_id old_path new_path created_at"),
        "delegations": {
            **_by("chain", "the events of the task, its request and its result", "id parent_session_id status"
                  " request_entry_id result_entry_id worker_session_id base_commit result_commit workspace_id"),
            **_not(_TASK, "plan_id name position worker_agent_id controller_id worker_commit result_ref adoption_status"
                   " adoption_commit kept_reason cancel_requested_at created_at updated_at finished_at request"
                   " decision retry_of credential waiting_reason waiting_until"),
        },
        "plans": _not(_TASK, "id label session_id path status created_at updated_at finished_at text"),
        "attempts": _not(_TASK, "delegation_id number status pid process_start_time started_at finished_at exit_status"
                         " failure_class lease_expires_at"),
        "approvals": _not("a question of a worker; asking and deciding are events", "id delegation_id attempt"
                          " approval_id tool_call_id tool_kind title details paths options status option_id"
                          " reason decided_by requested_at expires_at decided_at"),
        "quota_pauses": _not("how long a credential is used up; that it is are events", "credential paused_at resets_at"
                             " is_reset_known delegation_id lifted_at lifted_by"),
        "task_messages": _not("the text is an entry of the worker's session; sending it is an event",
                              "delegation_id number text entry_id sent_at handed_over_at"),
        "captured_hosts": _not(_CAPTURE, "host version first_event_at last_event_at last_event events refused late"
                               " spooled"),
        "captured_sessions": _not(_CAPTURE, "host native_id session_id agent_id workspace_id transcript"
                                  " transcript_offset turn_id process_pid process_start_time base_entry_id is_fresh"
                                  " owed_text told_key told_person_key started_at last_event_at"),
        "import_sources": _not(_SOURCE, "id format path native_id digest size line_count is_redacted state created_at"
                               " updated_at"),
        "import_chunks": _not(_SOURCE, "source_id number first_line line_count byte_offset size digest changed_lines"
                              " body"),
        "import_sessions": _not(_SOURCE, "format native_id session_id first_key first_digest leaf_entry_id"
                                " copy_session_id copy_entry_id parent_native_id parent_key parent_relation depth"
                                " created_at updated_at"),
        "import_links": _not(_SOURCE, "format session_id entry_id relation target_key target_session_id"
                             " target_entry_id"),
        "submissions": _not(_TASK, "delegation_id attempt number status received_at text field_errors"),
        "agents": _not("the tree of agents; what they did is in sessions", "id parent_agent_id session_id role depth"
                       " harness status created_at updated_at"),
        "agent_tokens": _not("what a token opens is compared with its digest at each use; making and taking back are"
                             " events", "id digest session_id delegation_id purpose created_at expires_at revoked_at"
                             " host pid process_start_time"),
        "controllers": _not(_PROCESS, "id pid process_start_time host build started_at ended_at machine"
                            " lease_expires_at"),
        "chat_agents": _not(_PROCESS, "id session_id harness host owner_pid owner_start_time pid process_start_time"
                            " turn_id started_at"),
        "workspaces": _not(_PLACE, "id kind parent_id path common_dir repository_id worktree_id base_commit label"
                           " status kept_reason created_at updated_at"),
        "workspace_roots": _not(_PLACE, "workspace_id commit_id"),
        "kept_states": _not("what of contents was kept; compared with the manifest when it is put back",
                            "repository_id dirty_hash ref status kept_count kept_bytes omitted_count omitted_bytes"
                            " limit_bytes created_at"),
        "kept_contents": _not("where contents are kept; compared with their digest when they are put back",
                              "repository_id content_digest object_id size"),
        "recall_documents": _not(_DERIVED + "; its number is checked", "document chat scope sequence part length"),
        "recall_marks": _not(_DERIVED, "session_id chat indexed_through terms_version scope digest changed_at branches"
                             " unreadable_entry_id unreadable_version"),
        "recall_scopes": _not(_DERIVED, "words number documents"),
        "recall_terms": _not(_DERIVED, "term documents"),
        "recall_state": _not(_DERIVED, "name value"),
        "schema_version": _not("another number is refused when the store is opened", "version_num"),
        "clients": _not("who used the store; told before an upgrade", "host version first_used_at last_used_at"),
    }
)  # fmt: skip


def coverage_markdown() -> str:
    """Return the tables of all columns, for the documents."""
    lines = []
    for table, columns in sorted(COVERAGE.items()):
        groups: dict[Coverage, list[str]] = {}
        for name, coverage in columns.items():
            groups.setdefault(coverage, []).append(name)
        lines += [f"## {table}", "", "| columns | covered by | |", "|---|---|---|"]
        for coverage, names in groups.items():
            shown = ", ".join(f"`{name}`" for name in names)
            lines.append(f"| {shown} | {coverage.part or 'not covered'} | {coverage.reason} |")
        lines.append("")
    return "\n".join(lines).rstrip()
