"""Where state lives and how Bridge behaves, read once from a given environment (never from ``os.environ`` here)."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import platformdirs

from bridge.foundation.errors import InvalidConfiguration

HOME_VARIABLE = "BRIDGE_HOME"
DATABASE_VARIABLE = "BRIDGE_DATABASE_URL"
CONTROLLER_VARIABLE = "BRIDGE_CONTROLLER"
CONFINEMENT_VARIABLE = "BRIDGE_CONFINEMENT"
CONFIG_FILE = "config.toml"
DATABASE_FILE = "bridge.db"
#: What a harness may be called: it stands in commands, paths and entries.
HARNESS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: Seconds without a word of a worker's agent after which it counts as stalled.
DEFAULT_WORKER_SILENCE_SECONDS = 600.0
#: What ``capabilities`` of a harness may list.
HARNESS_CAPABILITIES = ("resume", "load", "mcp", "fs", "terminal")
#: Bytes of file contents that are kept for one stamp, unless ``snapshot_limit_bytes`` says otherwise (64 MiB).
DEFAULT_SNAPSHOT_LIMIT_BYTES = 64 * 1024 * 1024
#: How old the last word of a session may be to be handed on to the next one, unless ``spark_hours`` says otherwise.
DEFAULT_SPARK_HOURS = 48.0
#: How long an agent's hook may keep it waiting, in seconds, unless ``hook_patience_seconds`` says otherwise, and most
#: that can be asked for: hosts give a hook up after 5.
DEFAULT_HOOK_PATIENCE_SECONDS = 0.3
MAX_HOOK_PATIENCE_SECONDS = 4.0
#: After how long without use a resident controller ends, unless ``idle_timeout_seconds`` says otherwise.
DEFAULT_IDLE_TIMEOUT_SECONDS = 15 * 60.0


class SnapshotMode(StrEnum):
    """Which file contents are kept behind a stamp."""

    #: None: a stamp holds digests only.
    OFF = "off"
    #: Those that differ from HEAD: modified, staged and untracked files.
    DIRTY = "dirty"


class ControllerMode(StrEnum):
    """What a command makes of a resident controller."""

    #: Nothing: it runs in its own process, and no controller takes commands.
    OFF = "off"
    #: It uses one that runs, and starts none.
    AUTO = "auto"
    #: It uses one that runs; else it runs in its own process and then starts one for the next command.
    START = "start"
    #: It uses one, which is started if none runs; without one it fails.
    REQUIRED = "required"


class ConfinementMode(StrEnum):
    """Whether workers are confined to their places."""

    #: A worker that cannot be confined is not started.
    ENFORCE = "enforce"
    #: Where the machine can; else the worker is started, and a notice says so.
    AUTO = "auto"
    #: Never.
    OFF = "off"


class RawMode(StrEnum):
    """What becomes of secrets in the lines of imported transcripts, which are kept beside their entries."""

    #: They are masked, as in entries.
    REDACTED = "redacted"
    #: Lines are kept as they are.
    UNREDACTED = "unredacted"


@dataclass(frozen=True, slots=True)
class HarnessSettings:
    """A harness of one's own: a program that speaks the Agent Client Protocol.

    Parameters
    ----------
    command
        Program and arguments.
    env
        Variables it gets besides what it inherits.
    capabilities
        Those that are used if it has them; None leaves that to Bridge.
    credential
        A name for the account that it works with; harnesses of one program with different accounts have their own.
    state
        Files and folders of its own outside the worktree that it may write when it is confined; None: those that are
        known of the harness.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    capabilities: frozenset[str] | None = None
    credential: str | None = None
    state: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeepSearchSettings:
    """The model that ``bridge find --deep`` may ask; one of the two.

    Parameters
    ----------
    model
        Through the model library: ``openai:NAME`` for whatever speaks chat completions, or as the library names it.
    base_url
        Where it is served; None leaves that to the library.
    api_key_variable
        Name of the environment variable with its key; None leaves that to the library.
    harness
        An agent program that is started without tools, with the variables of its table ``[harness.NAME]``.
    program
        Where that program is; None: it is looked up by its own name.
    """

    model: str | None = None
    base_url: str | None = None
    api_key_variable: str | None = None
    harness: str | None = None
    program: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """What a worker is given besides its task, where its checkout's ``bridge.toml`` does not say.

    Parameters
    ----------
    spark
        Whether its first context ends with the last word of the session that delegates.
    """

    spark: bool = False


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
    snapshots
        Which file contents are kept behind stamps; none unless asked for.
    snapshot_limit_bytes
        Most that is kept for one stamp; what lies beyond it is marked as left out.
    auto_upgrade
        Whether a SQLite store of an older schema is brought up to date when it is opened, if its backup fits on the
        disk; else ``bridge db upgrade`` has to be run.
    controller
        What commands make of a resident controller.
    idle_timeout_seconds
        After how long without use a resident controller ends; 0 for never.
    spark_hours
        How old the last word of a session may be to be handed on to the next one; an older one is only mentioned.
    hook_patience_seconds
        How long a hook may keep a coding agent waiting; what takes longer is told to it later.
    harness
        Harnesses by name: additional ones, and known ones with another command.
    chat_harness
        What ``bridge chat`` talks to where neither it nor the session names one.
    deep_search
        The model that ``bridge find --deep`` may ask; None: there is none.
    worker
        What workers are given besides their tasks.
    policy
        The person's own table ``[policy]``, unread; it goes before a workspace's (``bridge.agents.policy_file``).
    worker_harness
        What a delegation runs through that names neither a harness nor a command.
    worker_silence_seconds
        Without a word of a worker's agent for so long, it counts as stalled and is ended.
    confinement
        Whether workers are confined; None leaves that to each checkout's ``bridge.toml``.
    import_raw
        What becomes of secrets in the kept lines of imported transcripts.
    """

    home: Path
    database_url: str
    git_timeout_seconds: float = 30.0
    snapshots: SnapshotMode = SnapshotMode.OFF
    snapshot_limit_bytes: int = DEFAULT_SNAPSHOT_LIMIT_BYTES
    auto_upgrade: bool = True
    controller: ControllerMode = ControllerMode.AUTO
    idle_timeout_seconds: float = DEFAULT_IDLE_TIMEOUT_SECONDS
    spark_hours: float = DEFAULT_SPARK_HOURS
    hook_patience_seconds: float = DEFAULT_HOOK_PATIENCE_SECONDS
    harness: Mapping[str, HarnessSettings] = field(default_factory=dict)
    chat_harness: str | None = None
    deep_search: DeepSearchSettings | None = None
    worker: WorkerDefaults = field(default_factory=WorkerDefaults)
    policy: Mapping[str, Any] = field(default_factory=dict)
    worker_harness: str | None = None
    worker_silence_seconds: float = DEFAULT_WORKER_SILENCE_SECONDS
    confinement: ConfinementMode | None = None
    import_raw: RawMode = RawMode.REDACTED

    @property
    def deep(self) -> Path:
        """An empty folder that programs run in which are asked in a deep search."""
        return self.home / "deep"

    @property
    def chats(self) -> Path:
        """Where what agents of chats write to standard error is kept, and the history of the prompt."""
        return self.home / "chats"

    @property
    def worktrees(self) -> Path:
        return self.home / "worktrees"

    @property
    def scratch(self) -> Path:
        """Where worktrees stand in which something is tried out; they go at once, or with the next one."""
        return self.home / "scratch"

    @property
    def tasks(self) -> Path:
        return self.home / "tasks"

    @property
    def lent(self) -> Path:
        """Where running workers' git keeps its new objects (``bridge.git.lending``), a folder per delegation."""
        return self.home / "lent"

    @property
    def setups(self) -> Path:
        """Where outcomes of setups are kept, a folder per repository; losing it costs running them once more."""
        return self.home / "setups"

    @property
    def ports(self) -> Path:
        """Locks of the ports that running workers have."""
        return self.home / "ports"

    @property
    def objects(self) -> Path:
        """Where contents behind stamps are kept, one object store per repository."""
        return self.home / "objects"

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
    named = environment.get(CONTROLLER_VARIABLE)
    if named:
        try:
            options["controller"] = _controller_mode(named)
        except ValueError as error:
            raise InvalidConfiguration(
                f"{CONTROLLER_VARIABLE} must be {error}, not {named!r}.", hint="Mend it, or unset it."
            ) from error
    confinement = environment.get(CONFINEMENT_VARIABLE)
    if confinement:
        try:
            options["confinement"] = _confinement_mode(confinement)
        except ValueError as error:
            raise InvalidConfiguration(
                f"{CONFINEMENT_VARIABLE} must be {error}, not {confinement!r}.", hint="Mend it, or unset it."
            ) from error
    return Settings(home=home, database_url=url, **options)


