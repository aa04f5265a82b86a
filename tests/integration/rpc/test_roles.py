"""Every method for every role, with its own session and with a foreign one: generated from the table."""

from __future__ import annotations

import dataclasses
import itertools
import json

import jsonschema_rs
import pytest

from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation, DelegationStatus, Request
from bridge.conversations.models import EntryDraft, NewSession
from bridge.integrity.store import iterate_events
from bridge.rpc.methods.shapes import Names, named_params, withheld_params
from bridge.rpc.methods.table import METHODS
from bridge.rpc.reach import ACCESS_REFUSED
from bridge.rpc.roles import Role

#: A session, an entry, a task and a result, as ids that nobody has.
UNKNOWN = {
    Names.SESSION: "20260101-000000-ffff",
    Names.ENTRY: "20260101-000000-ffff-000001",
    Names.TASK: "d0123456789ab",
    Names.EVIDENCE: "20260101-000000-ffff-000001",
    Names.LINEAGE: "20260101-000000-ffff",
}
AGENTS = sorted(name for name, one in METHODS.items() if Role.AGENT in one.roles)


class Case:
    """A session with a task that has a result: what the params of a call may name."""

    def __init__(self, controller, label, workspace_id):
        recorder = controller.recorder
        self.session = recorder.create_session(NewSession(label=label, workspace_id=workspace_id)).id
        self.entry = recorder.append_now(
            self.session, EntryDraft(kind="user.message", payload={"text": "look at 1.50"})
        ).id
        result = {"delegation_id": "d" + "0" * 12, "status": "completed", "summary": "done"}
        self.result = recorder.append_now(self.session, EntryDraft(kind="worker.result", payload=result)).id
        moment = controller.now()
        self.task = f"d{self.session[-4:]}{'0' * 8}"
        delegation = Delegation(
            id=self.task,
            plan_id=None,
            name=f"task-{label}",
            parent_session_id=self.session,
            status=DelegationStatus.COMPLETED,
            request=Request(name=f"task-{label}", objective="x"),
            created_at=moment,
            updated_at=moment,
            request_entry_id=self.entry,
            result_entry_id=self.result,
        )
        controller.store.write(lambda tx: rows.add_delegation(tx.connection, delegation))

    def named(self, kind):
        return {
            Names.SESSION: self.session,
            Names.ENTRY: self.entry,
            Names.TASK: self.task,
            Names.EVIDENCE: self.result,
            Names.LINEAGE: self.session,
        }[kind]


@pytest.fixture
def workspace(call):
    return call("workspaces/init")["id"]


@pytest.fixture
def own(controller, workspace):
    return Case(controller, "own", workspace)


@pytest.fixture
def foreign(controller, workspace):
    return Case(controller, "foreign", workspace)


def params_of(name, case, workspace, agent=None):
    """Return params with which a method succeeds."""
    session, entry = case.session, case.entry
    return {
        "$/cancel": {"id": 5},
        "sessions/new": {"parent": session},
        "sessions/list": {"everywhere": True, "kinds": []},
        "sessions/append": {"session": session, "kind": "note", "text": "n", "parent": entry, "hidden": True},
        "sessions/goto": {"session": session, "entry": entry},
        "sessions/label": {"entry": entry, "name": "start"},
        "sessions/fork": {"entry": entry},
        "sessions/log": {"session": session, "limit": 1},
        "sessions/search_session_entries": {"session": session, "query": "1.50"},
        "sessions/search_chats": {"query": "1.50"},
        "sessions/entry": {"entry": entry},
        "delegations/list": {"session": session},
        "delegations/request": {"session": session, "objective": "x", "command": ["true"]},
        "delegations/show": {"task": case.task},
        "delegations/send": {"task": case.task, "text": "hello"},
        "delegations/wait": {"task": case.task, "timeout_ms": 0},
        "references/resolve": {"reference": case.result, "session": session},
        "references/read": {"reference": case.result, "session": session},
        "delegations/submit": {"session": session, "result": {}},
        "notes/add": {"session": session, "text": "n"},
        "notes/read": {"session": session, "of": session},
        "sessions/wake": {"session": session},
        "divergence/report": {"session": session, "moment": "prompt"},
        "integrity/verify": {},
        "integrity/proof": {"entry": case.result},
        "events/subscribe": {"session": session},
        "workspaces/list": {},
        "workspaces/show": {"workspace": workspace},
        "workspaces/observe": {"workspace": workspace},
        "workspaces/init": {},
        "agents/list": {},
    }.get(name, {"session": session} if "session" in METHODS[name].params.__dataclass_fields__ else {})


