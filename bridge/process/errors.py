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
