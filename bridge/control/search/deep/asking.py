"""Use case: finding a chat with the help of a model, where the index alone did not settle the question.

The index's answer is there before the model is asked, and stays what it is: whatever the model does wrong, takes too
long, or wants too much, the answer is the index's and says why. A model names chats that it was shown and nothing else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters.models.port import (
    MAX_PICKS,
    MAX_WHY_WORDS,
    Answer,
    ModelTrouble,
    SearchModel,
    SearchSession,
    Trouble,
    Usage,
)
from bridge.control.controller import Controller
from bridge.control.search.deep.lookups import FIRST_CARDS, Desk
from bridge.control.search.deep.starting import Prestarted, start
from bridge.control.search.deep.usage import record_usage
from bridge.control.search.finding import FoundChat, FoundChats, find_chats
from bridge.control.standpoint import Standpoint
from bridge.foundation.errors import BridgeError
from bridge.foundation.redaction import redact_text

#: Seconds that a model may take, look-ups and its start apart.
MODEL_SECONDS: Final = 8.0


class Depth(StrEnum):
    """What came of asking for a deep search."""

    #: The index was sure: no model was started.
    NOT_NEEDED = "not_needed"
    #: The model named the chats.
    ANSWERED = "answered"
    #: The index's answer stands, for the reason given.
    FELL_BACK = "fell_back"


@dataclass(frozen=True, slots=True)
class Picked:
    """A chat that the model named, and why."""

    chat: FoundChat
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"session_id": self.chat.session.id, "why": self.why}


@dataclass(frozen=True, slots=True)
class DeepFound:
    """The index's answer, and what the model made of it.

    Parameters
    ----------
    trouble, message
        Why it fell back; None if it did not.
    picks
        Chats that the model named, the best first.
    elapsed_seconds, model_seconds
        All of it with the start of the model; and what counts against its limit.
    is_recorded
        Whether what it used was recorded.
    """

    found: FoundChats
    depth: Depth
    trouble: Trouble | None = None
    message: str | None = None
    picks: tuple[Picked, ...] = ()
    model: str | None = None
    lookups: int = 0
    lookup_tokens: int = 0
    elapsed_seconds: float = 0.0
    model_seconds: float = 0.0
    is_recorded: bool = True

    @property
    def chats(self) -> tuple[FoundChat, ...]:
        """The chats that the model named, then those of the index that it did not."""
        named = [one.chat for one in self.picks]
        ids = {chat.session.id for chat in named}
        return (*named, *(chat for chat in self.found.chats if chat.session.id not in ids))

    def to_json(self) -> dict[str, Any]:
        return {
            **self.found.to_json(),
            "chats": [chat.to_json() for chat in self.chats],
            "deep": {
                "status": str(self.depth),
                "reason": None if self.trouble is None else str(self.trouble),
                "message": self.message,
                "picks": [one.to_json() for one in self.picks],
                "model": self.model,
                "lookups": self.lookups,
                "lookup_tokens": self.lookup_tokens,
                "elapsed_seconds": round(self.elapsed_seconds, 3),
                "model_seconds": round(self.model_seconds, 3),
                "recorded": self.is_recorded,
            },
        }


def find_deep(
    controller: Controller,
    standpoint: Standpoint,
    text: str,
    model: SearchModel | None,
    *,
    all_workspaces: bool = False,
    include_workers: bool = False,
    limit: int = MAX_PICKS,
) -> DeepFound:
    """Return the chats that a text asks for, with a model's help if the index is not sure. Blocking.

    Parameters
    ----------
    model
        None: there is none, and the index's answer says so.
    """
    return anyio.run(
        partial(
            ask_deep,
            controller,
            standpoint,
            text,
            model,
            all_workspaces=all_workspaces,
            include_workers=include_workers,
            limit=limit,
        )
    )


async def ask_deep(
    controller: Controller,
    standpoint: Standpoint,
    text: str,
    model: SearchModel | None,
    *,
    all_workspaces: bool = False,
    include_workers: bool = False,
    limit: int = MAX_PICKS,
    prestarted: Prestarted | None = None,
    model_seconds: float = MODEL_SECONDS,
) -> DeepFound:
    """Return what :func:`find_deep` does, in an event loop that may have a model started already."""
    began = time.monotonic()
    find = partial(find_chats, controller, standpoint, all_workspaces=all_workspaces, include_workers=include_workers)
    found = await to_thread.run_sync(partial(find, text, limit=max(limit, FIRST_CARDS)))
    shown = _page_of(found, limit)
    if found.found.is_confident:
        return DeepFound(shown, Depth.NOT_NEEDED, elapsed_seconds=time.monotonic() - began)
    if model is None:
        return DeepFound(
            shown,
            Depth.FELL_BACK,
            Trouble.UNAVAILABLE,
            "no model is set up: deep_search in config.toml",
            elapsed_seconds=time.monotonic() - began,
        )
    desk = Desk(controller, partial(find, limit=FIRST_CARDS))
    watch = _Watch(model_seconds)
    usage, picks, trouble = Usage(), tuple[Picked, ...](), None
    try:
        session = await _started(model, prestarted)
        try:
            answer = await _asked(session, desk, text, found, watch)
        finally:
            usage = session.usage
            with anyio.CancelScope(shield=True):
                await session.close()
        picks = _picked(answer, desk)
    except ModelTrouble as error:
        trouble = error
    done = DeepFound(
        shown,
        Depth.ANSWERED if trouble is None else Depth.FELL_BACK,
        None if trouble is None else trouble.reason,
        None if trouble is None else redact_text(str(trouble))[0][:300],
        picks,
        model.name,
        desk.lookups,
        desk.tokens,
        time.monotonic() - began,
        watch.spent,
    )
    try:
        await to_thread.run_sync(partial(record_usage, controller, done.to_json()["deep"], usage))
    except BridgeError:
        return replace(done, is_recorded=False)  # the answer is there, and says so
    return done


def is_unsure(controller: Controller, standpoint: Standpoint, text: str) -> bool:
    """Return whether the index has chats for a text and is not sure of them. Blocking."""
    found = find_chats(controller, standpoint, text)
    return bool(found.chats) and not found.found.is_confident


class _Watch:
    """Counts what a model takes, but for the time of its look-ups."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent = 0.0
        self.scope: anyio.CancelScope | None = None

    def pause(self, seconds: float) -> None:
        """Leave out some time that went by."""
        self.spent -= seconds
        if self.scope is not None:
            self.scope.deadline += seconds


