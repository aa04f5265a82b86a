"""What the controller asks of a harness and what it gets back, whatever program is behind it.

An adapter carries bytes. Whether a result keeps its contract, what git says of it, and what is recorded is decided
above.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import anyio

from bridge.adapters.events import AdapterEvent
from bridge.adapters.permission import PermissionPolicy
from bridge.process.children import DEFAULT_OUTPUT_LIMIT_BYTES
from bridge.process.confinement import Confinement
from bridge.process.groups import DEFAULT_GRACE_SECONDS
from bridge.process.identity import ProcessIdentity

#: Takes the next message that somebody has for a running worker, None if there is none. What was taken is handed over.
NextMessage = Callable[[], Awaitable[str | None]]
#: Seconds without a word of the agent, while it has the turn, after which it counts as stalled.
DEFAULT_SILENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a harness can do beyond running a task once."""

    #: Continue an earlier conversation of its own.
    resume: bool = False
    #: End a running turn without losing the conversation.
    cancel: bool = False
    #: Take up an earlier conversation by playing it back (the protocol's ``session/load``).
    load: bool = False
    #: Use tools that Bridge offers over MCP.
    mcp: bool = False
    #: Take a further message while it works, as its next turn; one that cannot is told nothing.
    messages: bool = False
    #: Does nothing but run the command that a task names, so that a task without one is no task for it.
    needs_command: bool = False
    #: Say how many tokens it uses as it works; of one that is not known to, a budget of tokens may not be kept.
    usage: bool = False


class FailureClass(StrEnum):
    """Why a run gave no result to rely on. Known from what the system says, never read out of prose."""

    #: The command ended with a status other than 0.
    EXIT_NONZERO = "exit_nonzero"
    #: A signal that Bridge did not send ended the command.
    SIGNALLED = "signalled"
    #: The command ended, but the system did not tell how.
    EXIT_UNKNOWN = "exit_unknown"
    #: The time limit passed.
    TIMED_OUT = "timed_out"
    #: The run was cancelled.
    CANCELLED = "cancelled"
    #: The command wrote more than it may.
    OUTPUT_LIMIT = "output_limit"
    #: The command could not be started; nothing ran.
    SPAWN_FAILED = "spawn_failed"
    #: The agent was started but came to no session: it refused, ended, kept silent, or wants a login.
    START_FAILED = "start_failed"
    #: What stands at the result's path is no file that can be read.
    RESULT_UNREADABLE = "result_unreadable"
    #: The agent said nothing for too long.
    STALLED = "stalled"
    #: The agent's process ended in the middle of a turn.
    CRASHED = "crashed"
    #: The agent spoke what the protocol does not know, or too much at once.
    PROTOCOL_BROKEN = "protocol_broken"
    #: The agent answered the prompt with an error.
    AGENT_ERROR = "agent_error"
    #: The credential behind the harness has used up what it may; see ``Outcome.resets_at``.
    QUOTA_EXHAUSTED = "quota_exhausted"
    #: The task used more tokens than it may, by what its harness reports.
    TOKENS_EXHAUSTED = "tokens_exhausted"


class SubmissionSource(StrEnum):
    """Where a submission was read; the words of the worker result contract."""

    RESULT_FILE = "result_file"
    STRUCTURED_OUTPUT = "structured_output"
    #: A block of JSON in the last thing that the agent said.
    MESSAGE = "message"
    EXIT_STATUS = "exit_status"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A result that the worker may build on.

    Parameters
    ----------
    reference
        The evidence reference it was resolved from.
    payload
        The stored canonical bytes, exactly.
    digest
        SHA-256 (hex) of the payload.
    """

    reference: str
    payload: bytes
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handing:
    """What became of a result that a worker handed in while it ran.

    Parameters
    ----------
    is_accepted
        Whether it keeps the contract and the task's own schema.
    number, permitted
        Which try of the attempt it was, from 1, and how many there may be.
    errors
        What is wrong with it, field by field: ``path`` as a JSON pointer, ``message``.
    """

    is_accepted: bool
    number: int
    permitted: int
    errors: tuple[Mapping[str, str], ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether nothing more can be handed in."""
        return self.is_accepted or self.number >= self.permitted


