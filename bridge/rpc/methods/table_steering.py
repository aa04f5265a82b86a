"""The table's part about steering workers."""

from __future__ import annotations

from typing import Final

from bridge.adapters.errors import CommandMissing, UnknownHarness
from bridge.agents.errors import InvalidOwnedPath
from bridge.control import errors as control
from bridge.foundation.errors import InvalidConfiguration
from bridge.git import errors as git
from bridge.rpc.methods import calls_steering, results_work
from bridge.rpc.methods.calls_connection import Nothing
from bridge.rpc.methods.method import REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import READERS, WORKERS, WRITERS
from bridge.semantics.errors import InvalidOutputSchema, UnsupportedSemanticVersion

_TASK: Final = (control.TaskNotFound, control.TaskAmbiguous)

STEERING_TABLE: Final = (
    Method(
        "delegations/send",
        "Say something to a running worker; it is told at the end of its turn",
        calls_steering.SendParams,
        results_work.MESSAGE,
        calls_steering.delegations_send,
        WORKERS,
        (
            *_TASK,
            control.TaskAlreadyEnded,
            control.TaskNotRunning,
            control.HarnessTakesNoMessages,
            UnknownHarness,
        ),
        Mode.CHANGE,
    ),
    Method(
        "delegations/retry",
        "Have an ended task tried again, in its worktree or from HEAD",
        calls_steering.RetryParams,
        results_work.ASKED,
        calls_steering.delegations_retry,
        WRITERS,
        (
            *_TASK,
            *REFERENCE_ERRORS,
            control.TaskStillOpen,
            control.RetryRefused,
            control.RetryConflict,
            control.BaseUnavailable,
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
            CommandMissing,
            UnknownHarness,
            git.NotARepository,
            git.GitFailed,
            git.WorktreeNotRegistered,
        ),
        Mode.START,
    ),
    Method(
        "delegations/diff",
        "Show what a worker changed since it started, uncommitted work included",
        calls_steering.DiffParams,
        results_work.TASK_DIFF,
        calls_steering.delegations_diff,
        READERS,
        (*_TASK, control.TaskNotRunning, git.GitFailed, git.WorktreeNotRegistered),
        Mode.READ,
    ),
    Method(
        "approvals/list",
        "List what workers want allowed, oldest first",
        calls_steering.ApprovalsParams,
        results_work.APPROVALS,
        calls_steering.approvals_list,
        READERS,
        (),
        Mode.READ,
    ),
    Method(
        "approvals/decide",
        "Allow or deny what a worker wants",
        calls_steering.DecideParams,
        results_work.APPROVAL,
        calls_steering.approvals_decide,
        WRITERS,
        (control.ApprovalNotFound, control.ApprovalNotPending),
        Mode.CHANGE,
    ),
    Method(
        "quotas/list",
        "List the credentials that are paused because their quota is used up",
        Nothing,
        results_work.PAUSES,
        calls_steering.quotas_list,
        READERS,
        (),
        Mode.READ,
    ),
    Method(
        "quotas/lift",
        "Go on with a paused credential before its reset",
        calls_steering.LiftParams,
        results_work.PAUSES,
        calls_steering.quotas_lift,
        WRITERS,
        (control.QuotaNotPaused,),
        Mode.CHANGE,
    ),
)
