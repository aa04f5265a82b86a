"""The account of who uses a store: one row for each host and version of Bridge."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, update

from bridge.storage.prepared import Prepared
from bridge.storage.tables import clients
from bridge.storage.transaction import Transaction

_C = clients.c
_LAST_USE = Prepared(
    select(_C.last_used_at).where(_C.host == bindparam("of_host"), _C.version == bindparam("of_version")),
    "of_host",
    "of_version",
)
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


def is_noted(connection: Connection, visit: Visit) -> bool:
    """Return whether this client was written down within the hour, so that a visit costs no write."""
    row = _LAST_USE.run(connection, visit.host, visit.version).fetchone()
    return row is not None and str(row[0])[:_HOUR] == visit.moment[:_HOUR]


def note(tx: Transaction, visit: Visit) -> None:
    """Write a visit down."""
    mine = (_C.host == visit.host, _C.version == visit.version)
    if tx.execute(update(clients).where(*mine).values(last_used_at=visit.moment)).rowcount == 0:
        tx.execute(
            insert(clients).values(
                host=visit.host, version=visit.version, first_used_at=visit.moment, last_used_at=visit.moment
            )
        )
