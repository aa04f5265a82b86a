"""Which harnesses can be talked to: known programs, the scripted agent, and those of the configuration.

Beside ``registry``, which knows those that run tasks. A name chooses a command here and decides nothing above.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bridge.adapters.acp.harness import AcpHarness
from bridge.adapters.conversation import ConversationHarness
from bridge.adapters.errors import UnknownHarness
from bridge.adapters.pi.harness import PiHarness
from bridge.foundation.config import HARNESS_CAPABILITIES, HarnessSettings

#: The agent that needs no model; it comes with Bridge, and is never chosen by itself.
SCRIPTED: Final = "scripted"


@dataclass(frozen=True, slots=True)
class Known:
    """A program that Bridge knows how to start.

    Parameters
    ----------
    command
        Program and arguments.
    speaks
        ``acp`` for the Agent Client Protocol, ``pi`` for pi's own.
    lacks
        Those of ``config.HARNESS_CAPABILITIES`` that it does not have, whatever it may say.
    as_root
        Variables it needs where it is run by root.
    reads_itself
        Whether it misunderstands the answer that a file is missing, and so could make no new ones.
    """

    command: tuple[str, ...]
    speaks: str = "acp"
    lacks: frozenset[str] = frozenset()
    as_root: Mapping[str, str] = field(default_factory=dict)
    reads_itself: bool = False


#: Known programs, in the order in which one is looked for. ``docs/harnesses.md`` says what was tried of each.
KNOWN: Final[Mapping[str, Known]] = MappingProxyType(
    {
        "opencode": Known(("opencode", "acp")),
        "gemini": Known(("gemini", "--acp"), reads_itself=True),
        "codex": Known(("codex-acp",)),
        # It refuses to edit for root unless it is told that it sits in a sandbox.
        "claude-code": Known(("claude-agent-acp",), as_root={"IS_SANDBOX": "1"}),
        "pi": Known(("pi", "--mode", "rpc"), speaks="pi", lacks=frozenset({"fs", "terminal", "load"})),
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
    lacks
        Capabilities that are not used with it, whatever it says that it has.
    """

    name: str
    command: tuple[str, ...]
    program: Path | None
    is_configured: bool
    lacks: tuple[str, ...] = ()


def known_talkers(configured: Mapping[str, HarnessSettings]) -> tuple[str, ...]:
    """Return the names of all that can be talked to, known ones first."""
    return tuple(dict.fromkeys((*KNOWN, SCRIPTED, *configured)))


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
    found = []
    for name in known_talkers(configured):
        command, lacks = _command(name, configured, state), _lacks(name, configured)
        found.append(Talker(name, command, _program(command[0], search_path), name in configured, lacks))
    return found


def talker(name: str, configured: Mapping[str, HarnessSettings], *, state: Path) -> ConversationHarness:
    """Return the adapter for a harness of that name; whether its program exists shows when it is opened.

    Raises
    ------
    UnknownHarness
        If there is none; the hint lists those there are.
    """
    names = known_talkers(configured)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownHarness(
            f"There is no harness {name[:80]!r} to talk to.{meant}",
            hint=f"Known: {', '.join(sorted(names))}. Others: [harness.NAME] in config.toml.",
            details={"harness": name[:200], "known": sorted(names)},
        )
    command, settings, known = _command(name, configured, state), configured.get(name), KNOWN.get(name)
    additions = dict(known.as_root) if known is not None and os.geteuid() == 0 else {}
    if settings is not None:
        additions |= settings.env
    if known is not None and known.speaks == "pi":
        named = None if settings is None else settings.capabilities
        return PiHarness(name, command, additions, has_tools=named is None or "mcp" in named)
    if name == SCRIPTED and settings is None:
        allowed: frozenset[str] | None = frozenset(HARNESS_CAPABILITIES)
    else:
        allowed = None if settings is None else settings.capabilities
    return AcpHarness(
        name,
        command,
        additions,
        allowed,
        reads_itself=known is not None and known.reads_itself,
        # All that are known do, and so does the scripted agent where its script says so.
        tells_usage=known is not None or name == SCRIPTED,
    )


def _command(name: str, configured: Mapping[str, HarnessSettings], state: Path) -> tuple[str, ...]:
    settings = configured.get(name)
    if settings is not None:
        return settings.command
    if name == SCRIPTED:
        return (sys.executable, "-m", "bridge.adapters.scripted", "--state", str(state / SCRIPTED))
    return KNOWN[name].command


def _lacks(name: str, configured: Mapping[str, HarnessSettings]) -> tuple[str, ...]:
    settings, known = configured.get(name), KNOWN.get(name)
    lacks: set[str] = set() if known is None else set(known.lacks)
    if settings is not None and settings.capabilities is not None:
        lacks |= set(HARNESS_CAPABILITIES) - settings.capabilities
    elif name != SCRIPTED:
        lacks.add("terminal")  # offered only where the configuration asks for it
    return tuple(sorted(lacks))


def _program(program: str, search_path: str | None) -> Path | None:
    found = shutil.which(program, path=search_path)
    return None if found is None else Path(found)
