"""JSON Schemas from plain dataclasses: how a method's params are described, checked and built."""

from __future__ import annotations

import types
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, Field, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from bridge.foundation.canonical import canonical_bytes
from bridge.rpc.errors import InvalidParams
from bridge.rpc.roles import Role
from bridge.semantics.schemas import FieldError, field_errors, foreign_validator

P = TypeVar("P")

_TYPES: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean", Mapping: "object"}


def param(
    help_text: str,
    *,
    default: Any = MISSING,
    names: Names | None = None,
    roles: frozenset[Role] | None = None,
    **limits: Any,
) -> Any:
    """Return a dataclass field that is a parameter.

    Parameters
    ----------
    help_text
        What it is, for the published description.
    default
        Without one the parameter must be given.
    names
        What the text refers to, where an agent is held to its own.
    roles
        Who may give it; None for all who may call the method. For others there is no such parameter.
    limits
        Keywords of JSON Schema, such as ``minimum`` and ``maxLength``.
    """
    metadata = {"schema": {"description": help_text, **limits}, "names": names, "roles": roles}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


class Names(StrEnum):
    """What a parameter refers to."""

    SESSION = "session"
    ENTRY = "entry"
    TASK = "task"
    #: A result that may be cited.
    EVIDENCE = "evidence"
    #: A session to read notes of: one's own, or one that it continues.
    LINEAGE = "lineage"


def named_params(model: type[Any]) -> Mapping[str, Names]:
    """Return the parameters of a model that refer to something an agent is held to."""
    return _named_params(cast("Any", model))


@cache
def _named_params(model: Hashable) -> Mapping[str, Names]:
    return {item.name: item.metadata["names"] for item in _fields(model) if item.metadata["names"] is not None}


def withheld_params(model: type[Any], role: Role) -> frozenset[str]:
    """Return the parameters of a model that a role may not give."""
    return _withheld_params(cast("Any", model), role)


@cache
def _withheld_params(model: Hashable, role: Role) -> frozenset[str]:
    return frozenset(
        item.name
        for item in _fields(model)
        if item.metadata["roles"] is not None and role not in item.metadata["roles"]
    )


@cache
def _hints(model: type) -> dict[str, Any]:
    return get_type_hints(model)


@cache
def _schema_text(model: type, without: frozenset[str]) -> bytes:
    return canonical_bytes(schema_of(model, without=without))


def schema_of(model: type, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the JSON Schema of a params model: an object that takes its fields, but for some, and no others."""
    hints = _hints(model)
    taken = [item for item in _fields(model) if item.name not in without]
    properties = {item.name: _property(hints[item.name], item) for item in taken}
    required = [item.name for item in taken if item.default is MISSING]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def build(model: type[P], value: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> P:
    """Return a params model with the values of a call; fields in ``without`` are not known to this caller.

    Raises
    ------
    InvalidParams
        If they do not fit its schema; ``details["fields"]`` lists where.
    """
    if not value and _needs_nothing(cast("Any", model)):
        # What is called most often has no params; the defaults fit.
        return model()
    problems = field_errors(foreign_validator(_schema_text(cast("Any", model), without)), dict(value))
    # JSON Schema takes 1.0 for an integer; no parameter is a fraction, and what follows counts with them.
    problems += [_whole(name) for name, given in value.items() if isinstance(given, float) and not problems]
    if problems:
        first = problems[0]
        named = first["path"].lstrip("/") or "the whole"
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise InvalidParams(
            f"The params do not fit: {named} {first['message']}{more}. Nothing was called.",
            details={"fields": problems},
        )
    return model(**{name: tuple(given) if isinstance(given, list) else given for name, given in value.items()})


@cache
def _needs_nothing(model: Any) -> bool:
    return all(item.default is not MISSING for item in _fields(model))


def _whole(name: str) -> FieldError:
    return {"path": f"/{name}", "message": "must be written as an integer"}


def _fields(model: Any) -> tuple[Field[Any], ...]:
    return fields(model)


def _property(hint: Any, item: Field[Any]) -> dict[str, Any]:
    described = {**_type(hint), **item.metadata["schema"]}
    if item.default is not MISSING and item.default is not None:
        default = item.default
        described["default"] = list(default) if isinstance(default, tuple) else default
    return described


def _type(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if type(None) not in arguments:
            return {"type": [_TYPES[argument] for argument in arguments]}
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        described = _type(inner)
        return {**described, "type": [described["type"], "null"]}
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0])}
    return {"type": _TYPES[origin or hint]}
