"""What ``bridge doctor`` looks at: small checks that each answer with a status, a fact and a remedy.

A check never raises for what it examines: a state directory that cannot be read is its finding, not its failure.
"""

from __future__ import annotations

import contextlib
import locale
import os
import platform
import re
import shutil
import sqlite3
import stat
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psutil

from bridge.cli.context import Cli
from bridge.foundation.config import CONFIG_FILE, state_directory
from bridge.foundation.errors import BridgeError, InvalidConfiguration
from bridge.git.process import run_git
from bridge.semantics.kinds import READABLE_VERSIONS

if TYPE_CHECKING:
    from bridge.adapters.conversation import Introduction
    from bridge.adapters.talkers import Talker

Status = Literal["ok", "warning", "failed"]

#: Python that Bridge supports, as in pyproject.toml.
MINIMUM_PYTHON = (3, 11)
#: ``git merge-tree --write-tree``, which adoption is made of.
MINIMUM_GIT = (2, 38)
#: Time limit of asking git for its version.
GIT_TIMEOUT_SECONDS = 10.0
#: RETURNING clauses and the JSON functions that queries rely on.
MINIMUM_SQLITE = (3, 38, 0)
#: Free space below which writing is likely to fail soon, in bytes.
LOW_SPACE_BYTES = 1024**3
#: Free space below which Bridge should not be used at all, in bytes.
NO_SPACE_BYTES = 50 * 1024**2
#: File systems on which SQLite's shared memory and locks do not work across machines, or not at all.
NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "ceph", "cifs", "davfs", "fuse.davfs2", "fuse.glusterfs", "fuse.rclone", "fuse.sshfs", "glusterfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "afpfs", "webdav"}
)
#: How long to wait for a look at the store.
STORE_TIMEOUT_SECONDS = 5.0
#: Unreadable sessions that are named; the rest is counted.
MAX_NAMED = 10
#: Files that live only until the machine is switched off.
VOLATILE_FILE_SYSTEMS = frozenset({"ramfs", "tmpfs"})


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check.

    Parameters
    ----------
    name
        Stable name for programs.
    status
        ``ok``, ``warning`` (works, with a catch) or ``failed`` (Bridge cannot do its work).
    detail
        What was found.
    hint
        What to do; empty when ok.
    facts
        JSON-ready values behind the detail.
    """

    name: str
    status: Status
    detail: str
    hint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
            "facts": dict(self.facts),
        }


def run_checks(cli: Cli, *, is_asking: bool = False) -> list[Check]:
    """Run every check that needs no store; with ``is_asking`` every installed harness is started and asked."""
    checks = [
        check_python(),
        check_git(cli.environment),
        check_sqlite(),
        check_command_path(cli.environment),
        check_encoding(),
        check_confinement(),
        check_configuration(cli),
    ]
    # A broken configuration was told just before; without it nobody knows which harnesses there are.
    with contextlib.suppress(InvalidConfiguration):
        checks.append(check_harnesses(cli, is_asking=is_asking))
    # Without a usable BRIDGE_HOME there is no directory to look at; the check before has said so.
    with contextlib.suppress(InvalidConfiguration):
        checks.extend(check_state_directory(state_directory(cli.environment)))
        checks.extend(check_store(cli))
        checks.append(check_controller(cli))
        checks.extend(check_hooks(cli))
    return checks


def check_harnesses(cli: Cli, *, is_asking: bool = False) -> Check:
    """Check which harnesses can be talked to; one that the configuration names should be there.

    Parameters
    ----------
    is_asking
        Whether each that is installed is started and asked for its version and what it can do.
    """
    # Reached through the adapters' own list, which costs what the process layer costs to import.
    from bridge.adapters.talkers import SCRIPTED, talkers

    settings = cli.settings
    found = talkers(settings.harness, state=settings.home, search_path=cli.environment.get("PATH", os.defpath))
    facts: dict[str, Any] = {
        "harnesses": [
            {
                "name": item.name,
                "command": list(item.command),
                "program": None if item.program is None else str(item.program),
                "configured": item.is_configured,
                "lacks": list(item.lacks),
            }
            for item in found
        ]
    }
    told_by: dict[str, Introduction] = {}
    silent: list[str] = []
    if is_asking:
        told_by, silent = _asked(cli, found, facts["harnesses"])
    missing = [item for item in found if item.is_configured and item.program is None]
    if missing:
        names = ", ".join(f"{item.name} ({item.command[0]})" for item in missing)
        hint = f"Install it, or mend its command in {CONFIG_FILE}."
        return Check("harnesses", "warning", f"The program of a configured harness is missing: {names}.", hint, facts)
    if silent:
        hint = "Run its command by hand; mend its login, or its entry in the configuration."
        return Check("harnesses", "warning", f"Does not answer: {'; '.join(silent)}", hint, facts)
    installed = [item for item in found if item.program is not None and item.name != SCRIPTED]
    told = ", ".join(_told(item, told_by.get(item.name)) for item in installed) if installed else "none installed"
    return Check("harnesses", "ok", f"to talk to: {told}; {SCRIPTED} needs no model", facts=facts)


def _asked(cli: Cli, found: list[Talker], facts: list[dict[str, Any]]) -> tuple[dict[str, Introduction], list[str]]:
    """Ask every harness, add what it says to the facts, and return that and what went wrong."""
    from bridge.adapters.probing import probe

    settings = cli.settings
    told_by: dict[str, Introduction] = {}
    silent: list[str] = []
    for answer in probe(found, settings.harness, state=settings.home, environment=cli.environment):
        fact = next(fact for fact in facts if fact["name"] == answer.name)
        said = answer.introduction
        fact |= {"version": None, "problem": answer.problem}
        if said is None:
            silent.append(f"{answer.name}: {answer.problem}")
        else:
            told_by[answer.name] = said
            fact |= {"version": said.version, "lacks": sorted({*fact["lacks"], *said.lacks})}
    return told_by, silent


def _told(item: Talker, said: Introduction | None) -> str:
    """Return a harness in a few words: its name, its version, what it cannot do."""
    lacks = sorted({*item.lacks, *(() if said is None else said.lacks)} - {"terminal"})
    about = [*([said.version] if said is not None and said.version else []), *(f"no {word}" for word in lacks)]
    return f"{item.name} ({', '.join(about)})" if about else item.name


def check_python() -> Check:
    """Check the version of the running interpreter."""
    version = platform.python_version()
    facts = {"version": version, "executable": sys.executable}
    if sys.version_info[:2] < MINIMUM_PYTHON:
        wanted = ".".join(map(str, MINIMUM_PYTHON))
        return Check("python", "failed", f"Python {version} is too old.", f"Install Python {wanted} or newer.", facts)
    return Check("python", "ok", f"Python {version} ({sys.executable})", facts=facts)


def check_git(environment: Mapping[str, str]) -> Check:
    """Check which git is used and whether it is new enough."""
    place = shutil.which("git", path=environment.get("PATH", os.defpath))
    facts: dict[str, Any] = {"path": place, "version": None}
    try:
        words = run_git(["--version"], cwd=Path("/"), timeout_seconds=GIT_TIMEOUT_SECONDS).text
    except BridgeError as error:
        return Check("git", "failed", error.message, error.hint, facts)
    match = re.search(r"\d+(?:\.\d+)+", words)
    facts["version"] = match.group() if match else words
    wanted = ".".join(map(str, MINIMUM_GIT))
    if match is None:
        return Check("git", "warning", f"{place} says {words!r}.", f"Bridge needs git {wanted} or newer.", facts)
    if tuple(map(int, match.group().split("."))) < MINIMUM_GIT:
        return Check("git", "failed", f"git {match.group()} is too old.", f"Install git {wanted} or newer.", facts)
    return Check("git", "ok", f"git {match.group()} ({place})", facts=facts)


def check_sqlite() -> Check:
    """Check the SQLite library that this Python is linked with, and whether it has full-text search."""
    version = sqlite3.sqlite_version
    with sqlite3.connect(":memory:") as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    connection.close()
    facts = {"version": version, "fts5": "ENABLE_FTS5" in options}
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        wanted = ".".join(map(str, MINIMUM_SQLITE))
        return Check("sqlite", "failed", f"SQLite {version} is too old.", f"Use a Python with SQLite {wanted}.", facts)
    if not facts["fts5"]:
        return Check(
            "sqlite",
            "warning",
            f"SQLite {version} was built without FTS5, so searching is not possible.",
            "Use a Python whose SQLite has FTS5.",
            facts,
        )
    return Check("sqlite", "ok", f"SQLite {version}", facts=facts)


def check_command_path(environment: Mapping[str, str]) -> Check:
    """Check which ``bridge`` and ``brg`` a shell would start: iproute2 installs a ``bridge`` as well."""
    path = environment.get("PATH", os.defpath)
    scripts = Path(sysconfig.get_path("scripts"))
    own = str(scripts / "bridge") if (scripts / "bridge").exists() else f"{sys.executable} -m bridge"
    found = {name: shutil.which(name, path=path) for name in ("bridge", "brg")}
    facts = {**found, "own": own}
    foreign = {name: place for name, place in found.items() if place is not None and not _is_own(place, name)}
    use = "brg" if found["brg"] and "brg" not in foreign else own
    if "bridge" in foreign:
        detail = f"{foreign['bridge']!r} comes first in PATH and is another program (iproute2 has a bridge too)."
        return Check("command_path", "warning", detail, f"Type {use} instead, or change the order in PATH.", facts)
    if found["bridge"] is None:
        detail = "No bridge is in PATH."
        return Check("command_path", "warning", detail, f"Type {use}, or add {str(scripts)!r} to PATH.", facts)
    return Check("command_path", "ok", f"bridge is {found['bridge']}", facts=facts)


def _is_own(place: str, name: str) -> bool:
    own = Path(sysconfig.get_path("scripts")) / name
    try:
        return own.samefile(place)
    except OSError:
        return False


def check_encoding() -> Check:
    """Check that file names and output are UTF-8."""
    names, output = sys.getfilesystemencoding().lower(), (getattr(sys.stdout, "encoding", None) or "none").lower()
    facts = {"file_names": names, "stdout": output, "locale": locale.setlocale(locale.LC_CTYPE)}
    if names not in {"utf-8", "utf8"} or output.replace("-", "") not in {"utf8", "none"}:
        return Check(
            "encoding",
            "warning",
            f"File names are {names}, output is {output}; characters outside it are shown escaped.",
            "Set LC_ALL=C.UTF-8 or another UTF-8 locale.",
            facts,
        )
    return Check("encoding", "ok", f"UTF-8 (locale {facts['locale']})", facts=facts)


def check_confinement() -> Check:
    """Check what workers can be kept from: writing outside of their places, the network, signals to others."""
    # The C library's loader is of no use to other commands.
    from bridge.process.confinement import MIN_ABI, NETWORK_ABI, SCOPE_ABI, Notice, landlock_abi

    abi = landlock_abi()
    missing = []
    if abi < MIN_ABI:
        missing.append(str(Notice.LANDLOCK_UNAVAILABLE))
    if abi < NETWORK_ABI:
        missing.append(str(Notice.NETWORK_UNENFORCED))
    facts = {"landlock_abi": abi, "notices": missing, "signals": abi >= SCOPE_ABI}
    if abi < MIN_ABI:
        found = f"Landlock interface {abi}" if abi else "no Landlock"
        hint = "Workers can write wherever you can. A kernel from Linux 6.2 on confines them; see docs/isolation.md."
        return Check("confinement", "warning", f"{found}: landlock_unavailable, network_unenforced", hint, facts)
    kept = ["writing", *(["TCP"] if abi >= NETWORK_ABI else []), *(["signals"] if abi >= SCOPE_ABI else [])]
    told = f"workers are confined by Landlock (interface {abi}): {', '.join(kept)}"
    if missing:
        return Check("confinement", "warning", f"{told}; network_unenforced", "See docs/isolation.md.", facts)
    return Check("confinement", "ok", told, facts=facts)


def check_configuration(cli: Cli) -> Check:
    """Check that variables and ``config.toml`` can be used, and report where the latter is."""
    try:
        path = cli.settings.home / CONFIG_FILE
    except InvalidConfiguration as error:
        return Check("configuration", "failed", error.message, error.hint or "Mend or remove it.")
    exists = path.exists()
    facts = {"home": str(cli.settings.home), "config": str(path) if exists else None}
    return Check("configuration", "ok", str(path) if exists else "defaults (no config.toml)", facts=facts)


def check_state_directory(home: Path) -> list[Check]:
    """Check the state directory: usable, private, with space, on a file system that can hold a database."""
    existing = home
    try:
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        information = existing.stat()
    except OSError as error:
        return [_unusable(home, error.strerror or str(error))]
    if not stat.S_ISDIR(information.st_mode):
        return [_unusable(home, f"{str(existing)!r} is not a directory")]
    if not os.access(existing, os.W_OK | os.X_OK):
        return [_unusable(home, f"{str(existing)!r} cannot be written to")]
    return [_check_privacy(home, existing, information), _check_space(existing), _check_file_system(existing)]


def check_store(cli: Cli) -> list[Check]:
    """Check the store from outside: its schema, and which sessions this Bridge does not read, and why."""
    # Imported here: the database library takes 200 ms.
    from bridge.storage.backend import backend_for

    try:
        backend = backend_for(cli.settings.database_url)
        found = backend.survey(readable_versions=READABLE_VERSIONS, timeout_seconds=STORE_TIMEOUT_SECONDS)
    except BridgeError as error:
        return [Check("store", "failed", error.message, error.hint)]
    facts: dict[str, Any] = {"path": found.place, "found": found.found, "supported": found.supported}
    if found.relation == "absent":
        return [Check("store", "ok", "no store yet", facts=facts)]
    if found.relation == "older":
        hint = "It is upgraded when it is next opened, after a backup; or now with: bridge db upgrade"
        if not cli.settings.auto_upgrade or backend.url.get_backend_name() != "sqlite":
            hint = "Run: bridge db upgrade"
        return [
            Check("store", "warning", f"schema {found.found}; this Bridge works with {found.supported}", hint, facts)
        ]
    if found.relation != "same":
        detail = f"its schema version is {found.relation} ({found.found}); this Bridge understands {found.supported}"
        return [Check("store", "failed", detail, "Upgrade Bridge, or set BRIDGE_HOME to another folder.", facts)]
    where = "" if backend.url.get_backend_name() == "sqlite" else f", on {found.place}"
    checks = [Check("store", "ok", f"schema {found.found}, {found.size_bytes / 1024**2:.1f} MiB{where}", facts=facts)]
    checks.append(check_search_index(cli))
    if found.unreadable:
        named = "; ".join(f"{one.session_id} ({one.reason})" for one in found.unreadable[:MAX_NAMED])
        more = len(found.unreadable) - MAX_NAMED
        detail = f"{len(found.unreadable)} sessions are not readable: {named}" + (f"; {more} more" if more > 0 else "")
        listed = [{"session_id": one.session_id, "reason": one.reason} for one in found.unreadable]
        hint = "All others stay usable. For newer entries upgrade Bridge; for damage see: bridge db check"
        checks.append(Check("unreadable_sessions", "warning", detail, hint, {"sessions": listed}))
    return checks


def check_search_index(cli: Cli) -> Check:
    """Check the search index: its own check, and whether it has the words of a sample of entries."""
    from bridge.cli.standing import open_if_there
    from bridge.control.checks.verification import index_faults

    try:
        with open_if_there(cli) as controller:
            checked, faults = (0, []) if controller is None else index_faults(controller)
    except BridgeError as error:
        return Check("search_index", "warning", f"It could not be looked at: {error.message}", error.hint)
    facts = {"entries_compared": checked, "faults": len(faults)}
    if faults:
        first = f"{faults[0].subject}: {faults[0].message}"
        hint = "What is recorded is whole. Build the index anew: bridge db reindex"
        return Check("search_index", "warning", f"it is not what the entries make of it: {first}", hint, facts)
    return Check("search_index", "ok", f"compared with {checked} entries", facts=facts)


def check_controller(cli: Cli) -> Check:
    """Check the resident controller: does one run, is it of this build, and what is it at?"""
    from bridge.cli.residing import endpoint_of
    from bridge.rpc.errors import ControllerLost, ControllerUnavailable
    from bridge.rpc.resident.builds import build_id
    from bridge.rpc.resident.client import Client

    mode = str(cli.settings.controller)
    endpoint, own = endpoint_of(cli.settings), build_id()
    facts: dict[str, Any] = {"mode": mode, "own_build": own, "running": False, "log": endpoint.log_path}
    if endpoint.find_socket() is None:
        return Check("controller", "ok", f"none runs; commands do without ({mode})", facts=facts)
    try:
        with Client.connect(endpoint, role="observer", timeout_seconds=STORE_TIMEOUT_SECONDS) as client:
            found = client.call("controller/status", timeout_seconds=STORE_TIMEOUT_SECONDS)
    except (BridgeError, TimeoutError) as error:
        if (
            isinstance(error, ControllerUnavailable)
            and not isinstance(error, ControllerLost)
            and not endpoint.is_held()
        ):
            return Check("controller", "ok", "none runs; the last one was killed", facts=facts)
        detail = error.message if isinstance(error, BridgeError) else "It does not answer."
        hint = f"See {endpoint.log_path}; end the process if it hangs."
        return Check("controller", "warning", detail, hint, {**facts, "running": True})
    facts |= {"running": True, **found}
    detail = (
        f"process {found['pid']}, up {found['uptime_seconds']:.0f} s, {found['connections'] - 1} other connections, "
        f"{len(found['workers'])} workers"
    )
    failures = (found["watches"] or {}).get("failures") or {}
    if found["build"] != own:
        return Check("controller", "warning", f"{detail}; of another build", "Run: bridge serve --replace", facts)
    if failures:
        named = "; ".join(f"{place}: {why}" for place, why in list(failures.items())[:MAX_NAMED])
        return Check("controller", "ok", f"{detail}; not watched: {named}", facts=facts)
    return Check("controller", "ok", detail, facts=facts)


def check_hooks(cli: Cli) -> list[Check]:
    """Check the hooks in coding agents' settings, where there are any: trusted, recording, losing nothing."""
    from bridge.hooks.placing import is_placed

    if not is_placed(cli.settings):
        return []
    from bridge.cli.composition import open_controller
    from bridge.hooks.status import all_statuses

    try:
        with open_controller(cli, create=False) as controller:
            found = all_statuses(controller, cli.environment, [])
    except BridgeError as error:
        return [Check("hooks", "warning", f"They cannot be looked at: {error.message}", error.hint)]
    checks: list[Check] = []
    for one in found:
        name = f"hooks_{one.host.replace('-', '_')}"
        if one.problems:
            first = one.problems[0]
            checks.append(Check(name, "failed", first.message, first.hint, one.to_json()))
        elif one.installed and one.health.record is not None:
            record = one.health.record
            detail = f"{record.events} events, last {record.last_event} at {record.last_event_at}"
            checks.append(Check(name, "ok", detail, facts=one.to_json()))
    return checks


