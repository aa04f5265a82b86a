"""The published JSON Schemas as Bridge itself uses them: found, compiled once, asked for named field errors.

Schemas refer to each other by ``bridge://schema/…`` ids, which resolve to files of the same installation and
to nothing else: validation never touches the network.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from bridge.foundation.canonical import canonical_bytes
from bridge.semantics.errors import SchemaMissing

if TYPE_CHECKING:
    import jsonschema_rs

#: What every ``$id`` of a published schema begins with; the rest is the path below ``schema/``.
ID_PREFIX = "bridge://schema/"
#: Field errors reported at most for one value; a value wrong all over is not listed in full.
MAX_FIELD_ERRORS = 20
#: Longest message, and longest path, of one field error, in characters.
MAX_MESSAGE_CHARACTERS = 300
#: Steps that one regular expression of a schema may take on one string before it counts as not matching.
MAX_PATTERN_STEPS = 100_000
#: Compiled schemas of delegations kept for reuse.
CACHED_FOREIGN_SCHEMAS = 64

#: One thing wrong with a value: ``{"path": <JSON pointer>, "message": <text>}``.
FieldError: TypeAlias = dict[str, str]

_TYPE_NAMES = {
    "string": "a string",
    "object": "an object",
    "array": "an array",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


@cache
def schema_root() -> Path:
    """Return the directory that holds the published schemas: in the package, else beside it in a source checkout."""
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "schema", package.parent / "schema"):
        if (candidate / "semantic").is_dir():
            return candidate
    raise SchemaMissing(f"No schema directory was found in {str(package)!r} or beside it.")


def load_schema(name: str) -> dict[str, Any]:
    """Return a published schema by its path below ``schema/`` without ``.json`` (``worker-result/v2``).

    Raises
    ------
    SchemaMissing
        If the file is not there or not a JSON object.
    """
    path = schema_root() / f"{name}.json"
    try:
        schema = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise SchemaMissing(f"The schema {name!r} cannot be read: {error}.", details={"schema": name}) from error
    if not isinstance(schema, dict):
        raise SchemaMissing(f"The schema {name!r} is not a JSON object.", details={"schema": name})
    return schema


def _retrieve(uri: str) -> dict[str, Any]:
    name = uri.removeprefix(ID_PREFIX).removesuffix(".json")
    if not uri.startswith(ID_PREFIX) or ".." in name:
        raise SchemaMissing(f"The schema {uri!r} is not one of Bridge's own.", details={"schema": uri})
    return load_schema(name)


@cache
def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    """Return the compiled validator of a published schema; compiled at the first call, then shared.

    Parameters
    ----------
    name
        Path below ``schema/`` without ``.json``, such as ``semantic/v2/user.message``.

    Raises
    ------
    SchemaMissing
        If the schema does not exist in this installation.
    """
    import jsonschema_rs  # 15 ms that a command which validates nothing does not spend

    return jsonschema_rs.Draft202012Validator(
        load_schema(name), retriever=_retrieve, pattern_options=_pattern_options(), validate_formats=False
    )


@lru_cache(maxsize=CACHED_FOREIGN_SCHEMAS)
def foreign_validator(schema_text: bytes) -> jsonschema_rs.Validator:
    """Return the validator of a schema that is not Bridge's own, given as JSON text; references stay inside it.

    Raises
    ------
    jsonschema_rs.ValidationError
        If it is not a JSON Schema, or refers to anything outside itself.
    """
    import jsonschema_rs  # as in validator()

    return jsonschema_rs.validator_for(
        orjson.loads(schema_text), offline=True, pattern_options=_pattern_options(), validate_formats=False
    )


def _pattern_options() -> Any:
    import jsonschema_rs  # as in validator()

    return jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_PATTERN_STEPS)


def is_valid(compiled: jsonschema_rs.Validator, value: Any) -> bool:
    """Return whether a JSON value made of the exact built-in types, as :func:`plain_copy` gives it, fits a schema."""
    return compiled.is_valid(value)


def plain_copy(value: Any) -> Any:
    """Return a JSON value rebuilt from the exact built-in types. Raises as ``canonical_bytes``.

    A validator must not see anything else: a float that remembers its text is no number to it, and it says so by
    taking the value for invalid, or for valid where a schema forbids numbers.
    """
    return orjson.loads(canonical_bytes(value))


def field_errors(
    compiled: jsonschema_rs.Validator,
    value: Any,
    *,
    limit: int = MAX_FIELD_ERRORS,
    canonical: bytes | None = None,
) -> list[FieldError]:
    """Return what is wrong with a value, field by field, at most ``limit`` errors; empty if it is valid.

    Messages never quote the value, which may be large or secret.

    Parameters
    ----------
    canonical
        The value's canonical JSON, where the caller has made it already.

    Raises
    ------
    NotCanonical
        If the value is not plain JSON.
    """
    plain = plain_copy(value) if canonical is None else orjson.loads(canonical)
    if is_valid(compiled, plain):
        return []
    found: list[FieldError] = []
    for error in islice(compiled.iter_errors(plain), limit):
        found.extend(_describe(error))
    return found[:limit]


def pointer(path: list[str | int]) -> str:
    """Return a path of keys and indexes as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _describe(error: jsonschema_rs.ValidationError) -> list[FieldError]:
    path, kind = list(error.instance_path), error.kind.as_dict()
    match error.kind.name:
        case "required":
            return [_field([*path, kind["property"]], "is missing")]
        case "additionalProperties" | "unevaluatedProperties":
            return [_field([*path, name], "is not a known field") for name in kind["unexpected"]]
        case "anyOf" | "oneOf" if all(kind["context"]):
            closest = min(kind["context"], key=lambda errors: _distance(errors, len(path)))
            return [described for inner in closest for described in _describe(inner)]
        case name:
            return [_field(path, _wording(name, kind))]


def _distance(errors: list[jsonschema_rs.ValidationError], depth: int) -> tuple[bool, int]:
    """Return how far a value is from one of several alternatives: first whether it is not even of its type."""
    is_other_type = any(error.kind.name == "type" and len(error.instance_path) == depth for error in errors)
    return (is_other_type, len(errors))


def _wording(name: str, kind: dict[str, Any]) -> str:
    match name:
        case "type":
            return "must be " + _alternatives([words for item, words in _TYPE_NAMES.items() if item in kind["types"]])
        case "enum":
            return "must be " + _alternatives([_literal(item) for item in kind["options"]])
        case "const":
            return f"must be {_literal(kind['expected_value'])}"
        case "minLength" | "minItems" | "minProperties" if kind["limit"] == 1:
            return "must not be empty"
        case "minLength" | "minItems" | "minProperties" | "minimum" | "exclusiveMinimum":
            return f"is below its limit ({name} {_literal(kind['limit'])})"
        case "maxLength" | "maxItems" | "maxProperties" | "maximum" | "exclusiveMaximum":
            return f"is above its limit ({name} {_literal(kind['limit'])})"
        case "pattern":
            return f"does not match {kind['pattern']}"
        case "falseSchema":
            return "is not allowed"
        case _:
            return f"breaks the schema's rule {name!r}"


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _alternatives(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _field(path: list[str | int], message: str) -> FieldError:
    return {"path": _cut(pointer(path)), "message": _cut(message)}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 1] + "…"
