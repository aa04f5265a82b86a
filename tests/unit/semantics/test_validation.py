"""What may be appended: every kind with what it needs, nothing that is no entry."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.semantics.errors import InvalidPayload, TransientKind, UnknownKind
from bridge.semantics.kinds import (
    CONVERSATIONAL_KINDS,
    CURRENT_VERSION,
    KINDS,
    READABLE_VERSIONS,
    default_visibility,
    is_transient,
)
from bridge.semantics.validation import payload_errors, validate

#: The least that each kind takes, and everything that an adapter may want to say.
LEAST: dict[str, dict[str, Any]] = {
    "user.message": {"text": "hello"},
    "assistant.message": {"text": "hello"},
    "reasoning.completed": {"text": ""},
    "tool.started": {"tool_call_id": "t1", "name": "read"},
    "tool.completed": {"tool_call_id": "t1", "name": "read"},
    "approval.requested": {"approval_id": "a1"},
    "approval.resolved": {"approval_id": "a1"},
    "delegation.requested": {"delegation_id": "d1"},
    "delegation.approved": {"delegation_id": "d1"},
    "delegation.rejected": {"delegation_id": "d1"},
    "worker.result": {"delegation_id": "d1", "status": "completed", "summary": "done"},
    "checkpoint": {"summary": "s", "decisions": [], "files_touched": [], "open_work": []},
    "compaction": {"summary": "s", "first_retained_entry_id": "e", "tokens_before": 0, "reason": "full"},
    "compaction.requested": {"reason": "full"},
    "compaction.failed": {"reason": "no answer"},
    "context.compacted": {"harness": "codex"},
    "branch.summary": {"summary": "s", "from_entry_id": "e"},
    "model.changed": {"model": "m"},
    "effort.changed": {"effort": "high"},
    "session.root": {},
    "session.status": {"status": "idle"},
    "session.resume_failed": {"reason": "gone"},
    "turn.started": {"turn_id": "1"},
    "turn.completed": {"turn_id": "1"},
    "usage.updated": {"tokens": {}},
    "plan.updated": {"steps": []},
    "artifact.created": {"path": "report.md"},
    "handoff.brief": {"text": "go on"},
    "note": {"text": "look here"},
    "provider.unknown": {"raw_type": "queue-operation"},
    "error": {"message": "no answer"},
}
MORE: list[tuple[str, dict[str, Any]]] = [
    (
        "user.message",
        {"attachments": [{"name": "a.png", "media_type": "image/png", "size_bytes": 3, "sha256": "0" * 64}]},
    ),
    ("assistant.message", {"model": "m", "stop_reason": "length"}),
    (
        "tool.started",
        {"input": {"path": "a", "limit": 1.5}, "status": "running", "title": "Read a", "paths_read": ["a"]},
    ),
    ("tool.completed", {"output": None, "status": "failed", "duration_seconds": 0.25, "paths_written": ["a", "b"]}),
    ("tool.completed", {"output": ["any", {"json": True}]}),
    ("approval.requested", {"tool_call_id": "t", "action": "Run rm", "input": ["rm"], "options": ["yes", {"id": 2}]}),
    ("approval.resolved", {"decision": "denied", "decided_by": "person", "reason": "no"}),
    ("delegation.requested", {"request": {"role": "implementation", "objective": "x"}, "attempt": 1}),
    ("delegation.approved", {"decision": {"outcome": "spawn"}, "agent_id": "a", "worker_session_id": "s"}),
    ("delegation.rejected", {"reason": "depth", "decision": "rejected"}),
    (
        "usage.updated",
        {
            "tokens": {"input": 10, "output": 2, "cache_read": 7},
            "is_total": True,
            "cost": {"amount": 0.1, "currency": "USD"},
        },
    ),
    ("plan.updated", {"steps": ["look", {"text": "mend", "status": "in_progress", "priority": "high"}]}),
    ("session.root", {"forked_from": {"entry_id": "20260102-030405-9f3a-000001", "entry_hash": "a" * 64}}),
    ("error", {"code": "rate_limited", "is_retryable": True, "details": {"status": 429}}),
    ("provider.unknown", {"raw": {"type": "x", "deep": [1, None]}}),
]


def test_the_example_of_every_kind_is_here() -> None:
    assert set(LEAST) == set(KINDS)
    assert all(set(payload) == set(KINDS[kind].required) for kind, payload in LEAST.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_takes_the_least_it_needs(kind: str) -> None:
    validate(kind, LEAST[kind])


@pytest.mark.parametrize(("kind", "more"), MORE)
def test_a_kind_takes_what_adapters_have_to_say(kind: str, more: dict[str, Any]) -> None:
    validate(kind, LEAST[kind] | more)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_what_a_provider_adds(kind: str) -> None:
    meta = parse_json('{"anything": [1.0, null, {"deep": true}], "": 1e3}')
    validate(kind, LEAST[kind] | {"provider_meta": meta, "turn_id": "1"})


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in KINDS for field in KINDS[kind].required])
def test_a_missing_field_is_named(kind: str, field: str) -> None:
    payload = {name: value for name, value in LEAST[kind].items() if name != field}
    with pytest.raises(InvalidPayload) as caught:
        validate(kind, payload)
    assert caught.value.details["kind"] == kind
    assert {"path": f"/{field}", "message": "is missing"} in caught.value.details["fields"]
    assert f"{field} is missing" in caught.value.message
    assert "Nothing was written" in caught.value.message


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in KINDS for field in KINDS[kind].required])
def test_a_field_of_another_type_is_named(kind: str, field: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        validate(kind, LEAST[kind] | {field: False})
    assert [error["path"] for error in caught.value.details["fields"]] == [f"/{field}"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mistyped_field_is_found(kind: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        validate(kind, LEAST[kind] | {"provider_mete": {}})
    assert caught.value.details["fields"] == [{"path": "/provider_mete", "message": "is not a known field"}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("payload", [None, [], "text", 1, True])
def test_a_payload_is_an_object(kind: str, payload: Any) -> None:
    with pytest.raises(InvalidPayload, match="must be an object"):
        validate(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("user.message", {"text": ""}),
        ("checkpoint", LEAST["checkpoint"] | {"decisions": "none"}),
        ("compaction", LEAST["compaction"] | {"tokens_before": -1}),
        ("usage.updated", {"tokens": {"input": -1}}),
        ("usage.updated", {"tokens": {"input": 1.5}}),
        ("plan.updated", {"steps": [{"text": "x", "status": "soon"}]}),
        ("session.root", {"forked_from": {"entry_id": "x"}}),
        ("worker.result", LEAST["worker.result"] | {"status": "done"}),
        ("worker.result", LEAST["worker.result"] | {"stamp": {"state_digest": "a" * 64, "unknown": "no_path"}}),
        ("worker.result", LEAST["worker.result"] | {"base_commit": "HEAD"}),
        ("note", {"text": "x", "provider_meta": []}),
    ],
)
def test_values_out_of_bounds_are_refused(kind: str, payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayload):
        validate(kind, payload)


def test_a_result_takes_the_whole_contract() -> None:
    full = LEAST["worker.result"] | {
        "files_changed": ["a.py", '"caf\\303\\251"'],
        "tests": [{"command": "make test", "status": "passed", "detail": "12 passed"}],
        "decisions": ["kept the old name"],
        "risks": ["no test for Windows"],
        "remaining_work": [],
        "data": {"anything": [1, 2.5]},
        "base_commit": "a" * 40,
        "result_commit": None,
        "stamp": {"state_digest": "b" * 64, "observed_at": "2026-01-02T03:04:05.000000Z"},
        "attempt": 2,
        "attempts_permitted": 2,
        "is_last_permitted_attempt": True,
        "source": "result_file",
        "exit_status": 0,
        "duration_seconds": 1.5,
        "worker_entry_id": "20260102-030405-9f3a-000009",
        "evidence": ["20260102-030405-9f3a-000004"],
    }
    validate("worker.result", full)
    invalid = LEAST["worker.result"] | {
        "status": "invalid",
        "raw_text": "{}",
        "field_errors": [{"path": "", "message": "is empty"}],
    }
    validate("worker.result", invalid)


@pytest.mark.parametrize("kind", ["assistant.message.delta", "x.delta", ".delta", "delta", "tool.progress", "progress"])
def test_streaming_frames_are_refused(kind: str) -> None:
    assert is_transient(kind)
    with pytest.raises(TransientKind, match="Nothing was written"):
        validate(kind, {"text": "hel"})


@pytest.mark.parametrize("kind", [*KINDS, "delta.received", "file.deltas", "progress.made", ""])
def test_other_names_are_no_streaming_frames(kind: str) -> None:
    assert not is_transient(kind)


@pytest.mark.parametrize(
    "kind", ["", "user", "user.message ", "User.Message", "definitions/common", "../v1/any", "x" * 10_000]
)
def test_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(UnknownKind) as caught:
        validate(kind, {"text": "x"})
    assert len(caught.value.message) < 300
    assert caught.value.details["known"] == sorted(KINDS)


def test_what_has_no_canonical_form_is_refused_as_such() -> None:
    with pytest.raises(NotCanonical):
        validate("note", {"text": "x", "provider_meta": {"ratio": float("nan")}})


def test_one_of_many_faults_is_spelled_out() -> None:
    with pytest.raises(InvalidPayload, match="and 2 more"):
        validate("checkpoint", {"summary": "s"})


def test_errors_of_a_payload_can_be_asked_for() -> None:
    assert payload_errors(2, "note", {"text": "x"}) == []
    assert payload_errors(2, "note", {}) == [{"path": "/text", "message": "is missing"}]


def test_bookkeeping_is_hidden_and_talk_is_not() -> None:
    hidden = {kind for kind in KINDS if default_visibility(kind) == "hidden"}
    assert {
        "turn.started",
        "turn.completed",
        "usage.updated",
        "plan.updated",
        "session.root",
        "provider.unknown",
    } <= hidden
    assert hidden.isdisjoint(CONVERSATIONAL_KINDS)
    assert default_visibility("something.else") == "hidden"


def test_conversational_kinds() -> None:
    assert {
        "user.message",
        "assistant.message",
        "worker.result",
        "checkpoint",
        "compaction",
        "branch.summary",
    } == CONVERSATIONAL_KINDS


def test_what_is_written_can_be_read() -> None:
    assert max(READABLE_VERSIONS) == CURRENT_VERSION
