"""The state of a host's hooks: in its settings, in its trust, in the store, and what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.control.capture.health import HostHealth, health_of
from bridge.control.capture.places import CLIENT_NAME, hooks_folder
from bridge.control.controller import Controller
from bridge.foundation.config import Settings
from bridge.foundation.errors import BridgeError
from bridge.hooks.hosts import HOST_SETTINGS, HostSettings, Scope, hook_line
from bridge.hooks.installing import Found, inspect
from bridge.hooks.placing import interpreter_of
from bridge.hooks.trust import Trust, trust_of


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps hooks from doing their work, and what can be done about it."""

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One host.

    Parameters
    ----------
    installed
        The settings files with Bridge's hooks.
    trust
        None for a host that asks for none.
    problems
        The gravest first; empty if all is well, or nothing is installed.
    """

    host: str
    installed: tuple[Found, ...]
    trust: Trust | None
    health: HostHealth
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        trust = self.trust
        return {
            **self.health.to_json(),
            "installed": [
                {"path": str(found.path), "events": sorted(found.events), "missing": list(found.missing)}
                for found in self.installed
            ],
            "trusted": None if trust is None else trust.trusted,
            "to_trust": None if trust is None else trust.total,
            "problems": [{"code": one.code, "message": one.message, "hint": one.hint} for one in self.problems],
        }


def status_of(
    controller: Controller, host: HostSettings, environment: Mapping[str, str], directories: Iterable[Path]
) -> HostStatus:
    """Return the state of a host's hooks, in a person's settings and those of some checkouts. Blocking."""
    settings = controller.settings
    user = host.path(environment, Scope.USER, Path("/"))
    paths = [user, *(host.path(environment, Scope.PROJECT, directory) for directory in directories)]
    line = hook_line(settings.home, host.name)
    installed: list[Found] = []
    problems: list[Problem] = []
    for path in dict.fromkeys(paths):
        try:
            found = inspect(settings, host, path)
        except BridgeError as error:
            problems.append(Problem(error.code, error.message, error.hint))
            continue
        if found.is_installed:
            installed.append(found)
    trusts = [trust for found in installed if (trust := trust_of(host, found, line, user)) is not None]
    trust = Trust(sum(one.trusted for one in trusts), sum(one.total for one in trusts)) if trusts else None
    health = health_of(controller, host.name)
    if installed:
        problems += _problems(settings, host, installed, trust, health)
    return HostStatus(host.name, tuple(installed), trust, health, tuple(problems))


def all_statuses(
    controller: Controller, environment: Mapping[str, str], directories: Iterable[Path]
) -> list[HostStatus]:
    """Return the state of every host's hooks. Blocking."""
    places = list(directories)
    return [status_of(controller, host, environment, places) for host in HOST_SETTINGS.values()]


def _problems(
    settings: Settings, host: HostSettings, installed: list[Found], trust: Trust | None, health: HostHealth
) -> list[Problem]:
    again = f"Run: bridge hooks install {host.name}"
    found: list[Problem] = []
    client = hooks_folder(settings) / CLIENT_NAME
    interpreter = interpreter_of(client)
    if interpreter is None or not os.access(interpreter, os.X_OK):
        found.append(
            Problem("client_missing", f"The hook client of {host.name} cannot be run: {str(client)!r}.", again)
        )
    if trust is not None and not trust.is_whole:
        found.append(
            Problem(
                "not_trusted",
                f"{host.name} hooks are installed but not trusted, so {'nothing' if not trust.trusted else 'not all'} "
                "is recorded.",
                f"Open {host.name}, run /hooks, trust {trust.total - trust.trusted} entries.",
            )
        )
    missing = sorted({event for one in installed for event in one.missing})
    if missing:
        found.append(Problem("incomplete", f"Hooks of {host.name} are missing: {', '.join(missing)}.", again))
    if health.record is None:
        found.append(
            Problem(
                "nothing_recorded",
                f"{host.name} hooks are installed but nothing was recorded.",
                f"Start {host.name} in a registered checkout (bridge init), then look again.",
            )
        )
    if health.lost:
        found.append(
            Problem(
                "events_lost",
                f"{health.lost} events of {host.name} were not recorded.",
                "The transcript has them, without file states: bridge import --discover",
            )
        )
    if health.is_transcript_readable is False:
        found.append(
            Problem(
                "transcript_unreadable",
                f"The transcript {health.transcript!r} of {host.name} cannot be read.",
                "What hooks do not tell is missing; mend its permissions, or keep the host from deleting it.",
            )
        )
    return found
