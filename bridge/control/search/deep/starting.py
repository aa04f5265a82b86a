"""Models that were started for a question that may come: at most one, used once, given up after three minutes."""

from __future__ import annotations

import asyncio
from typing import Final

import anyio

from bridge.adapters.models.port import ModelTrouble, SearchModel, SearchSession, Trouble
from bridge.foundation.clock import Clock

#: How long a started model waits for its question, in seconds.
EXPIRY_SECONDS: Final = 180.0
#: Longest start of a model that is waited for, in seconds.
START_SECONDS: Final = 30.0


async def start(model: SearchModel) -> SearchSession:
    """Start a model, and wait for it no longer than there is patience.

    Raises
    ------
    ModelTrouble
        Whatever went wrong.
    """
    try:
        with anyio.move_on_after(START_SECONDS):
            return await model.start()
    except ModelTrouble:
        raise
    except Exception as error:
        raise ModelTrouble(Trouble.START_FAILED, f"{type(error).__name__}: {error}") from error
    raise ModelTrouble(Trouble.TIMED_OUT, f"it did not start within {START_SECONDS:g} s")


class Prestarted:
    """Holds the model that is started ahead. All of it belongs to one event loop, in which it must be closed.

    Parameters
    ----------
    expiry_seconds
        How long a model waits for its question, by the clock or by the event loop's time, whichever is over first: the
        latter may stand still while the machine sleeps.
    """

    def __init__(self, clock: Clock, *, expiry_seconds: float = EXPIRY_SECONDS) -> None:
        self._clock = clock
        self._expiry_seconds = expiry_seconds
        self._held: _Held | None = None

    def offer(self, model: SearchModel) -> None:
        """Begin to start a model ahead, unless one waits already; return at once."""
        if self._held is None:
            held = self._held = _Held(model.name, self._clock.now().timestamp())
            # A task of asyncio: a task group around the chat would wrap every error that passes it.
            held.task = asyncio.get_running_loop().create_task(self._hold(held, model))

    async def take(self, model: SearchModel) -> SearchSession | None:
        """Return the model that waits, once it has started, to whom it then belongs; None if none of that name does."""
        held = self._held
        if held is None or held.name != model.name:
            return None
        if self._clock.now().timestamp() - held.since >= self._expiry_seconds:
            await self.close()
            return None
        self._held = None
        held.is_taken.set()
        await held.is_started.wait()
        return held.session

    async def close(self) -> None:
        """Give up what waits, and wait until it is gone."""
        held, self._held = self._held, None
        if held is not None and held.task is not None:
            held.task.cancel()
            await asyncio.wait([held.task])

    async def _hold(self, held: _Held, model: SearchModel) -> None:
        try:
            held.session = await start(model)
        except ModelTrouble:
            pass  # the question itself will say so, if it is ever asked
        finally:
            held.is_started.set()
        if held.session is None:
            self._forget(held)
            return
        try:
            with anyio.move_on_after(self._expiry_seconds):
                await held.is_taken.wait()
        finally:
            if not held.is_taken.is_set():
                self._forget(held)
                with anyio.CancelScope(shield=True):
                    await held.session.close()

    def _forget(self, held: _Held) -> None:
        if self._held is held:
            self._held = None


class _Held:
    """A model that is started ahead."""

    def __init__(self, name: str, since: float) -> None:
        self.name = name
        self.since = since
        self.session: SearchSession | None = None
        self.is_started = anyio.Event()
        self.is_taken = anyio.Event()
        self.task: asyncio.Task[None] | None = None
