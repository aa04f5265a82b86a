"""The account of who uses a store: one row for each host and version of Bridge."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, update

from bridge.storage.tables import clients
from bridge.storage.transaction import Transaction

_C = clients.c
#: Characters of a timestamp that name its hour: a client is written down at most once in each.
_HOUR = len("2026-01-02T03")


@dataclass(frozen=True, slots=True)
class Visit:
    """Who opens a store, and when.

    Parameters
    ----------
    host
        Name of the machine.
    version
        Version of Bridge.
    moment
        Timestamp of the opening.
    """

    host: str
    version: str
    moment: str

    def is_news(self, last_use: str | None) -> bool:
        """Return whether the visit is worth writing down: so that most cost no write."""
        return last_use is None or last_use[:_HOUR] != self.moment[:_HOUR]


def note(tx: Transaction, visit: Visit) -> None:
    """Write a visit down."""
    mine = (_C.host == visit.host, _C.version == visit.version)
    if tx.execute(update(clients).where(*mine).values(last_used_at=visit.moment)).rowcount == 0:
        tx.execute(
            insert(clients).values(
                host=visit.host, version=visit.version, first_used_at=visit.moment, last_used_at=visit.moment
            )
        )
