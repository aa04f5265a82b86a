"""The table's part that agents work by, beside what everybody may call."""

from __future__ import annotations

from typing import Final

from bridge.control import errors as control
from bridge.foundation.errors import NotCanonical
from bridge.rpc import calls_agent, results
from bridge.rpc.method import REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import EVERYONE, WORKERS
from bridge.semantics.errors import InvalidOutputSchema, UnsupportedSemanticVersion

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
)
