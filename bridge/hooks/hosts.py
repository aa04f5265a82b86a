"""Where each host keeps its settings, and what stands in them: events, times in the host's own unit, the one line.

The text of the line is part of what a host trusts. It never changes: not with the release, nor with the machine's
Python; see ``placing``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bridge.control.capture.places import CLIENT_NAME, FOLDER

#: Seconds after which a host gives a hook up. The client ends itself long before; this is for a machine that stalls.
TIMEOUT_SECONDS: Final = 5


class Scope(StrEnum):
    """Whose settings: a person's, or those of one checkout."""

    USER = "user"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What is particular about the settings of a host.

    Parameters
    ----------
    home_variable, home_folder
        Names the folder of a person's settings; where it lies in their home otherwise.
    file, project_file
        The settings in that folder, and in a checkout.
    events
        The hooks that Bridge is called at.
    timeout
        :data:`TIMEOUT_SECONDS` in the host's unit.
    matcher
        What stands for every tool; None for a host that takes none for it.
    needs_trust
        Whether the host runs no hook before a person trusted it.
    """

    name: str
    home_variable: str | None
    home_folder: str
    file: str
    project_file: str
    events: tuple[str, ...]
    timeout: int
    matcher: str | None = None
    needs_trust: bool = False

    def path(self, environment: Mapping[str, str], scope: Scope, directory: Path) -> Path:
        """Return the settings of a person, or of the checkout with this top level."""
        if scope is Scope.PROJECT:
            return directory / self.project_file
        named = environment.get(self.home_variable or "")
        home = Path(environment.get("HOME") or Path.home())
        return (Path(named) if named else home / self.home_folder) / self.file

    def entry(self, line: str) -> dict[str, Any]:
        """Return what stands under one event."""
        hook = {"type": "command", "command": line, "timeout": self.timeout}
        return {"hooks": [hook]} if self.matcher is None else {"matcher": self.matcher, "hooks": [hook]}


_COMMON: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Stop",
)

HOST_SETTINGS: Final[Mapping[str, HostSettings]] = MappingProxyType(
    {
        host.name: host
        for host in (
            HostSettings(
                "claude-code",
                "CLAUDE_CONFIG_DIR",
                ".claude",
                "settings.json",
                ".claude/settings.local.json",
                (*_COMMON, "PostToolUseFailure", "SessionEnd"),
                TIMEOUT_SECONDS,
            ),
            HostSettings(
                "codex",
                "CODEX_HOME",
                ".codex",
                "hooks.json",
                ".codex/hooks.json",
                _COMMON,
                TIMEOUT_SECONDS,
                needs_trust=True,
            ),
            HostSettings(
                "gemini",
                None,
                ".gemini",
                "settings.json",
                ".gemini/settings.json",
                # Not PreCompress: this host calls it before every request, whether or not anything is compressed.
                ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"),
                TIMEOUT_SECONDS * 1000,
                matcher="*",
            ),
        )
    }
)


def hook_line(home: Path, host: str) -> str:
    """Return the line that a host runs at every hook. It ends with status 0 whatever happens, and says nothing."""
    return f"{shlex.quote(str(home / FOLDER / CLIENT_NAME))} {host} 2>/dev/null || true"
