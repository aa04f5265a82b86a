"""Pages of the other two trees and of delegations, snapshots, and facts about the store, on both databases."""

from __future__ import annotations

import os
import secrets

import pytest

from bridge.agents.models import Agent
from bridge.agents.store import add_agent
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation, DelegationStatus, Request
from bridge.control.delegations.tasks import find_task, list_tasks
from bridge.control.errors import AgentNotFound, TaskNotFound
from bridge.control.facts import database_facts, machine_facts, status_facts, usage_facts
from bridge.control.feed import BEGINNING
from bridge.control.places import (
    agent_named,
    agents_page,
    observe_workspace,
    workspace_named,
    workspaces_page,
)
from bridge.control.reading.snapshots import session_snapshot
from bridge.control.sessions import initialise
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.workspaces.errors import WorkspaceNotFound
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus
from bridge.workspaces.store import insert_workspace, new_workspace_id, update_workspace


@pytest.fixture
def controller(bridge_home, database_url):
    settings = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": database_url})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


def pages(read):
    found, after = [], None
    while True:
        page, has_more = read(after)
        found += [one.id for one in page]
        if not has_more:
            return found
        after = page[-1].id


def add_workspace(controller, number, status=WorkspaceStatus.ACTIVE):
    # Two of them at the same moment: the id decides then.
    moment = f"2026-01-02T03:04:0{number // 2}.000000Z"
    made = Workspace(
        id=new_workspace_id(),
        kind=WorkspaceKind.REPOSITORY,
        parent_id=None,
        path=f"/nowhere/{number}",
        common_dir=None,
        repository_id=None,
        worktree_id=secrets.token_hex(8),
        base_commit=None,
        label=None,
        status=WorkspaceStatus.ACTIVE,
        kept_reason=None,
        created_at=moment,
        updated_at=moment,
    )
    controller.store.write(lambda tx: insert_workspace(tx, made))
    if status is not WorkspaceStatus.ACTIVE:
        controller.store.write(lambda tx: update_workspace(tx, made.id, moment, status=status))
    return made.id


def test_workspaces_page_by_page(controller):
    made = [add_workspace(controller, number) for number in range(5)]
    removed = add_workspace(controller, 5, WorkspaceStatus.REMOVED)
    for limit in (1, 2, 5, 6):
        found = pages(
            lambda after, limit=limit: workspaces_page(controller, after=after, limit=limit, include_removed=False)
        )
        assert sorted(found) == sorted(made)
        assert found == pages(lambda after: workspaces_page(controller, after=after, limit=9, include_removed=False))
    everything, _ = workspaces_page(controller, after=None, limit=9, include_removed=True)
    assert removed in [one.id for one in everything]
    with pytest.raises(WorkspaceNotFound):
        workspaces_page(controller, after="w000000000000", limit=1, include_removed=False)


def test_agents_page_by_page(controller):
    made = []
    for number in range(5):
        agent = Agent(
            id=f"a{number}",
            parent_agent_id=None if number == 0 else "a0",
            session_id=f"s{number % 2}",
            role="x",
            depth=min(number, 1),
            harness=None,
            status="active",
            created_at=f"2026-01-02T03:04:0{number // 2}.000000Z",
            updated_at="2026-01-02T03:04:05.000000Z",
        )
        controller.store.write(lambda tx, agent=agent: add_agent(tx.connection, agent))
        made.append(agent.id)

    def read(after, limit, **where):
        return agents_page(controller, after=after, limit=limit, **{"parent": None, "session_id": None, **where})

    for limit in (1, 2, 5):
        assert pages(lambda after, limit=limit: read(after, limit)) == made
    assert pages(lambda after: read(after, 2, parent="a0")) == made[1:]
    assert pages(lambda after: read(after, 1, session_id="s1")) == ["a1", "a3"]
    assert agent_named(controller, "a3").parent_agent_id == "a0"
    for wrong in ({"after": "a9", "limit": 1}, {"after": None, "limit": 1, "parent": "a9"}):
        with pytest.raises(AgentNotFound):
            read(**wrong)
    with pytest.raises(AgentNotFound):
        agent_named(controller, "a9")