#: What cannot succeed in this scene: its error says that it was let through.
FAILS = {
    "delegations/cancel": ("task_already_ended", {"task"}),
    "delegations/preview": (None, {"task"}),
    "delegations/adopt": ("nothing_to_adopt", {"task"}),
    "events/unsubscribe": ("subscription_not_found", {"subscription"}),
    "agents/show": ("agent_not_found", {"agent"}),
    "workspaces/relink": ("relink_refused", set()),
    "sessions/import": ("transcript_invalid", {"text"}),
    "delegations/discard": (None, {"task"}),
    "delegations/send": ("task_already_ended", {"task", "text"}),
    "delegations/retry": ("command_missing", {"task"}),
    "delegations/diff": ("task_not_running", {"task"}),
    "approvals/decide": ("approval_not_found", {"approval", "allow"}),
    "quotas/lift": ("quota_not_paused", set()),
    "delegations/submit": ("no_open_delegation", {"result"}),
}


def call_it(call, name, role, case, workspace):
    own = case.session if role is Role.AGENT else None
    params = params_of(name, case, workspace)
    if name not in FAILS:
        return call(name, role=role, own=own, **params)
    code, needed = FAILS[name]
    params = {key: {"task": case.task, "result": {}, "allow": True}.get(key, "x") for key in needed}
    if code is None:
        return call(name, role=role, own=own, **params)
    assert call(name, role=role, own=own, fails=True, **params)["data"]["code"] == code
    return None


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_comes_back_has_the_published_shape(call, own, workspace, name):
    result = call_it(call, name, Role.OPERATOR, own, workspace)
    if result is not None:
        jsonschema_rs.validator_for(METHODS[name].result).validate(result)


@pytest.mark.parametrize(("role", "name"), list(itertools.product(Role, sorted(METHODS))))
def test_each_role_calls_what_the_table_lets_it_and_nothing_else(call, own, workspace, role, name):
    if role in METHODS[name].roles:
        call_it(call, name, role, own, workspace)
        return
    bound = own.session if role is Role.AGENT else None
    refused = call(name, role=role, own=bound, fails=True, **params_of(name, own, workspace))
    assert refused["code"] == -32601
    assert refused["data"]["details"]["reason"] == ("unknown" if role is Role.AGENT else "not_permitted")


def named_cases():
    for name in AGENTS:
        for param, kind in named_params(METHODS[name].params).items():
            yield name, param, kind


def with_named(name, param, value, params):
    is_list = "tuple" in str(METHODS[name].params.__dataclass_fields__[param].type)
    return {**params, param: [value] if is_list else value}


@pytest.mark.parametrize(("name", "param", "kind"), list(named_cases()))
def test_what_is_foreign_is_refused_like_what_nobody_has(call, controller, own, foreign, workspace, name, param, kind):
    params = params_of(name, own, workspace)
    told = []
    for reference in (foreign.named(kind), UNKNOWN[kind]):
        given = with_named(name, param, reference, params)
        error = call(name, role=Role.AGENT, own=own.session, fails=True, **given)
        told.append(json.dumps(error).replace(reference, "X"))
    assert told[0] == told[1]
    refusals = events(controller, own.session, ACCESS_REFUSED)
    assert [one["method"] for one in refusals] == [name, name]
    assert [one["reference"] for one in refusals] == [foreign.named(kind), UNKNOWN[kind]]
    assert events(controller, foreign.session, ACCESS_REFUSED) == []


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        (Names.SESSION, "foreign"),
        (Names.TASK, "task-foreign"),
        (Names.TASK, "d"),
        (Names.TASK, "p1/task-foreign"),
        (Names.EVIDENCE, "task-foreign"),
        (Names.ENTRY, "start"),
    ],
)
def test_names_of_others_mean_nothing(call, controller, own, foreign, kind, reference):
    controller.recorder.label(foreign.session, foreign.entry, "start")
    name, param = {
        Names.SESSION: ("sessions/show", "session"),
        Names.TASK: ("delegations/show", "task"),
        Names.EVIDENCE: ("references/resolve", "reference"),
        Names.ENTRY: ("sessions/entry", "entry"),
    }[kind]
    error = call(name, role=Role.AGENT, own=own.session, fails=True, **{param: reference})
    nobody = call(name, role=Role.AGENT, own=own.session, fails=True, **{param: "nobodys"})
    told = [json.dumps(one).replace(json.dumps(name), '"X"') for one, name in ((error, reference), (nobody, "nobodys"))]
    assert [one.replace(f"'{name}'", "X") for one, name in zip(told, (reference, "nobodys"), strict=True)] == [
        told[0].replace(f"'{reference}'", "X")
    ] * 2


def test_its_own_by_any_name(call, controller, own, foreign):
    controller.recorder.label(own.session, own.entry, "start")
    agent = {"role": Role.AGENT, "own": own.session}
    for reference in (own.session, own.session[-4:], "own", "@"):
        assert call("sessions/show", session=reference, **agent)["id"] == own.session
    assert call("sessions/show", **agent)["id"] == own.session
    for reference in (own.entry, "1", "@.1", "start"):
        assert call("sessions/entry", entry=reference, **agent)["id"] == own.entry
    for reference in (own.task, own.task[:6], "task-own"):
        assert call("delegations/show", task=reference, **agent)["id"] == own.task
    for reference in (own.result, "2", "task-own"):
        assert call("references/resolve", reference=reference, **agent)["reference"] == own.result
    assert [one["id"] for one in call("delegations/list", **agent)["delegations"]] == [own.task]


