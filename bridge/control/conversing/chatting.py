"""A chat: one session, one harness, turn after turn.

The head decides what the agent has to know: before each turn it is compared with what the agent does know, and the
agent goes on, is taken up again, or is started anew with what is recorded. Blocking work runs in helper threads.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from bridge.adapters.conversation import (
    Conversation,
    ConversationHarness,
    Limits,
    LiveText,
    OpenRequest,
)
from bridge.adapters.errors import ConversationEnded
from bridge.adapters.events import AdapterEvent, fault, turn_completed
from bridge.adapters.permission import PermissionPolicy, refuse
from bridge.control.access.offering import Offer, offer_in
from bridge.control.access.tokens import MAX_LIFETIME_SECONDS, bind_in, revoke_in
from bridge.control.contexts.building import build_context
from bridge.control.contexts.checkpoints import Checkpoint, request_checkpoint, request_compacting
from bridge.control.contexts.restoration import Decision, Mode, decide, gather_facts, restore
from bridge.control.controller import Controller
from bridge.control.conversing import store as rows
from bridge.control.conversing.looking import Outlook, look
from bridge.control.conversing.store import ChatAgent
from bridge.control.conversing.sweeping import agent_folder, remove_agent_folder
from bridge.control.conversing.turns import OWNER_PREFIX, TurnPlan, begin_turn, end_turn, record_event
from bridge.control.observing import session_folder
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import HeadMoved
from bridge.conversations.forest import require_session
from bridge.conversations.models import Entry, Session
from bridge.conversations.references import require_entry
from bridge.foundation.ids import short_entry
from bridge.process.identity import ProcessIdentity, identity_of

#: Statuses with which a turn of a conversation can end.
COMPLETED: Final = "completed"
CANCELLED: Final = "cancelled"
#: Why a person has a conversation summed up.
MANUAL: Final = "manual"
#: Tokens that a restored context may take, by Bridge's estimate; a harness does not tell its model's window beforehand.
RESTORED_TOKENS: Final = 100_000
#: Kinds of entries that restoring an agent records: a resume that failed, and how it was restored.
RESTORING_KINDS: Final = frozenset({"session.resume_failed", "session.status"})


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """A message was recorded and given to the agent."""

    turn_id: str
    message: Entry
    mode: str
    reason: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """Something of the turn was recorded."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over: completed, failed or cancelled, with the reason where there is one."""

    turn_id: str
    status: str
    reason: str
    last: Entry


