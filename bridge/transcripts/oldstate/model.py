"""What an old state folder holds, in the words of today's notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

#: Who is taken for the sender of a note from a YAML file, of what type it is, and whom it is for.
YAML_SENDER: Final = "system"
YAML_TYPE: Final = "inform"
EVERYBODY: Final = "*"


class TableState(StrEnum):
    """What became of looking for ``signals`` tables; in the order in which YAML takes their place."""

    READ = "read"
    MISSING = "missing"
    EMPTY = "empty"
    LOCKED = "locked"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Signal:
    """One note.

    Parameters
    ----------
    position
        Its place in its session, from 0.
    created_at
        When it was left, with an offset; None if that cannot be told. A time without an offset is taken for UTC.
    extra
        Fields that have no place here, as they were.
    """

    session_id: str
    position: int
    text: str
    sender: str | None
    recipient: str
    type: str
    created_at: str | None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as a note is shown."""
        return {
            "session_id": self.session_id,
            "sequence": self.position,
            "created_at": self.created_at,
            "sender": self.sender,
            "recipient": self.recipient,
            "type": self.type,
            "text": self.text,
            "extra": dict(self.extra),
        }


@dataclass(frozen=True, slots=True)
class OldSession:
    """One session.

    Parameters
    ----------
    source
        ``sqlite`` or ``yaml``: where its notes were read; ``none`` if there are none.
    extra
        Fields of the index and of its own file that have no place here, as they were.
    """

    id: str
    parent_session_id: str | None
    status: str | None
    created_at: str | None
    updated_at: str | None
    signals: tuple[Signal, ...]
    source: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, or not in full; ``path`` is relative to the folder."""

    path: str
    code: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Return it for programs."""
        return {"path": self.path, "code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class OldState:
    """A folder as it could be read.

    Parameters
    ----------
    has_index_failed
        Whether there is an index that could not be loaded; nothing may ever be written over it.
    tables
        Each SQLite file that was looked at, relative to the folder, and what became of it.
    """

    sessions: tuple[OldSession, ...]
    problems: tuple[Problem, ...]
    has_index_failed: bool
    tables: Mapping[str, TableState]
