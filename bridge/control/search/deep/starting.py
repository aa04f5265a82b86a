"""Models that were started for a question that may come: at most one, used once, given up after three minutes."""

from __future__ import annotations

from typing import Final

from bridge.adapters.models.port import ModelTrouble, SearchModel, SearchSession
from bridge.foundation.clock import Clock

#: How long a started model waits for its question, in seconds.
EXPIRY_SECONDS: Final = 180.0


class Prestarted:
    """Holds the model that was started ahead. All of it belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: tuple[str, SearchSession, float] | None = None

    async def offer(self, model: SearchModel) -> bool:
        """Start a model ahead, unless one waits already; return whether one waits now."""
        await self._expire()
        if self._held is None:
            try:
                session = await model.start()
            except ModelTrouble:
                return False  # the question itself will say so, if it is ever asked
            self._held = (model.name, session, self._clock.now().timestamp())
        return True

    async def take(self, model: SearchModel) -> SearchSession | None:
        """Return the model that waits, once; None if none of that name does."""
        await self._expire()
        held = self._held
        if held is None or held[0] != model.name:
            return None
        self._held = None
        return held[1]

    async def close(self) -> None:
        """Give up what waits."""
        held, self._held = self._held, None
        if held is not None:
            await held[1].close()

    async def _expire(self) -> None:
        if self._held is not None and self._clock.now().timestamp() - self._held[2] >= EXPIRY_SECONDS:
            await self.close()
