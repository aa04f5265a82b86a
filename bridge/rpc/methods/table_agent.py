"""The table's part that agents work by, beside what everybody may call."""

from __future__ import annotations

from typing import Final

from bridge.control import errors as control
from bridge.conversations.errors import InvalidSession
from bridge.foundation.errors import NotCanonical
from bridge.lineage.errors import LineageCycle
from bridge.rpc.methods import calls_agent, results
from bridge.rpc.methods.method import REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import EVERYONE, WORKERS
from bridge.semantics.errors import InvalidOutputSchema, InvalidPayload, UnsupportedSemanticVersion

AGENT_TABLE: Final = (
    Method(
        "references/read",
        "Return the exact stored bytes of a worker's result, checked at this moment, a page at a time",
        calls_agent.ReadParams,
        results.EVIDENCE_PAGE,
        calls_agent.references_read,
        EVERYONE,
        (
            *REFERENCE_ERRORS,
            control.ReferenceNotFound,
            control.ReferenceForeignSession,
            control.ReferenceNotAResult,
            control.ReferenceNotOnActiveBranch,
            control.ReferenceInvalidResult,
            control.TaskAmbiguous,
            control.TaskStillOpen,
            UnsupportedSemanticVersion,
        ),
        Mode.READ,
    ),
    Method(
        "delegations/submit",
        "Hand in the result of the task that a worker's session works on; what is wrong with it is answered",
        calls_agent.SubmitParams,
        results.HANDED,
        calls_agent.delegations_submit,
        WORKERS,
        (
            *REFERENCE_ERRORS,
            control.NoOpenDelegation,
            control.ResultAlreadySubmitted,
            InvalidOutputSchema,
            NotCanonical,
        ),
        Mode.CHANGE,
    ),
    Method(
        "notes/add",
        "Leave a note in a session",
        calls_agent.AddNoteParams,
        results.NOTE,
        calls_agent.notes_add,
        WORKERS,
        (*REFERENCE_ERRORS, InvalidPayload, NotCanonical),
        Mode.CHANGE,
    ),
    Method(
        "notes/read",
        "Return the notes of a session, and of those that it continues, oldest first",
        calls_agent.ReadNotesParams,
        results.NOTES,
        calls_agent.notes_read,
        EVERYONE,
        (*REFERENCE_ERRORS, UnsupportedSemanticVersion),
        Mode.READ,
    ),
    Method(
        "sessions/wake",
        "Start a session that continues the one before it, or say what matters on going on with one",
        calls_agent.WakeParams,
        results.WOKEN,
        calls_agent.sessions_wake,
        WORKERS,
        (*REFERENCE_ERRORS, InvalidSession, LineageCycle, UnsupportedSemanticVersion),
        Mode.CHANGE,
    ),
)
