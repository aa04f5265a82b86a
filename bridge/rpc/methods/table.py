"""The table of methods: the one place that says what may be called, with what, by whom, and what comes back.

Dispatch, the published description (``schema/rpc/openrpc.json``) and the tests all read it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from bridge.control import errors as control
from bridge.conversations import errors as conversations
from bridge.foundation.errors import NotCanonical
from bridge.integrity.errors import AnchorDamaged, InvalidLogRoot, LogUnsound, TreeUnsound
from bridge.lineage.errors import LineageCycle
from bridge.rpc.methods import calls, calls_connection, results
from bridge.rpc.methods.method import ENTRY_ERRORS as _ENTRY
from bridge.rpc.methods.method import PATH_ERRORS as _PATH
from bridge.rpc.methods.method import REFERENCE_ERRORS as _REFERENCE
from bridge.rpc.methods.method import Method, Mode
from bridge.rpc.methods.table_agent import AGENT_TABLE
from bridge.rpc.methods.table_places import PLACE_TABLE
from bridge.rpc.methods.table_removal import REMOVAL_TABLE
from bridge.rpc.methods.table_sessions import SESSION_TABLE
from bridge.rpc.methods.table_steering import STEERING_TABLE
from bridge.rpc.methods.table_work import WORK_TABLE
from bridge.rpc.roles import EVERYONE, READERS, WRITERS, Role
from bridge.semantics import errors as semantics
from bridge.workspaces.errors import WorkspaceNotFound

__all__ = ["METHODS", "Method", "Mode", "Role"]


_TABLE: Final = (
    Method(
        "$/cancel",
        "Give up another call of this connection",
        calls_connection.CancelParams,
        results.CANCELLED,
        calls_connection.cancel,
        EVERYONE,
        (),
        Mode.INLINE,
    ),
    Method(
        "admin/ping",
        "Say that somebody is there",
        calls_connection.Nothing,
        results.PONG,
        calls_connection.ping,
        EVERYONE,
        (),
        Mode.INLINE,
    ),
    Method(
        "sessions/new",
        "Start a session",
        calls.NewSessionParams,
        results.SESSION,
        calls.sessions_new,
        WRITERS,
        (*_REFERENCE, conversations.InvalidSession, WorkspaceNotFound, LineageCycle),
        Mode.CHANGE,
    ),
    Method(
        "sessions/list",
        "List sessions, the one touched last first",
        calls.ListSessionsParams,
        results.SESSIONS,
        calls.sessions_list,
        READERS,
        (),
        Mode.READ,
    ),
    Method(
        "sessions/show",
        "Show a session with its workspace, labels and cursors",
        calls.OfSession,
        results.SESSION,
        calls.sessions_show,
        EVERYONE,
        _REFERENCE,
        Mode.READ,
    ),
    Method(
        "sessions/append",
        "Stamp the session's worktree and append an entry",
        calls.AppendParams,
        results.APPENDED,
        calls.sessions_append,
        WRITERS,
        (
            *_ENTRY,
            conversations.HeadMoved,
            conversations.EntryShared,
            conversations.CursorNotFound,
            conversations.ExternalIdConflict,
            conversations.PayloadTooLarge,
            control.KindWithoutText,
            semantics.UnknownKind,
            semantics.TransientKind,
            semantics.InvalidPayload,
            NotCanonical,
        ),
        Mode.CHANGE,
    ),
    Method(
        "sessions/goto",
        "Move a session's head to one of its entries; no file is touched",
        calls.GotoParams,
        results.MOVE,
        calls.sessions_goto,
        WRITERS,
        (*_ENTRY, conversations.HeadMoved, conversations.EntryShared),
        Mode.CHANGE,
    ),
    Method(
        "sessions/label",
        "Name an entry, or take a name from it",
        calls.LabelParams,
        results.LABELLED,
        calls.sessions_label,
        WRITERS,
        (*_ENTRY, conversations.InvalidLabel, conversations.EntryShared),
        Mode.CHANGE,
    ),
    Method(
        "sessions/fork",
        "Start a session that goes on from an entry of another one",
        calls.ForkParams,
        results.SESSION,
        calls.sessions_fork,
        WRITERS,
        (*_ENTRY, conversations.InvalidSession, LineageCycle),
        Mode.CHANGE,
    ),
    Method(
        "sessions/log",
        "List the entries of a session's active path, oldest first",
        calls.LogParams,
        results.LOG,
        calls.sessions_log,
        EVERYONE,
        (*_ENTRY, conversations.PathBroken, conversations.EntryNotOnPath),
        Mode.READ,
    ),
    Method(
        "sessions/tree",
        "List the entries of a session of all branches with their place in its tree",
        calls.TreeParams,
        results.TREE,
        calls.sessions_tree,
        READERS,
        _ENTRY,
        Mode.READ,
    ),
    Method(
        "sessions/context",
        "Return the context that a session's active path restores",
        calls.ContextParams,
        results.CONTEXT,
        calls.sessions_context,
        EVERYONE,
        _PATH,
        Mode.READ,
    ),
    Method(
        "sessions/search_session_entries",
        "Find again what was said in one session",
        calls.SearchParams,
        results.RECALLED,
        calls.search_session_entries,
        EVERYONE,
        _PATH,
        Mode.READ,
    ),
    Method(
        "delegations/list",
        "List delegations, oldest first",
        calls.ListDelegationsParams,
        results.DELEGATIONS,
        calls.delegations_list,
        EVERYONE,
        (*_REFERENCE, conversations.PathBroken, control.TaskNotFound, control.TaskAmbiguous),
        Mode.READ,
    ),
    Method(
        "delegations/show",
        "Show a delegation with its request, decision, attempts and result",
        calls.TaskParams,
        results.DELEGATION,
        calls.delegations_show,
        EVERYONE,
        (control.TaskNotFound, control.TaskAmbiguous),
        Mode.READ,
    ),
    Method(
        "references/resolve",
        "Return a worker's result for use as evidence, checked at this moment",
        calls.ReferenceParams,
        results.EVIDENCE,
        calls.references_resolve,
        EVERYONE,
        (
            *_REFERENCE,
            control.ReferenceNotFound,
            control.ReferenceForeignSession,
            control.ReferenceNotAResult,
            control.ReferenceNotOnActiveBranch,
            control.ReferenceInvalidResult,
            control.TaskAmbiguous,
            control.TaskStillOpen,
            semantics.UnsupportedSemanticVersion,
        ),
        Mode.READ,
    ),
    Method(
        "divergence/report",
        "Compare the files with the last entry of a session",
        calls.DivergenceParams,
        results.DIVERGENCE,
        calls.divergence_report,
        EVERYONE,
        _REFERENCE,
        Mode.READ,
    ),
    Method(
        "integrity/verify",
        "Recompute what is stored of one session, or of all",
        calls.VerifyParams,
        results.VERIFICATION,
        calls.integrity_verify,
        READERS,
        (*_REFERENCE, InvalidLogRoot),
        Mode.READ,
    ),
    Method(
        "integrity/root",
        "Return the hash that fixes a whole session, and record that it was given out",
        calls.OfSession,
        results.ROOT,
        calls.integrity_root,
        WRITERS,
        (*_REFERENCE, TreeUnsound),
        Mode.ACT,
    ),
    Method(
        "integrity/proof",
        "Return what proves an entry to somebody without this store, and record that its root was given out",
        calls.ProofParams,
        results.PROOF,
        calls.integrity_proof,
        WRITERS,
        (*_ENTRY, TreeUnsound, LogUnsound, AnchorDamaged),
        Mode.ACT,
    ),
)

#: Every method by name.
METHODS: Final = MappingProxyType(
    {
        method.name: method
        for method in (
            *_TABLE,
            *SESSION_TABLE,
            *WORK_TABLE,
            *STEERING_TABLE,
            *AGENT_TABLE,
            *PLACE_TABLE,
            *REMOVAL_TABLE,
        )
    }
)
