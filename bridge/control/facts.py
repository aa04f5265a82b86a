"""Facts about the controller and its store, for operators: what runs here, on what, and how much there is."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import bridge
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.foundation.errors import BridgeError
from bridge.git.process import run_git
from bridge.semantics.kinds import CURRENT_VERSION, READABLE_VERSIONS
from bridge.storage.backend import file_of
from bridge.storage.counting import count_rows
from bridge.storage.schema_version import SCHEMA_VERSION

#: How long git may take to say which one it is.
_GIT_TIMEOUT_SECONDS = 10.0


def status_facts(controller: Controller) -> dict[str, Any]:
    """Return what this process is, its store, and the delegations that have not ended."""
    with controller.store.read() as connection:
        open_ones = rows.list_delegations(connection, open_only=True)
    return {
        "version": bridge.__version__,
        "pid": os.getpid(),
        "home": str(controller.settings.home),
        "database": controller.store.database,
        "place": controller.store.place,
        "schema_version": SCHEMA_VERSION,
        "semantic_versions": list(READABLE_VERSIONS),
        "open_delegations": [one.to_json() for one in open_ones],
    }


def machine_facts(controller: Controller) -> dict[str, Any]:
    """Return the programs and the disk that this process stands on, for a look at what is wrong."""
    usage = shutil.disk_usage(_existing(controller.settings.home))
    try:
        git: str | None = run_git(["--version"], cwd=Path.cwd(), timeout_seconds=_GIT_TIMEOUT_SECONDS).stdout.decode()
    except BridgeError as error:
        git = error.message
    return {
        "version": bridge.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": (git or "").strip(),
        "sqlite": sqlite3.sqlite_version,
        "home": str(controller.settings.home),
        "disk_free_bytes": usage.free,
        "disk_total_bytes": usage.total,
    }


def database_facts(controller: Controller) -> dict[str, Any]:
    """Return what the store is: its kind, place, schema and size; None for the size of one on a server."""
    size = None
    if controller.store.database == "sqlite":
        file = file_of(controller.settings.database_url)
        size = sum(part.stat().st_size for part in (file, Path(f"{file}-wal")) if part.exists())
    return {
        "database": controller.store.database,
        "place": controller.store.place,
        "schema_version": SCHEMA_VERSION,
        "semantic_version": CURRENT_VERSION,
        "size_bytes": size,
    }


def usage_facts(controller: Controller) -> dict[str, Any]:
    """Return how many rows each table has, and how large the store is."""
    with controller.store.read() as connection:
        counted = count_rows(connection)
    return {"rows": counted, "size_bytes": database_facts(controller)["size_bytes"]}


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
