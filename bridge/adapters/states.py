"""What harnesses keep outside the worktree and must be able to write: logins, settings, histories, caches.

A name chooses folders here and decides nothing above. What is missing on the machine does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bridge.adapters.talkers import SCRIPTED
from bridge.foundation.config import HarnessSettings

#: By harness, ``~`` for the home directory.
KNOWN_STATE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "claude-agent-acp": ("~/.claude", "~/.claude.json", "~/.cache/claude-cli-nodejs"),
        "claude-code": ("~/.claude", "~/.claude.json", "~/.cache/claude-cli-nodejs"),
        "codex": ("~/.codex",),
        "codex-acp": ("~/.codex",),
        "gemini": ("~/.gemini",),
        "opencode": (
            "~/.cache/opencode",
            "~/.config/opencode",
            "~/.local/share/opencode",
            "~/.local/state/opencode",
        ),
        "pi": ("~/.pi",),
    }
)


def state_paths(
    name: str, configured: Mapping[str, HarnessSettings], *, state: Path, home: Path | None
) -> tuple[Path, ...]:
    """Return the files and folders that a harness of that name may write beside its worker's place.

    Parameters
    ----------
    configured
        Harnesses of the configuration; ``state`` of one replaces what is known.
    state
        Folder of Bridge's state, in which the scripted agent keeps its sessions.
    home
        What ``~`` stands for; None leaves such paths out.
    """
    settings = configured.get(name)
    if settings is not None and settings.state is not None:
        return expanded(settings.state, home)
    if name == SCRIPTED:
        return (state / SCRIPTED,)
    return expanded(KNOWN_STATE.get(name, ()), home)


def expanded(paths: tuple[str, ...], home: Path | None) -> tuple[Path, ...]:
    """Return paths with ``~/`` replaced; without a home directory such paths are left out."""
    found = []
    for path in paths:
        if not path.startswith("~/"):
            found.append(Path(path))
        elif home is not None:
            found.append(home / path[2:])
    return tuple(found)
