"""Who calls, and which roles there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.control.standpoint import Standpoint


class Role(StrEnum):
    """Who calls."""

    #: The person at the machine: everything.
    OPERATOR = "operator"
    #: A process bound to one session: what concerns that session, and nothing else.
    AGENT = "agent"
    #: Whoever only looks.
    OBSERVER = "observer"


#: Who may call a method that changes something, one that reads, and one that an agent needs for its own session.
WRITERS: Final = frozenset({Role.OPERATOR})
READERS: Final = frozenset({Role.OPERATOR, Role.OBSERVER})
EVERYONE: Final = frozenset(Role)
#: Who may call a method with which an agent changes something of its own.
WORKERS: Final = frozenset({Role.OPERATOR, Role.AGENT})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a door, and where they stand.

    Parameters
    ----------
    session_id
        Full id of the session that an agent is bound to; None for everybody else.
    """

    role: Role
    standpoint: Standpoint
    session_id: str | None = None

    def __post_init__(self) -> None:
        if (self.role is Role.AGENT) != (self.session_id is not None):
            raise ValueError("an agent is bound to a session, and nobody else is")
