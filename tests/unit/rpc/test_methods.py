"""The table of methods is complete and says what the published description says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema_rs
import pytest

from bridge.foundation.canonical import FloatLiteral
from bridge.rpc import openrpc
from bridge.rpc.errors import InvalidParams
from bridge.rpc.methods import METHODS, Mode, Role
from bridge.rpc.shapes import build, param, schema_of

EVERY = sorted(METHODS)
EXPECTED = {
    *("$/cancel", "admin/ping"),
    *(f"sessions/{verb}" for verb in ("new", "list", "show", "append", "goto", "label", "fork", "log", "tree")),
    *("sessions/context", "sessions/search_session_entries", "delegations/list", "delegations/show"),
    *("references/resolve", "divergence/report", "integrity/verify", "integrity/root"),
}


def test_the_methods_are_these():
    assert set(METHODS) == EXPECTED


@pytest.mark.parametrize("name", EVERY)
def test_a_method_is_described(name):
    method = METHODS[name]
    assert method.summary
    assert not method.summary.endswith(".")
    assert Role.OPERATOR in method.roles
    for item in dataclasses.fields(method.params):
        assert item.metadata["schema"]["description"].endswith("."), item.name
    for schema in (schema_of(method.params), method.result):
        jsonschema_rs.validator_for(schema)
    assert len(set(method.errors)) == len(method.errors)


@pytest.mark.parametrize("name", EVERY)
def test_what_an_agent_may_call_is_about_one_session_it_can_be_held_to(name):
    method = METHODS[name]
    if Role.AGENT in method.roles and method.mode is not Mode.INLINE:
        session = schema_of(method.params)["properties"]["session"]
        assert session["type"] == ["string", "null"]


def test_the_description_has_every_method_with_its_params_and_roles():
    document = openrpc.document()
    described = {method["name"]: method for method in document["methods"]}
    assert set(described) == set(METHODS)
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
