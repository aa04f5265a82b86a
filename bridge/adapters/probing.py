"""What the installed harnesses say of themselves. Each is started, which takes seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from bridge.adapters.conversation import Introduction, Limits, OpenRequest
from bridge.adapters.talkers import Talker, talker
from bridge.foundation.config import HarnessSettings
from bridge.foundation.errors import BridgeError

#: Seconds that a harness has to answer.
PROBE_SECONDS: Final = 45.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of asking a harness: what it says, or what went wrong."""

    name: str
    introduction: Introduction | None
    problem: str | None = None


def probe(
    found: list[Talker],
    configured: Mapping[str, HarnessSettings],
    *,
    state: Path,
    environment: Mapping[str, str],
    seconds: float = PROBE_SECONDS,
) -> list[Probe]:
    """Ask each harness whose program is there, one after the other; no session is made. Blocking.

    Parameters
    ----------
    found
        As ``talkers`` lists them.
    environment
        What the programs inherit.
    seconds
        Time limit of each.
    """

    async def ask(item: Talker, folder: Path) -> Probe:
        request = OpenRequest(
            directory=folder,
            folder=folder / ".bridge",
            environment=environment,
            limits=Limits(start_seconds=seconds, grace_seconds=1.0),
        )
        try:
            return Probe(item.name, await talker(item.name, configured, state=state).introduce(request))
        except BridgeError as error:
            return Probe(item.name, None, error.message)

    async def ask_all() -> list[Probe]:
        # An empty folder: no program is to read somebody's project for this.
        with tempfile.TemporaryDirectory(prefix="bridge-probe-") as folder:
            return [await ask(item, Path(folder)) for item in found if item.program is not None]

    return anyio.run(ask_all)
