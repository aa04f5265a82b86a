"""Looking at the other two trees: workspaces and agents, page by page, and a workspace's files at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.agents import store as agents
from bridge.agents.models import Agent
from bridge.control.controller import Controller
from bridge.control.errors import AgentNotFound
from bridge.control.standpoint import Standpoint, find_workspace_named
from bridge.conversations.models import stamp_to_json
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.workspaces.models import Workspace, WorkspaceStatus
from bridge.workspaces.store import list_workspaces

#: Paths that differ from HEAD which an observation names; the others are counted.
MAX_PATHS = 200


@dataclass(frozen=True, slots=True)
class Observed:
    """A workspace and what its files are now."""

    workspace: Workspace
    observation: Observation

    def to_json(self) -> dict[str, Any]:
        observation = self.observation
        state, manifest = observation.state, observation.manifest
        rows = () if manifest is None else manifest.rows
        return {
            "workspace": self.workspace.to_json(),
            "stamp": {**stamp_to_json(observation.stamp), **({} if state is None else state.to_json())},
            "clean": observation.is_clean,
            "paths": [plain_path(row.path) for row in rows[:MAX_PATHS]],
            "omitted": max(0, len(rows) - MAX_PATHS),
        }


def workspaces_page(
    controller: Controller, *, after: str | None, limit: int, include_removed: bool
) -> tuple[list[Workspace], bool]:
    """Return workspaces in the order of their creation behind one of them, and whether more follow.

    Raises
    ------
    WorkspaceNotFound
        If ``after`` is the id of none.
    """
    with controller.store.read() as connection:
        start = None if after is None else find_workspace_named(connection, after, None)
        statuses = [one for one in WorkspaceStatus if include_removed or one is not WorkspaceStatus.REMOVED]
        found = list_workspaces(connection, statuses=statuses, after=start, limit=limit + 1)
    return found[:limit], len(found) > limit


def workspace_named(controller: Controller, standpoint: Standpoint, reference: str) -> Workspace:
    """Return a workspace by its id or a path in it. Raises WorkspaceNotFound."""
    with controller.store.read() as connection:
        return find_workspace_named(connection, reference, standpoint.directory)


def observe_workspace(controller: Controller, standpoint: Standpoint, reference: str) -> Observed:
    """Return what the files of a workspace are now; nothing is recorded. Raises WorkspaceNotFound."""
    workspace = workspace_named(controller, standpoint, reference)
    return Observed(workspace, controller.observer.observe(workspace.folder))


def agents_page(
    controller: Controller, *, after: str | None, limit: int, parent: str | None, session_id: str | None
) -> tuple[list[Agent], bool]:
    """Return agents in the order of their creation behind one of them, and whether more follow.

    Raises
    ------
    AgentNotFound
        If ``after`` or ``parent`` is the id of none.
    """
    with controller.store.read() as connection:
        start = None if after is None else _require(agents.agent_by_id(connection, after), after)
        if parent is not None:
            _require(agents.agent_by_id(connection, parent), parent)
        found = agents.list_agents(connection, after=start, limit=limit + 1, parent=parent, session_id=session_id)
    return found[:limit], len(found) > limit


def agent_named(controller: Controller, agent_id: str) -> Agent:
    """Return an agent by its id.

    Raises
    ------
    AgentNotFound
        If there is none.
    """
    with controller.store.read() as connection:
        return _require(agents.agent_by_id(connection, agent_id), agent_id)


def agent_view(agent: Agent) -> Mapping[str, Any]:
    """Return an agent as every door shows it."""
    return {
        "id": agent.id,
        "parent_agent_id": agent.parent_agent_id,
        "session_id": agent.session_id,
        "role": agent.role,
        "depth": agent.depth,
        "harness": agent.harness,
        "status": agent.status,
        "created_at": agent.created_at,
        "updated_at": agent.updated_at,
    }


def _require(agent: Agent | None, agent_id: str) -> Agent:
    if agent is None:
        raise AgentNotFound(f"There is no agent {agent_id[:80]!r}.", details={"agent_id": agent_id[:200]})
    return agent
