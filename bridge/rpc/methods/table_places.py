"""The table's part about workspaces, agents and the controller itself."""

from __future__ import annotations

from typing import Final

from bridge.control.errors import AgentNotFound
from bridge.git.errors import BareRepository, GitFailed, NotARepository
from bridge.rpc.methods import calls_admin, calls_places, results
from bridge.rpc.methods.calls_connection import Nothing
from bridge.rpc.methods.method import REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import READERS, WRITERS
from bridge.workspaces.errors import RelinkRefused, WorkspaceNotFound

PLACE_TABLE: Final = (
    Method(
        "workspaces/list",
        "List workspaces in the order of their registration",
        calls_places.ListWorkspacesParams,
        results.WORKSPACES,
        calls_places.workspaces_list,
        READERS,
        (WorkspaceNotFound,),
        Mode.READ,
    ),
    Method(
        "workspaces/show",
        "Show a workspace",
        calls_places.WorkspaceParams,
        results.WORKSPACE,
        calls_places.workspaces_show,
        READERS,
        (WorkspaceNotFound,),
        Mode.READ,
    ),
    Method(
        "workspaces/observe",
        "Look at the files of a workspace as they are now; nothing is recorded",
        calls_places.WorkspaceParams,
        results.OBSERVED,
        calls_places.workspaces_observe,
        READERS,
        (WorkspaceNotFound,),
        Mode.READ,
    ),
    Method(
        "workspaces/init",
        "Register a checkout as a workspace; nothing is written into it",
        calls_places.InitParams,
        results.REGISTERED,
        calls_places.workspaces_init,
        WRITERS,
        (NotARepository, BareRepository, GitFailed),
        Mode.CHANGE,
    ),
    Method(
        "workspaces/relink",
        "Let a moved or cloned repository stand for the workspace it was",
        calls_places.RelinkParams,
        results.RELINKED,
        calls_places.workspaces_relink,
        WRITERS,
        (NotARepository, BareRepository, GitFailed, WorkspaceNotFound, RelinkRefused),
        Mode.CHANGE,
    ),
    Method(
        "agents/list",
        "List agents in the order of their making",
        calls_places.ListAgentsParams,
        results.AGENTS,
        calls_places.agents_list,
        READERS,
        (*REFERENCE_ERRORS, AgentNotFound),
        Mode.READ,
    ),
    Method(
        "agents/show",
        "Show an agent",
        calls_places.AgentParams,
        results.AGENT,
        calls_places.agents_show,
        READERS,
        (AgentNotFound,),
        Mode.READ,
    ),
    Method(
        "admin/status",
        "Say what this controller is and which delegations have not ended",
        Nothing,
        results.STATUS,
        calls_admin.admin_status,
        READERS,
        (),
        Mode.READ,
    ),
    Method(
        "admin/doctor",
        "Say which programs and which disk the controller stands on",
        Nothing,
        results.MACHINE,
        calls_admin.admin_doctor,
        READERS,
        (),
        Mode.READ,
    ),
    Method(
        "admin/database",
        "Say what the store is",
        Nothing,
        results.DATABASE,
        calls_admin.admin_database,
        READERS,
        (),
        Mode.READ,
    ),
    Method(
        "admin/check",
        "Check the database and every session, and set damaged ones aside",
        Nothing,
        results.CHECKED,
        calls_admin.admin_check,
        WRITERS,
        (),
        Mode.ACT,
    ),
    Method(
        "admin/usage",
        "Count what the store holds",
        Nothing,
        results.USAGE,
        calls_admin.admin_usage,
        READERS,
        (),
        Mode.READ,
    ),
)
