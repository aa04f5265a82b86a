"""The tables ``[worktree]`` and ``[worker]`` of a checkout's ``bridge.toml``: how a worker's place is made. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from bridge.foundation.config import ConfinementMode
from bridge.foundation.errors import InvalidConfiguration
from bridge.foundation.projectfile import PROJECT_FILE, project_table

#: Seconds that all commands of a setup may take together, unless ``timeout_seconds`` says otherwise.
DEFAULT_SETUP_SECONDS: Final = 900.0
#: Items of one list, and variables for ports.
MAX_ITEMS: Final = 64
MAX_PORTS: Final = 32

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PATTERN: Final = re.compile(r"[A-Za-z0-9_*]{1,128}")


@dataclass(frozen=True, slots=True)
class WorktreeSettings:
    """How a worktree is made to work.

    Parameters
    ----------
    setup
        Shell lines that are run in it, in order, before the worker starts.
    always
        Shell lines run after that, also where the outcome of ``setup`` came from the cache.
    timeout_seconds
        What all of them may take together.
    cache
        Files and folders, relative to its top, that ``setup`` makes and that are kept for the next worktree.
    cache_key
        Files whose content decides whether what is kept still fits.
    ports
        Names of variables that each get a free port.
    """

    setup: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    timeout_seconds: float = DEFAULT_SETUP_SECONDS
    cache: tuple[str, ...] = ()
    cache_key: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker's processes may.

    Parameters
    ----------
    confinement
        Whether they are confined; None if the file does not say.
    environment
        Names or patterns of variables that pass though they look like secrets.
    writable
        Further files and folders that they may write, ``~`` for the home directory.
    is_offline
        Whether they are kept from the network as far as the kernel can.
    """

    confinement: ConfinementMode | None = None
    environment: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    is_offline: bool = False


def worktree_settings(checkout: Path) -> WorktreeSettings:
    """Return the table ``[worktree]`` of a checkout.

    Raises
    ------
    InvalidConfiguration
        If the file is of no use, a key is unknown, or a value is none; the message names it.
    """
    table = project_table(checkout, "worktree")
    _require_known("worktree", table, {"setup", "always", "timeout_seconds", "cache", "cache_key", "ports"})
    settings = WorktreeSettings(
        setup=_strings("worktree.setup", table.get("setup", [])),
        always=_strings("worktree.always", table.get("always", [])),
        timeout_seconds=_seconds("worktree.timeout_seconds", table.get("timeout_seconds", DEFAULT_SETUP_SECONDS)),
        cache=_paths("worktree.cache", table.get("cache", [])),
        cache_key=_paths("worktree.cache_key", table.get("cache_key", [])),
        ports=_variables("worktree.ports", table.get("ports", [])),
    )
    if settings.cache and not settings.setup:
        _wrong("worktree.cache", "left out where there is no setup that makes it")
    if settings.cache and not settings.cache_key:
        _wrong("worktree.cache_key", "the names of the files, such as a lock file, that the cache depends on")
    return settings


def worker_settings(checkout: Path) -> WorkerSettings:
    """Return the table ``[worker]`` of a checkout. Raises as :func:`worktree_settings`."""
    table = project_table(checkout, "worker")
    _require_known("worker", table, {"confinement", "environment", "writable", "network"})
    mode = table.get("confinement")
    if mode is not None and mode not in set(ConfinementMode):
        _wrong("worker.confinement", " or ".join(f'"{known}"' for known in ConfinementMode))
    network = table.get("network", "all")
    if network not in ("all", "none"):
        _wrong("worker.network", '"all" or "none"')
    patterns = _strings("worker.environment", table.get("environment", []))
    for pattern in patterns:
        if _PATTERN.fullmatch(pattern) is None or not pattern.strip("*_"):
            _wrong("worker.environment", f"names of variables, with * for any letters, and {pattern!r} is none")
    writable = _strings("worker.writable", table.get("writable", []))
    for path in writable:
        if not path.startswith(("/", "~/")):
            _wrong("worker.writable", f"absolute paths, or such below ~/, and {path!r} is none")
    return WorkerSettings(
        confinement=None if mode is None else ConfinementMode(mode),
        environment=patterns,
        writable=writable,
        is_offline=network == "none",
    )


def _require_known(table: str, found: Mapping[str, Any], known: set[str]) -> None:
    for key in found:
        if key not in known:
            raise InvalidConfiguration(
                f"{PROJECT_FILE}: unknown key {table}.{key}.", hint=f"Known keys: {', '.join(sorted(known))}."
            )


def _strings(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        _wrong(where, "a list of strings")
    if len(value) > MAX_ITEMS:
        _wrong(where, f"a list of at most {MAX_ITEMS}")
    if any("\0" in item for item in value):
        _wrong(where, "without zero bytes")
    return tuple(value)


def _paths(where: str, value: object) -> tuple[str, ...]:
    found = _strings(where, value)
    for path in found:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or not parts or ".." in parts or ".git" in parts:
            _wrong(where, f"paths below the top of the worktree, and {path!r} is none")
    return tuple(str(PurePosixPath(path)) for path in found)


def _variables(where: str, value: object) -> tuple[str, ...]:
    found = _strings(where, value)
    for name in found:
        if _VARIABLE.fullmatch(name) is None or name.startswith(("BRIDGE_", "GIT_")):
            _wrong(where, f"names of variables, none of Bridge's or git's, and {name!r} is none")
    if len(set(found)) != len(found) or len(found) > MAX_PORTS:
        _wrong(where, f"at most {MAX_PORTS} different names")
    return found


def _seconds(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        _wrong(where, "a positive number of seconds")
    return float(value)


def _wrong(where: str, what: str) -> NoReturn:
    raise InvalidConfiguration(f"{PROJECT_FILE}: {where} must be {what}.", hint="Mend the file. Nothing was started.")
