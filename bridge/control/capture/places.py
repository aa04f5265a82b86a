"""The files that the hook client goes by, which lie beside it in the state directory; see ``bridge.hooks.client``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.foundation.config import Settings
from bridge.storage.transaction import Connection
from bridge.workspaces.models import WorkspaceKind, WorkspaceStatus
from bridge.workspaces.store import list_workspaces

#: Folder in the state directory, and what of it both sides use.
FOLDER: Final = "hooks"
#: The client's own name; it stands in the settings of hosts and never changes.
CLIENT_NAME: Final = "bridge-hook"
PLACES_FILE: Final = "places.json"
SPOOL_FOLDER: Final = "spool"
LOST_PREFIX: Final = "lost-"


def hooks_folder(settings: Settings) -> Path:
    """Return the folder of the hook client."""
    return settings.home / FOLDER


def note_places(controller: Controller) -> None:
    """Write which checkouts are registered: everywhere else the hook client does nothing. Blocking.

    Nothing is written where no hooks were ever installed.
    """
    folder = hooks_folder(controller.settings)
    if not folder.is_dir():
        return
    with controller.store.read() as connection:
        places = _places(connection)
    replace_file(folder / PLACES_FILE, json.dumps(places).encode())


def _places(connection: Connection) -> dict[str, int]:
    """Return the top levels of checkouts that people work in; a worker's is recorded by who runs it."""
    kinds = [WorkspaceKind.REPOSITORY, WorkspaceKind.TASK]
    statuses = [WorkspaceStatus.ACTIVE, WorkspaceStatus.KEPT]
    found = list_workspaces(connection, kinds=kinds, statuses=statuses)
    # As an object, so that the client looks a path up and goes through no list.
    return {os.path.realpath(workspace.folder): 1 for workspace in found}


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file as a whole, or leave it as it was; nothing happens where it holds just that already."""
    if path.is_file() and path.read_bytes() == data and (path.stat().st_mode & 0o777) == mode:
        return
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.write_bytes(data)
    unfinished.chmod(mode)
    unfinished.replace(path)


def read_json(path: Path) -> Any:
    """Return what a file holds as JSON; None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