Report = TurnBegan | Recorded | TurnEnded


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """An agent as it is: its own session, its model, the entry that its knowledge leads up to; None: not known."""

    native_session_id: str | None
    model: str | None
    known_entry_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a chat is held.

    Parameters
    ----------
    model
        Model asked for; None leaves it to the harness.
    directory
        Where the agent works if the session has no workspace.
    permission, live
        As in ``OpenRequest``.
    """

    directory: Path
    model: str | None = None
    permission: PermissionPolicy = refuse
    live: Callable[[LiveText], None] | None = None
    limits: Limits = field(default_factory=Limits)


class Chat:
    """A conversation of a person, or a program, with an agent. Not for several tasks at once, but for cancelling.

    Parameters
    ----------
    session_id
        Where it is recorded; full id.
    harness
        What answers.
    """

    def __init__(
        self, controller: Controller, session_id: str, harness: ConversationHarness, options: ChatOptions
    ) -> None:
        self.session_id = session_id
        self.harness = harness
        self._controller = controller
        self._options = options
        self._conversation: Conversation | None = None
        self._agent_id: str | None = None
        self._token_id: str | None = None
        #: The entry that the running agent's knowledge leads up to; None: nobody can say.
        self._known: str | None = None
        self._told: str | None = None
        self._turns = 0
        self._place = options.directory
        self._turn_is_running = False

    @property
    def turn_is_running(self) -> bool:
        return self._turn_is_running

    def about(self) -> AgentFacts:
        """Return what is known of the agent now."""
        conversation = self._conversation
        if conversation is None:
            return AgentFacts(None, None, None)
        return AgentFacts(conversation.native_session_id, conversation.model, self._known)

    async def look(self) -> Outlook:
        """Compare the files with where the conversation stands."""
        return await to_thread.run_sync(look, self._controller, self.session_id)

    async def head(self) -> str:
        """Return the session's head."""
        return (await self._session()).active_entry_id

    async def send(
        self, text: str, *, outlook: Outlook | None = None, expected_head: str | None = None
    ) -> AsyncGenerator[Report, None]:
        """Say something under the head and report what comes of it until the turn is over.

        Parameters
        ----------
        outlook
            A look at the files that was just taken; taken here unless given.
        expected_head
            Where the person who wrote it thought to be; elsewhere nothing is sent.

        Raises
        ------
        HeadMoved
            If the conversation stands elsewhere by now; nothing was sent.
        TurnRunning
            If another chat's turn runs there; nothing was sent.
        BridgeError
            What opening a conversation raises; nothing was sent.
        """
        actual = await self.head()
        head = expected_head or actual
        if head != actual:
            raise self._moved(head, actual)
        outlook = await self.look() if outlook is None or outlook.head_entry_id != head else outlook
        decision, head = await self._prepare(head)
        conversation = self._opened()
        notices = self._notices(outlook, decision.mode)
        plan = self._plan(conversation, text, head, decision)
        workspace_id = (await self._session()).workspace_id
        message = await to_thread.run_sync(begin_turn, self._controller, plan, workspace_id)
        self._known, self._turn_is_running = None, True
        ended: AdapterEvent | None = None
        try:
            yield TurnBegan(plan.turn_id, message, str(decision.mode), str(decision.reason))
            async with aclosing(conversation.prompt(text, turn_id=plan.turn_id, notices=notices)) as events:
                async for event in events:
                    if event.kind == "turn.completed":
                        ended = event
                    else:
                        entry = await to_thread.run_sync(record_event, self._controller, plan, workspace_id, event)
                        yield Recorded(entry)
        finally:
            if ended is None:
                ended = turn_completed(plan.turn_id, status="cancelled", reason="The chat left the turn.")
            with anyio.CancelScope(shield=True):
                last = await self._finish(plan, workspace_id, ended, conversation)
        yield TurnEnded(plan.turn_id, str(ended.payload["status"]), str(ended.payload.get("reason") or ""), last)

    async def checkpoint(self) -> Checkpoint:
        """Have the agent sum up the conversation, and record that for a cold start later.

        Raises
        ------
        CheckpointFailed
            If it gives no usable answer.
        BridgeError
            What opening a conversation raises.
        """
        conversation = await self._for_asking()
        done = await request_checkpoint(
            self._controller, self.session_id, self._ask, reason=MANUAL, model=conversation.model
        )
        self._known = done.entry.id if done.appended.is_head and conversation.is_open else None
        return done

    async def compact(self) -> Checkpoint:
        """Have the agent sum up, and let that stand for all but the newest part; the next message starts from it."""
        conversation = await self._for_asking()
        try:
            done, _ = await request_compacting(
                self._controller, self.session_id, self._ask, reason=MANUAL, model=conversation.model
            )
        finally:
            await self._leave()
        return done

    async def cancel(self) -> None:
        """Ask the agent to end the running turn."""
        if self._conversation is not None and self._turn_is_running:
            await self._conversation.cancel()

    async def kill(self) -> None:
        """End the agent; a running turn ends as cancelled."""
        if self._conversation is not None:
            await self._conversation.kill()

    async def forget(self) -> None:
        """End the agent's conversation; the next message starts from what is recorded."""
        await self._leave()

    async def close(self) -> None:
        """End the agent and forget it. Safe to call twice."""
        with anyio.CancelScope(shield=True):
            await self._leave()

    # -- summing up --------------------------------------------------------------------------------------------

    async def _for_asking(self) -> Conversation:
        await self._prepare(await self.head())
        return self._opened()

    async def _ask(self, text: str) -> str:
        """Put a question to the agent that is no part of the conversation; return its answer."""
        self._turn_is_running = True
        turn_id, said, ended = f"{self._agent_id}-ask", [], None
        try:
            async with aclosing(self._opened().prompt(text, turn_id=turn_id)) as events:
                async for event in events:
                    if event.kind == "assistant.message":
                        said.append(str(event.payload["text"]))
                    elif event.kind == "turn.completed":
                        ended = event
        finally:
            self._turn_is_running = False
        if ended is None or ended.payload.get("status") != COMPLETED:
            why = "" if ended is None else str(ended.payload.get("reason") or "")
            raise ConversationEnded(f"The agent did not answer. {why}".rstrip())
        return "".join(said)

    # -- before a turn -----------------------------------------------------------------------------------------

    async def _prepare(self, head: str) -> tuple[Decision, str]:
        """See to it that the agent knows what it has to know; return how, and the head that it now leads up to.

        Raises
        ------
        HeadMoved
            If the conversation went on meanwhile: what the agent was told would not be all of it.
        """
        directory = await self._directory()
        capabilities = self.harness.capabilities
        is_running = self._conversation is not None and self._conversation.is_open and self._known is not None
        facts = await to_thread.run_sync(
            partial(
                gather_facts,
                self._controller,
                self.session_id,
                harness=self.harness.name,
                can_resume=capabilities.resume or capabilities.load,
                is_running=is_running,
                agent_leaf_entry_id=self._known,
            )
        )
        decision = decide(facts)
        if decision.mode is Mode.HOT:
            return decision, head
        await self._leave()

        async def resume(native: str) -> Conversation:
            return await self._open(directory, native=native, context=None)

        async def start(mode: Mode) -> Conversation:
            cold = mode is Mode.CHECKPOINT_RESTORED
            context = await to_thread.run_sync(self._context, cold)
            return await self._open(directory, native=None, context=context)

        restored = await restore(
            self._controller,
            self.session_id,
            facts,
            harness=self.harness.name,
            resume=resume,
            start=start,
            native_session_of=lambda agent: agent.native_session_id,
        )
        await to_thread.run_sync(self._require_follows, restored.entry_id, head)
        return restored.decision, restored.entry_id

    def _context(self, cold_start: bool) -> str | None:  # noqa: FBT001 - handed to a thread by position
        report = build_context(
            self._controller,
            Standpoint(session=self.session_id),
            self.session_id,
            budget=RESTORED_TOKENS,
            cold_start=cold_start,
            with_files=False,
        )
        return report.text() if report.projection.messages else None

    def _require_follows(self, entry_id: str, head: str) -> None:
        """Refuse to go on if somebody else's entry lies between the head and what restoring recorded."""
        with self._controller.store.read() as connection:
            entry = require_entry(connection, entry_id)
            while entry.id != head and entry.kind in RESTORING_KINDS and entry.parent_entry_id is not None:
                entry = require_entry(connection, entry.parent_entry_id)
        if entry.id != head:
            raise self._moved(head, entry_id)

    def _moved(self, expected: str, actual: str) -> HeadMoved:
        return HeadMoved(
            f"The conversation moved on from {short_entry(expected)}; it is at {short_entry(actual)}. "
            "Nothing was sent.",
            hint="Look where it is, then say it again.",
            details={"session_id": self.session_id, "expected": expected, "actual": actual},
        )

    async def _open(self, directory: Path, *, native: str | None, context: str | None) -> Conversation:
        agent_id = f"{OWNER_PREFIX}{secrets.token_hex(6)}"
        owner = identity_of(os.getpid())
        if owner is None:
            raise RuntimeError("this process cannot be seen in the process table")
        controller = self._controller
        agent = ChatAgent(
            id=agent_id,
            session_id=self.session_id,
            harness=self.harness.name,
            host=platform.node(),
            owner=owner,
            agent=None,
            turn_id=None,
            started_at=controller.now(),
        )
        # Before the process is: a chat that is killed in between leaves one that its marker finds.
        await to_thread.run_sync(controller.store.write, lambda tx: rows.add_agent(tx.connection, agent))

        offer = await to_thread.run_sync(self._offer) if self.harness.capabilities.mcp else None
        self._token_id = None if offer is None else offer.token_id

        async def started(identity: ProcessIdentity) -> None:
            note = partial(_note_process, agent_id=agent_id, token_id=self._token_id, identity=identity)
            await to_thread.run_sync(controller.recorder.transact, note)

        try:
            conversation = await self.harness.open(
                OpenRequest(
                    directory=directory,
                    folder=agent_folder(controller, agent_id),
                    environment=controller.environment,
                    marker=agent_id,
                    context=context,
                    native_session_id=native,
                    model=self._options.model,
                    mcp_servers=() if offer is None else (offer.to_acp(),),
                    permission=self._options.permission,
                    live=self._options.live,
                    started=started,
                    limits=self._options.limits,
                )
            )
        except BaseException:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._forget_agent, agent_id)
            raise
        self._conversation, self._agent_id = conversation, agent_id
        return conversation

    def _notices(self, outlook: Outlook, mode: Mode) -> tuple[str, ...]:
        """Return what the agent is to be told of the files, once for each change."""
        if outlook.key == self._told:
            return ()
        self._told = outlook.key
        words = outlook.words_for_agent(is_start=mode is not Mode.HOT)
        return (words,) if words else ()

    def _plan(self, conversation: Conversation, text: str, head: str, decision: Decision) -> TurnPlan:
        self._turns += 1
        agent_id = self._agent_id or ""
        return TurnPlan(
            session_id=self.session_id,
            agent_id=agent_id,
            turn_id=f"{agent_id}-{self._turns}",
            harness=self.harness.name,
            native_session_id=conversation.native_session_id,
            expected_head=head,
            text=text,
            mode=str(decision.mode),
            reason=str(decision.reason),
            model=conversation.model,
        )

    # -- after it ----------------------------------------------------------------------------------------------

    async def _finish(
        self, plan: TurnPlan, workspace_id: str | None, ended: AdapterEvent, conversation: Conversation
    ) -> Entry:
        # A turn that was cancelled in order is known to the agent as it is recorded; one that failed may not be.
        is_known = conversation.is_open and ended.payload.get("status") in (COMPLETED, CANCELLED)
        try:
            if not is_known and ended.payload.get("status") == CANCELLED:
                # The agent is gone, and how far it came is not known: whoever goes on is told.
                why = str(ended.payload.get("reason") or "The agent was ended.")
                event = fault(why, code="cancelled", turn_id=plan.turn_id)
                await to_thread.run_sync(record_event, self._controller, plan, workspace_id, event)
            last = await to_thread.run_sync(
                partial(end_turn, self._controller, plan, workspace_id, ended, is_known=is_known)
            )
        finally:
            self._turn_is_running = False
        self._known = last.id if is_known else None
        return last

    async def _leave(self) -> None:
        conversation, self._conversation = self._conversation, None
        agent_id, self._agent_id = self._agent_id, None
        self._known = None
        if conversation is not None:
            await conversation.close()
        if agent_id is not None:
            await to_thread.run_sync(self._forget_agent, agent_id)

    def _offer(self) -> Offer | None:
        """Return what the agent starts its tools with: they are this session's, and end with its process."""
        controller = self._controller
        return controller.recorder.transact(
            lambda recording: offer_in(
                recording,
                controller.settings,
                self.session_id,
                purpose="chat",
                lifetime_seconds=MAX_LIFETIME_SECONDS,
            )
        )

    def _forget_agent(self, agent_id: str) -> None:
        remove_agent_folder(self._controller, agent_id)
        token_id, self._token_id = self._token_id, None

        def forget(recording: RecordingTransaction) -> None:
            rows.remove_agent(recording.tx.connection, agent_id)
            if token_id is not None:
                revoke_in(recording, self.session_id, token_id)

        self._controller.recorder.transact(forget)

    def _opened(self) -> Conversation:
        if self._conversation is None:
            raise RuntimeError("no conversation is open")
        return self._conversation

    async def _session(self) -> Session:
        def read() -> Session:
            with self._controller.store.read() as connection:
                return require_session(connection, self.session_id)

        return await to_thread.run_sync(read)

    async def _directory(self) -> Path:
        session = await self._session()
        folder = await to_thread.run_sync(session_folder, self._controller.store, session.workspace_id)
        self._place = folder if folder is not None else self._options.directory
        return self._place


def _note_process(
    recording: RecordingTransaction, *, agent_id: str, token_id: str | None, identity: ProcessIdentity
) -> None:
    rows.note_process(recording.tx.connection, agent_id, identity)
    if token_id is not None:
        bind_in(recording, token_id, identity)