def _sqlite_url(home: Path) -> str:
    if "?" in str(home):
        raise InvalidConfiguration(
            f"The state directory {str(home)!r} has a question mark in its name, which a database URL cannot hold.",
            hint=f"Set {HOME_VARIABLE} to another path.",
        )
    return f"sqlite:///{home / DATABASE_FILE}"


def _read_config(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(f"{path}: {error}.", hint="Mend or remove the file.") from error
    options: dict[str, Any] = {}
    for key, value in table.items():
        check = _CHECKS.get(key)
        if check is None:
            raise InvalidConfiguration(f"{path}: unknown key {key!r}.", hint=f"Known keys: {', '.join(_CHECKS)}.")
        try:
            options[_FIELDS.get(key, key)] = check(value)
        except ValueError as error:
            raise InvalidConfiguration(f"{path}: {key} must be {error}.") from error
    return options


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError("a positive number of seconds")
    return float(value)


def _patience(value: object) -> float:
    try:
        seconds = _seconds(value)
    except ValueError:
        seconds = math.inf
    if not DEFAULT_HOOK_PATIENCE_SECONDS <= seconds <= MAX_HOOK_PATIENCE_SECONDS:
        raise ValueError(f"between {DEFAULT_HOOK_PATIENCE_SECONDS:g} and {MAX_HOOK_PATIENCE_SECONDS:g} seconds")
    return seconds


def _hours(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError("a positive number of hours")
    return float(value)


def _switch(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError("true or false")
    return value


def _worker(value: object) -> WorkerDefaults:
    known = value if isinstance(value, dict) and set(value) <= {"spark"} else {"spark": None}
    spark = known.get("spark", False)
    if spark is not True and spark is not False:
        raise ValueError("a table with spark = true or false")
    return WorkerDefaults(spark=spark)


def _snapshot_mode(value: object) -> SnapshotMode:
    # TOML has booleans too; true would not say which contents, so only the words count.
    if not isinstance(value, str) or value not in set(SnapshotMode):
        raise ValueError(" or ".join(f'"{mode}"' for mode in SnapshotMode))
    return SnapshotMode(value)


def _controller_mode(value: object) -> ControllerMode:
    if not isinstance(value, str) or value not in set(ControllerMode):
        raise ValueError(", ".join(f'"{mode}"' for mode in ControllerMode))
    return ControllerMode(value)


def _confinement_mode(value: object) -> ConfinementMode:
    if not isinstance(value, str) or value not in set(ConfinementMode):
        raise ValueError(", ".join(f'"{mode}"' for mode in ConfinementMode))
    return ConfinementMode(value)


def _seconds_or_zero(value: object) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else _seconds(value)


def _bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError("a positive whole number of bytes")
    return value


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table")  # noqa: TRY004 - what the checks of this module raise
    return value


def _harness_name(value: object) -> str:
    if not isinstance(value, str) or HARNESS_NAME.fullmatch(value) is None:
        raise ValueError("the name of a harness: letters, digits, hyphens and underscores")
    return value


def _harnesses(value: object) -> Mapping[str, HarnessSettings]:
    if not isinstance(value, dict) or not value:
        raise ValueError("a table of harnesses: [harness.NAME] with command, env, capabilities, credential")
    return {_harness_name(name): _harness(name, table) for name, table in value.items()}


def _harness(name: str, table: object) -> HarnessSettings:
    if not isinstance(table, dict) or set(table) - {"command", "env", "capabilities", "credential", "state"}:
        raise ValueError(f"a table with command, env, capabilities, credential and state, and {name} is not")
    command = table.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) and word for word in command):
        raise ValueError(f"a table whose command is a list of strings, and that of {name} is not")
    variables = table.get("env", {})
    if not isinstance(variables, dict) or not all(isinstance(item, str) for item in variables.values()):
        raise ValueError(f"a table whose env is a table of strings, and that of {name} is not")
    capabilities = table.get("capabilities")
    if capabilities is not None and (
        not isinstance(capabilities, list) or not all(item in HARNESS_CAPABILITIES for item in capabilities)
    ):
        known = ", ".join(HARNESS_CAPABILITIES)
        raise ValueError(f"a table whose capabilities are out of {known}, and those of {name} are not")
    credential = table.get("credential")
    if credential is not None and (not isinstance(credential, str) or HARNESS_NAME.fullmatch(credential) is None):
        raise ValueError(f"a table whose credential is a name (letters, digits, - and _), and that of {name} is not")
    offered = None if capabilities is None else frozenset(capabilities)
    return HarnessSettings(tuple(command), variables, offered, credential, _state(name, table))


def _deep_search(value: object) -> DeepSearchSettings:
    groups = (("model", "base_url", "api_key_variable"), ("harness", "program"))
    if not isinstance(value, dict) or not all(isinstance(one, str) and one for one in value.values()):
        raise ValueError("a table of strings")
    if not any(names[0] in value and not set(value) - set(names) for names in groups):
        raise ValueError("a table with model, base_url and api_key_variable, or with harness and program")
    return DeepSearchSettings(**value)


def _state(name: str, table: Mapping[str, object]) -> tuple[str, ...] | None:
    state = table.get("state")
    if state is None:
        return None
    if not isinstance(state, list) or not all(isinstance(path, str) and path.startswith(("/", "~/")) for path in state):
        raise ValueError(f"a table whose state lists absolute paths, or such below ~/, and that of {name} does not")
    return tuple(state)


def _import_table(value: object) -> RawMode:
    raw = value.get("raw") if isinstance(value, dict) and set(value) == {"raw"} else None
    if raw not in set(RawMode):
        words = " or ".join(f'"{mode}"' for mode in RawMode)
        raise ValueError(f"a table with raw, which is {words}")
    return RawMode(raw)


#: Tables of ``config.toml`` that are one setting under another name.
_FIELDS = {"import": "import_raw"}
#: The keys of ``config.toml``, each with what makes a value of it; it raises ValueError with what would be right.
_CHECKS: dict[str, Callable[[object], Any]] = {
    "auto_upgrade": _switch,
    "chat_harness": _harness_name,
    "confinement": _confinement_mode,
    "controller": _controller_mode,
    "deep_search": _deep_search,
    "git_timeout_seconds": _seconds,
    "harness": _harnesses,
    "hook_patience_seconds": _patience,
    "idle_timeout_seconds": _seconds_or_zero,
    "policy": _table,
    "import": _import_table,
    "snapshots": _snapshot_mode,
    "snapshot_limit_bytes": _bytes,
    "spark_hours": _hours,
    "worker": _worker,
    "worker_harness": _harness_name,
    "worker_silence_seconds": _seconds,
}