def _unusable(home: Path, reason: str) -> Check:
    return Check(
        "state_directory",
        "failed",
        f"The state directory {str(home)!r} cannot be used: {reason}.",
        "Mend its permissions, or set BRIDGE_HOME to a directory of your own.",
        {"path": str(home)},
    )


def _check_privacy(home: Path, existing: Path, information: os.stat_result) -> Check:
    facts = {"path": str(home), "exists": existing == home}
    if existing != home:
        return Check("state_directory", "ok", f"{home} (will be created at first use)", facts=facts)
    if information.st_uid != os.getuid():
        detail = f"{str(home)!r} belongs to user {information.st_uid}, you are {os.getuid()}."
        return Check("state_directory", "warning", detail, "Use a state directory of your own: BRIDGE_HOME.", facts)
    if information.st_mode & 0o077:
        mode = stat.S_IMODE(information.st_mode)
        detail = f"Other users may look into {str(home)!r} (mode {mode:04o}); it holds your conversations."
        return Check("state_directory", "warning", detail, f"chmod 700 {str(home)!r}", facts)
    return Check("state_directory", "ok", str(home), facts=facts)


def _check_space(directory: Path) -> Check:
    free = shutil.disk_usage(directory).free
    facts = {"free_bytes": free}
    detail = f"{free / 1024**3:.1f} GiB free"
    if free < NO_SPACE_BYTES:
        return Check("disk_space", "failed", f"{detail}: too little to record anything.", "Free some space.", facts)
    if free < LOW_SPACE_BYTES:
        hint = "Free some space, or set BRIDGE_HOME to a larger disk."
        return Check("disk_space", "warning", f"{detail}: little.", hint, facts)
    return Check("disk_space", "ok", detail, facts=facts)


