"""Quotas of credentials: what is known to be used up, until when, and that nothing is started with it before.

A credential is named by its harness and the name that ``config.toml`` gives it, never by a secret. The pause stands in
the store: it outlives a restart, and holds for every process. Blocking.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bridge.control.controller import Controller
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.steering import store as steering
from bridge.control.delegations.steering.model import Pause
from bridge.control.errors import QuotaNotPaused
from bridge.control.recording import RecordingTransaction
from bridge.foundation.clock import format_timestamp
from bridge.foundation.config import Settings
from bridge.integrity.events import STORE_CHAIN

#: Name of a credential that the configuration does not name.
DEFAULT_CREDENTIAL: Final = "default"


def credential_of(settings: Settings, harness: str) -> str:
    """Return the identity of what a harness works with: its name, and that of its credential."""
    configured = settings.harness.get(harness)
    named = None if configured is None else configured.credential
    return f"{harness}/{named or DEFAULT_CREDENTIAL}"


def pause(
    controller: Controller, delegation: Delegation, credential: str, resets_at: str | None, *, unknown_seconds: float
) -> Pause:
    """Record that a credential's quota is used up; a pause that lasts longer already is left as it is.

    Parameters
    ----------
    resets_at
        When it is full again, as a timestamp; None where that is not known: then ``unknown_seconds`` from now.
    """

    def record(recording: RecordingTransaction) -> Pause:
        connection, moment = recording.tx.connection, recording.moment
        guess = format_timestamp(controller.clock.now() + timedelta(seconds=unknown_seconds))
        made = Pause(credential, moment, resets_at or guess, resets_at is not None, delegation.id)
        held = steering.pause_of(connection, credential, now=moment)
        if held is not None and held.resets_at >= made.resets_at:
            return held
        steering.put_pause(connection, made)
        body = {"delegation_id": delegation.id, "credential": credential, "resets_at": made.resets_at}
        recording.event(delegation.parent_session_id, "quota.paused", body)
        return made

    return controller.recorder.transact(record)


def lift(controller: Controller, credential: str | None, *, by: str) -> list[Pause]:
    """Lift the pause of a credential before its time, or all of them; what waits goes on within a moment.

    Raises
    ------
    QuotaNotPaused
        If none holds.
    """

    def record(recording: RecordingTransaction) -> list[Pause]:
        connection, moment = recording.tx.connection, recording.moment
        held = steering.open_pauses(connection, now=moment)
        chosen = [one for one in held if credential in (None, one.credential)]
        if not chosen:
            known = [one.credential for one in held]
            what = "No credential" if credential is None else repr(credential[:200])
            raise QuotaNotPaused(
                f"{what} is paused. Nothing was changed."
                if credential is None
                else f"{what} is not paused. Nothing was changed.",
                hint=f"Paused: {', '.join(known) or 'none'}.",
                details={"credential": credential, "paused": known},
            )
        for one in chosen:
            steering.lift_pause(connection, one.credential, moment=moment, by=by)
            recording.event(STORE_CHAIN, "quota.lifted", {"credential": one.credential, "by": by})
        return chosen

    return controller.recorder.transact(record)


def list_pauses(controller: Controller) -> list[Pause]:
    """Return the pauses that hold now."""
    with controller.store.read() as connection:
        return steering.open_pauses(connection, now=controller.now())
