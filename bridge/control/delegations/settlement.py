"""Turn what a worker says and what git shows into the one payload that is recorded as ``worker.result``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.agents.ownership import covers, normalise
from bridge.foundation.canonical import canonical_bytes
from bridge.git.paths import parse_path

#: Changed paths that a result lists, and their characters together; git has the rest.
MAX_FILES_CHANGED: Final = 10_000
MAX_FILES_CHANGED_CHARACTERS: Final = 512 * 1024
#: Notes on the worktree that a result passes on.
MAX_NOTES: Final = 20
#: Bytes of canonical JSON that an invalid result's raw text may take; a control character takes six.
MAX_RAW_TEXT_BYTES: Final = 1536 * 1024


@dataclass(frozen=True, slots=True)
class GitFacts:
    """What git shows of a worker's worktree after it ended.

    ``files_changed`` are display paths between base and result commit; ``problem`` is set, and everything
    else unproven, when the worktree could not be inspected.
    """

    base_commit: str
    result_commit: str | None
    files_changed: tuple[str, ...] = ()
    uncommitted: bool = False
    drift: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """How the worker's process ended and what it handed in.

    ``submission`` is the validated value, or None when there is no valid one; then ``field_errors`` and
    ``raw_text`` say why. ``failure_class`` is the harness's typed failure, None when the process did its part.
    ``source`` says where the outcome was read, in the words of the result contract.
    """

    attempt: int
    attempts_permitted: int
    source: str
    submission: Mapping[str, Any] | None
    field_errors: Sequence[Mapping[str, str]] = ()
    raw_text: str = ""
    is_raw_text_cut: bool = False
    failure_class: str | None = None
    failure_detail: str = ""
    #: When a used-up quota is full again, as a timestamp, if the harness told.
    resets_at: str | None = None
    exit_status: int | None = None
    duration_seconds: float = 0.0
    #: What was used in all attempts, by what the harness reported; None if it ran and reported nothing.
    tokens_used: int | None = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """The parts of a request that a result is judged against."""

    delegation_id: str
    role: str
    write_mode: str
    owned_paths: tuple[str, ...] = ()
    #: Tokens it may use; 0 for no limit.
    tokens: int = 0


@dataclass
class _Draft:
    status: str
    summary: str
    risks: list[str] = field(default_factory=list)
    failure_class: str | None = None


def settle(assignment: Assignment, outcome: AttemptOutcome, facts: GitFacts) -> dict[str, Any]:
    """Return the payload of ``worker.result``: the worker's claims, corrected by what git shows.

    ``files_changed`` always comes from git. A claim that git does not bear out becomes a risk. A write
    outside the owned paths, a write by a reader, or a claim of change with none, turns completed into blocked.
    An invalid submission ends as ``invalid`` unless the process itself failed, and never as completed.
    """
    draft = _draft(outcome)
    submission = outcome.submission or {}
    draft.risks.extend(submission.get("risks", ()))
    draft.risks.extend(facts.drift[:MAX_NOTES])
    if assignment.tokens and outcome.tokens_used is None:
        draft.risks.append(
            f"The harness did not report what it used, so the budget of {assignment.tokens} tokens was not kept."
        )
    files = _bounded(facts.files_changed)
    if len(files) < len(facts.files_changed):
        draft.risks.append(f"Only the first {len(files)} of {len(facts.files_changed)} changed paths are listed.")
    _judge(draft, assignment, [str(path) for path in submission.get("files_changed", ())], facts)
    payload: dict[str, Any] = {
        "delegation_id": assignment.delegation_id,
        "role": assignment.role,
        "status": draft.status,
        "summary": draft.summary,
        "files_changed": files,
        "tests": list(submission.get("tests", ())),
        "decisions": list(submission.get("decisions", ())),
        "risks": draft.risks,
        "remaining_work": list(submission.get("remaining_work", ())),
        "base_commit": facts.base_commit,
        "result_commit": facts.result_commit,
        "source": outcome.source,
        "attempt": outcome.attempt,
        "attempts_permitted": outcome.attempts_permitted,
        # With a single permitted attempt there was no pressure to settle for a lesser answer: not marked.
        "is_last_permitted_attempt": 1 < outcome.attempts_permitted == outcome.attempt,
        "exit_status": outcome.exit_status,
        "duration_seconds": round(outcome.duration_seconds, 3),
    }
    for key in ("data", "needs_delegation", "provider_meta"):
        if key in submission:
            payload[key] = submission[key]
    if draft.failure_class is not None:
        payload["failure_class"] = draft.failure_class
    if outcome.submission is None and outcome.field_errors:
        payload["field_errors"] = [dict(error) for error in outcome.field_errors]
        raw_text = _within(outcome.raw_text, MAX_RAW_TEXT_BYTES)
        payload["raw_text"] = raw_text
        payload["is_raw_text_cut"] = outcome.is_raw_text_cut or len(raw_text) < len(outcome.raw_text)
    return payload


def outside_owned(paths: Iterable[str], owned: Sequence[str]) -> list[str]:
    """Return the paths, in the form that results list them, under none of the owned ones; all are owned without any."""
    if not owned:
        return []
    roots = [normalise(path) for path in owned]
    return [path for path in paths if not covers(roots, parse_path(path))]


def _bounded(paths: Sequence[str]) -> list[str]:
    listed: list[str] = []
    characters = 0
    for path in paths[:MAX_FILES_CHANGED]:
        characters += len(path)
        if characters > MAX_FILES_CHANGED_CHARACTERS:
            break
        listed.append(path)
    return listed


def _within(text: str, max_bytes: int) -> str:
    """Return a text, or as much of its beginning as surely takes no more than so many bytes of canonical JSON."""
    return text if len(canonical_bytes(text)) <= max_bytes else text[: max_bytes // 6]


def _draft(outcome: AttemptOutcome) -> _Draft:
    if outcome.failure_class is not None:
        status = "cancelled" if outcome.failure_class == "cancelled" else "failed"
        summary = str((outcome.submission or {}).get("summary") or outcome.failure_detail or outcome.failure_class)
        return _Draft(status, summary, failure_class=outcome.failure_class)
    if outcome.submission is None:
        count = len(outcome.field_errors)
        first = outcome.field_errors[0] if outcome.field_errors else {"path": "", "message": "no result"}
        summary = f"The result is invalid: {first['path'] or '/'} {first['message']}"
        return _Draft(
            "invalid", summary + (f" (and {count - 1} more)" if count > 1 else ""), failure_class="invalid_result"
        )
    return _Draft(str(outcome.submission["status"]), str(outcome.submission["summary"]))


def _judge(draft: _Draft, assignment: Assignment, claimed: list[str], facts: GitFacts) -> None:
    if facts.problem is not None:
        draft.risks.append(f"The worktree could not be inspected: {facts.problem}")
        _block(draft, "inspection_failed")
        return
    changed = set(facts.files_changed)
    unproven = sorted({path.removeprefix("./") for path in claimed} - changed)
    if unproven:
        draft.risks.append(f"Claimed as changed, but unchanged in git: {_listed(unproven)}")
    if claimed and not changed:
        _block(draft, "claimed_change_missing")
    strays = outside_owned(sorted(changed), assignment.owned_paths)
    if strays:
        draft.risks.append(f"Changed outside the owned paths: {_listed(strays)}")
        _block(draft, "outside_owned_paths")
    if assignment.write_mode == "read_only" and changed:
        draft.risks.append(f"Changed although the task was read-only: {_listed(sorted(changed))}")
        _block(draft, "write_in_read_only")


def _block(draft: _Draft, failure_class: str) -> None:
    """Demote a completed result; a status that already says trouble keeps its own cause."""
    if draft.status == "completed":
        draft.status = "blocked"
        draft.failure_class = failure_class


def _listed(paths: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(paths[:most])
    return shown + (f" and {len(paths) - most} more" if len(paths) > most else "")
