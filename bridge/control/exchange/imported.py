"""What became of a file that was imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Told now and then: what is being done, and how much of how much; 0 if unknown.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """How a source is taken in.

    Parameters
    ----------
    dry_run
        Whether everything is checked and compared, and nothing written.
    keep_raw
        Whether the lines of a foreign transcript are kept as they are, secrets included; else they are redacted.
    """

    dry_run: bool = False
    keep_raw: bool = False
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """What became of one session of a file.

    Parameters
    ----------
    status
        ``created``, ``continued`` (it was here and had less), ``unchanged``, or ``forked``: what a copy that went on
        differently has of its own; of a foreign transcript also ``copy``, whose entries are another session's so far,
        and ``recorded``, which hooks recorded as that session from its beginning.
    added
        Entries that were added.
    entries
        Entries of it in the file.
    complete
        Whether the file holds all entries that the session had.
    active_entry_id
        The session's head afterwards; None in a dry run.
    kept_labels
        Names that name another entry here, and go on doing so.
    """

    session_id: str
    status: str
    added: int
    entries: int
    complete: bool
    active_entry_id: str | None = None
    kept_labels: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "status": self.status,
            "added": self.added,
            "entries": self.entries,
            "complete": self.complete,
            "active_entry_id": self.active_entry_id,
            "kept_labels": list(self.kept_labels),
        }


@dataclass(frozen=True, slots=True)
class ImportFinding:
    """Something in a source that is not as it should be. The rest of the source was taken in all the same.

    Parameters
    ----------
    kind
        What it is, as a code.
    line, offset
        Where: the line (from 1) and its first byte (from 0); None where the source has no lines.
    """

    path: str
    kind: str
    message: str
    line: int | None = None
    offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "line": self.line,
            "offset": self.offset,
            "kind": self.kind,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a source: ``session_id`` is the session it is about, ``sessions`` has all of them.

    Parameters
    ----------
    format
        The name of its format.
    path
        Where it was, where that is known.
    findings
        What could not be taken in as it stands, the first of them; ``problems`` counts all.
    lines
        Lines that were read, where it has lines; ``skipped`` were read by an earlier import already.
    """

    session_id: str | None
    digest: str | None
    is_dry_run: bool
    sessions: tuple[ImportedSession, ...]
    format: str = "bridge"
    path: str | None = None
    findings: tuple[ImportFinding, ...] = ()
    problems: int = 0
    lines: int | None = None
    skipped: int | None = None

    @property
    def added(self) -> int:
        return sum(session.added for session in self.sessions)

    @property
    def torn(self) -> int:
        """How many of the findings are a last line that was cut off, or is being written."""
        return sum(finding.kind == "torn_tail" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "digest": self.digest,
            "dry_run": self.is_dry_run,
            "added": self.added,
            "sessions": [session.to_json() for session in self.sessions],
            "format": self.format,
            "path": self.path,
            "problems": self.problems,
            "findings": [finding.to_json() for finding in self.findings],
            "lines": self.lines,
            "skipped": self.skipped,
        }
