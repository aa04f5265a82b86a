"""Values of capturing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.process.identity import ProcessIdentity

#: Begins the owner of the cursor of every captured session.
OWNER_PREFIX: Final = "hooks-"
#: Characters of a cursor's owner; a longer id of a host is cut.
_MAX_OWNER: Final = 200
#: Between a host's id of a session and that of a sub-agent of it.
SUBAGENT_MARK: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event as the hook client hands it over.

    Parameters
    ----------
    id
        The client's own, unique; what is delivered twice is recorded once.
    at
        When the client had it, in seconds since 1970; None if it says none.
    parent
        The process that started the client.
    patience
        How long the client waits for the answer, in seconds; None if it says nothing.
    raw
        The host's JSON.
    is_live
        Whether the host waits for the answer; else it was kept, and nobody knows how the files were.
    """

    id: str
    host: str
    raw: Mapping[str, Any]
    at: float | None = None
    parent: int | None = None
    patience: float | None = None
    is_live: bool = True


@dataclass(frozen=True, slots=True)
class Told:
    """What a host is answered: a text for the agent's context, a line for the person."""

    context: str | None = None
    notice: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.context is None and self.notice is None


NOTHING: Final = Told()


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A host's session, or a sub-agent of one, and where it is recorded.

    Parameters
    ----------
    native_id
        The host's id; that of a sub-agent behind its session's and a slash.
    base_entry_id
        The entry whose stamp the agent knows: later changes are news to it.
    turn_id
        The turn that runs.
    told_key, told_person_key
        The change that the agent, and the person, was told of last.
    owed_text
        What the agent could not be told in time.
    transcript, transcript_offset
        The host's own record, and how far it was read.
    is_fresh
        Whether it goes on after a pause and was not compared with the files since.
    process
        The host's process.
    """

    host: str
    native_id: str
    session_id: str
    workspace_id: str | None
    started_at: str
    last_event_at: str
    agent_id: str | None = None
    base_entry_id: str | None = None
    turn_id: str | None = None
    told_key: str | None = None
    told_person_key: str | None = None
    owed_text: str | None = None
    transcript: str | None = None
    transcript_offset: int = 0
    is_fresh: bool = False
    process: ProcessIdentity | None = None

    @property
    def cursor(self) -> str:
        return f"{OWNER_PREFIX}{self.host}-{self.native_id}"[:_MAX_OWNER]

    @property
    def source(self) -> str:
        """Where the external ids of its entries come from."""
        return f"{self.host} hooks"


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What came of a host's hooks so far."""

    host: str
    first_event_at: str
    last_event_at: str
    last_event: str
    version: str | None
    events: int
    late: int
    spooled: int
    refused: int
