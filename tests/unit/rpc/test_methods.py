"""The table of methods is complete and says what the published description says."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema_rs
import pytest

from bridge.foundation.canonical import FloatLiteral
from bridge.rpc.errors import InvalidParams
from bridge.rpc.methods import openrpc
from bridge.rpc.methods.shapes import Names, build, named_params, param, schema_of, withheld_params
from bridge.rpc.methods.table import METHODS, Mode, Role
from bridge.rpc.methods.table_controller import SOCKET_METHODS

EVERY = sorted(METHODS)
EXPECTED = {
    *("$/cancel", "admin/ping", "admin/status", "admin/doctor", "admin/database", "admin/check", "admin/usage"),
    *(f"sessions/{verb}" for verb in ("new", "list", "show", "append", "goto", "label", "fork", "log", "tree")),
    *(
        f"sessions/{verb}"
        for verb in ("context", "search_session_entries", "search_chats", "snapshot", "entry", "back", "branches")
    ),
    *("sessions/erase", "sessions/prune", "sessions/sync"),
    *("sessions/export", "sessions/import", "events/subscribe", "events/unsubscribe"),
    *(f"delegations/{verb}" for verb in ("list", "show", "request", "wait", "cancel", "preview", "adopt", "discard")),
    *(f"delegations/{verb}" for verb in ("send", "retry", "diff")),
    *("approvals/list", "approvals/decide", "quotas/list", "quotas/lift"),
    *(f"workspaces/{verb}" for verb in ("list", "show", "observe", "init", "relink")),
    *("references/read", "delegations/submit", "notes/add", "notes/read", "sessions/wake"),
    *("agents/list", "agents/show", "references/resolve", "divergence/report", "integrity/verify", "integrity/root"),
    "integrity/proof",
}


def test_the_methods_are_these():
    assert set(METHODS) == EXPECTED


def test_a_chat_is_found_over_rpc_by_the_index_alone():
    names = {item.name for item in dataclasses.fields(METHODS["sessions/search_chats"].params)}
    assert names == {"query", "all_workspaces", "workers", "typing", "time_zone", "limit", "offset"}


@pytest.mark.parametrize("name", EVERY)
def test_what_only_looks_may_be_given_up_and_what_changes_something_may_not(name):
    method = METHODS[name]
    if method.mode is Mode.READ:
        assert Role.OBSERVER in method.roles
    if method.mode in (Mode.CHANGE, Mode.ACT, Mode.START):
        assert Role.OBSERVER not in method.roles
    assert inspect.iscoroutinefunction(method.run) == (method.mode in (Mode.START, Mode.WAIT))


def test_the_methods_of_the_socket_alone_are_these():
    assert set(SOCKET_METHODS) == {"controller/status", "controller/stop", "commands/run"}
    assert not set(SOCKET_METHODS) & set(METHODS)


@pytest.mark.parametrize("name", [*EVERY, *SOCKET_METHODS])
def test_a_method_is_described(name):
    method = METHODS.get(name) or SOCKET_METHODS[name]
    assert method.summary
    assert not method.summary.endswith(".")
    assert Role.OPERATOR in method.roles
    for item in dataclasses.fields(method.params):
        assert item.metadata["schema"]["description"].endswith("."), item.name
    for schema in (schema_of(method.params), method.result):
        jsonschema_rs.validator_for(schema)
    assert len(set(method.errors)) == len(method.errors)


#: Params that name something, by their names; an agent's methods either declare what they name or have none of them.
NAMING = {"session": Names.SESSION, "entry": Names.ENTRY, "task": Names.TASK, "reference": Names.EVIDENCE}
NAMING |= {"turn": Names.ENTRY, "after": Names.ENTRY}
NAMING |= {"of": Names.LINEAGE, "from_session": None}
NAMING |= {"evidence": Names.EVIDENCE, "workspace": None, "parent": None, "agent": None}


@pytest.mark.parametrize("name", sorted(name for name, one in METHODS.items() if Role.AGENT in one.roles))
def test_what_an_agent_may_name_it_is_held_to(name):
    params = METHODS[name].params
    declared, withheld = named_params(params), withheld_params(params, Role.AGENT)
    for item in dataclasses.fields(params):
        if item.name in NAMING and item.name not in withheld:
            is_number = "int" in str(item.type)
            assert is_number or declared[item.name] is NAMING[item.name]
        if item.name == "before":
            assert declared[item.name] in (Names.ENTRY, Names.TASK)
    if Names.EVIDENCE in declared.values():
        assert "session" in declared


def test_the_description_has_every_method_with_its_params_and_roles():
    document = openrpc.document()
    described = {method["name"]: method for method in document["methods"]}
    assert set(described) == {*METHODS, *SOCKET_METHODS}
    assert {name for name, one in described.items() if one.get("x-doors") == ["socket"]} == set(SOCKET_METHODS)
    append = described["sessions/append"]
    assert append["paramStructure"] == "by-name"
    assert append["x-roles"] == ["operator"]
    assert {one["name"] for one in append["params"] if one["required"]} == {"session", "kind"}
    assert {"code": 50, "data": {"code": "head_moved"}} in [
        {key: error[key] for key in ("code", "data")} for error in append["errors"]
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    text: str = param("A text.", maxLength=3)
    count: int = param("A number.", default=1, minimum=0)
    flag: bool = param("A flag.", default=False)
    choice: Literal["a", "b"] = param("A choice.", default="a")
    names: tuple[str, ...] = param("Names.", default=("x",))
    thing: Mapping[str, Any] | None = param("An object.", default=None)


def test_a_schema_from_a_model():
    assert schema_of(Model) == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "A text.", "maxLength": 3},
            "count": {"type": "integer", "description": "A number.", "minimum": 0, "default": 1},
            "flag": {"type": "boolean", "description": "A flag.", "default": False},
            "choice": {"type": "string", "enum": ["a", "b"], "description": "A choice.", "default": "a"},
            "names": {"type": "array", "items": {"type": "string"}, "description": "Names.", "default": ["x"]},
            "thing": {"type": ["object", "null"], "description": "An object."},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_a_model_from_a_value():
    assert build(Model, {"text": "abc"}) == Model(text="abc")
    whole = build(Model, {"text": "", "count": 0, "names": ["y", "z"], "thing": {"n": FloatLiteral("1.50")}})
    assert whole.names == ("y", "z")
    assert whole.thing["n"].literal == "1.50"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({}, "/text"),
        ({"text": "abcd"}, "/text"),
        ({"text": None}, "/text"),
        ({"text": "a", "unheard_of": 1}, "/unheard_of"),
        ({"text": "a", "count": -1}, "/count"),
        ({"text": "a", "count": True}, "/count"),
        ({"text": "a", "count": "1"}, "/count"),
        ({"text": "a", "count": FloatLiteral("1.0")}, "/count"),
        ({"text": "a", "count": FloatLiteral("1.5")}, "/count"),
        ({"text": "a", "choice": "c"}, "/choice"),
        ({"text": "a", "names": [1]}, "/names/0"),
        ({"text": "a", "thing": []}, "/thing"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_field(value, path):
    with pytest.raises(InvalidParams) as caught:
        build(Model, value)
    assert [one["path"] for one in caught.value.details["fields"]] == [path]
