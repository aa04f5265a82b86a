"""The table's part about asking for work and about what came of it."""

from __future__ import annotations

from typing import Final

from bridge.adapters.errors import UnknownHarness
from bridge.agents.errors import InvalidOwnedPath
from bridge.control import errors as control
from bridge.foundation.errors import InvalidConfiguration
from bridge.git import errors as git
from bridge.rpc.methods import calls_delegations, results, results_work
from bridge.rpc.methods.calls import TaskParams
from bridge.rpc.methods.method import REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import EVERYONE, WORKERS, WRITERS
from bridge.semantics.errors import InvalidOutputSchema, UnsupportedSemanticVersion

_TASK: Final = (control.TaskNotFound, control.TaskAmbiguous)

WORK_TABLE: Final = (
    Method(
        "delegations/request",
        "Ask for a worker; it runs in the controller as soon as policy allows",
        calls_delegations.RequestParams,
        results_work.ASKED,
        calls_delegations.delegations_request,
        WORKERS,
        (
            *REFERENCE_ERRORS,
            control.BaseUnavailable,
            control.UncommittedWork,
            control.ReferenceNotFound,
            control.ReferenceForeignSession,
            control.ReferenceNotAResult,
            control.ReferenceNotOnActiveBranch,
            control.ReferenceInvalidResult,
            control.TooMuchEvidence,
            control.ControllerStopping,
            UnsupportedSemanticVersion,
            InvalidConfiguration,
            InvalidOutputSchema,
            InvalidOwnedPath,
            UnknownHarness,
            git.NotARepository,
            git.BareRepository,
        ),
        Mode.START,
    ),
    Method(
        "delegations/wait",
        "Wait until a delegation has ended, or for a time, and show it",
        calls_delegations.WaitParams,
        results_work.WAITED,
        calls_delegations.delegations_wait,
        EVERYONE,
        _TASK,
        Mode.WAIT,
    ),
    Method(
        "delegations/cancel",
        "Ask for the end of a delegation",
        TaskParams,
        results.DELEGATION,
        calls_delegations.delegations_cancel,
        WORKERS,
        (*_TASK, control.TaskAlreadyEnded),
        Mode.START,
    ),
    Method(
        "delegations/preview",
        "Say what adopting delegations would do, and what stands in its way; nothing moves",
        calls_delegations.AdoptParams,
        results_work.PREVIEW,
        calls_delegations.delegations_preview,
        WRITERS,
        (*_TASK, control.AdoptionRefused),
        Mode.ACT,
    ),
    Method(
        "delegations/adopt",
        "Bring the commits of delegations onto the git branch that they were asked for on",
        calls_delegations.AdoptParams,
        results_work.ADOPTION,
        calls_delegations.delegations_adopt,
        WRITERS,
        (
            *_TASK,
            control.TaskStillOpen,
            control.NothingToAdopt,
            control.AdoptionRefused,
            control.OutOfScopeWrites,
            control.AdoptionConflict,
            control.AdoptionCheckFailed,
            git.GitFailed,
            git.WorktreeNotRegistered,
            git.CheckoutBlocked,
            git.BranchCheckedOut,
            git.GitIdentityMissing,
            git.CommitRefused,
            git.RefMoved,
        ),
        Mode.ACT,
    ),
    Method(
        "delegations/discard",
        "Give up what a delegation changed, and its worktree; the result is kept",
        TaskParams,
        results.DELEGATION,
        calls_delegations.delegations_discard,
        WRITERS,
        (*_TASK, control.TaskStillOpen, control.NothingToAdopt, git.GitFailed),
        Mode.ACT,
    ),
)
