"""Error classes of the command line itself."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class UsageInvalid(BridgeError):
    """Raised when a command line cannot be understood, also by a command for options that exclude each other."""

    code = "usage"
    exit_status = 2
    summary = "The command line is not understood: unknown command or option, missing or unusable value."
    default_hint = "See: bridge --help"


class InternalError(BridgeError):
    """Reported when Bridge itself failed: a fault, not a condition."""

    code = "internal_error"
    exit_status = 118
    summary = "Bridge itself failed; a crash report was written."
    default_hint = "Please report it and attach the crash report; look through it first, it is plain text."


class OutputFailed(BridgeError):
    """Raised when standard output cannot be written to, other than by a reader that went away."""

    code = "output_failed"
    exit_status = 119
    summary = "The result could not be written to standard output (disk full, closed)."
    default_hint = "What the command did stays done; only its output is lost. Mend the output and look again."


class CurrentDirectoryGone(BridgeError):
    """Raised when the current directory was removed or cannot be entered."""

    code = "current_directory_gone"
    exit_status = 120
    summary = "The current directory no longer exists or cannot be read."
    default_hint = "Change to a directory that exists, then repeat."


class Interrupted(BridgeError):
    """Reported when the person stopped the command with Ctrl-C."""

    code = "interrupted"
    exit_status = 130
    summary = "The command was stopped by Ctrl-C; 130 is what shells use for it."
    no_hint_reason = "the person stopped it themselves"


class DemoFailed(BridgeError):
    """Raised when the demonstration does not show what it promises; a fault of Bridge or of the machine."""

    code = "demo_failed"
    exit_status = 121
    summary = "The demonstration did not come out as it should."
    default_hint = "Check the machine: bridge doctor"
