"""Which way to restore an agent is open: every combination of facts."""

from __future__ import annotations

from itertools import product

import pytest

from bridge.control.contexts.matching import ContextMatch, Relation
from bridge.control.contexts.restoration import Facts, Mode, Reason, decide

ORDER = list(Mode)


def test_the_best_open_way_is_taken_and_the_better_ones_are_named():
    for running, knows, can, native, ends, compacted, failed, checkpoint in product([False, True], repeat=8):
        facts = Facts(
            is_running=running,
            knows_the_head=knows,
            can_resume=can,
            native_session_id="n" if native else None,
            native_session_ends_here=ends,
            is_compacted_since=compacted,
            has_resume_failed=failed,
            checkpoint_entry_id="c" if checkpoint else None,
        )
        is_open = {
            Mode.HOT: running and knows,
            Mode.NATIVE_RESUME: can and native and ends and not compacted and not failed,
            Mode.CHECKPOINT_RESTORED: checkpoint,
            Mode.FRESH: True,
        }
        decision = decide(facts)
        assert decision.mode is next(mode for mode in ORDER if is_open[mode])
        assert [mode for mode, _ in decision.passed_over] == ORDER[: ORDER.index(decision.mode)]


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        (Facts(), [Reason.NOT_RUNNING, Reason.RESUME_UNSUPPORTED, Reason.NO_CHECKPOINT]),
        (
            Facts(is_running=True, can_resume=True),
            [Reason.CONTEXT_ELSEWHERE, Reason.NO_NATIVE_SESSION, Reason.NO_CHECKPOINT],
        ),
        (
            Facts(can_resume=True, native_session_id="n", checkpoint_entry_id="c"),
            [Reason.NOT_RUNNING, Reason.NATIVE_SESSION_ELSEWHERE],
        ),
        (
            Facts(
                can_resume=True,
                native_session_id="n",
                native_session_ends_here=True,
                is_compacted_since=True,
                checkpoint_entry_id="c",
            ),
            [Reason.NOT_RUNNING, Reason.COMPACTED_SINCE],
        ),
        (
            Facts(can_resume=True, native_session_id="n", native_session_ends_here=True, has_resume_failed=True),
            [Reason.NOT_RUNNING, Reason.RESUME_FAILED, Reason.NO_CHECKPOINT],
        ),
    ],
)
def test_what_was_passed_over_has_its_reason(facts, reasons):
    assert [reason for _, reason in decide(facts).passed_over] == reasons


def test_an_agent_is_told_facts_about_what_it_does_not_know():
    assert ContextMatch(Relation.SAME, "s-000002", "s-000002", "s-000002", 0, 0).text() == ""
    behind = ContextMatch(Relation.BEHIND, "s-000004", "s-000002", "s-000002", 2, 0)
    assert behind.text() == "2 entries after s.2 are not in your context."
    elsewhere = ContextMatch(Relation.ELSEWHERE, "s-000004", "s-000003", None, 1, 3)
    assert elsewhere.text() == (
        "The conversation went back to its beginning: the last 3 entries of your context are not part of it any more. "
        "Files were not changed by that. 1 entry after its beginning are not in your context."
    )
