"""Which harnesses there are. Adding one is an adapter module and a line here (see CONTRIBUTING.md)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from bridge.adapters.base import Harness
from bridge.adapters.command import CommandHarness
from bridge.adapters.errors import UnknownHarness

#: What a plan or a delegation that names none is run with.
DEFAULT_HARNESS = "command"

HARNESSES: Mapping[str, Callable[[], Harness]] = MappingProxyType({DEFAULT_HARNESS: CommandHarness})


def harness(name: str = DEFAULT_HARNESS) -> Harness:
    """Return an adapter for the harness of that name.

    Raises
    ------
    UnknownHarness
        If there is none; the hint lists those there are.
    """
    factory = HARNESSES.get(name)
    if factory is None:
        close = difflib.get_close_matches(name, HARNESSES, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownHarness(
            f"There is no harness {name[:80]!r}.{meant}",
            hint=f"Known: {', '.join(sorted(HARNESSES))}.",
            details={"harness": name[:200], "known": sorted(HARNESSES)},
        )
    return factory()
