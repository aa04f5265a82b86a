"""Beginning an orchestration: everything is checked first, then session and orchestrator are recorded together.

Blocking; run in a helper thread.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from bridge.agents import store as agents
from bridge.agents.models import ORCHESTRATOR_ROLE, Agent
from bridge.agents.policy_file import WorkspacePolicy
from bridge.agents.policy_model import ORCHESTRATOR_DEPTH, PolicyLimits
from bridge.control.controller import Controller
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.model import Request
from bridge.control.delegations.requesting import Orchestration, check_startable
from bridge.control.delegations.steering.surveying import policy_of
from bridge.control.recording import RecordingTransaction
from bridge.conversations.forest import require_session
from bridge.conversations.models import NewSession
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import save_state

#: Harness named for a session in which a plan, not a language model, orchestrates.
PLAN_HARNESS = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What an orchestration begins with; see :class:`bridge.control.plans.scheduling.PlanRequest` for the fields.

    ``limits`` None leaves them to the workspace's policy, within which ``max_running`` and ``attempts`` count.
    """

    workspace: Workspace
    session_id: str | None
    label: str | None
    dirty: DirtyMode
    requests: tuple[Request, ...] = ()
    limits: PolicyLimits | None = None
    max_running: int | None = None
    attempts: int = 1


def begin(controller: Controller, start: Start) -> Orchestration:
    """Check that the requests can start, then make or take the session and its orchestrator agent.

    Raises
    ------
    SessionNotFound
        If the given session does not exist.
    InvalidConfiguration
        If the policy in ``bridge.toml`` or ``config.toml`` cannot be used.
    BaseUnavailable, UncommittedWork, ReferenceNotFound, InvalidOutputSchema, …
        What :func:`bridge.control.delegations.requesting.check_startable` raises; nothing is recorded then.
    """
    if start.session_id is not None:
        with controller.store.read() as connection:
            require_session(connection, start.session_id)
    policy = policy_of(controller, start.workspace)
    observation = check_startable(
        controller, start.workspace.folder, start.session_id, dirty=start.dirty, requests=start.requests
    )
    known: Agent | None = None
    if start.session_id is None:
        controller.keeper.keep(observation)
    else:
        with controller.store.read() as connection:
            known = agents.agent_of_session(connection, start.session_id)

    def record(recording: RecordingTransaction) -> tuple[str, Agent]:
        connection, moment = recording.tx.connection, recording.moment
        session_id = start.session_id
        if session_id is None:
            save_state(recording.tx, observation, moment)
            new = NewSession(workspace_id=start.workspace.id, harness=PLAN_HARNESS, label=start.label)
            session_id = recording.create_session(new, observation.stamp).id
        agent = agents.agent_of_session(connection, session_id)
        if agent is None:
            agent = Agent(
                id=f"a{secrets.token_hex(6)}",
                parent_agent_id=None,
                session_id=session_id,
                role=ORCHESTRATOR_ROLE,
                depth=ORCHESTRATOR_DEPTH,
                harness=PLAN_HARNESS,
                status="active",
                created_at=moment,
                updated_at=moment,
            )
            agents.add_agent(connection, agent)
            recording.update_session(session_id, agent_id=agent.id)
        return session_id, agent

    if known is not None and start.session_id is not None:
        session_id, agent = start.session_id, known
    else:
        session_id, agent = controller.recorder.transact(record)
    return Orchestration(
        controller=controller,
        controller_id=controller.register(),
        session_id=session_id,
        agent=agent,
        workspace=start.workspace,
        dirty=start.dirty,
        limits=_limits(start, policy),
        policy=policy,
        checked=observation,
    )


def _limits(start: Start, policy: WorkspacePolicy) -> PolicyLimits:
    limits = policy.limits if start.limits is None else start.limits
    limits = replace(limits, max_attempts=max(limits.max_attempts, start.attempts))
    if start.max_running is None:
        return limits
    # A plan may want more at once than the default, but not more than somebody allowed.
    most = min(start.max_running, limits.max_running) if "max_running" in policy.stated else start.max_running
    return replace(limits, max_running=most)
