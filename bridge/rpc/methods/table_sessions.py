"""The table's part about sessions, beside what :mod:`bridge.rpc.methods.table` has, and about events."""

from __future__ import annotations

from typing import Final

from bridge.control.errors import EventCursorUnknown, ImportSourceChanged, ImportUnreadable
from bridge.conversations import errors as conversations
from bridge.lineage.errors import LineageCycle
from bridge.recall.errors import UnknownTimeZone
from bridge.rpc.errors import ResultTooLarge, SubscriptionNotFound, TooManyCalls
from bridge.rpc.methods import calls_events, calls_search, calls_sessions, results
from bridge.rpc.methods.method import ENTRY_ERRORS, PATH_ERRORS, REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import EVERYONE, READERS, WRITERS
from bridge.transcripts.errors import TranscriptInvalid, TranscriptPartial, UnsupportedTranscriptVersion
from bridge.transcripts.sessionfile.errors import CONTENT_ERRORS, SIZE_ERRORS
from bridge.workspaces.errors import StateDamaged, WorkspaceNotFound

SESSION_TABLE: Final = (
    Method(
        "sessions/snapshot",
        "Return a session with a page of its entries at one moment, and the cursor to follow it from",
        calls_sessions.SnapshotParams,
        results.SNAPSHOT,
        calls_sessions.sessions_snapshot,
        EVERYONE,
        REFERENCE_ERRORS,
        Mode.READ,
    ),
    Method(
        "sessions/entry",
        "Show one entry with its stamp, its labels and its children",
        calls_sessions.EntryParams,
        results.ENTRY,
        calls_sessions.sessions_entry,
        EVERYONE,
        (*ENTRY_ERRORS, StateDamaged),
        Mode.READ,
    ),
    Method(
        "sessions/back",
        "Move a session's head to its parent; no file is touched",
        calls_sessions.BackParams,
        results.MOVE,
        calls_sessions.sessions_back,
        WRITERS,
        (*ENTRY_ERRORS, conversations.HeadMoved, conversations.EntryShared),
        Mode.CHANGE,
    ),
    Method(
        "sessions/branches",
        "List the branches of a session",
        calls_sessions.BranchesParams,
        results.BRANCHES,
        calls_sessions.sessions_branches,
        READERS,
        ENTRY_ERRORS,
        Mode.READ,
    ),
    Method(
        "sessions/search_chats",
        "Find chats by what was spoken of in them, and when",
        calls_search.SearchChatsParams,
        results.FOUND_CHATS,
        calls_search.search_chats,
        READERS,
        (*REFERENCE_ERRORS, UnknownTimeZone),
        Mode.READ,
    ),
    Method(
        "sessions/export",
        "Return a session as a file for programs or people, if it fits into one answer",
        calls_sessions.ExportParams,
        results.EXPORTED,
        calls_sessions.sessions_export,
        READERS,
        (*PATH_ERRORS, ResultTooLarge, *SIZE_ERRORS),
        Mode.READ,
    ),
    Method(
        "sessions/import",
        "Take in a session that was exported as jsonl, under its own ids and hashes, or as a session file",
        calls_sessions.ImportParams,
        results.IMPORTED,
        calls_sessions.sessions_import,
        WRITERS,
        (
            ImportUnreadable,
            ImportSourceChanged,
            TranscriptInvalid,
            TranscriptPartial,
            UnsupportedTranscriptVersion,
            conversations.SessionDiffers,
            conversations.SessionRemoved,
            conversations.SessionQuarantined,
            conversations.ExternalIdConflict,
            LineageCycle,
            StateDamaged,
            *CONTENT_ERRORS,
        ),
        Mode.CHANGE,
    ),
    Method(
        "events/subscribe",
        "Have events sent as they are recorded, from now on or from a cursor on",
        calls_events.SubscribeParams,
        results.SUBSCRIBED,
        calls_events.events_subscribe,
        EVERYONE,
        (*REFERENCE_ERRORS, WorkspaceNotFound, EventCursorUnknown, TooManyCalls),
        Mode.WAIT,
    ),
    Method(
        "events/unsubscribe",
        "End a subscription, and return the cursor to go on from",
        calls_events.UnsubscribeParams,
        results.SUBSCRIBED,
        calls_events.events_unsubscribe,
        EVERYONE,
        (SubscriptionNotFound,),
        Mode.INLINE,
    ),
)
