"""What became of a file that was imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """What became of one session of a file.

    Parameters
    ----------
    status
        ``created``, ``continued`` (it was here and had less) or ``unchanged``.
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
class Imported:
    """What became of a file: ``session_id`` is the session it is about, ``sessions`` has all of them."""

    session_id: str
    digest: str
    is_dry_run: bool
    sessions: tuple[ImportedSession, ...]

    @property
    def added(self) -> int:
        return sum(session.added for session in self.sessions)

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "digest": self.digest,
            "dry_run": self.is_dry_run,
            "added": self.added,
            "sessions": [session.to_json() for session in self.sessions],
        }
