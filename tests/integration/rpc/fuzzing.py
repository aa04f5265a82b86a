"""Calls made up from the published description: params that fit their schemas, and params that nearly do."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

#: Methods that start programs or may wait for ever get some params as they are.
FIXED: dict[str, dict[str, Any]] = {
    "delegations/request": {"command": ["true"], "timeout_seconds": 20},
    "delegations/wait": {"timeout_ms": 10},
}

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["", "\x00", "@", "1", "x" * 5000, "../..", "/", "0", "%s", "'; --", "\u202e"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("jsonrpc", "id", "method", "params", "meta")


def of_schema(schema: dict[str, Any], known: list[str]) -> st.SearchStrategy[Any]:
    """Return values that fit a schema of the kinds that params have; texts are often ids that exist."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or ["object"]
    return st.one_of([_of_type(kind, schema, known) for kind in kinds])


def _of_type(kind: str, schema: dict[str, Any], known: list[str]) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum", -(2**53)), schema.get("maximum", 2**53)
    longest = min(schema.get("maxLength", 40), 60)
    return {
        "null": st.none,
        "boolean": st.booleans,
        "integer": lambda: st.sampled_from([low, high, max(low, min(high, 1))]) | st.integers(low, high),
        "string": lambda: (
            st.sampled_from([one for one in known if len(one) <= schema.get("maxLength", 10**6)])
            | st.text(min_size=schema.get("minLength", 0), max_size=longest)
        ),
        "array": lambda: st.lists(of_schema(schema.get("items", {"type": "string"}), known), max_size=3),
        "object": lambda: st.dictionaries(st.text(max_size=10), JUNK, max_size=3),
    }[kind]()


def calls(method: dict[str, Any], known: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Return requests for one method of the document."""
    fixed = FIXED.get(method["name"], {})
    required, optional = {}, {}
    for one in method["params"]:
        if one["name"] not in fixed:
            (required if one["required"] else optional)[one["name"]] = of_schema(one["schema"], known)
    fitting = st.fixed_dictionaries(required, optional=optional).map(lambda params: {**params, **fixed})
    names = st.sampled_from([one["name"] for one in method["params"] if one["name"] not in fixed] or ["x"])
    mutated = st.tuples(fitting, names, JUNK).map(lambda made: {**made[0], made[1]: made[2]})
    extended = st.tuples(fitting, st.text(max_size=10), JUNK).map(lambda made: {made[1]: made[2], **made[0]})
    params = fitting | mutated | extended
    return params.map(lambda made: {"jsonrpc": "2.0", "id": 1, "method": method["name"], "params": made})


def messages(requests: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Return what may come over a wire: bytes, torn and nested JSON, requests with parts changed, batches."""
    request = requests | st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=5)
    changed = st.tuples(requests, st.sampled_from(NAMES), JUNK).map(lambda made: {**made[0], made[1]: made[2]})
    whole = (request | changed | st.lists(request | changed | JUNK, max_size=5) | JUNK).map(_encoded)
    torn = st.tuples(whole, st.integers(0, 200)).map(lambda made: made[0][: made[1]])
    deep = st.tuples(st.sampled_from([b"[", b'{"a":', b'{"params":[']), st.integers(1, 3000)).map(
        lambda made: made[0] * made[1]
    )
    numbers = st.integers(1, 5000).map(lambda count: b'{"jsonrpc":"2.0","id":' + b"9" * count + b',"method":"x"}')
    return st.binary(max_size=100) | whole | torn | deep | numbers


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")
