"""Where state lives and how Bridge behaves, read once from a given environment (never from ``os.environ`` here)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from bridge.foundation.errors import InvalidConfiguration

HOME_VARIABLE = "BRIDGE_HOME"
DATABASE_VARIABLE = "BRIDGE_DATABASE_URL"
CONFIG_FILE = "config.toml"
DATABASE_FILE = "bridge.db"


@dataclass(frozen=True, slots=True)
class Settings:
    """What every part of Bridge may need to know about its surroundings.

    Parameters
    ----------
    home
        The state directory, absolute. Holds the database, worktrees, task folders, remembered digests and logs.
    database_url
        SQLAlchemy URL of the store; ``sqlite:///<home>/bridge.db`` unless given.
    git_timeout_seconds
        Time limit of one git call that Bridge waits for; a stamp past it is unknown (``timed_out``).
    """

    home: Path
    database_url: str
    git_timeout_seconds: float = 30.0

    @property
    def worktrees(self) -> Path:
        return self.home / "worktrees"

    @property
    def tasks(self) -> Path:
        return self.home / "tasks"

    @property
    def digests(self) -> Path:
        """Where digests of file contents are remembered; losing it costs reading the files once more."""
        return self.home / "digests"


def state_directory(environment: Mapping[str, str]) -> Path:
    """Return the state directory of an environment; looks at nothing on the disk.

    Raises
    ------
    InvalidConfiguration
        If ``BRIDGE_HOME`` is relative.
    """
    named = environment.get(HOME_VARIABLE)
    home = Path(named) if named else Path(platformdirs.user_state_dir("bridge", appauthor=False))
    if not home.is_absolute():
        raise InvalidConfiguration(
            f"{HOME_VARIABLE} must be an absolute path, not {str(home)!r}.",
            hint=f"Set {HOME_VARIABLE} to a full path, or unset it.",
        )
    return home


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings for an environment: variables first, then ``config.toml`` in the state directory.

    Raises
    ------
    InvalidConfiguration
        If ``BRIDGE_HOME`` is relative or cannot stand in a database URL, or ``config.toml`` is unreadable, not
        TOML, or holds an unknown key or a value of the wrong type.
    """
    home = state_directory(environment)
    options = _read_config(home / CONFIG_FILE)
    url = environment.get(DATABASE_VARIABLE) or _sqlite_url(home)
    return Settings(home=home, database_url=url, **options)


def _sqlite_url(home: Path) -> str:
    if "?" in str(home):
        raise InvalidConfiguration(
            f"The state directory {str(home)!r} has a question mark in its name, which a database URL cannot hold.",
            hint=f"Set {HOME_VARIABLE} to another path.",
        )
    return f"sqlite:///{home / DATABASE_FILE}"


def _read_config(path: Path) -> dict[str, float]:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(f"{path}: {error}.", hint="Mend or remove the file.") from error
    options: dict[str, float] = {}
    for key, value in table.items():
        if key != "git_timeout_seconds":
            raise InvalidConfiguration(f"{path}: unknown key {key!r}.", hint="Known keys: git_timeout_seconds.")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InvalidConfiguration(f"{path}: {key} must be a positive number of seconds.")
        options[key] = float(value)
    return options