def _check_file_system(directory: Path) -> Check:
    kind, mount = file_system_of(directory)
    facts = {"type": kind, "mount": mount}
    if kind is None:
        return Check("file_system", "warning", "The type of the file system is unknown.", "", facts)
    if kind.lower() in NETWORK_FILE_SYSTEMS:
        detail = f"{mount} is a network file system ({kind}); a database on it may be damaged."
        return Check("file_system", "warning", detail, "Set BRIDGE_HOME to a directory on a local disk.", facts)
    if kind.lower() in VOLATILE_FILE_SYSTEMS:
        detail = f"{mount} is kept in memory ({kind}); recorded conversations vanish with a restart."
        return Check("file_system", "warning", detail, "Set BRIDGE_HOME to a directory on a disk.", facts)
    return Check("file_system", "ok", f"{kind} at {mount}", facts=facts)


def file_system_of(directory: Path) -> tuple[str | None, str | None]:
    """Return type and mount point of the file system a directory is on; ``(None, None)`` if not to be found."""
    try:
        resolved = directory.resolve()
        mounts = psutil.disk_partitions(all=True)
    except (OSError, psutil.Error):
        return None, None
    # The longest mount point wins; of two mounts at one place the later one covers the earlier.
    best: tuple[str | None, str | None] = (None, None)
    for mount in mounts:
        if resolved.is_relative_to(mount.mountpoint) and len(mount.mountpoint) >= len(best[1] or ""):
            best = (mount.fstype, mount.mountpoint)
    return best
