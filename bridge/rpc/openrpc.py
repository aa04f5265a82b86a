"""The published description of the methods (OpenRPC), made from the table."""

from __future__ import annotations

from typing import Any, Final

from bridge.rpc.messages import MAX_BATCH, MAX_MESSAGE_BYTES
from bridge.rpc.methods import METHODS, Method
from bridge.rpc.shapes import schema_of

OPENRPC_VERSION: Final = "1.3.2"
#: Version of the methods: raised when one is added; its first number when one changes so that callers break.
METHODS_VERSION: Final = "1.0.0"


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
                "status of that error, or one that JSON-RPC reserves. x-roles says who may call a method."
            ),
            "x-limits": {"message_bytes": MAX_MESSAGE_BYTES, "batch": MAX_BATCH},
        },
        "methods": [_method(method) for method in METHODS.values()],
    }


def _method(method: Method) -> dict[str, Any]:
    schema = schema_of(method.params)
    return {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": [_parameter(name, shape, schema["required"]) for name, shape in schema["properties"].items()],
        "result": {"name": "result", "schema": method.result},
        "errors": [
            {"code": cls.exit_status, "message": cls.summary, "data": {"code": cls.code}} for cls in method.errors
        ],
        "x-roles": sorted(str(role) for role in method.roles),
    }


def _parameter(name: str, shape: dict[str, Any], required: list[str]) -> dict[str, Any]:
    described = {key: value for key, value in shape.items() if key != "description"}
    return {"name": name, "description": shape["description"], "required": name in required, "schema": described}
