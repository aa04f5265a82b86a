"""Reading stored rows of any version: upcast, kept opaque, or refused by name; never reinterpreted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.semantics import interpretation
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import OpaqueReason, interpret, require_readable
from bridge.semantics.kinds import CURRENT_VERSION, KINDS, READABLE_VERSIONS
from bridge.semantics.registry import REGISTRY
from bridge.semantics.validation import validate
from bridge.semantics.versions.v2 import from_previous as upcast


def read(version: int, kind: str, payload: Any) -> interpretation.Interpretation:
    return interpret(version, kind, json.dumps(payload))


def test_a_current_row_means_what_it_says() -> None:
    assert read(2, "user.message", {"text": "hi"}) == interpretation.Interpretation("user.message", {"text": "hi"})


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("user.message", {"text": "hi"}, {"text": "hi"}),
        ("tool.started", {"toolId": "t", "name": "read"}, {"tool_call_id": "t", "name": "read"}),
        ("tool.completed", {"itemId": "t", "toolName": "read"}, {"tool_call_id": "t", "name": "read"}),
        (
            "tool.completed",
            {"itemId": "i", "toolId": "t", "name": "read"},
            {"tool_call_id": "t", "name": "read", "provider_meta": {"itemId": "i"}},
        ),
        ("approval.requested", {"approvalId": "a"}, {"approval_id": "a"}),
        ("approval.resolved", {"itemId": "a", "decision": "approved"}, {"approval_id": "a", "decision": "approved"}),
        ("delegation.requested", {"requestId": "d"}, {"delegation_id": "d"}),
        ("delegation.rejected", {"itemId": "d", "reason": "depth"}, {"delegation_id": "d", "reason": "depth"}),
        (
            "worker.result",
            {"requestId": "d", "status": "completed", "summary": "s", "filesChanged": ["a"], "remainingWork": []},
            {"delegation_id": "d", "status": "completed", "summary": "s", "files_changed": ["a"], "remaining_work": []},
        ),
        (
            "worker.result",
            {"requestId": "d", "status": "protocol_invalid", "summary": "s"},
            {"delegation_id": "d", "status": "invalid", "summary": "s"},
        ),
        (
            "checkpoint",
            {"schemaVersion": 1, "summary": "s", "decisions": [], "filesTouched": ["a"], "openWork": ["b"]},
            {
                "summary": "s",
                "decisions": [],
                "files_touched": ["a"],
                "open_work": ["b"],
                "provider_meta": {"schemaVersion": 1},
            },
        ),
        (
            "compaction",
            {"summary": "s", "firstRetainedEntryId": "e", "tokensBefore": 9, "reason": "full"},
            {"summary": "s", "first_retained_entry_id": "e", "tokens_before": 9, "reason": "full"},
        ),
        ("turn.completed", {"turnId": "1"}, {"turn_id": "1"}),
    ],
)
def test_a_v1_row_reads_as_v2_would_have_written_it(kind: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    result = read(1, kind, old)

    assert (result.payload, result.opaque, result.visibility_override) == (new, False, None)
    validate(kind, result.payload)


def test_what_v2_has_no_place_for_moves_aside_and_is_not_lost() -> None:
    old = {"text": "hi", "stamp": {"status": "clean"}, "turnId": 7, "provider_meta": {"stamp": "newer", "x": 1}}

    assert read(1, "user.message", old).payload == {
        "text": "hi",
        "provider_meta": {"stamp": "newer", "x": 1, "turn_id": 7},
    }


def test_metadata_that_is_no_object_moves_one_level_down() -> None:
    assert read(1, "note", {"text": "hi", "provider_meta": "x"}).payload == {
        "text": "hi",
        "provider_meta": {"provider_meta": "x"},
    }


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("user.message", {}),
        ("user.message", {"text": ""}),
        ("user.message", {"text": ["hi"]}),
        ("checkpoint", {"schemaVersion": 1, "summary": "s"}),
        ("branch.summary", {"summary": "s"}),
        ("worker.result", {"requestId": "d", "status": "completed"}),
        ("worker.result", {"requestId": "d", "status": "splendid", "summary": "s"}),
        ("tool.started", {"name": "read"}),
    ],
)
def test_a_v1_row_that_lacks_what_v2_needs_is_opaque_and_hidden(kind: str, payload: dict[str, Any]) -> None:
    result = read(1, kind, payload)

    assert (result.kind, result.payload) == (kind, payload)
    assert (result.opaque, result.visibility_override, result.reason) == (True, "hidden", OpaqueReason.INCOMPLETE)


@pytest.mark.parametrize("version", READABLE_VERSIONS)
@pytest.mark.parametrize("kind", ["command.started", "future.kind", "assistant.message.delta", "", "../v1/any"])
def test_fc_62_an_unknown_kind_is_kept_and_never_projected(version: int, kind: str) -> None:
    result = read(version, kind, {"toolId": "kept as it is"})

    assert (result.kind, result.payload) == (kind, {"toolId": "kept as it is"})
    assert (result.opaque, result.visibility_override, result.reason) == (True, "hidden", OpaqueReason.UNKNOWN_KIND)


@pytest.mark.parametrize("version", READABLE_VERSIONS)
@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', "null", "{'a':1}", '{"a":NaN}'])
def test_a_payload_that_is_no_object_spoils_only_its_own_row(version: int, text: str) -> None:
    result = interpret(version, "user.message", text)
    assert (result.payload, result.opaque, result.reason) == ({}, True, OpaqueReason.UNREADABLE_PAYLOAD)


def test_a_v2_row_that_breaks_its_contract_is_opaque() -> None:
    assert read(2, "user.message", {"txt": "hi"}).reason is OpaqueReason.INCOMPLETE


@pytest.mark.parametrize("version", [0, 3, -1, 999, 2.0, "2", True, None, b"2", "x" * 10_000])
def test_fc_62_any_other_version_is_refused_by_name(version: Any) -> None:
    with pytest.raises(UnsupportedSemanticVersion) as caught:
        interpret(version, "user.message", '{"text":"hi"}', entry_id="20260102-030405-9f3a-000031")

    details = caught.value.details
    assert (details["entry"], details["supported"]) == ("20260102-030405-9f3a-000031", [1, 2])
    assert details["found"] == (version if not isinstance(version, bytes) else "b'2'")
    assert "20260102-030405-9f3a-000031" in caught.value.message
    assert len(caught.value.message) < 300
    json.dumps(caught.value.to_json())


def test_a_version_is_refused_before_its_payload_is_looked_at() -> None:
    with pytest.raises(UnsupportedSemanticVersion, match="An entry"):
        interpret(3, "user.message", "not JSON")
    require_readable(1)
    require_readable(2)


def test_the_registry_is_what_the_rest_of_bridge_goes_by() -> None:
    assert REGISTRY.current.version == CURRENT_VERSION
    assert REGISTRY.readable == READABLE_VERSIONS
    assert REGISTRY.current.kinds is KINDS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
FIELDS = sorted(
    {
        "toolId",
        "itemId",
        "toolName",
        "approvalId",
        "requestId",
        "schemaVersion",
        "filesTouched",
        "provider_meta",
        "turnId",
        "x",
    }
    | {field for kind in KINDS.values() for field in kind.required}
)


@given(st.sampled_from(sorted(KINDS)), st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6))
def test_an_upcast_never_fails_invents_or_loses(kind: str, payload: dict[str, Any]) -> None:
    before = json.dumps(payload)
    upcasted = upcast(kind, payload)

    assert json.dumps(payload) == before
    result = read(1, kind, payload)
    if not result.opaque:
        validate(kind, result.payload)

    def leaves(value: Any) -> list[str]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return sorted(leaf for item in inner for leaf in leaves(item)) if inner is not None else [json.dumps(value)]

    meta = payload.get("provider_meta")
    if not (isinstance(meta, dict) and meta.keys() & {*payload, "turn_id"}):  # there, what stood in the metadata wins
        assert leaves(upcasted) == leaves(payload)
