"""Queries over agents' tokens. All take an open connection."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from bridge.process.identity import ProcessIdentity
from bridge.storage.tables import agent_tokens


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is kept: never the secret itself. Times are timestamps as text."""

    id: str
    digest: str
    session_id: str
    delegation_id: str | None
    purpose: str
    created_at: str
    expires_at: str
    revoked_at: str | None = None
    host: str | None = None
    pid: int | None = None
    process_start_time: float | None = None

    @property
    def process(self) -> ProcessIdentity | None:
        """The process that it was made for, once that runs."""
        if self.pid is None or self.process_start_time is None:
            return None
        return ProcessIdentity(self.pid, self.process_start_time)


def add_token(connection: Connection, token: TokenRow) -> None:
    """Record a token."""
    values = {column.name: getattr(token, column.name) for column in agent_tokens.columns}
    connection.execute(insert(agent_tokens).values(**values))


def token_by_id(connection: Connection, token_id: str) -> TokenRow | None:
    """Return a token, or None."""
    row = connection.execute(select(agent_tokens).where(agent_tokens.c.id == token_id)).one_or_none()
    return None if row is None else TokenRow(**row._mapping)  # noqa: SLF001 - the documented way


def bind_token(connection: Connection, token_id: str, process: ProcessIdentity, host: str) -> None:
    """Tie a token to the process that has it."""
    connection.execute(
        update(agent_tokens)
        .where(agent_tokens.c.id == token_id)
        .values(host=host, pid=process.pid, process_start_time=process.start_time)
    )


def revoke_token(connection: Connection, token_id: str, moment: str) -> bool:
    """Take a token's worth; False if it had none any more."""
    done = connection.execute(
        update(agent_tokens)
        .where(agent_tokens.c.id == token_id, agent_tokens.c.revoked_at.is_(None))
        .values(revoked_at=moment)
    )
    return done.rowcount == 1


def live_tokens(
    connection: Connection, moment: str, *, session_id: str | None = None, limit: int = 1
) -> list[TokenRow]:
    """Return tokens that are neither revoked nor expired."""
    query = select(agent_tokens).where(agent_tokens.c.revoked_at.is_(None), agent_tokens.c.expires_at > moment)
    if session_id is not None:
        query = query.where(agent_tokens.c.session_id == session_id)
    rows = connection.execute(query.order_by(agent_tokens.c.created_at, agent_tokens.c.id).limit(limit))
    return [TokenRow(**row._mapping) for row in rows]  # noqa: SLF001 - as above


def tokens_of_delegation(connection: Connection, session_id: str, delegation_id: str) -> list[TokenRow]:
    """Return the tokens that a worker's session was given for a delegation and that are not revoked."""
    query = select(agent_tokens).where(
        agent_tokens.c.session_id == session_id,
        agent_tokens.c.delegation_id == delegation_id,
        agent_tokens.c.revoked_at.is_(None),
    )
    return [TokenRow(**row._mapping) for row in connection.execute(query)]  # noqa: SLF001 - as above
