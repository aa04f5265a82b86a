"""Which session a host's session is recorded in: the one it has, a fork of one, or a new one."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

from bridge.adapters.hosts.events import HostEvent, Moment, Source
from bridge.agents import store as agents
from bridge.agents.models import ORCHESTRATOR_ROLE, Agent
from bridge.agents.policy_model import ORCHESTRATOR_DEPTH
from bridge.control.capture import store as rows
from bridge.control.capture.model import SUBAGENT_MARK, Captured
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import workspace_at
from bridge.conversations.listing.store import latest_chat
from bridge.conversations.models import NewSession, ParentRelation
from bridge.conversations.store import cursor_leaf
from bridge.git.observe import Observation
from bridge.process.identity import ProcessIdentity
from bridge.semantics.stamps import UNSTAMPED
from bridge.storage.transaction import Connection
from bridge.workspaces.models import Workspace, WorkspaceKind
from bridge.workspaces.store import save_state

#: Role of a sub-agent whose host does not say what it is.
WORKER_ROLE: Final = "worker"
#: Characters of a label that is made of a host's words.
MAX_LABEL: Final = 80


def workspace_of(controller: Controller, event: HostEvent) -> Workspace | None:
    """Return the registered checkout that an event comes from; None outside one, and in a worker's."""
    if event.directory is None or "\0" in event.directory:
        return None
    folder = Path(event.directory)
    if not folder.is_absolute() or not folder.is_dir():
        return None
    with controller.store.read() as connection:
        found = workspace_at(connection, folder)
    return None if found is None or found.kind is WorkspaceKind.WORKER else found


def begin(
    controller: Controller,
    event: HostEvent,
    workspace: Workspace,
    *,
    process: ProcessIdentity | None,
    observation: Observation | None,
) -> Captured:
    """Make the session that a host's session is recorded in, with its cursor.

    A session that the same process turned into another (a fork) goes on from the entry that its agent knows; one that
    it began after another continues that; any other continues the chat of this checkout that was touched last.
    """
    with controller.store.read() as connection:
        before = None if process is None else rows.captured_by_process(connection, event.host, process)
        is_fork = before is not None and _is_fork(event, before)
        if before is not None:
            parent: str | None = before.session_id
        elif event.source in {None, Source.RESUME, Source.COMPACT}:
            parent = None  # it has a past of its own, which was not captured
        else:
            parent = _predecessor(connection, workspace.id)

    def run(recording: RecordingTransaction) -> Captured:
        connection = recording.tx.connection
        stamp = UNSTAMPED if observation is None else observation.stamp
        if observation is not None:
            save_state(recording.tx, observation, recording.moment)
        relation: ParentRelation | None = None
        if parent is not None:
            relation = "forked" if is_fork else "continued"
        new = NewSession(
            workspace_id=workspace.id,
            harness=event.host,
            parent_session_id=parent,
            parent_relation=relation,
        )
        made = Captured(
            host=event.host,
            native_id=event.session,
            session_id="",
            workspace_id=workspace.id,
            started_at=recording.moment,
            last_event_at=recording.moment,
            transcript=event.transcript,
            process=process,
        )
        if before is not None and is_fork:
            leaf = before.base_entry_id or cursor_leaf(connection, before.session_id, before.cursor)
            session = recording.create_session(new, stamp) if leaf is None else recording.fork(leaf, new, stamp)
            # What the first of the two was told at its start was told to this one, who goes on in its place.
            made = replace(made, base_entry_id=before.base_entry_id, told_key=before.told_key, is_fresh=before.is_fresh)
            made = replace(made, told_person_key=before.told_person_key, owed_text=before.owed_text)
            rows.update_captured(
                connection, replace(before, told_key=None, told_person_key=None, owed_text=None, process=None)
            )
        else:
            session = recording.create_session(new, stamp)
        made = replace(made, session_id=session.id)
        recording.open_cursor(session.id, made.cursor)
        rows.add_captured(connection, made)
        return made

    return controller.recorder.transact(run)


def begin_subagent(
    controller: Controller, event: HostEvent, parent: Captured, observation: Observation | None
) -> Captured:
    """Make a worker of the agent tree, and its session, for a sub-agent of a host's session."""
    role = event.subagent_role or WORKER_ROLE

    def run(recording: RecordingTransaction) -> Captured:
        connection, moment = recording.tx.connection, recording.moment
        if observation is not None:
            save_state(recording.tx, observation, moment)
        above = agents.agent_of_session(connection, parent.session_id)
        if above is None:
            above = _agent(None, parent.session_id, ORCHESTRATOR_ROLE, event.host, moment)
            agents.add_agent(connection, above)
            recording.update_session(parent.session_id, agent_id=above.id)
        new = NewSession(
            kind="worker",
            workspace_id=parent.workspace_id,
            harness=event.host,
            label=role[:MAX_LABEL],
            parent_session_id=parent.session_id,
            parent_relation="delegated",
        )
        session = recording.create_session(new, UNSTAMPED if observation is None else observation.stamp)
        agent = _agent(above, session.id, role, event.host, moment)
        agents.add_agent(connection, agent)
        recording.update_session(session.id, agent_id=agent.id)
        made = Captured(
            host=event.host,
            native_id=native_id_of(event),
            session_id=session.id,
            workspace_id=parent.workspace_id,
            started_at=moment,
            last_event_at=moment,
            agent_id=agent.id,
            turn_id=parent.turn_id,
            transcript=event.subagent_transcript,
        )
        recording.open_cursor(session.id, made.cursor)
        rows.add_captured(connection, made)
        return made

    return controller.recorder.transact(run)


def native_id_of(event: HostEvent) -> str:
    """Return under which id an event's session, or its sub-agent, is recorded."""
    return event.session if event.subagent is None else f"{event.session}{SUBAGENT_MARK}{event.subagent}"


def _is_fork(event: HostEvent, before: Captured) -> bool:
    """Tell whether the process went on with the conversation under another id, rather than beginning a new one."""
    if event.moment is Moment.SESSION_STARTED:
        return event.source is Source.FORK
    return before.native_id != event.session


def _predecessor(connection: Connection, workspace_id: str) -> str | None:
    found = latest_chat(connection, workspace_id)
    return None if found is None else found.id


def _agent(parent: Agent | None, session_id: str, role: str, harness: str, moment: str) -> Agent:
    return Agent(
        id=f"a{secrets.token_hex(6)}",
        parent_agent_id=None if parent is None else parent.id,
        session_id=session_id,
        role=role,
        depth=ORCHESTRATOR_DEPTH if parent is None else parent.depth + 1,
        harness=harness,
        status="active",
        created_at=moment,
        updated_at=moment,
    )
