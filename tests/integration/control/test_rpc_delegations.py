"""Delegations and their results through JSON-RPC, after a real plan."""

from __future__ import annotations

import json

import anyio
import jsonschema_rs
import pytest

from bridge.control.standpoint import Standpoint
from bridge.rpc.methods.table import METHODS
from bridge.rpc.roles import Caller, Role
from tests.rpcclient import exchange

pytestmark = pytest.mark.usefixtures("database_url")

PLAN = """
[[worker]]
id = "one"
command = ["sh", "-c", "echo new > new.txt"]
objective = "write a file"

[[worker]]
id = "two"
command = ["true"]
objective = "do nothing"
"""


@pytest.fixture
def call(controller, repository):
    caller = Caller(Role.OPERATOR, Standpoint(directory=repository.path))

    def go(method, **params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = anyio.run(exchange, controller, caller, json.dumps(request).encode())
        if "result" in answer:
            jsonschema_rs.validator_for(METHODS[method].result).validate(answer["result"])
        return answer

    return go


def test_delegations_are_listed_shown_and_cited(world, call):
    outcome = world.run(PLAN)
    listed = call("delegations/list")["result"]
    assert [one["name"] for one in listed["delegations"]] == ["one", "two"]
    assert listed["hasMore"] is False
    shorter = call("delegations/list", limit=1)["result"]
    assert ([one["name"] for one in shorter["delegations"]], shorter["hasMore"]) == (["two"], True)
    assert call("delegations/list", plan="nope")["result"]["delegations"] == []
    shown = call("delegations/show", task="one")["result"]
    assert shown["status"] == "completed"
    cited = call("references/resolve", reference=shown["result_entry_id"])["result"]
    assert cited["payload"]["files_changed"] == ["new.txt"]
    other = call("sessions/new")["result"]["id"]
    refused = call("references/resolve", reference=shown["result_entry_id"], session=other)["error"]
    assert refused["data"]["code"] == "reference_foreign_session"
    left = call("sessions/goto", session=cited["session_id"], entry="1")
    assert "result" in left
    refused = call("references/resolve", reference=shown["result_entry_id"])["error"]
    assert refused["data"]["code"] == "reference_not_on_active_branch"
    assert outcome.is_completed
