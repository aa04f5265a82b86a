"""Minting tokens for agents' processes, checking them, and taking them back. Blocking.

A token is worth something for one session, until its end: when it is revoked, when its time is over, or when the
process that it was made for has ended, whichever comes first. It stands in the database, since the agent may outlive
the controller that started it and is served by the next one. Only a digest of the secret is kept.
"""

from __future__ import annotations

import hmac
import platform
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bridge.control.access import store as rows
from bridge.control.access.store import TokenRow
from bridge.control.controller import Controller
from bridge.control.errors import AgentTokenRefused
from bridge.control.recording import RecordingTransaction
from bridge.conversations.forest import require_session
from bridge.foundation.clock import format_timestamp, parse_timestamp
from bridge.foundation.hashing import digest_hex
from bridge.process.identity import ProcessIdentity, is_running
from bridge.storage.transaction import Connection

#: Names the variable that holds an agent's token, and the one that names a file with it.
TOKEN_VARIABLE: Final = "BRIDGE_AGENT_TOKEN"  # noqa: S105 - a name
TOKEN_FILE_VARIABLE: Final = "BRIDGE_AGENT_TOKEN_FILE"  # noqa: S105 - a name
#: How long a token is worth something that is given to a person's own agent, unless another time is asked for; and at
#: most.
DEFAULT_LIFETIME_SECONDS: Final = 24 * 3600.0
MAX_LIFETIME_SECONDS: Final = 30 * 24 * 3600.0
#: Tokens of one session that are worth something at the same time.
MAX_LIVE_TOKENS: Final = 64
_PREFIX: Final = "bridge_agent_"
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rf"{_PREFIX}(?P<id>[0-9a-f]{{16}})_(?P<secret>[A-Za-z0-9_\-]{{43}})", re.ASCII)
#: What an unknown token is compared with, so that it takes as long as a known one.
_NOBODY: Final = digest_hex(secrets.token_bytes(_SECRET_BYTES))
#: What the audit chain of the session says.
TOKEN_MINTED: Final = "agent.token_minted"  # noqa: S105 - a name
TOKEN_REVOKED: Final = "agent.token_revoked"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token. The secret is in ``token`` and nowhere else."""

    id: str
    token: str
    session_id: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who a valid token makes of its holder."""

    token_id: str
    session_id: str
    delegation_id: str | None


def mint(
    controller: Controller,
    session_id: str,
    *,
    purpose: str,
    lifetime_seconds: float = DEFAULT_LIFETIME_SECONDS,
    delegation_id: str | None = None,
) -> Minted:
    """Return a new token for a session.

    Raises
    ------
    SessionNotFound
        If there is no such session.
    AgentTokenRefused
        If the session has :data:`MAX_LIVE_TOKENS` already.
    """
    return controller.recorder.transact(
        lambda recording: mint_in(
            recording,
            session_id,
            purpose=purpose,
            lifetime_seconds=lifetime_seconds,
            delegation_id=delegation_id,
        )
    )


def mint_in(
    recording: RecordingTransaction,
    session_id: str,
    *,
    purpose: str,
    lifetime_seconds: float,
    delegation_id: str | None = None,
) -> Minted:
    """Mint a token within an open transaction; see :func:`mint`."""
    connection, moment = recording.tx.connection, recording.moment
    require_session(connection, session_id)
    if _is_full(connection, moment, session_id):
        _revoke_dead(recording, session_id)
    if _is_full(connection, moment, session_id):
        raise AgentTokenRefused(
            f"The session has {MAX_LIVE_TOKENS} tokens already. None was made.",
            hint="Take some back: bridge mcp --revoke SESSION",
            details={"reason": "too_many", "limit": MAX_LIVE_TOKENS},
        )
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(_SECRET_BYTES)
    seconds = min(lifetime_seconds, MAX_LIFETIME_SECONDS)
    expires_at = format_timestamp(parse_timestamp(moment) + timedelta(seconds=seconds))
    row = TokenRow(
        id=token_id,
        digest=_digest(secret),
        session_id=session_id,
        delegation_id=delegation_id,
        purpose=purpose,
        created_at=moment,
        expires_at=expires_at,
    )
    rows.add_token(connection, row)
    recording.event(session_id, TOKEN_MINTED, {"token_id": token_id, "purpose": purpose, "expires_at": expires_at})
    return Minted(token_id, f"{_PREFIX}{token_id}_{secret}", session_id, expires_at)


