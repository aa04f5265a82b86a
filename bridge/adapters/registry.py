"""Which harnesses run tasks: ``command``, and every one that can be talked to (see ``talkers``).

Adding one is an adapter module and a line here or there (see CONTRIBUTING.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from bridge.adapters.base import Harness
from bridge.adapters.command import CommandHarness
from bridge.adapters.errors import UnknownHarness
from bridge.adapters.talkers import known_talkers, talker
from bridge.adapters.tasks.harness import TalkingHarness
from bridge.foundation.config import HarnessSettings

#: What a plan or a delegation that names none is run with.
DEFAULT_HARNESS = "command"

#: Harnesses that only run tasks.
HARNESSES: Mapping[str, Callable[[], Harness]] = MappingProxyType({DEFAULT_HARNESS: CommandHarness})


def known_harnesses(configured: Mapping[str, HarnessSettings] | None = None) -> tuple[str, ...]:
    """Return the names of all harnesses that run tasks, installed or not."""
    return tuple(sorted({*HARNESSES, *known_talkers(configured or {})}))


def chosen_harness(
    named: str,
    *,
    has_command: bool,
    preferred: str | None,
    of_session: str | None,
    configured: Mapping[str, HarnessSettings],
) -> str:
    """Return the harness of a delegation that may name none.

    Parameters
    ----------
    named
        What it names; empty for none.
    has_command
        Whether it names a command, which is what ``command`` runs.
    preferred
        The configuration's ``worker_harness``.
    of_session
        The harness of the session that asks: an agent's workers are its like, unless somebody says otherwise.
    """
    if named or has_command:
        return named or DEFAULT_HARNESS
    if preferred is not None:
        return preferred
    known = known_talkers(configured)
    return of_session if of_session is not None and of_session in known else DEFAULT_HARNESS


def harness(
    name: str = DEFAULT_HARNESS,
    configured: Mapping[str, HarnessSettings] | None = None,
    *,
    state: Path | None = None,
) -> Harness:
    """Return an adapter for the harness of that name; whether its program exists shows when it is run.

    Parameters
    ----------
    configured
        Harnesses of the configuration; one with the name of a known one that is talked to replaces it.
    state
        Folder of Bridge's state; without it the scripted agent keeps its sessions in the working directory.

    Raises
    ------
    UnknownHarness
        If there is none; the hint lists those there are.
    """
    factory = HARNESSES.get(name)
    if factory is not None:
        return factory()
    known = known_harnesses(configured)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownHarness(
            f"There is no harness {name[:80]!r}.{meant}",
            hint=f"Known: {', '.join(known)}. Others: [harness.NAME] in config.toml.",
            details={"harness": name[:200], "known": list(known)},
        )
    return TalkingHarness(talker(name, configured or {}, state=state or Path.cwd()))