class Desk(Protocol):
    """Where the results of one attempt are handed in and checked, by whichever way they come."""

    async def hand_in(self, raw: bytes) -> Handing:
        """Check a result and record it with what is wrong with it; what is handed in after the last is not taken."""
        ...

    async def latest(self) -> Handing | None:
        """Return what became of the last one handed in, also by the agent itself over MCP; None if there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """One attempt at a delegation, with everything an adapter needs to run it.

    Parameters
    ----------
    delegation_id
        What it is an attempt at.
    attempt
        From 1.
    role, objective, acceptance_criteria
        What the worker is asked for, in words.
    write_mode
        ``read_only``, ``shared`` or ``isolated``.
    owned_paths
        Path prefixes, relative to the worktree, that it may change; empty means no claim.
    base_commit
        The commit the worktree was cut from; None without a repository.
    evidence
        In the order it was asked for.
    spark
        Last word of the session that delegates, where workers are given it; else empty.
    output_schema
        JSON Schema that the result's ``data`` must fit.
    command
        Program and arguments; meaningful to harnesses that run a command.
    worktree
        Where the worker works.
    folder
        This attempt's own folder, outside the worktree, for request, result, evidence and logs.
    environment
        What the child inherits, before it is stripped (see ``child_environment``).
    additions
        Variables the plan or the controller adds for this worker.
    marker
        Value of the variable that finds the worker's processes after a crash; unique to the attempt.
    timeout_seconds
        Wall time of the attempt; None: no limit.
    grace_seconds
        From SIGTERM to SIGKILL.
    output_limit_bytes
        What it may print.
    previous_errors
        What was wrong with the result of the attempt before, field by field; empty on the first.
    attempts_permitted
        How many attempts there may be; the worker is told when this is the last.
    mcp_command
        Program and arguments of the MCP server for this worker; empty if there is none.
    mcp_environment
        Variables that server needs, its token among them.
    desk
        Where a harness hands in what it finds in an agent's words; None: it is the outcome's submission, unchecked.
    permission
        Answers where an agent asks; None: what the write mode implies.
    next_message
        Asked after each turn by a harness that can take ``messages``; what it gives is the next prompt.
    silence_seconds
        Without a word of the agent for so long, it counts as stalled.
    confinement
        Where the worker's processes may write; None: wherever this process may.
    tokens
        What it may use, by what its harness reports; None: no limit.
    """

    delegation_id: str
    objective: str
    worktree: Path
    folder: Path
    marker: str
    attempt: int = 1
    role: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    write_mode: str = "isolated"
    owned_paths: tuple[str, ...] = ()
    base_commit: str | None = None
    evidence: tuple[Evidence, ...] = ()
    spark: str = ""
    output_schema: Mapping[str, Any] | None = None
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    additions: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES
    previous_errors: tuple[Mapping[str, str], ...] = ()
    attempts_permitted: int = 1
    mcp_command: tuple[str, ...] = ()
    mcp_environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    desk: Desk | None = None
    permission: PermissionPolicy | None = None
    next_message: NextMessage | None = None
    silence_seconds: float = DEFAULT_SILENCE_SECONDS
    confinement: Confinement | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.

    Parameters
    ----------
    submission
        What the worker handed in, byte for byte, or what was derived in its place; to be validated above.
    source
        Which of the two it is.
    failure
        Typed cause of a run that did not end well, whatever the submission claims; None if it did.
    detail
        One sentence for people about the failure; empty without one.
    error_code
        Code of the Bridge error that kept the command from starting, else None.
    exit_status, signal
        How the process ended; both None if none ran.
    output_bytes
        What it printed.
    leftover_processes
        Processes it left running, which were ended.
    survivors
        Those of them that could not be ended.
    stdout_path, stderr_path
        Where its output is.
    resets_at
        When a quota that is used up is full again, as a timestamp; None where the harness does not say.
    tokens_used
        What the harness reported of it; None where it reported nothing.
    """

    submission: bytes
    source: SubmissionSource
    failure: FailureClass | None
    detail: str
    error_code: str | None
    exit_status: int | None
    signal: int | None
    output_bytes: int
    leftover_processes: int
    survivors: tuple[ProcessIdentity, ...]
    stdout_path: Path
    stderr_path: Path
    resets_at: str | None = None
    tokens_used: int | None = None


class Sink(Protocol):
    """Where a harness reports to while it runs."""

    async def started(self, identity: ProcessIdentity) -> None:
        """Take note of the worker's process. Called at once after the start, before anything else."""
        ...

    async def event(self, event: AdapterEvent) -> None:
        """Take one event, in order."""
        ...


class Harness(Protocol):
    """A program that agents run in, as Bridge sees it. The name is for display and never decides anything."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def run(self, task: TaskRequest, sink: Sink, *, cancel: anyio.Event | None = None) -> Outcome:
        """Run one attempt to its end.

        Parameters
        ----------
        task
            What to do, where, within which limits.
        sink
            Is told of the process and of events; what it raises ends the run and is raised here.
        cancel
            Once set, the run is ended in order and the outcome is ``cancelled``.

        Returns
        -------
        Outcome
            Also for a command that could not be started. No process of the run is left, but for survivors named.

        Raises
        ------
        EvidenceMismatch, TaskFolderUnusable
            Before anything is started.

        Notes
        -----
        If the calling task is cancelled, the processes are ended first.
        """
        ...
