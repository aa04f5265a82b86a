"""Whether a host trusts the hooks in its settings. One of them neither runs nor mentions hooks it does not trust.

Its ``config.toml`` has a table per hook, named after the settings file, the event, and the places of group and hook in
it, with a digest over what was trusted: canonical JSON of the event and the group with that one hook.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.hooks.hosts import HostSettings
from bridge.hooks.installing import Found

_CONFIG: Final = "config.toml"
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Trust:
    """How many of the installed hooks are trusted."""

    trusted: int
    total: int

    @property
    def is_whole(self) -> bool:
        return self.trusted == self.total


def trust_of(host: HostSettings, found: Found, line: str, user_settings: Path) -> Trust | None:
    """Return what a host trusts of the hooks found in a file; None for a host that asks for no trust.

    Parameters
    ----------
    user_settings
        The person's own settings file of this host; its ``config.toml`` lies beside it.
    """
    if not host.needs_trust:
        return None
    state = _state(user_settings.parent / _CONFIG)
    trusted = 0
    for event, (group, hook) in found.events.items():
        known = state.get(f"{found.path}:{snake_case(event)}:{group}:{hook}")
        if not isinstance(known, Mapping) or known.get("enabled") is False:
            continue
        trusted += known.get("trusted_hash") == trusted_hash(host, event, line)
    return Trust(trusted, len(found.events))


def trusted_hash(host: HostSettings, event: str, line: str) -> str:
    """Return the digest under which a host trusts Bridge's hook at an event."""
    entry = host.entry(line)
    hooks = [{**hook, "async": False} for hook in entry["hooks"]]
    identity: dict[str, Any] = {"event_name": snake_case(event), **entry, "hooks": hooks}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def snake_case(event: str) -> str:
    """Return an event's name as this host writes it in its state."""
    return _CAPITAL.sub("_", event).lower()


def _state(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            config = tomllib.load(file)
    except (OSError, ValueError):
        # Without a file nothing is trusted; in a broken one the host itself finds nothing either.
        return {}
    hooks = config.get("hooks")
    state = hooks.get("state") if isinstance(hooks, Mapping) else None
    return state if isinstance(state, Mapping) else {}
