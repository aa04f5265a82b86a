"""Queries of what binds results to tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, select

from bridge.foundation.texts import is_storable
from bridge.storage.longtexts import whole_payload
from bridge.storage.tables import delegations, session_entries

_D, _E = delegations.c, session_entries.c


class DelegationBinding(NamedTuple):
    """What of a delegation binds it to its entries; the fields are columns."""

    id: str
    parent_session_id: str
    status: str
    request_entry_id: str | None
    worker_session_id: str | None
    workspace_id: str | None
    base_commit: str | None
    result_entry_id: str | None
    result_commit: str | None


class StoredResult(NamedTuple):
    """What of an entry a binding is compared with; ``payload`` is None if it is lost."""

    kind: str
    payload_hash: str
    payload: str | None


def delegation_bindings(connection: Connection, session_id: str) -> Iterator[DelegationBinding]:
    """Yield the delegations that were given out from a session."""
    query = select(*(_D[name] for name in DelegationBinding._fields)).where(_D.parent_session_id == session_id)
    return (DelegationBinding(*row) for row in connection.execute(query.order_by(_D.id)))


def delegating_sessions(connection: Connection) -> set[str]:
    """Return the ids of the sessions that delegations name as theirs."""
    return set(connection.execute(select(_D.parent_session_id).distinct()).scalars())


def stored_entry(connection: Connection, session_id: str, entry_id: str) -> StoredResult | None:
    """Return an entry of a session; None if it is not there."""
    if not (is_storable(session_id) and is_storable(entry_id)):
        return None
    query = select(_E.kind, _E.payload_hash, whole_payload()).where(_E.session_id == session_id, _E.id == entry_id)
    row = connection.execute(query).first()
    return None if row is None else StoredResult(*row)


def worker_result(connection: Connection, session_id: str) -> StoredResult | None:
    """Return the last result in a worker's own session; None if there is none."""
    if not is_storable(session_id):
        return None
    query = select(_E.kind, _E.payload_hash, whole_payload()).where(
        _E.session_id == session_id, _E.kind == "worker.result"
    )
    row = connection.execute(query.order_by(_E.sequence.desc()).limit(1)).first()
    return None if row is None else StoredResult(*row)