async def _started(model: SearchModel, prestarted: Prestarted | None) -> SearchSession:
    waiting = None if prestarted is None else await prestarted.take(model)
    return await start(model) if waiting is None else waiting


async def _asked(session: SearchSession, desk: Desk, text: str, found: FoundChats, watch: _Watch) -> Answer:
    cards = await to_thread.run_sync(desk.cards, found.chats[:FIRST_CARDS])
    refused: list[ModelTrouble] = []
    one_by_one = anyio.Lock()

    async def lookup(name: str, argument: str) -> str:
        # A model may ask for several at once: the desk serves one at a time, and the time of none is left out twice.
        async with one_by_one:
            began = time.monotonic()
            try:
                return await to_thread.run_sync(desk.look_up, name, argument)
            except ModelTrouble as trouble:
                refused.append(trouble)
                raise
            finally:
                watch.pause(time.monotonic() - began)

    question = f"Question: {redact_text(text)[0][:1000]}\n\nCards:\n{cards or 'none'}"
    began = time.monotonic()
    try:
        with anyio.move_on_after(watch.seconds) as watch.scope:
            return await _whole(session.ask(question, lookup), refused)
    finally:
        watch.spent += time.monotonic() - began
    raise ModelTrouble(Trouble.TIMED_OUT, f"it took longer than {watch.seconds:g} s")


async def _whole(asking: Any, refused: list[ModelTrouble]) -> Answer:
    """Return an answer, or the trouble it is in: whatever an implementation runs into is one."""
    try:
        answer: Answer = await asking
    except ModelTrouble:
        raise
    except Exception as error:
        if refused:
            raise refused[0] from error
        raise ModelTrouble(Trouble.FAILED, f"{type(error).__name__}: {error}") from error
    return answer


def _picked(answer: Answer, desk: Desk) -> tuple[Picked, ...]:
    """Return the chats that were named and shown, each once.

    Raises
    ------
    ModelTrouble
        If chats were named, and none of them was shown.
    """
    picks: dict[str, Picked] = {}
    for pick in answer.picks:
        chat = desk.shown.get(pick.mark.strip())
        if chat is not None and len(picks) < MAX_PICKS:
            why = " ".join(redact_text(pick.why)[0].split()[:MAX_WHY_WORDS])
            picks.setdefault(chat.session.id, Picked(chat, why))
    if answer.picks and not picks:
        raise ModelTrouble(Trouble.INVENTED, "it named no chat that it was shown")
    return tuple(picks.values())


def _page_of(found: FoundChats, limit: int) -> FoundChats:
    has_more = found.has_more or len(found.chats) > limit
    return replace(found, chats=found.chats[:limit], has_more=has_more)
