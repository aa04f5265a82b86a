"""After a chat that was killed: its agent is ended, its open turn is closed where it stood."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.control.controller import Controller
from bridge.control.conversing import store as rows
from bridge.control.conversing.store import ChatAgent
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft
from bridge.conversations.references import require_entry
from bridge.conversations.store import cursor_leaf, session_exists
from bridge.process.groups import DEFAULT_GRACE_SECONDS, end_group_blocking, end_marked_blocking
from bridge.process.identity import Marker, is_running

REASON: Final = "The chat ended in the middle of the turn."


@dataclass(frozen=True, slots=True)
class Swept:
    """What a killed chat had left.

    Parameters
    ----------
    processes
        How many processes of its agent still ran, and were ended.
    turn_entry_id
        The entry that closes its turn; None if none was open.
    """

    session_id: str
    harness: str
    processes: int
    turn_entry_id: str | None


def sweep(controller: Controller, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> list[Swept]:
    """Clean up after the chats of this machine whose process is gone. Blocking; any number may do it at once.

    Chats of other machines are left alone: from here nobody can tell whether they live.
    """
    with controller.store.read() as connection:
        agents = rows.list_agents(connection, host=platform.node())
    return [_sweep(controller, agent, grace_seconds) for agent in agents if not is_running(agent.owner)]


def agent_folder(controller: Controller, agent_id: str) -> Path:
    """Return the private folder of one agent: its standard error, and the output of its terminals."""
    return controller.settings.chats / agent_id


def remove_agent_folder(controller: Controller, agent_id: str) -> None:
    """Remove what an agent left in its folder; what mattered of it stands in the errors that it caused."""
    shutil.rmtree(agent_folder(controller, agent_id), ignore_errors=True)


def _sweep(controller: Controller, agent: ChatAgent, grace_seconds: float) -> Swept:
    marker = Marker(agent.id)
    if agent.agent is not None:
        ended = end_group_blocking(agent.agent, grace_seconds, marker)
    else:
        ended = end_marked_blocking(marker, grace_seconds)

    remove_agent_folder(controller, agent.id)

    def run(recording: RecordingTransaction) -> str | None:
        connection = recording.tx.connection
        if not rows.remove_agent(connection, agent.id) or not session_exists(connection, agent.session_id):
            return None  # another one was faster, or the session is gone
        leaf = cursor_leaf(connection, agent.session_id, agent.id)
        if leaf is None:
            return None
        # The files as they were last seen in that turn: a look now would hide what happened to them since.
        stamp = require_entry(connection, leaf).stamp
        turn_id = agent.turn_id or agent.id
        # Told to whoever goes on: nobody knows how far the agent came. It also keeps the agent's own session from
        # being taken up here, which may hold more, or less, than what is recorded.
        fault = {"turn_id": turn_id, "message": REASON, "code": "chat_killed"}
        recording.append(agent.session_id, EntryDraft(kind="error", payload=fault, cursor=agent.id), stamp)
        payload = {"turn_id": turn_id, "status": "failed", "reason": REASON}
        draft = EntryDraft(kind="turn.completed", payload=payload, cursor=agent.id)
        entry = recording.append(agent.session_id, draft, stamp).entry
        recording.close_cursor(agent.session_id, agent.id)
        return entry.id

    return Swept(agent.session_id, agent.harness, len(ended.found), controller.recorder.transact(run))
