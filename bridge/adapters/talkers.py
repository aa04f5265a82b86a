"""Which harnesses can be talked to: known programs, the scripted agent, and those of the configuration.

Beside ``registry``, which knows those that run tasks. A name chooses a command here and decides nothing above.
"""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bridge.adapters.acp.harness import AcpHarness
from bridge.adapters.conversation import ConversationHarness
from bridge.adapters.errors import UnknownHarness
from bridge.foundation.config import HarnessSettings

#: The agent that needs no model; it comes with Bridge, and is never chosen by itself.
SCRIPTED: Final = "scripted"
#: Programs known to speak the Agent Client Protocol, in the order in which one is looked for.
KNOWN_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "opencode": ("opencode", "acp"),
        "gemini": ("gemini", "--acp"),
        "codex-acp": ("codex-acp",),
        "claude-agent-acp": ("claude-agent-acp",),
    }
)


@dataclass(frozen=True, slots=True)
class Talker:
    """A harness that can be talked to, and where its program is.

    Parameters
    ----------
    program
        None if it is not installed, or not on the PATH.
    is_configured
        Whether ``config.toml`` names its command.
    """

    name: str
    command: tuple[str, ...]
    program: Path | None
    is_configured: bool


def talkers(configured: Mapping[str, HarnessSettings], *, state: Path, search_path: str | None) -> list[Talker]:
    """Return every harness that can be talked to, installed or not.

    Parameters
    ----------
    configured
        Those of the configuration; one with the name of a known harness replaces it.
    state
        Folder of Bridge's state, in which the scripted agent keeps its sessions.
    search_path
        The PATH of the agents' environment.
    """
    commands = {**KNOWN_COMMANDS, SCRIPTED: _scripted_command(state)}
    commands |= {name: settings.command for name, settings in configured.items()}
    return [
        Talker(name, command, _program(command[0], search_path), name in configured)
        for name, command in commands.items()
    ]


def talker(name: str, configured: Mapping[str, HarnessSettings], *, state: Path) -> ConversationHarness:
    """Return the adapter for a harness of that name; whether its program exists shows when it is opened.

    Raises
    ------
    UnknownHarness
        If there is none; the hint lists those there are.
    """
    settings = configured.get(name)
    if settings is not None:
        return AcpHarness(name, settings.command, settings.env, settings.capabilities)
    if name == SCRIPTED:
        return AcpHarness(
            name, _scripted_command(state), allowed=frozenset({"resume", "load", "fs", "terminal", "mcp"})
        )
    command = KNOWN_COMMANDS.get(name)
    if command is None:
        known = sorted({*KNOWN_COMMANDS, SCRIPTED, *configured})
        close = difflib.get_close_matches(name, known, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownHarness(
            f"There is no harness {name[:80]!r} to talk to.{meant}",
            hint=f"Known: {', '.join(known)}. Others: [harness.NAME] in config.toml.",
            details={"harness": name[:200], "known": known},
        )
    return AcpHarness(name, command)


def _scripted_command(state: Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "bridge.adapters.scripted", "--state", str(state / SCRIPTED))


def _program(program: str, search_path: str | None) -> Path | None:
    found = shutil.which(program, path=search_path)
    return None if found is None else Path(found)
