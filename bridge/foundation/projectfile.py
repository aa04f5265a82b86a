"""``bridge.toml`` in the top folder of a checkout: what a project says about how Bridge works in it."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridge.foundation.errors import InvalidConfiguration

PROJECT_FILE = "bridge.toml"
#: Bytes of such a file.
MAX_PROJECT_FILE_BYTES = 1024 * 1024


def read_project_file(checkout: Path) -> Mapping[str, Any]:
    """Return the tables of a checkout's file; none if there is no file. What they hold is their readers' to judge.

    Raises
    ------
    InvalidConfiguration
        If it cannot be read, is no file, is too large, or is not TOML.
    """
    path = checkout / PROJECT_FILE
    try:
        found = path.stat()
        # A pipe would be waited for, and a device may never end.
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_PROJECT_FILE_BYTES:
            raise InvalidConfiguration(
                f"{path}: not a file of at most {MAX_PROJECT_FILE_BYTES} bytes.", hint="Mend or remove it."
            )
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(f"{path}: {error}.", hint="Mend or remove the file.") from error


def project_table(checkout: Path, name: str) -> Mapping[str, Any]:
    """Return one table of a checkout's file; empty if there is none.

    Raises
    ------
    InvalidConfiguration
        As :func:`read_project_file`, and if it is no table.
    """
    table = read_project_file(checkout).get(name, {})
    if not isinstance(table, Mapping):
        raise InvalidConfiguration(
            f"{checkout / PROJECT_FILE}: {name} must be a table.", hint=f"Write it as [{name}], with its keys below."
        )
    return table
