"""What the shapes of results are made of: fields, objects, lists."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
OPTIONAL_TEXT: Final[Schema] = {"type": ["string", "null"]}
NUMBER: Final[Schema] = {"type": "integer"}
OPTIONAL_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
FLAG: Final[Schema] = {"type": "boolean"}
ANY_OBJECT: Final[Schema] = {"type": "object"}


def record(description: str, **properties: Schema) -> Schema:
    """Return the schema of an object that always has some fields, and may have others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": sorted(properties),
    }


def or_null(shape: Schema) -> Schema:
    """Return the schema of a value that may be missing."""
    return {**shape, "type": [shape["type"], "null"]}


def listing(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}
