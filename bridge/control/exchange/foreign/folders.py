"""Where agents keep their transcripts, and all transcripts below a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.control.exchange.foreign.forms import CLAUDE, CODEX, GEMINI, LINE_FORMS, OPENCODE, PI
from bridge.control.exchange.foreign.transcripts import ForeignFormat

#: Suffixes of files that may be transcripts.
LINE_SUFFIXES: Final = (".jsonl", ".json")
DATABASE_SUFFIX: Final = ".db"
#: Files below one folder that are looked at; a larger folder is hardly one of transcripts.
MAX_FILES: Final = 200_000
#: Names of folders that are never gone into.
_PASSED_OVER: Final = frozenset({".git", "node_modules", "__pycache__", ".venv"})


#: A time in a transcript, whatever the form: an ISO time, or the milliseconds of one.
_TIME: Final = re.compile(rb'"(?:timestamp|startTime)"\s*:\s*"(\d{4}-\d\d-\d\dT[0-9:.]+)')
_LOOKED_AT_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class HostFolder:
    """Where one agent keeps its transcripts: a folder, or a database."""

    form: ForeignFormat
    path: Path


def host_folders(environment: Mapping[str, str]) -> list[HostFolder]:
    """Return the places of all known agents that exist, as their own variables and the home directory tell.

    Parameters
    ----------
    environment
        ``HOME``, and ``CLAUDE_CONFIG_DIR``, ``CODEX_HOME``, ``PI_CODING_AGENT_DIR``, ``GEMINI_CLI_HOME``,
        ``OPENCODE_DB``, ``XDG_DATA_HOME``, ``XDG_CONFIG_HOME`` where they are set.
    """
    home = Path(environment.get("HOME") or Path.home())
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    named = environment.get("CLAUDE_CONFIG_DIR")
    claude = [Path(part) for part in named.split(",") if part] if named else [home / ".claude", config / "claude"]
    codex = Path(environment.get("CODEX_HOME") or home / ".codex")
    pi = Path(environment.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent")
    gemini = Path(environment.get("GEMINI_CLI_HOME") or home) / ".gemini"
    found = [HostFolder(CLAUDE, folder / "projects") for folder in claude]
    found += [HostFolder(CODEX, codex / name) for name in ("sessions", "archived_sessions")]
    found += [HostFolder(PI, pi / "sessions"), HostFolder(GEMINI, gemini / "tmp")]
    named_database = environment.get("OPENCODE_DB")
    databases = [Path(named_database)] if named_database else sorted((data / "opencode").glob("opencode*.db"))
    found += [HostFolder(OPENCODE, path) for path in databases]
    return [one for one in found if one.path.exists()]


def transcripts_below(folder: Path, form: ForeignFormat | None = None) -> Iterator[Path]:
    """Yield the files below a folder that may be transcripts, in a fixed order; links are not gone into.

    Parameters
    ----------
    form
        Only files that may be of this form.
    """
    looked_at = 0
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _PASSED_OVER)
        for name in sorted(files):
            looked_at += 1
            if looked_at > MAX_FILES:
                return
            path = Path(top) / name
            if _may_be(path, form):
                yield path


def oldest_first(paths: Iterable[Path]) -> list[Path]:
    """Return files in the order in which they were begun, by the first time in each: origins before their forks."""
    return sorted(paths, key=lambda path: (_begun_at(path), str(path)))


def _begun_at(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            found = _TIME.search(stream.read(_LOOKED_AT_BYTES))
    except OSError:
        return b"~"  # told when it is its turn
    return b"~" if found is None else found[1]


def _may_be(path: Path, form: ForeignFormat | None) -> bool:
    if path.suffix == DATABASE_SUFFIX:
        return form in (None, OPENCODE) and path.name.startswith("opencode")
    if path.suffix not in LINE_SUFFIXES or path.name.endswith(".meta.json"):
        return False
    # Documents: Gemini CLI alone wrote some, under this name; everything else that ends so is settings.
    if path.suffix == ".json":
        return form in (None, GEMINI) and path.name.startswith("session-")
    return form is None or form in LINE_FORMS
