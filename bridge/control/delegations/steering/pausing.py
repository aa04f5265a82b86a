"""What a task does whose credential has used up its quota: it pauses the credential, and waits until that is over."""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio
from anyio import to_thread

from bridge.agents.policy_file import WorkspacePolicy
from bridge.agents.policy_model import Reason
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.steering import store as steering
from bridge.control.delegations.steering.model import Pause
from bridge.control.delegations.steering.quotas import credential_of, pause
from bridge.control.recording import RecordingTransaction
from bridge.foundation.logs import get_logger
from bridge.storage.errors import DatabaseBusy

#: How often a task that waits for a quota looks whether it may go on, or is to end.
POLL_SECONDS: Final = 0.5

_log = get_logger(__name__)


async def sit_out(
    controller: Controller,
    delegation: Delegation,
    resets_at: str | None,
    policy: WorkspacePolicy,
    *,
    is_waiting: bool,
) -> None:
    """Pause the credential of a task; if the task is to be tried again, return once it may be, or is to end.

    Meanwhile its row says so, and it takes up no place: others with another credential may run.
    """
    credential = delegation.credential or credential_of(controller.settings, delegation.request.harness)
    make = partial(pause, controller, delegation, credential, resets_at, unknown_seconds=policy.unknown_reset_seconds)
    made = await to_thread.run_sync(make)
    if not is_waiting:
        return
    await to_thread.run_sync(partial(_tell, controller, delegation, made))
    try:
        while True:
            if not await to_thread.run_sync(partial(_is_held, controller, delegation, credential)):
                return
            await anyio.sleep(POLL_SECONDS)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(_tell, controller, delegation, None))


def _is_held(controller: Controller, delegation: Delegation, credential: str) -> bool:
    """Tell whether a task has to wait on. The clock is asked each time: a machine that slept is not too early."""
    try:
        with controller.store.read() as connection:
            if rows.is_to_end(connection, delegation.id, controller.id):
                return False
            return steering.pause_of(connection, credential, now=controller.now()) is not None
    except DatabaseBusy as error:
        _log.warning("the store is busy", action="quota_poll", delegation_id=delegation.id, code=error.code)
        return True


def _tell(controller: Controller, delegation: Delegation, held: Pause | None) -> None:
    def record(recording: RecordingTransaction) -> None:
        connection = recording.tx.connection
        if not rows.require_delegation(connection, delegation.id).status.is_final:
            rows.update_delegation(
                connection,
                delegation.id,
                updated_at=recording.moment,
                waiting_reason=None if held is None else str(Reason.QUOTA_PAUSED),
                waiting_until=None if held is None else held.resets_at,
            )

    controller.recorder.transact(record)