def bind_in(recording: RecordingTransaction, token_id: str, process: ProcessIdentity) -> None:
    """Let a token end with a process, which has just been started with it."""
    rows.bind_token(recording.tx.connection, token_id, process, platform.node())


def revoke_in(recording: RecordingTransaction, session_id: str, token_id: str) -> bool:
    """Take a token back within an open transaction; False if it was worth nothing any more."""
    is_done = rows.revoke_token(recording.tx.connection, token_id, recording.moment)
    if is_done:
        recording.event(session_id, TOKEN_REVOKED, {"token_id": token_id})
    return is_done


def revoke_all(controller: Controller, session_id: str) -> list[str]:
    """Take back every token of a session, and return their ids."""

    def run(recording: RecordingTransaction) -> list[str]:
        connection = recording.tx.connection
        require_session(connection, session_id)
        found = rows.live_tokens(connection, recording.moment, session_id=session_id, limit=MAX_LIVE_TOKENS)
        return [token.id for token in found if revoke_in(recording, session_id, token.id)]

    return controller.recorder.transact(run)


def revoke_of_delegation(recording: RecordingTransaction, session_id: str, delegation_id: str) -> None:
    """Take back what a worker got for a delegation."""
    for token in rows.tokens_of_delegation(recording.tx.connection, session_id, delegation_id):
        revoke_in(recording, session_id, token.id)


def find_bearer(controller: Controller, token: str | None) -> Bearer:
    """Return who a token makes of its holder; in a time that says nothing about how much of one was guessed.

    Raises
    ------
    AgentTokenRefused
        If it is worth nothing: unknown, revoked, expired, or made for a process that has ended. Which of them is
        not told.
    """
    form = None if token is None else _FORM.fullmatch(token)
    token_id, secret = ("", "") if form is None else (form["id"], form["secret"])
    with controller.store.read() as connection:
        row = rows.token_by_id(connection, token_id)
    is_right = hmac.compare_digest(_digest(secret), _NOBODY if row is None else row.digest)
    if row is None or not is_right or not _is_live(controller, row):
        raise _refused()
    return Bearer(row.id, row.session_id, row.delegation_id)


def require_live(controller: Controller, token_id: str) -> None:
    """Check that a token which was shown before is still worth something.

    Raises
    ------
    AgentTokenRefused
        If it is not.
    """
    with controller.store.read() as connection:
        row = rows.token_by_id(connection, token_id)
    if row is None or not _is_live(controller, row):
        raise _refused()


def has_live_tokens(connection: Connection, moment: str) -> bool:
    """Tell whether any agent may come at all."""
    return bool(rows.live_tokens(connection, moment))


def _is_full(connection: Connection, moment: str, session_id: str) -> bool:
    return len(rows.live_tokens(connection, moment, session_id=session_id, limit=MAX_LIVE_TOKENS)) >= MAX_LIVE_TOKENS


def _revoke_dead(recording: RecordingTransaction, session_id: str) -> None:
    """Take back what processes had that were killed, with nobody left to do it."""
    found = rows.live_tokens(recording.tx.connection, recording.moment, session_id=session_id, limit=MAX_LIVE_TOKENS)
    for token in found:
        if token.process is not None and token.host == platform.node() and not is_running(token.process):
            revoke_in(recording, session_id, token.id)


def _is_live(controller: Controller, row: TokenRow) -> bool:
    if row.revoked_at is not None or row.expires_at <= controller.now():
        return False
    # A process on another machine cannot be seen from here, and counts as running.
    return row.process is None or row.host != platform.node() or is_running(row.process)


def _digest(secret: str) -> str:
    return digest_hex(secret.encode("ascii"))


def _refused() -> AgentTokenRefused:
    return AgentTokenRefused("The token is not one that is valid now. Nothing was called.", details={"reason": "token"})
