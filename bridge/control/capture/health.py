"""How capturing goes, by host: what the store knows of it, and what lies beside the hook client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.control.capture import store as rows
from bridge.control.capture.model import HostRecord
from bridge.control.capture.spool import count_kept, count_lost
from bridge.control.controller import Controller


@dataclass(frozen=True, slots=True)
class HostHealth:
    """What came of the hooks of a host.

    Parameters
    ----------
    record
        None if nothing was ever recorded.
    lost
        Events that could neither be recorded nor kept.
    waiting
        Events of all hosts that wait to be taken in.
    transcript
        The record of the session that was heard of last, and whether it can be read; None if none is known.
    """

    host: str
    record: HostRecord | None
    lost: int
    waiting: int
    transcript: str | None
    is_transcript_readable: bool | None

    def to_json(self) -> dict[str, Any]:
        found = self.record
        return {
            "host": self.host,
            "first_event_at": None if found is None else found.first_event_at,
            "last_event_at": None if found is None else found.last_event_at,
            "last_event": None if found is None else found.last_event,
            "version": None if found is None else found.version,
            "events": 0 if found is None else found.events,
            "late": 0 if found is None else found.late,
            "taken_in_later": 0 if found is None else found.spooled,
            "refused": 0 if found is None else found.refused,
            "lost": self.lost,
            "waiting": self.waiting,
            "transcript": self.transcript,
            "transcript_readable": self.is_transcript_readable,
        }


def health_of(controller: Controller, host: str) -> HostHealth:
    """Return how capturing a host goes. Blocking."""
    with controller.store.read() as connection:
        record = rows.find_host(connection, host)
        newest = rows.newest_captured(connection, host)
    transcript = None if newest is None else newest.transcript
    return HostHealth(
        host,
        record,
        count_lost(controller.settings, host),
        count_kept(controller.settings),
        transcript,
        None if transcript is None else _is_readable(transcript),
    )


def _is_readable(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except (OSError, ValueError):
        return False
    return True
