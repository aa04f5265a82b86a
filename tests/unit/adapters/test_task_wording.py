"""What a worker is told."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.adapters.base import Evidence, Handing, TaskRequest
from bridge.adapters.taskfolder import MAX_INLINE_EVIDENCE_BYTES, TaskFolder, evidence_paths
from bridge.adapters.tasks.wording import (
    MAX_ERRORS_TOLD,
    MAX_PROMPT_EVIDENCE_BYTES,
    first_prompt,
    inline_text,
    repair_prompt,
)
from bridge.foundation.canonical import canonical_bytes


def task(**options):
    settings = {"delegation_id": "d1", "objective": "do it", "worktree": Path("/w"), "folder": Path("/t")}
    return TaskRequest(**settings, marker="m", **options)


def prompt_for(request, *, has_tools=False):
    return first_prompt(request, evidence_paths(TaskFolder(request.folder), request.evidence), has_tools=has_tools)


def evidence(number, payload):
    return Evidence(f"20260101-000000-abcd-{number:06d}", payload, sha256(payload).hexdigest())


def test_everything_a_request_says_stands_in_the_prompt():
    text = prompt_for(
        task(
            role="review",
            acceptance_criteria=("it works", "it is tested"),
            owned_paths=("src", "docs"),
            base_commit="c0ffee",
            output_schema={"type": "object"},
        )
    )
    for part in ("(review)", "/w", "do it", "1. it works", "2. it is tested", "- src", "- docs", "c0ffee", '"object"'):
        assert part in text


@pytest.mark.parametrize("has_tools", [True, False])
def test_an_agent_without_tools_is_told_of_the_block_alone(has_tools):
    text = prompt_for(task(), has_tools=has_tools)
    assert "```json" in text
    assert ("submit_result" in text) is has_tools


def test_one_that_only_looks_is_told_so():
    text = prompt_for(task(write_mode="read_only", owned_paths=("src",)))
    assert "Change no file." in text
    assert "- src" not in text


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=200), max_size=5))
def test_evidence_stands_byte_for_byte_and_in_one_piece(value):
    payload = canonical_bytes(value)
    text = prompt_for(task(evidence=(evidence(1, payload),)))
    assert payload in text.encode()
    assert sha256(payload).hexdigest() in text


def test_evidence_above_the_limit_is_named_with_its_file_and_digest():
    exact, above = b"x" * MAX_INLINE_EVIDENCE_BYTES, b"y" * (MAX_INLINE_EVIDENCE_BYTES + 1)
    text = prompt_for(task(evidence=(evidence(1, exact), evidence(2, above))))
    assert exact.decode() in text
    assert above.decode() not in text
    assert sha256(above).hexdigest() in text
    assert str(Path("/t/evidence/02-20260101-000000-abcd-000002.json")) in text


def test_all_evidence_together_is_bounded_too():
    pieces = tuple(evidence(number, bytes([64 + number]) * MAX_INLINE_EVIDENCE_BYTES) for number in range(1, 5))
    text = prompt_for(task(evidence=pieces))
    inline = [item for item in pieces if item.payload.decode() in text]
    assert len(inline) == MAX_PROMPT_EVIDENCE_BYTES // MAX_INLINE_EVIDENCE_BYTES
    assert inline == list(pieces[: len(inline)])


def test_what_is_no_text_travels_as_a_file():
    assert inline_text(b"\xff\xfe", 100) is None
    assert inline_text(b"abc", 2) is None
    assert inline_text(b"abc", 3) == "abc"


def test_a_repair_names_the_fields_the_try_and_the_last_one():
    errors = ({"path": "/data/x", "message": "must be an integer"},)
    text = repair_prompt(Handing(is_accepted=False, number=1, permitted=3, errors=errors), task(), has_tools=True)
    assert "- /data/x: must be an integer" in text
    assert "This is try 2 of 3." in text
    text = repair_prompt(Handing(is_accepted=False, number=2, permitted=3, errors=errors), task(), has_tools=False)
    assert "This is try 3 of 3, the last." in text
    assert "json" in text


def test_attempts_are_counted_for_the_agent():
    first, last = task(attempts_permitted=2), task(attempts_permitted=2, attempt=2)
    assert "This is attempt 1 of 2." in prompt_for(first)
    assert "This is attempt 2 of 2, the last." in prompt_for(last)
    assert "attempt" not in prompt_for(task()).partition("# Your result")[2]
    handing = Handing(is_accepted=False, number=2, permitted=3)
    assert "This is try 3 of 3, the last in attempt 2 of 2, the last." in repair_prompt(handing, last, has_tools=True)


def test_the_faults_of_the_attempt_before_are_told_and_bounded():
    many = tuple({"path": f"/f{number}", "message": "is wrong"} for number in range(MAX_ERRORS_TOLD + 3))
    text = prompt_for(task(attempt=2, attempts_permitted=2, previous_errors=many))
    assert text.count(": is wrong") == MAX_ERRORS_TOLD
    assert "- and 3 more" in text
