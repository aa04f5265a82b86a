"""Queries over the rows of all trees that hold, or hang on, what is to be taken away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, or_, select, update

from bridge.control.delegations.model import OPEN_STATUSES
from bridge.storage.tables import (
    agent_tokens,
    attempts,
    branch_cursors,
    chat_agents,
    delegations,
    import_chunks,
    import_links,
    import_sessions,
    import_sources,
    plans,
    repository_states,
    session_entries,
    submissions,
    workspaces,
)
from bridge.storage.transaction import Transaction

_D, _P, _S = delegations.c, plans.c, submissions.c
_C, _I = import_chunks.c, import_sessions.c
#: Columns with raw texts, by table: what was asked, decided, handed in, and the plan file.
RAW_COLUMNS = ((delegations, ("request", "decision")), (submissions, ("text", "field_errors")), (plans, ("text",)))
_OPEN = [str(status) for status in OPEN_STATUSES]


def delegations_of(connection: Connection, session_id: str) -> list[str]:
    """Return the delegations that a session asked for or works on."""
    query = select(_D.id).where(or_(_D.parent_session_id == session_id, _D.worker_session_id == session_id))
    return list(connection.execute(query.order_by(_D.id)).scalars())


def raw_texts(connection: Connection, session_id: str) -> Iterator[tuple[str, dict[str, Any], str, str]]:
    """Yield table, key, column and text of what is kept raw beside a session's entries."""
    tasks = delegations_of(connection, session_id)
    run_by = select(_D.plan_id).where(_D.id.in_(tasks), _D.plan_id.is_not(None))
    conditions = {
        "delegations": _D.id.in_(tasks),
        "submissions": _S.delegation_id.in_(tasks),
        "plans": or_(_P.session_id == session_id, _P.id.in_(run_by)),
    }
    for table, columns in RAW_COLUMNS:
        keys = list(table.primary_key.columns)
        query = select(*keys, *(table.c[name] for name in columns)).where(conditions[table.name])
        for row in connection.execute(query).mappings():
            for name in columns:
                if row[name] is not None:
                    yield table.name, {column.name: row[column.name] for column in keys}, name, row[name]


def put_raw_text(tx: Transaction, table_name: str, key: dict[str, Any], column: str, text: str) -> None:
    """Replace a raw text."""
    table = next(one for one, _ in RAW_COLUMNS if one.name == table_name)
    tx.execute(update(table).where(*(table.c[name] == value for name, value in key.items())).values({column: text}))


def _sources_of(session_id: str) -> Select[Any]:
    """Return the transcripts that a session was taken in from."""
    named = and_(_I.format == import_sources.c.format, _I.native_id == import_sources.c.native_id)
    return select(import_sources.c.id).join(import_sessions, named).where(_I.session_id == session_id)


def raw_lines(connection: Connection, session_id: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield source, number and body of the kept lines of the transcripts that a session was taken in from."""
    query = select(_C.source_id, _C.number, _C.body).where(_C.source_id.in_(_sources_of(session_id)))
    for row in connection.execute(query.order_by(_C.source_id, _C.number)):
        yield row[0], row[1], bytes(row[2])


def put_raw_lines(tx: Transaction, source_id: str, number: int, body: bytes, changed: int) -> None:
    """Replace kept lines, so many more of which are not as they were."""
    tx.execute(
        update(import_chunks)
        .where(_C.source_id == source_id, _C.number == number)
        .values(body=body, changed_lines=_C.changed_lines + changed)
    )


def _forget_transcripts(tx: Transaction, session_id: str) -> None:
    gone = list(tx.connection.execute(_sources_of(session_id)).scalars())
    tx.execute(delete(import_chunks).where(_C.source_id.in_(gone)))
    tx.execute(delete(import_sources).where(import_sources.c.id.in_(gone)))
    tx.execute(delete(import_sessions).where(_I.session_id == session_id))
    tx.execute(delete(import_links).where(import_links.c.session_id == session_id))


def why_open(connection: Connection, session_id: str) -> str | None:
    """Return what goes on in a session; None if nothing does."""
    cursor = select(branch_cursors.c.owner).where(branch_cursors.c.session_id == session_id).limit(1)
    if connection.execute(cursor).first() is not None:
        return "a turn, a task or a captured session writes to it"
    mine = or_(_D.parent_session_id == session_id, _D.worker_session_id == session_id)
    if connection.execute(select(_D.id).where(mine, _D.status.in_(_OPEN)).limit(1)).first() is not None:
        return "a task of it has not ended"
    # What else a finished task may leave: a worktree that waits to be adopted or discarded.
    kept = select(_D.id).join(workspaces, and_(workspaces.c.id == _D.workspace_id, workspaces.c.kind == "worker"))
    if connection.execute(kept.where(mine, workspaces.c.status != "removed").limit(1)).first() is not None:
        return "the worktree of a task of it is kept"
    running = select(_P.id).where(_P.session_id == session_id, _P.finished_at.is_(None)).limit(1)
    if connection.execute(running).first() is not None:
        return "a plan of it is running"
    talking = select(chat_agents.c.id).where(chat_agents.c.session_id == session_id).limit(1)
    return None if connection.execute(talking).first() is None else "an agent is talking in it"


def requests_of_others(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the session and the request of every delegation."""
    for row in connection.execute(select(_D.parent_session_id, _D.request)):
        yield row[0], row[1]


def delete_beside(tx: Transaction, session_id: str) -> list[str]:
    """Remove what control keeps about a session; return the ids of the delegations that went."""
    gone = list(tx.connection.execute(select(_D.id).where(_D.parent_session_id == session_id)).scalars())
    for table in (submissions, attempts):
        tx.execute(delete(table).where(table.c.delegation_id.in_(gone)))
    tx.execute(delete(delegations).where(_D.parent_session_id == session_id))
    tx.execute(delete(plans).where(_P.session_id == session_id, ~select(_D.id).where(_D.plan_id == _P.id).exists()))
    _forget_transcripts(tx, session_id)
    for table in (agent_tokens, chat_agents):
        tx.execute(delete(table).where(table.c.session_id == session_id))
    return gone


def dirty_hashes_of(connection: Connection, state_digests: list[str]) -> set[str]:
    """Return the dirty hashes of states."""
    found: set[str] = set()
    for start in range(0, len(state_digests), 500):
        some = state_digests[start : start + 500]
        query = select(repository_states.c.dirty_hash).where(repository_states.c.state_digest.in_(some))
        found |= set(connection.execute(query).scalars())
    return found


def entries_stamped(connection: Connection, dirty_hash: str, *, beside: str) -> int:
    """Return how many other entries stand on a dirty manifest, counted up to a thousand."""
    states = select(repository_states.c.state_digest).where(repository_states.c.dirty_hash == dirty_hash)
    query = select(session_entries.c.id).where(
        session_entries.c.state_digest.in_(states), session_entries.c.id != beside
    )
    return len(connection.execute(query.limit(1000)).all())
