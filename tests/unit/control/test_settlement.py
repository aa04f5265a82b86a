"""What a worker says against what git shows."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.control.delegations.settlement import Assignment, AttemptOutcome, GitFacts, outside_owned, settle

BASE = "a" * 40
RESULT = "b" * 40


def outcome(submission: dict[str, Any] | None, **changes: Any) -> AttemptOutcome:
    values: dict[str, Any] = {"attempt": 1, "attempts_permitted": 1, "source": "result_file", "submission": submission}
    return AttemptOutcome(**(values | changes))


def facts(*paths: str, **changes: Any) -> GitFacts:
    return GitFacts(**({"base_commit": BASE, "result_commit": RESULT, "files_changed": paths} | changes))


def assignment(write_mode: str = "isolated", *owned: str) -> Assignment:
    return Assignment("t1", "implementation", write_mode, owned)


DONE = {"status": "completed", "summary": "done", "files_changed": ["a.txt"]}


def test_files_changed_come_from_git_and_not_from_the_claim() -> None:
    payload = settle(assignment(), outcome(DONE), facts("a.txt", "b.txt"))
    assert payload["status"] == "completed"
    assert payload["files_changed"] == ["a.txt", "b.txt"]
    assert payload["risks"] == []
    assert (payload["base_commit"], payload["result_commit"]) == (BASE, RESULT)


def test_a_claim_that_git_does_not_bear_out_becomes_a_risk() -> None:
    payload = settle(assignment(), outcome(DONE), facts("other.txt"))
    assert payload["status"] == "completed"
    assert payload["risks"] == ["Claimed as changed, but unchanged in git: a.txt"]


def test_a_claim_of_change_with_none_is_blocked() -> None:
    payload = settle(assignment(), outcome(DONE), facts())
    assert (payload["status"], payload["failure_class"]) == ("blocked", "claimed_change_missing")


@pytest.mark.parametrize(
    ("path", "owned", "status"),
    [
        ("src/a.py", "src", "completed"),
        ("src/a.py", "src/a.py", "completed"),
        ("srcs/a.py", "src", "blocked"),
        ("a.py", "src", "blocked"),
    ],
)
def test_a_write_outside_the_owned_paths_is_blocked(path: str, owned: str, status: str) -> None:
    payload = settle(assignment("isolated", owned), outcome(DONE | {"files_changed": [path]}), facts(path))
    assert payload["status"] == status
    assert ("Changed outside the owned paths: " + path in payload["risks"]) == (status == "blocked")


def test_a_reader_that_writes_is_blocked() -> None:
    payload = settle(assignment("read_only"), outcome(DONE), facts("a.txt"))
    assert (payload["status"], payload["failure_class"]) == ("blocked", "write_in_read_only")


def test_a_worse_status_keeps_its_own_cause() -> None:
    submission = {"status": "failed", "summary": "gave up", "files_changed": ["a.txt"]}
    payload = settle(assignment("read_only"), outcome(submission), facts("a.txt"))
    assert payload["status"] == "failed"
    assert "failure_class" not in payload


def test_fc_39_an_invalid_result_keeps_raw_text_and_field_errors_and_never_completes() -> None:
    errors = [{"path": "/status", "message": "is missing"}, {"path": "/x", "message": "is unknown"}]
    payload = settle(assignment(), outcome(None, field_errors=errors, raw_text='{"x": 1}'), facts("a.txt"))
    assert (payload["status"], payload["failure_class"]) == ("invalid", "invalid_result")
    assert payload["field_errors"] == errors
    assert payload["raw_text"] == '{"x": 1}'
    assert payload["summary"] == "The result is invalid: /status is missing (and 1 more)"


@pytest.mark.parametrize(
    ("attempt", "permitted", "marked"), [(1, 1, False), (1, 3, False), (2, 3, False), (3, 3, True)]
)
def test_fc_39_a_result_of_the_last_permitted_attempt_is_marked(attempt: int, permitted: int, marked: bool) -> None:
    payload = settle(assignment(), outcome(DONE, attempt=attempt, attempts_permitted=permitted), facts("a.txt"))
    assert payload["is_last_permitted_attempt"] is marked
    assert payload["attempts_permitted"] == permitted


@pytest.mark.parametrize(("failure", "status"), [("timed_out", "failed"), ("cancelled", "cancelled")])
def test_a_failed_process_never_completes_whatever_it_handed_in(failure: str, status: str) -> None:
    payload = settle(assignment(), outcome(DONE, failure_class=failure, failure_detail="why"), facts("a.txt"))
    assert (payload["status"], payload["failure_class"]) == (status, failure)


def test_what_could_not_be_inspected_is_never_completed() -> None:
    payload = settle(assignment(), outcome(DONE), facts(problem="bad index", result_commit=None))
    assert (payload["status"], payload["failure_class"]) == ("blocked", "inspection_failed")
    assert payload["result_commit"] is None


def test_without_owned_paths_everything_is_owned() -> None:
    assert outside_owned(["x", "y/z"], []) == []