def test_a_name_that_others_use_too_is_its_own(call, controller, own, foreign):
    moment = controller.now()
    for number, case in enumerate((own, foreign)):
        same = Delegation(
            id=f"d{number}{'a' * 11}",
            plan_id=None,
            name="same",
            parent_session_id=case.session,
            status=DelegationStatus.QUEUED,
            request=Request(name="same", objective="x"),
            created_at=moment,
            updated_at=moment,
        )
        controller.store.write(lambda tx, same=same: rows.add_delegation(tx.connection, same))
    found = call("delegations/show", task="same", role=Role.AGENT, own=own.session)
    assert found["id"] == f"d0{'a' * 11}"


def test_a_worker_reads_what_its_parent_can_cite(call, controller, own, foreign):
    new = NewSession(kind="worker", parent_session_id=own.session, parent_relation="delegated")
    worker = controller.recorder.create_session(new).id
    agent = {"role": Role.AGENT, "own": worker}
    found = call("references/resolve", reference=own.result, **agent)
    assert (found["reference"], found["session_id"]) == (own.result, own.session)
    # Nothing else of its parent, and nothing once the parent has left that branch.
    unknown = call("references/resolve", reference=UNKNOWN[Names.EVIDENCE], fails=True, **agent)
    for reference in (own.entry, foreign.result):
        refused = call("references/resolve", reference=reference, fails=True, **agent)
        assert json.dumps(refused).replace(reference, "X") == json.dumps(unknown).replace(UNKNOWN[Names.EVIDENCE], "X")
    assert call("sessions/entry", entry=own.result, fails=True, **agent)["data"]["code"] == "entry_not_found"
    controller.recorder.move_head(own.session, own.entry)
    refused = call("references/resolve", reference=own.result, fails=True, **agent)
    assert refused["data"]["code"] == "reference_not_found"
    # One that merely goes on from a session is no worker of it.
    continued = NewSession(parent_session_id=foreign.session, parent_relation="continued")
    other = controller.recorder.create_session(continued).id
    refused = call("references/resolve", reference=foreign.result, fails=True, role=Role.AGENT, own=other)
    assert refused["data"]["code"] == "reference_not_found"


def test_a_method_that_is_not_for_agents_is_recorded_as_refused(call, controller, own):
    for name in ("sessions/list", "no/such"):
        call(name, role=Role.AGENT, own=own.session, fails=True)
    assert [one["method"] for one in events(controller, own.session, ACCESS_REFUSED)] == ["sessions/list", "no/such"]
    call("no/such", role=Role.OBSERVER, fails=True)
    assert len(events(controller, own.session, ACCESS_REFUSED)) == 2


def test_an_agent_that_is_refused_over_and_over_does_not_fill_the_store(call, controller, own):
    # Each call is a connection of its own: a new one is no fresh start.
    for _ in range(85):
        call("sessions/list", role=Role.AGENT, own=own.session, fails=True)
    counts = [one["count"] for one in events(controller, own.session, ACCESS_REFUSED)]
    assert counts == [*range(1, 21), 40, 80]


def test_params_that_are_not_for_agents_do_not_exist_for_them(call, own, workspace):
    withheld = {name: withheld_params(METHODS[name].params, Role.AGENT) for name in AGENTS}
    assert {name for name, params in withheld.items() if params} == {
        "events/subscribe",
        "sessions/search_session_entries",
        "sessions/wake",
    }
    for value in (workspace, "w000000000000"):
        error = call("events/subscribe", workspace=value, role=Role.AGENT, own=own.session, fails=True)
        assert error["data"]["details"]["fields"] == [{"path": "/workspace", "message": "is not a known field"}]
    assert "subscription" in call("events/subscribe", workspace=workspace)


def test_what_is_recorded_of_a_refusal_is_masked_and_bounded(call, controller, own):
    secret = "ghp_" + "a1B2" * 9
    call("sessions/show", session=secret, role=Role.AGENT, own=own.session, fails=True)
    call("n" * 5000, role=Role.AGENT, own=own.session, fails=True)
    first, second = events(controller, own.session, ACCESS_REFUSED)
    assert secret not in first["reference"]
    assert len(second["method"]) == 200


def events(controller, chain, event_type):
    with controller.store.read() as connection:
        found = [one for one in iterate_events(connection, chain) if one.event_type == event_type]
    return [json.loads(one.body)["body"] for one in found]


def test_every_model_is_a_frozen_dataclass():
    for method in METHODS.values():
        assert dataclasses.is_dataclass(method.params)
