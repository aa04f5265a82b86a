"""Programs that an agent has Bridge run for it: in its directory, in groups of their own, bounded, ended with it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyio import to_thread

from bridge.adapters.acp.files import ConfinedFiles
from bridge.adapters.errors import AgentFileUnusable
from bridge.process.children import Child, ChildExit, spawn
from bridge.process.confinement import Confinement
from bridge.process.environment import child_environment
from bridge.process.identity import MARKER_VARIABLE

#: Terminals that one conversation may have open at once.
MAX_TERMINALS: Final = 16
#: Bytes that a terminal may print before it is ended, and that an agent is shown at most: the end of it.
MAX_OUTPUT_BYTES: Final = 16 * 2**20
MAX_SHOWN_BYTES: Final = 2**20
#: Seconds that a terminal may run.
MAX_SECONDS: Final = 3600.0


@dataclass
class _Terminal:
    child: Child
    output: Path
    shown_bytes: int
    ended: ChildExit | None = None


class Terminals:
    """The open terminals of one conversation.

    Parameters
    ----------
    files
        Where they may be started.
    folder
        Holds their output.
    environment
        What they inherit, before it is stripped.
    marker
        Finds their processes after a crash.
    grace_seconds
        From SIGTERM to SIGKILL.
    confinement
        Where their programs may write; None: wherever this process may.
    """

    def __init__(
        self,
        files: ConfinedFiles,
        folder: Path,
        environment: Mapping[str, str],
        *,
        marker: str | None,
        grace_seconds: float,
        confinement: Confinement | None = None,
    ) -> None:
        self._files = files
        self._folder = folder
        self._environment = environment
        # In their environment only: ending one by its marker would end the agent, which carries the same.
        self._marking = {} if marker is None else {MARKER_VARIABLE: marker}
        self._grace_seconds = grace_seconds
        self._confinement = confinement
        self._open: dict[str, _Terminal] = {}
        self._numbers = itertools.count(1)

    async def create(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Start a program. Raises AgentFileUnusable, PathOutsideDirectory and what ``spawn`` raises."""
        if len(self._open) >= MAX_TERMINALS:
            raise AgentFileUnusable(f"{MAX_TERMINALS} terminals are open; release one first.")
        arguments = [str(item) for item in params.get("args") or ()]
        command = str(params.get("command") or "")
        # A command line with blanks and no arguments is meant for a shell; agents send both forms.
        argv = ["/bin/sh", "-c", command] if not arguments and any(c.isspace() for c in command) else [command]
        directory = await to_thread.run_sync(self._files.folder, params.get("cwd"))
        variables = {
            str(item["name"]): str(item["value"])
            for item in params.get("env") or ()
            if isinstance(item, Mapping) and "name" in item and "value" in item
        }
        identity = f"t{next(self._numbers)}"
        output = self._folder / f"terminal-{identity}"
        child = await spawn(
            [*argv, *arguments],
            cwd=directory,
            environment=child_environment({**self._environment, **variables}, self._marking),
            stdout_path=output,
            stderr_path=output,
            output_limit_bytes=MAX_OUTPUT_BYTES,
            confinement=self._confinement,
        )
        wanted = params.get("outputByteLimit")
        shown = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else MAX_SHOWN_BYTES
        self._open[identity] = _Terminal(child, output, max(0, min(shown, MAX_SHOWN_BYTES)))
        return {"terminalId": identity}

    async def output(self, identity: str) -> dict[str, Any]:
        """Return what a terminal printed, the end of it, and how it ended if it has."""
        terminal = self._require(identity)
        if terminal.ended is None and terminal.child.has_ended:
            await self.wait(identity)
        text, is_cut = await to_thread.run_sync(_tail, terminal.output, terminal.shown_bytes)
        answer: dict[str, Any] = {"output": text, "truncated": is_cut}
        if terminal.ended is not None:
            answer["exitStatus"] = _status(terminal.ended)
        return answer

    async def wait(self, identity: str) -> dict[str, Any]:
        """Wait for the end of a terminal's program, within its limits, and return how it ended."""
        terminal = self._require(identity)
        terminal.ended = await terminal.child.wait(MAX_SECONDS, grace_seconds=self._grace_seconds)
        return _status(terminal.ended)

    async def kill(self, identity: str) -> None:
        """End a terminal's program; its output stays readable."""
        terminal = self._require(identity)
        terminal.ended = await terminal.child.cancel(self._grace_seconds)

    async def release(self, identity: str) -> None:
        """End a terminal's program and forget it."""
        terminal = self._require(identity)
        del self._open[identity]
        await terminal.child.cancel(self._grace_seconds)
        await to_thread.run_sync(lambda: terminal.output.unlink(missing_ok=True))

    async def close(self) -> None:
        """End all of them."""
        for identity in [*self._open]:
            await self.release(identity)

    def _require(self, identity: str) -> _Terminal:
        terminal = self._open.get(identity)
        if terminal is None:
            raise AgentFileUnusable(f"There is no terminal {identity[:80]!r}.")
        return terminal


def _status(ended: ChildExit) -> dict[str, Any]:
    return {"exitCode": ended.exit_status, "signal": None if ended.signal is None else str(ended.signal)}


def _tail(path: Path, limit: int) -> tuple[str, bool]:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - limit))
        data = file.read(limit)
    # A character that the cut went through is left out.
    while size > limit and data and data[0] & 0xC0 == 0x80:
        data = data[1:]
    return data.decode("utf-8", "replace"), size > limit
