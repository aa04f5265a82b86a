"""What keeps a harness from being asked. How a run ended is an outcome (see ``base``), not an error."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class UnknownHarness(BridgeError):
    """Raised when a harness is named that this Bridge has no adapter for."""

    code = "unknown_harness"
    exit_status = 110
    summary = "A harness is named that this Bridge has no adapter for."
    default_hint = "bridge doctor lists the harnesses of this installation."


class EvidenceMismatch(BridgeError):
    """Raised when evidence that is about to be handed to a worker is not what its digest says."""

    code = "evidence_mismatch"
    exit_status = 111
    summary = "Evidence for a worker does not have the digest it was resolved with."
    default_hint = "Run bridge verify on the session that the evidence was cited from."


class TaskFolderUnusable(BridgeError):
    """Raised when the request cannot be written where the worker would read it."""

    code = "task_folder_unusable"
    exit_status = 112
    summary = "The folder that holds a worker's request and result cannot be written."
    default_hint = "Check free space and permissions of the state directory (BRIDGE_HOME)."
