"""Why a child process could not be started. How one ended is no error (see ``children``)."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class SpawnFailed(BridgeError):
    """Raised when the system refuses to start a child for a reason that has no class of its own."""

    code = "spawn_failed"
    exit_status = 41
    summary = "The system refused to start a child process."
    default_hint = "The system's own message names the cause; often a limit on processes, memory or argument size."


class ProgramNotFound(BridgeError):
    """Raised when the program of a command does not exist, neither as a path nor on the child's PATH."""

    code = "program_not_found"
    exit_status = 42
    summary = "The program of a command, or the interpreter its first line names, does not exist."
    default_hint = "Check the spelling and PATH; a relative path counts from the child's working directory."


class ProgramNotExecutable(BridgeError):
    """Raised when the program of a command exists but may not be run, or is no program."""

    code = "program_not_executable"
    exit_status = 43
    summary = "The program of a command exists but cannot be executed."
    default_hint = "Make it executable (chmod +x) and give a script a first line such as #!/bin/sh."


class WorkingDirectoryMissing(BridgeError):
    """Raised when the folder a child is to run in is missing or is no folder."""

    code = "working_directory_missing"
    exit_status = 44
    summary = "The folder that a child process is to run in does not exist."
    default_hint = "If it was a worktree, it was removed behind Bridge's back: discard the task, or retry it."


class ConfinementUnavailable(SpawnFailed):
    """Raised when a child is to be confined and this machine's kernel cannot."""

    code = "confinement_unavailable"
    summary = "A child process was to be confined, and the kernel has no Landlock, or too old a one."
    default_hint = (
        'Use a kernel from Linux 6.2 on with Landlock enabled, or set confinement to "auto"; see docs/isolation.md.'
    )


class ConfinementFailed(SpawnFailed):
    """Raised when the kernel has Landlock and refuses what a confinement asks for."""

    code = "confinement_failed"
    summary = "The kernel refused to confine a child process."
    default_hint = "The message names what it refused; a path that may not be searched is the usual cause."
