"""How an agent gets to know a conversation before its next turn: the best way that is open, recorded as what it was.

In order: *hot*, the process that knows it runs on; *native resume*, the agent program takes up its own session;
*checkpoint restored*, a summary and what came after it are told; *fresh*, all of it is told, or there is nothing to
tell. A way is open on facts, judged by a pure function, and what was passed over is recorded with its reason. A resume
that fails is recorded before the next way is taken. What a running agent knows is compared in ``contextmatch``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, Generic, TypeVar

from anyio import to_thread

from bridge.control.contexts.building import stored_path
from bridge.control.contexts.compacting import append_stamped, leaf_of
from bridge.control.contexts.matching import compare_contexts
from bridge.control.contexts.nativesessions import RESTORING_KIND, native_session_on
from bridge.control.controller import Controller
from bridge.conversations.models import Appended, EntryDraft
from bridge.conversations.projection import find_boundary
from bridge.foundation.errors import BridgeError

#: Status of the entry that says how an agent was restored.
RESTORED_STATUS: Final = "restored"
A = TypeVar("A")


class Mode(StrEnum):
    """Ways to restore an agent, the best first."""

    HOT = "hot"
    NATIVE_RESUME = "native_resume"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    FRESH = "fresh"


class Reason(StrEnum):
    """Why a way was taken, or passed over."""

    #: Taken: the running agent knows exactly what the conversation says.
    CONTEXT_MATCHES = "context_matches"
    #: Taken: the agent program's own session ends where the conversation stands.
    NATIVE_SESSION_ENDS_HERE = "native_session_ends_here"
    #: Taken: a checkpoint or compaction stands for the beginning.
    CHECKPOINT_ON_BRANCH = "checkpoint_on_branch"
    #: Taken: nothing better was open.
    NOTHING_BETTER = "nothing_better"
    #: Passed over.
    NOT_RUNNING = "not_running"
    CONTEXT_ELSEWHERE = "context_elsewhere"
    RESUME_UNSUPPORTED = "resume_unsupported"
    NO_NATIVE_SESSION = "no_native_session"
    NATIVE_SESSION_ELSEWHERE = "native_session_elsewhere"
    COMPACTED_SINCE = "compacted_since"
    RESUME_FAILED = "resume_failed"
    NO_CHECKPOINT = "no_checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What decides how an agent is restored.

    Parameters
    ----------
    is_running
        Whether a process of the agent is alive and takes prompts.
    knows_the_head
        Whether what it knows is what the conversation says (see :func:`compare_contexts`).
    can_resume
        Whether its adapter can take up a session of the agent program's own.
    native_session_id
        The own session of the agent program that was last used on this branch; None if none is known.
    native_session_ends_here
        Whether that session holds what the branch says, and nothing else.
    is_compacted_since
        Whether the branch was compacted since that session was used: it holds what was to be left out.
    has_resume_failed
        Whether taking it up was tried just now and failed.
    checkpoint_entry_id
        The usable checkpoint or compaction of the branch; None if there is none.
    """

    is_running: bool = False
    knows_the_head: bool = False
    can_resume: bool = False
    native_session_id: str | None = None
    native_session_ends_here: bool = False
    is_compacted_since: bool = False
    has_resume_failed: bool = False
    checkpoint_entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The way that is open, why, and why the better ones are not."""

    mode: Mode
    reason: Reason
    passed_over: tuple[tuple[Mode, Reason], ...] = ()


def decide(facts: Facts) -> Decision:
    """Return the best way that the facts leave open. Pure."""
    passed_over: list[tuple[Mode, Reason]] = []
    for mode, why_not, why in (
        (Mode.HOT, _why_not_hot(facts), Reason.CONTEXT_MATCHES),
        (Mode.NATIVE_RESUME, _why_not_native(facts), Reason.NATIVE_SESSION_ENDS_HERE),
        (
            Mode.CHECKPOINT_RESTORED,
            None if facts.checkpoint_entry_id is not None else Reason.NO_CHECKPOINT,
            Reason.CHECKPOINT_ON_BRANCH,
        ),
    ):
        if why_not is None:
            return Decision(mode, why, tuple(passed_over))
        passed_over.append((mode, why_not))
    return Decision(Mode.FRESH, Reason.NOTHING_BETTER, tuple(passed_over))


def gather_facts(
    controller: Controller,
    session_id: str,
    *,
    harness: str,
    can_resume: bool,
    is_running: bool = False,
    agent_leaf_entry_id: str | None = None,
) -> Facts:
    """Return the facts of a session as it stands. Blocking. Raises as :func:`compare_contexts`."""
    with controller.store.read() as connection:
        path = stored_path(connection, leaf_of(connection, session_id, None))
        boundary = find_boundary(path, cold_start=True)
        native = native_session_on(connection, session_id, path, harness)
        knows = is_running and compare_contexts(connection, session_id, agent_leaf_entry_id).matches
    return Facts(
        is_running=is_running,
        knows_the_head=knows,
        can_resume=can_resume,
        native_session_id=None if native is None else native.id,
        native_session_ends_here=native is not None and native.ends_here,
        is_compacted_since=native is not None and native.is_compacted_since,
        checkpoint_entry_id=None if boundary is None else boundary.message.entry_id,
    )


def record_restoration(
    controller: Controller,
    session_id: str,
    decision: Decision,
    *,
    harness: str,
    native_session_id: str | None = None,
    checkpoint_entry_id: str | None = None,
    turn_id: str | None = None,
) -> Appended:
    """Record how an agent was restored, as ``session.status``. Blocking; to be called once it is.

    Parameters
    ----------
    native_session_id
        The agent program's own session that goes on from here, known or new.
    checkpoint_entry_id
        The checkpoint that the context began with; only of that mode.
    """
    with controller.store.read() as connection:
        leaf = leaf_of(connection, session_id, None)
    restoration: dict[str, Any] = {
        "mode": str(decision.mode),
        "reason": str(decision.reason),
        "passed_over": [{"mode": str(mode), "reason": str(reason)} for mode, reason in decision.passed_over],
        "harness": harness,
        "leaf_entry_id": leaf,
    }
    if native_session_id is not None:
        restoration["native_session_id"] = native_session_id
    if checkpoint_entry_id is not None and decision.mode is Mode.CHECKPOINT_RESTORED:
        restoration["checkpoint_entry_id"] = checkpoint_entry_id
    payload: dict[str, Any] = {
        "status": RESTORED_STATUS,
        "reason": str(decision.reason),
        "restoration": restoration,
    }
    if turn_id is not None:
        payload["turn_id"] = turn_id
    return append_stamped(controller, session_id, EntryDraft(kind=RESTORING_KIND, payload=payload))


def record_resume_failure(
    controller: Controller, session_id: str, *, harness: str, native_session_id: str | None, error: BridgeError
) -> Appended:
    """Record that an agent program could not take up its own session. Blocking; before another way is taken."""
    payload = {"reason": error.code, "harness": harness, "message": error.message}
    if native_session_id is not None:
        payload["native_session_id"] = native_session_id
    return append_stamped(controller, session_id, EntryDraft(kind="session.resume_failed", payload=payload))


@dataclass(frozen=True, slots=True)
class Restored(Generic[A]):
    """An agent that knows the conversation, and how it got to.

    ``agent`` is None where the running one goes on.
    """

    agent: A | None
    decision: Decision
    entry_id: str


async def restore(
    controller: Controller,
    session_id: str,
    facts: Facts,
    *,
    harness: str,
    resume: Callable[[str], Awaitable[A]],
    start: Callable[[Mode], Awaitable[A]],
    native_session_of: Callable[[A], str | None] = lambda _: None,
) -> Restored[A]:
    """Restore an agent in the best way that is open, and record it under the name of what was done.

    Parameters
    ----------
    resume
        Takes up the agent program's own session, or raises BridgeError.
    start
        Starts an agent that is told the context; given the mode, since a checkpoint stands for the beginning in one
        of them only (``build_context(cold_start=…)``).
    native_session_of
        Returns the agent program's id of its session, if it has one.

    Raises
    ------
    BridgeError
        What ``start`` raises: then nothing was restored, and nothing is recorded as if it were.
    """
    decision = decide(facts)
    agent: A | None = None
    native = facts.native_session_id if decision.mode in (Mode.HOT, Mode.NATIVE_RESUME) else None
    if decision.mode is Mode.NATIVE_RESUME and native is not None:
        try:
            agent = await resume(native)
        except BridgeError as error:
            failed = partial(
                record_resume_failure, controller, session_id, harness=harness, native_session_id=native, error=error
            )
            await to_thread.run_sync(failed)
            decision = decide(replace(facts, has_resume_failed=True))
            native = None
    if decision.mode in (Mode.CHECKPOINT_RESTORED, Mode.FRESH):
        agent = await start(decision.mode)
    if agent is not None:
        native = native_session_of(agent) or native
    record = partial(
        record_restoration,
        controller,
        session_id,
        decision,
        harness=harness,
        native_session_id=native,
        checkpoint_entry_id=facts.checkpoint_entry_id,
    )
    appended = await to_thread.run_sync(record)
    return Restored(agent, decision, appended.entry.id)


def _why_not_hot(facts: Facts) -> Reason | None:
    if not facts.is_running:
        return Reason.NOT_RUNNING
    return None if facts.knows_the_head else Reason.CONTEXT_ELSEWHERE


def _why_not_native(facts: Facts) -> Reason | None:
    if not facts.can_resume:
        return Reason.RESUME_UNSUPPORTED
    if facts.native_session_id is None:
        return Reason.NO_NATIVE_SESSION
    if not facts.native_session_ends_here:
        return Reason.NATIVE_SESSION_ELSEWHERE
    if facts.is_compacted_since:
        return Reason.COMPACTED_SINCE
    return Reason.RESUME_FAILED if facts.has_resume_failed else None
