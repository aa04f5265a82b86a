"""Calls for operators: what runs, on what, and whether the store is sound."""

from __future__ import annotations

from typing import Any

from bridge.control.checks.upkeep import check_store
from bridge.control.facts import database_facts, machine_facts, status_facts, usage_facts
from bridge.rpc.methods.calls import Call
from bridge.rpc.methods.calls_connection import Nothing


def admin_status(call: Call, _params: Nothing) -> dict[str, Any]:
    return status_facts(call.controller)


def admin_doctor(call: Call, _params: Nothing) -> dict[str, Any]:
    return machine_facts(call.controller)


def admin_database(call: Call, _params: Nothing) -> dict[str, Any]:
    return database_facts(call.controller)


def admin_check(call: Call, _params: Nothing) -> dict[str, Any]:
    return check_store(call.controller).to_json()


def admin_usage(call: Call, _params: Nothing) -> dict[str, Any]:
    return usage_facts(call.controller)
