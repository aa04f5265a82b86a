"""The types of audit events: what each records, in whose chain, and which facts it holds. One table for all.

An event of a type that is not here is refused, so that the table, and the page made of it, are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

#: Event types of a session's chain that record a new entry, and keep its hash.
ENTRY_APPENDED: Final = "entry.appended"
SESSION_CREATED: Final = "session.created"
#: Records a session taken in from elsewhere: all of its entries through a sequence, by their root.
SESSION_IMPORTED: Final = "session.imported"
#: Records entries taken in from another program's transcript: a run of sequences, by a digest over all of them.
ENTRIES_IMPORTED: Final = "entries.imported"
#: Changes columns of a session's row.
SESSION_UPDATED: Final = "session.updated"
#: Moves a head without a new entry.
HEAD_MOVED: Final = "head.moved"
#: Records the root of a session when somebody was given it.
ROOT_SEALED: Final = "root.sealed"
#: Records an erased payload, by the hash of what stands in its place.
ENTRY_ERASED: Final = "entry.erased"
#: Ends the chain of a session that was removed.
SESSION_REMOVED: Final = "session.removed"
#: Keeps what a session that was taken in was rooted in where it comes from.
SOURCE_CHECKED: Final = "session.source_checked"
LABEL_SET: Final = "label.set"
LABEL_REMOVED: Final = "label.removed"
CURSOR_OPENED: Final = "cursor.opened"
CURSOR_MOVED: Final = "cursor.moved"
CURSOR_CLOSED: Final = "cursor.closed"
SESSION_QUARANTINED: Final = "session.quarantined"
SESSION_RELEASED: Final = "session.released"
WORKSPACE_RELINKED: Final = "workspace.relinked"
#: What the types of events about a task begin with.
DELEGATION: Final = "delegation."
STORE_UPGRADED: Final = "store.upgraded"
#: Events of hooks that no controller took when they came were taken in.
CAPTURE_TAKEN_IN: Final = "capture.taken_in"
#: The chain of what happens to the store as a whole.
STORE_CHAIN: Final = "store"

#: Whose chain an event joins: that of a session or of a workspace (its id), of a workspace's worktree
#: (``workspace:<id>``), of the store, of what was captured while nobody could record it, or of quotas.
Chain = Literal["session", "workspace", "worktree", "store"]


@dataclass(frozen=True, slots=True)
class EventType:
    """One type: whose chain it joins, what happened, and the names of the facts in its body.

    ``optional`` names facts that are there only where there is something to say.
    """

    name: str
    chain: Chain
    records: str
    facts: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def _of(chain: Chain, name: str, records: str, facts: str = "", optional: str = "") -> EventType:
    return EventType(name, chain, records, tuple(facts.split()), tuple(optional.split()))


_TYPES: Final = (
    _of(
        "session",
        SESSION_CREATED,
        "A session was made, with its root; `row` holds the columns of its row.",
        "entry_id entry_hash head kind parent_session_id parent_relation",
        "row forked_from moved_from observed_at unknown_path unknown_detail external_source",
    ),
    _of(
        "session",
        SESSION_IMPORTED,
        "Entries were taken in from a file: all that are here then, by their root and by a digest of the columns that "
        "no entry hash covers.",
        "session_root sequence next_sequence has_gaps head",
        "format_version digest added workspace_id forked_from kind parent_session_id parent_relation row labels "
        "beside_digest format source withheld",
    ),
    _of(
        "session",
        ENTRIES_IMPORTED,
        "Entries were taken in from another program's transcript: how many, the first and the last sequence, and a "
        "digest over their hashes and what no entry hash covers; `updated_at` is when the head changed.",
        "added digest head updated_at",
        "first_sequence last_sequence",
    ),
    _of(
        "session",
        SESSION_UPDATED,
        "Columns of the session's row were changed; the facts are the new values.",
        "",
        "label status workspace_id agent_id harness",
    ),
    _of(
        "session",
        ENTRY_APPENDED,
        "An entry was added; `head` is the session's head afterwards. What no entry hash covers is here as well.",
        "entry_id entry_hash parent_entry_id head",
        "observed_at unknown_path unknown_detail external_source",
    ),
    _of(
        "session",
        ENTRY_ERASED,
        "The payload of an entry was erased, wholly or in part; its hash stays, and so does that of what stands there.",
        "entry_id payload_hash tombstone_hash in_part",
    ),
    _of(
        "session",
        SOURCE_CHECKED,
        "What a session that was taken in was rooted in where it comes from; all of its hashes were right.",
        "format session_root event_hash",
    ),
    _of("session", HEAD_MOVED, "The head went to another entry.", "from head"),
    _of("session", LABEL_SET, "An entry was named.", "name entry_id previous_entry_id"),
    _of("session", LABEL_REMOVED, "A name was taken away.", "name previous_entry_id"),
    _of("session", CURSOR_OPENED, "A writer took a place of its own in the conversation.", "owner leaf_entry_id"),
    _of("session", CURSOR_MOVED, "That place was set to another entry.", "owner leaf_entry_id previous_entry_id"),
    _of("session", CURSOR_CLOSED, "That place was given up.", "owner leaf_entry_id"),
    _of("session", ROOT_SEALED, "Somebody was given the session's root.", "session_root sequence"),
    _of("session", SESSION_QUARANTINED, "The session was found damaged and set aside.", "reason flaws"),
    _of("session", SESSION_RELEASED, "It was found sound again."),
    _of(
        "session",
        SESSION_REMOVED,
        "The session was removed with its entries; its events stay.",
        "session_root next_sequence entries",
    ),
    _of("session", "plan.started", "A plan file began to run.", "plan_id delegation_ids"),
    _of("session", "plan.finished", "A plan came to its end.", "plan_id status"),
    _of(
        "session",
        "delegation.queued",
        "A task was put in the queue; one that is tried again has its place already.",
        "delegation_id status",
        "workspace_id base_commit",
    ),
    _of(
        "session",
        "delegation.decided",
        "Policy approved or rejected a task, which is asked for in the conversation from now on.",
        "delegation_id outcome request_entry_id",
        "status",
    ),
    _of(
        "session",
        "delegation.worktree_reserved",
        "A place was reserved for its worktree.",
        "delegation_id workspace_id",
    ),
    _of(
        "session",
        "delegation.assigned",
        "The task was given to a worker.",
        "delegation_id worker_session_id workspace_id base_commit",
    ),
    _of("session", "delegation.attempt_started", "A try began.", "delegation_id attempt"),
    _of("session", "delegation.running", "The worker runs.", "delegation_id attempt pid status"),
    _of(
        "session",
        "delegation.result_submitted",
        "The worker handed in a result, which was taken or not.",
        "delegation_id attempt try accepted",
    ),
    _of("session", "delegation.attempt_ended", "A try came to its end.", "delegation_id attempt failure_class"),
    _of("session", "delegation.settling", "What the worker did is looked at.", "delegation_id status"),
    _of(
        "session",
        "delegation.ended",
        "The result was recorded, once, as an entry.",
        "delegation_id status result_entry_id result_commit",
    ),
    _of(
        "session",
        "delegation.closed",
        "A task that was never asked for in its conversation came to its end.",
        "delegation_id status reason",
    ),
    _of(
        "session",
        "delegation.inspected",
        "What was left in a worktree was looked at again.",
        "delegation_id result_commit",
    ),
    _of(
        "session",
        "delegation.worktree_kept",
        "The worktree was kept, because something could be lost.",
        "delegation_id workspace_id",
    ),
    _of("session", "delegation.worktree_removed", "The worktree was removed.", "delegation_id workspace_id"),
    _of(
        "session",
        "delegation.adopted",
        "The commits of a result came onto a git branch; whether its tests hold there, and a check that passed.",
        "delegation_id commit branch method verification check",
    ),
    _of("session", "delegation.discarded", "The commits of a result were given up.", "delegation_id result_commit"),
    _of("session", "delegation.cancel_requested", "Somebody asked for the end of a task.", "delegation_id"),
    _of(
        "session",
        "delegation.claimed",
        "The task of a lost controller was taken over.",
        "delegation_id lost_controller_id controller_id",
    ),
    _of(
        "session",
        "delegation.place_prepared",
        "A worktree was made to work: what was copied, set up and handed out.",
        "delegation_id",
        "is_lent ports setup_lines setup_seconds restored_files is_kept unignored",
    ),
    _of("session", "delegation.place_failed", "A worktree could not be made to work.", "delegation_id code"),
    _of("session", "delegation.objects_kept", "What a task lent of git's objects was kept.", "delegation_id code"),
    _of(
        "session",
        "delegation.superseded",
        "A later try holds what the task did; its own commits wait no longer.",
        "delegation_id by",
    ),
    _of(
        "session",
        "delegation.message_sent",
        "Something was said to the running worker, as an entry of its session.",
        "delegation_id number entry_id",
    ),
    _of(
        "session",
        "delegation.message_handed_over",
        "The worker was told, at the end of a turn.",
        "delegation_id number attempt",
    ),
    _of(
        "session",
        "approval.requested",
        "A worker wants something allowed, and the operator is asked.",
        "delegation_id approval_id expires_at",
    ),
    _of(
        "session",
        "approval.decided",
        "It was allowed, denied, timed out, or lapsed with its worker.",
        "delegation_id approval_id status",
    ),
    _of(
        "session",
        "quota.paused",
        "A worker met the limit of its credential, which is paused until then.",
        "delegation_id credential resets_at",
    ),
    _of(
        "session",
        "delegation.place_prepared",
        "The worktree was set up, and the worker got its ports and its border.",
        "delegation_id is_lent ports",
        "setup_lines setup_seconds restored_files is_kept unignored",
    ),
    _of("session", "delegation.place_failed", "The worktree could not be set up.", "delegation_id code"),
    _of(
        "session",
        "delegation.objects_kept",
        "What the worker's git wrote could not be brought into the repository, which goes on borrowing it.",
        "delegation_id code",
    ),
    _of("session", "agent.token_minted", "An agent was given a token for the session.", "token_id purpose expires_at"),
    _of("session", "agent.token_revoked", "A token was taken back.", "token_id"),
    _of(
        "session",
        "access.refused",
        "An agent asked for something that it may not reach.",
        "method code reference count",
    ),
    _of(
        "workspace",
        "workspace.registered",
        "A repository was registered.",
        "workspace_id path kind repository_id worktree_id",
    ),
    _of(
        "workspace",
        WORKSPACE_RELINKED,
        "A workspace stands for another place now.",
        "workspace_id old_repository_id old_worktree_id new_repository_id new_worktree_id old_path new_path "
        "shared_roots stamped_head",
    ),
    _of("worktree", "worktree.reserved", "A path was reserved for a worktree.", "delegation_id"),
    _of("worktree", "worktree.created", "The worktree was made.", "delegation_id base_commit"),
    _of("worktree", "worktree.taken_up", "A further try works in it.", "delegation_id"),
    _of("worktree", "worktree.kept", "It was kept, because something could be lost.", "delegation_id reason"),
    _of("worktree", "worktree.removed", "It was removed.", "delegation_id reason"),
    _of("store", "quota.lifted", "The pause of a credential was lifted before its time.", "credential by"),
    _of("store", STORE_UPGRADED, "The store was brought to another schema version.", "from_version to_version"),
    _of(
        "store",
        CAPTURE_TAKEN_IN,
        "Events of coding agents' hooks that were kept meanwhile were taken in; `digest` is over their bytes.",
        "events damaged digest",
    ),
)

#: Every type by name.
EVENTS: Final = MappingProxyType({one.name: one for one in _TYPES})


def events_markdown() -> str:
    """Return the table of all types, for the documents."""
    lines = ["| event | chain | what happened | facts |", "|---|---|---|---|"]
    for one in _TYPES:
        facts = [f"`{name}`" for name in one.facts] + [f"(`{name}`)" for name in one.optional]
        lines.append(f"| `{one.name}` | {one.chain} | {one.records} | {' '.join(facts)} |")
    return "\n".join(lines)
