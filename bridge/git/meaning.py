"""The git settings that change what "modified" means, and their digest.

git honours them by itself in the status call. Their digest is part of a state, so that two states with equal
files but, say, another ``core.autocrlf`` are told apart. Reading them takes a git process (half a status), so the
answer is kept per worktree for as long as every file that can hold a setting has the same identity on disk.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.hashing import digest_hex
from bridge.git.process import KEPT_VARIABLES, run_git
from bridge.git.repository import RepositoryLocation

#: Settings that decide whether git calls a path modified, ignored or present (lower case, as git prints them).
MEANING_SETTINGS = frozenset(
    {
        "core.attributesfile",
        "core.autocrlf",
        "core.checkroundtripencoding",
        "core.checkstat",
        "core.eol",
        "core.excludesfile",
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "core.symlinks",
        "core.trustctime",
    }
)
_FILTER_SETTINGS = frozenset({"clean", "smudge", "process", "required"})
#: Worktrees whose settings are remembered; beyond it the memory starts anew.
MAX_REMEMBERED = 256
#: Files younger than this may still change within one tick of their clock and are not trusted yet.
SETTLING_SECONDS = 1.0

#: Where the builds of git that are in use look for the attributes of the whole system.
SYSTEM_ATTRIBUTES = ("/etc/gitattributes", "/usr/local/etc/gitattributes")

_FALSE = frozenset({"false", "no", "off", "0", ""})


@dataclass(frozen=True, slots=True)
class MeaningSettings:
    """The meaning settings of a worktree, and whether the executable bit counts."""

    digest: str
    has_file_mode: bool


@dataclass(frozen=True, slots=True)
class _Remembered:
    settings: MeaningSettings
    files: tuple[str, ...]
    #: Files that settings name and git reads: what to ignore, and attributes. None if one cannot be told.
    named: tuple[str, ...] | None
    identities: tuple[tuple[int, ...] | None, ...]
    environment: tuple[str | None, ...]
    #: What git listed, where every worktree of the repository is given the same; else None.
    shared: tuple[tuple[str, str, str | None], ...] | None = None
    #: Branches (short names) for which a place to merge from is configured.
    tracking: frozenset[str] = frozenset()


@dataclass
class _Memory:
    lock: threading.Lock = field(default_factory=threading.Lock)
    entries: dict[tuple[Path, Path], _Remembered] = field(default_factory=dict)
    #: The same by shared git directory: a new worktree need not ask for what its repository was asked before.
    shared: dict[Path, _Remembered] = field(default_factory=dict)


_memory = _Memory()
_ENVIRONMENT_NAMES = ("HOME", "XDG_CONFIG_HOME", *sorted(KEPT_VARIABLES))


def meaning_settings(
    location: RepositoryLocation, environment: Mapping[str, str], *, timeout_seconds: float
) -> MeaningSettings:
    """Return the meaning settings of a worktree.

    Parameters
    ----------
    environment
        The scrubbed environment that git gets.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot read its configuration.
    """
    key = (location.git_dir, location.run_directory)
    named = tuple(environment.get(name) for name in _ENVIRONMENT_NAMES)
    with _memory.lock:
        known = _memory.entries.get(key)
    if known is not None and known.environment == named and known.identities == _identities(known.files):
        return known.settings
    taken = _from_another(location, environment, named)
    if taken is not None:
        with _memory.lock:
            _keep(_memory.entries, key, taken)
        return taken.settings
    started = time.time()
    before = _standard_files(location, environment)
    identities = _identities(before)
    output = run_git(
        ["config", "--list", "--show-origin", "-z"], cwd=location.run_directory, timeout_seconds=timeout_seconds
    )
    entries = list(_entries(output.stdout, location.run_directory))
    settings = _settings((name, value) for _, name, value in entries)
    files = tuple(dict.fromkeys([*before, *_included(entries, environment)]))
    after = _identities(files)
    if after[: len(before)] == identities and all(_is_settled(identity, started) for identity in after):
        shared = tuple(entries) if _is_shared(entries) else None
        tracking = frozenset(
            name[len("branch.") : -len(".merge")]
            for _, name, _ in entries
            if name.startswith("branch.") and name.endswith(".merge")
        )
        outside = _named_files(location, entries, environment)
        found = _Remembered(settings, files, outside, after, named, shared, tracking)
        with _memory.lock:
            _keep(_memory.entries, key, found)
            if shared is not None:
                _keep(_memory.shared, location.common_dir, found)
    return settings


_Key = TypeVar("_Key")


def _keep(memory: dict[_Key, _Remembered], key: _Key, found: _Remembered) -> None:
    if len(memory) >= MAX_REMEMBERED:
        memory.clear()
    memory[key] = found


def _is_shared(entries: Iterable[tuple[str, str, str | None]]) -> bool:
    """Tell whether nothing in a configuration depends on which worktree reads it."""
    return not any(name.startswith("includeif.") or name == "extensions.worktreeconfig" for _, name, _ in entries)


def _from_another(
    location: RepositoryLocation, environment: Mapping[str, str], named: tuple[str | None, ...]
) -> _Remembered | None:
    """Return what another worktree of the repository was told, if it still holds, and holds for this one."""
    with _memory.lock:
        known = _memory.shared.get(location.common_dir)
    if known is None or known.shared is None or known.environment != named:
        return None
    if known.identities != _identities(known.files):
        return None
    # Of the other worktree the list names settings of its own, which would have been read; of this one it would not.
    own = str(location.git_dir / "config.worktree")
    files = (*(path for path in known.files if os.path.basename(path) != "config.worktree"), own)
    return replace(
        known,
        files=files,
        identities=_identities(files),
        named=_named_files(location, known.shared, environment),
    )


def is_known_untracking(location: RepositoryLocation, branch: str, environment: Mapping[str, str]) -> bool:
    """Tell whether a branch (full name) is known to have no upstream, by settings that were read before.

    False too where nothing is remembered, or a file has changed since.
    """
    with _memory.lock:
        known = _memory.entries.get((location.git_dir, location.run_directory))
    if known is None or known.environment != tuple(environment.get(name) for name in _ENVIRONMENT_NAMES):
        return False
    if known.identities != _identities(known.files):
        return False
    return branch.removeprefix("refs/heads/") not in known.tracking


def outside_files(
    location: RepositoryLocation, environment: Mapping[str, str], *, timeout_seconds: float
) -> tuple[str, ...] | None:
    """Return every file that git reads for a status besides those of the worktree and its git directories.

    Configuration with all that it includes, the global ignore and attributes files; whether or not they exist.
    None if they cannot be told, or one of the settings' files is too young to be sure of.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot read its configuration.
    """
    standard = _identities(_standard_files(location, environment))
    now = time.time()
    if not all(_is_settled(identity, now) for identity in standard):
        return None
    settings = meaning_settings(location, environment, timeout_seconds=timeout_seconds)
    with _memory.lock:
        known = _memory.entries.get((location.git_dir, location.run_directory))
    if known is None or known.settings != settings or known.named is None:
        return None
    return known.files + known.named


def identities(files: Iterable[str]) -> tuple[tuple[int, ...] | None, ...]:
    """Return what tells one file from another, and from itself when it was written; None for one that is missing."""
    return _identities(files)


def are_settled(found: Iterable[tuple[int, ...] | None], now: float) -> bool:
    """Whether all files with these identities are old enough that a later change must show in their times."""
    return all(_is_settled(identity, now) for identity in found)


def _named_files(
    location: RepositoryLocation, entries: Iterable[tuple[str, str, str | None]], environment: Mapping[str, str]
) -> tuple[str, ...] | None:
    home = environment.get("HOME", "")
    folder = os.path.join(environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git")
    files = [os.path.join(folder, "ignore"), os.path.join(folder, "attributes"), *SYSTEM_ATTRIBUTES]
    for _, name, value in entries:
        if name not in {"core.excludesfile", "core.attributesfile"} or not value:
            continue
        in_home = value.startswith("~/")
        if not in_home and value.startswith(("~", "%(prefix)")):
            return None
        files.append(os.path.join(home, value[2:]) if in_home else os.path.join(location.run_directory, value))
    return tuple(dict.fromkeys(files))


def _settings(entries: Iterable[tuple[str, str | None]]) -> MeaningSettings:
    # The last value of a setting wins, as in git; a setting without "=" means true.
    chosen: dict[str, str] = {}
    for name, value in entries:
        section, _, rest = name.partition(".")
        is_filter = section == "filter" and rest.rpartition(".")[2] in _FILTER_SETTINGS
        if name in MEANING_SETTINGS or is_filter:
            chosen[name] = "true" if value is None else value
    printable = {name: value.encode("utf-8", "surrogateescape").hex() for name, value in chosen.items()}
    named = {name.encode("utf-8", "surrogateescape").hex(): value for name, value in printable.items()}
    has_file_mode = chosen.get("core.filemode", "true").lower() not in _FALSE
    return MeaningSettings(digest_hex(canonical_bytes(named)), has_file_mode)


def _entries(output: bytes, directory: Path) -> Iterable[tuple[str, str, str | None]]:
    """Yield ``(file, name, value)`` of ``git config --list --show-origin -z``; the file is absolute."""
    parts = output.split(b"\0")
    for origin, entry in zip(parts[0::2], parts[1::2], strict=False):
        name, separator, value = entry.partition(b"\n")
        path = os.path.join(directory, os.fsdecode(origin.removeprefix(b"file:")))
        yield path, os.fsdecode(name), os.fsdecode(value) if separator else None


def _standard_files(location: RepositoryLocation, environment: Mapping[str, str]) -> list[str]:
    """Return where git looks for settings, whether or not the files exist."""
    home = environment.get("HOME", "")
    xdg = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files = [
        os.path.join(location.common_dir, "config"),
        os.path.join(location.git_dir, "config.worktree"),
        environment.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig",
    ]
    named = environment.get("GIT_CONFIG_GLOBAL")
    files += [named] if named else [os.path.join(xdg, "git", "config"), os.path.join(home, ".gitconfig")]
    return files


def _included(entries: Iterable[tuple[str, str, str | None]], environment: Mapping[str, str]) -> Iterable[str]:
    """Yield the files that settings came from or, through an include, could come from."""
    head = None
    for origin, name, value in entries:
        yield origin
        if not (name == "include.path" or (name.startswith("includeif.") and name.endswith(".path"))) or not value:
            continue
        if name.startswith("includeif.onbranch:"):
            head = "HEAD"
        target = value
        if target.startswith("~/"):
            target = os.path.join(environment.get("HOME", ""), target[2:])
        yield os.path.join(os.path.dirname(origin), target)
    if head is not None:
        # Which branch is checked out decides about such an include; nothing on disk would tell us cheaply.
        yield _NEVER_SETTLED


#: Stands for a condition that has no file to watch; never taken for settled.
_NEVER_SETTLED = "\0"


def _identities(files: Iterable[str]) -> tuple[tuple[int, ...] | None, ...]:
    return tuple([_identity(path) for path in files])


def _identity(path: str) -> tuple[int, ...] | None:
    if path == _NEVER_SETTLED:
        return ()
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _is_settled(identity: tuple[int, ...] | None, now: float) -> bool:
    if identity is None:
        return True
    if not identity:
        return False
    return identity[-1] < (now - SETTLING_SECONDS) * 1e9
