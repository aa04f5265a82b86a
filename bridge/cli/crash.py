"""Crash reports: what someone who mends Bridge needs to know, as plain text that can be pasted into an issue."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from bridge import __version__
from bridge.foundation.config import state_directory
from bridge.foundation.errors import InvalidConfiguration

DIRECTORY = "crash-reports"
#: Reports kept in the state directory; the oldest go first.
MAX_REPORTS = 20
#: Largest report, in characters: a deep recursion must not fill the disk.
MAX_REPORT_CHARACTERS = 200_000
#: Libraries whose versions matter.
LIBRARIES = ("sqlalchemy", "typer", "anyio", "orjson", "jsonschema-rs", "psutil")


@dataclass(frozen=True, slots=True)
class CrashReport:
    """A report and where it was written; ``path`` is ``None`` if it could be written nowhere."""

    text: str
    path: Path | None


def write_report(error: BaseException, words: Sequence[str], environment: Mapping[str, str]) -> CrashReport:
    """Write a crash report into the state directory, else into the temporary directory.

    Values on the command line are left out, since they may hold what was said to an agent; the traceback is
    complete, so the person is asked to look through it before sending it. Never raises for an unusable disk.
    """
    now = datetime.now(UTC)
    text = report_text(error, words, now)
    home = _home(environment)
    path = None if home is None else _write_into(home / DIRECTORY, f"{now:%Y%m%dT%H%M%S%f}-{os.getpid()}.txt", text)
    return CrashReport(text, path or _write_temporary(text))


def _home(environment: Mapping[str, str]) -> Path | None:
    try:
        return state_directory(environment)
    except InvalidConfiguration:
        # BRIDGE_HOME is relative; the temporary directory is as good a place.
        return None


def _write_into(directory: Path, name: str, text: str) -> Path | None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / name
        _write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), text)
        for old in sorted(directory.glob("*.txt"))[:-MAX_REPORTS]:
            old.unlink(missing_ok=True)
    except OSError:
        # The state directory may be what is broken; the temporary directory is tried next.
        return None
    return path


def _write_temporary(text: str) -> Path | None:
    try:
        descriptor, name = tempfile.mkstemp(prefix="bridge-crash-", suffix=".txt")
        _write(descriptor, text)
    except OSError:
        # The caller shows the text instead.
        return None
    return Path(name)


def _write(descriptor: int, text: str) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def report_text(error: BaseException, words: Sequence[str], moment: datetime) -> str:
    """Return the report as text."""
    trace = "".join(traceback.format_exception(error))
    lines = [
        "Bridge crash report",
        "",
        f"time:      {moment:%Y-%m-%dT%H:%M:%SZ}",
        f"bridge:    {__version__}",
        f"python:    {platform.python_version()} ({platform.python_implementation()})",
        f"platform:  {platform.platform()}",
        f"encoding:  {sys.getfilesystemencoding()}, stdout {getattr(sys.stdout, 'encoding', None)}",
        f"libraries: {', '.join(_versions())}",
        f"command:   {' '.join(['bridge', *without_values(words)])}",
        "",
        trace,
    ]
    text = "\n".join(lines)
    if len(text) > MAX_REPORT_CHARACTERS:
        half = MAX_REPORT_CHARACTERS // 2
        text = f"{text[:half]}\n[… shortened …]\n{text[-half:]}"
    return text


def without_values(words: Sequence[str]) -> list[str]:
    """Return a command line with option names kept and every value but the leading command words replaced."""
    kept: list[str] = []
    in_command = True
    for word in words:
        if word.startswith("-") and len(word) > 1:
            in_command = False
            name, equals, _ = word.partition("=")
            kept.append(f"{name}=<value>" if equals else name)
        elif in_command and word.isalpha() and word.islower() and len(kept) < 2:
            kept.append(word)
        else:
            in_command = False
            kept.append("<value>")
    return kept


def _versions() -> list[str]:
    found = []
    for library in LIBRARIES:
        try:
            found.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            found.append(f"{library} missing")
    return found
