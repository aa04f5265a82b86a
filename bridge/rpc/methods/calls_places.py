"""Calls about workspaces and agents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.control.places import (
    agent_named,
    agent_view,
    agents_page,
    observe_workspace,
    workspace_named,
    workspaces_page,
)
from bridge.control.relinking import relink_workspace
from bridge.control.sessions import initialise
from bridge.control.standpoint import find_session
from bridge.git.errors import NotARepository
from bridge.rpc.methods.calls import MAX_PAGE, PAGE, REFERENCE, Call
from bridge.rpc.methods.shapes import param

_PATH: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 4096}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWorkspacesParams:
    after: str | None = param("The id of the last one of the page before.", default=None, **REFERENCE)
    limit: int = param("At most so many.", default=PAGE, minimum=1, maximum=MAX_PAGE)
    removed: bool = param("Also those that were removed.", default=False)


def workspaces_list(call: Call, params: ListWorkspacesParams) -> dict[str, Any]:
    found, has_more = workspaces_page(
        call.controller, after=params.after, limit=params.limit, include_removed=params.removed
    )
    return {"workspaces": [one.to_json() for one in found], "hasMore": has_more}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceParams:
    workspace: str = param("Workspace, as id or as a path in it.", **_PATH)


def workspaces_show(call: Call, params: WorkspaceParams) -> dict[str, Any]:
    return workspace_named(call.controller, call.standpoint, params.workspace).to_json()


def workspaces_observe(call: Call, params: WorkspaceParams) -> dict[str, Any]:
    return observe_workspace(call.controller, call.standpoint, params.workspace).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class InitParams:
    path: str | None = param("A path in the checkout. Default: where the caller stands.", default=None, **_PATH)
    label: str | None = param("A name for people.", default=None, maxLength=200)


def workspaces_init(call: Call, params: InitParams) -> dict[str, Any]:
    done = initialise(call.controller, _path(call, params.path), label=params.label)
    return {**done.registration.workspace.to_json(), "registered": done.registration.is_new}


@dataclass(frozen=True, slots=True, kw_only=True)
class RelinkParams:
    path: str | None = param("A path in the checkout. Default: where the caller stands.", default=None, **_PATH)
    workspace: str | None = param("Id of the workspace that it is now.", default=None, **REFERENCE)


def workspaces_relink(call: Call, params: RelinkParams) -> dict[str, Any]:
    return relink_workspace(call.controller, _path(call, params.path), params.workspace).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAgentsParams:
    session: str | None = param("Only those of one session.", default=None, **REFERENCE)
    parent: str | None = param("Only the workers of one agent, by its id.", default=None, **REFERENCE)
    after: str | None = param("The id of the last one of the page before.", default=None, **REFERENCE)
    limit: int = param("At most so many.", default=PAGE, minimum=1, maximum=MAX_PAGE)


def agents_list(call: Call, params: ListAgentsParams) -> dict[str, Any]:
    session_id = None
    if params.session is not None:
        with call.controller.store.read() as connection:
            session_id = find_session(connection, call.standpoint, params.session)
    found, has_more = agents_page(
        call.controller, after=params.after, limit=params.limit, parent=params.parent, session_id=session_id
    )
    return {"agents": [agent_view(one) for one in found], "hasMore": has_more}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParams:
    agent: str = param("The agent's id.", **REFERENCE)


def agents_show(call: Call, params: AgentParams) -> dict[str, Any]:
    return dict(agent_view(agent_named(call.controller, params.agent)))


def _path(call: Call, path: str | None) -> Path:
    directory = call.standpoint.directory
    if path is not None:
        return Path(path) if directory is None else directory / path
    if directory is None:
        raise NotARepository("The caller stands in no folder, and no path was given. Nothing was changed.")
    return directory
