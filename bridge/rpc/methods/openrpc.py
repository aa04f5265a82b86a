"""The published description of the methods (OpenRPC), made from the table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from bridge.rpc.connection import DEFAULT, EVENT, LAGGED
from bridge.rpc.messages import MAX_BATCH, MAX_DEADLINE_MS, MAX_ID_CHARACTERS, MAX_MESSAGE_BYTES, MAX_RESULT_BYTES
from bridge.rpc.methods import results
from bridge.rpc.methods.shapes import schema_of, withheld_params
from bridge.rpc.methods.table import METHODS, Method
from bridge.rpc.methods.table_controller import SOCKET_METHODS, SocketMethod

OPENRPC_VERSION: Final = "1.3.2"
#: Version of the methods: raised when one is added; its first number when one changes so that callers break.
METHODS_VERSION: Final = "1.2.0"


def document() -> dict[str, Any]:
    """Return the OpenRPC document."""
    return {
        "openrpc": OPENRPC_VERSION,
        "info": {
            "title": "Bridge",
            "version": METHODS_VERSION,
            "description": (
                "JSON-RPC 2.0 over newline-delimited JSON. Params are given by name; unknown ones are refused. An "
                "error's data has code, hint and details, as the command line prints them; its code is the exit "
                "status of that error, or one that JSON-RPC reserves. x-roles says who may call a method, or give a "
                "parameter; x-mode how it runs; x-doors, where it is given, which doors "
                "alone have it."
                " A request may carry meta beside its params, with deadline_ms."
            ),
            "x-limits": {
                "message_bytes": MAX_MESSAGE_BYTES,
                "result_bytes": MAX_RESULT_BYTES,
                "batch": MAX_BATCH,
                "id_characters": MAX_ID_CHARACTERS,
                "deadline_ms": MAX_DEADLINE_MS,
                **{f"connection_{name}": value for name, value in asdict(DEFAULT).items()},
            },
        },
        "methods": [
            *(_method(method) for method in METHODS.values()),
            *(_method(method) | {"x-doors": ["socket"]} for method in SOCKET_METHODS.values()),
        ],
        "x-notifications": [
            {"name": EVENT, "summary": "An event of a subscription", "params": results.EVENT_NOTICE},
            {"name": LAGGED, "summary": "A subscription fell behind; what it missed follows", "params": results.LAGGED},
        ],
    }


def _method(method: Method | SocketMethod) -> dict[str, Any]:
    schema = schema_of(method.params)
    return {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": [
            _parameter(name, shape, schema["required"]) | _given_by(method, name)
            for name, shape in schema["properties"].items()
        ],
        "result": {"name": "result", "schema": method.result},
        "errors": [
            {"code": cls.exit_status, "message": cls.summary, "data": {"code": cls.code}} for cls in method.errors
        ],
        "x-roles": sorted(str(role) for role in method.roles),
        "x-mode": str(method.mode),
    }


def _given_by(method: Method | SocketMethod, name: str) -> dict[str, Any]:
    """Return who may give a parameter, where that is not everybody who may call the method."""
    given = sorted(str(role) for role in method.roles if name not in withheld_params(method.params, role))
    return {} if len(given) == len(method.roles) else {"x-roles": given}


def _parameter(name: str, shape: dict[str, Any], required: list[str]) -> dict[str, Any]:
    described = {key: value for key, value in shape.items() if key != "description"}
    return {"name": name, "description": shape["description"], "required": name in required, "schema": described}