def test_delegations_page_by_page_and_by_session(controller):
    sessions = [controller.recorder.create_session(NewSession()).id for _ in range(2)]
    made = []
    for number in range(6):
        delegation = Delegation(
            id=f"d{number}{'0' * 11}",
            plan_id=None,
            name="same",
            parent_session_id=sessions[number % 2],
            status=DelegationStatus.QUEUED,
            request=Request(name="same", objective="x"),
            created_at=f"2026-01-02T03:04:0{number // 2}.000000Z",
            updated_at="2026-01-02T03:04:05.000000Z",
        )
        controller.store.write(lambda tx, delegation=delegation: rows.add_delegation(tx.connection, delegation))
        made.append(delegation.id)
    found, before = [], None
    while page := list_tasks(controller, before=before, limit=2):
        found = [*[one.id for one in page], *found]
        before = page[0].id
    assert found == made
    with pytest.raises(TaskNotFound):
        list_tasks(controller, before="nope")
    with controller.store.read() as connection:
        assert find_task(connection, "same").id == made[5]
        assert find_task(connection, "same", session_id=sessions[0]).id == made[4]
        with pytest.raises(TaskNotFound):
            find_task(connection, made[5], session_id=sessions[0])


def test_a_snapshot_is_of_one_moment_and_goes_on_by_sequence(controller):
    session = controller.recorder.create_session(NewSession()).id
    empty = session_snapshot(controller, Standpoint(), session, after=None, limit=3)
    assert (empty.entries, empty.has_more) == ((), False)
    entries = [
        controller.recorder.append_now(session, EntryDraft(kind="note", payload={"text": str(number)}))
        for number in range(5)
    ]
    controller.recorder.label(session, entries[4].id, "last")
    last = session_snapshot(controller, Standpoint(), session, after=None, limit=2)
    assert [one.sequence for one in last.entries] == [4, 5]
    assert last.to_json()["entries"][1]["labels"] == ["last"]
    assert last.to_json()["active_entry_id"] == entries[4].id
    first = session_snapshot(controller, Standpoint(), session, after=0, limit=2)
    assert ([one.sequence for one in first.entries], first.has_more) == ([1, 2], True)
    rest = session_snapshot(controller, Standpoint(), session, after=2, limit=3)
    assert ([one.sequence for one in rest.entries], rest.has_more) == ([3, 4, 5], False)
    assert session_snapshot(controller, Standpoint(), session, after=5, limit=3).entries == ()
    assert BEGINNING not in (first.event_cursor, empty.event_cursor)
    assert first.event_cursor == last.event_cursor != empty.event_cursor


def test_a_workspace_as_it_is_now(controller, repository):
    workspace = initialise(controller, repository.path).registration.workspace
    here = Standpoint(directory=repository.path)
    assert workspace_named(controller, here, ".").id == workspace.id
    clean = observe_workspace(controller, here, workspace.id).to_json()
    assert (clean["clean"], clean["paths"]) == (True, [])
    (repository.path / "loose.txt").write_text("x")
    loose = observe_workspace(controller, here, str(repository.path)).to_json()
    assert (loose["clean"], loose["paths"], loose["omitted"]) == (False, ["loose.txt"], 0)
    assert loose["stamp"]["head"] == clean["stamp"]["head"]


def test_facts_about_the_store(controller, database_url):
    controller.recorder.create_session(NewSession())
    assert usage_facts(controller)["rows"]["sessions"] == 1
    assert usage_facts(controller)["rows"]["event_order"] == 1
    found = database_facts(controller)
    assert found["database"] == controller.store.database
    assert (found["size_bytes"] is None) == (controller.store.database == "postgresql")
    assert status_facts(controller)["pid"] == os.getpid()
    assert status_facts(controller)["open_delegations"] == []
    assert machine_facts(controller)["git"].startswith("git version")
    # No password of a server in anything that is shown.
    assert "://" not in found["place"] or ":***@" in found["place"]
