"""What holds of every context, whatever the path: determinism, whole groups, the budget, more room never shows less."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.conversations.contextmessages import CALL, RESULT, bytes_of
from bridge.conversations.contexttext import body_of
from bridge.conversations.grouping import MAX_CALL_DISTANCE, Grouping
from bridge.conversations.models import PreparedEntry
from bridge.conversations.projection import project
from bridge.conversations.tokens import BYTES_PER_TOKEN, estimate_tokens
from bridge.foundation.canonical import canonical_text
from bridge.foundation.hashing import digest_hex
from bridge.semantics.kinds import default_visibility
from bridge.semantics.stamps import UNSTAMPED

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60) | st.sampled_from(
    ["--- note (s.1)", "a\n--- b\n\\--- c", "言葉" * 20, '"\\\n' * 5, "x" * 400]
)
call_ids = st.sampled_from(["a", "b", "c"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
events = st.one_of(
    st.builds(lambda text: ("user.message", {"text": text}), texts),
    st.builds(lambda text: ("assistant.message", {"text": text}), texts),
    st.builds(lambda name, value: (CALL, {"tool_call_id": name, "name": "sh", "input": value}), call_ids, values),
    st.builds(lambda name, value: (RESULT, {"tool_call_id": name, "name": "sh", "output": value}), call_ids, values),
    st.builds(
        lambda lines, text: (
            "worker.result",
            {"delegation_id": "d", "status": "completed", "summary": text, "decisions": lines},
        ),
        st.lists(texts, max_size=3),
        texts,
    ),
    st.builds(
        lambda place, text: (
            "compaction",
            {"summary": text, "first_retained_entry_id": f"s-{place:06d}", "tokens_before": 1, "reason": "r"},
        ),
        st.integers(1, 25),
        texts,
    ),
    st.builds(
        lambda lines, text: (
            "checkpoint",
            {"summary": text, "decisions": lines, "files_touched": [], "open_work": lines},
        ),
        st.lists(texts, max_size=2),
        texts,
    ),
    st.builds(lambda text: ("model.changed", {"model": text}), texts),
    st.just(("turn.started", {"turn_id": "t"})),
    st.just(("note", {"text": "n", "provider_meta": {"raw": "z" * 50}})),
)
budgets = st.integers(1, 3000)


def build(steps):
    path = []
    for sequence, (kind, payload) in enumerate(steps, 1):
        text = canonical_text(payload)
        prepared = PreparedEntry(
            kind=kind,
            payload_text=text,
            payload_hash=digest_hex(text.encode()),
            context_visibility=default_visibility(kind),
            stamp=UNSTAMPED,
            created_at="t",
        )
        path.append(prepared.seal("s", sequence, ("s-000000", "a" * 64)))
    return path


paths = st.lists(events, max_size=25).map(build)
options = st.fixed_dictionaries({"cold_start": st.booleans(), "divergence_line": st.none() | texts})


@given(paths, options, st.none() | budgets)
def test_the_same_path_gives_the_same_bytes(path, given_options, budget):
    first, second = (project(list(path), budget_tokens=budget, **given_options) for _ in range(2))
    assert first.text().encode() == second.text().encode()
    assert json.dumps(first.to_json()) == json.dumps(second.to_json())


@given(paths, options, st.none() | budgets)
def test_no_call_stands_without_a_result_nor_a_result_without_a_call(path, given_options, budget):
    open_calls = set()
    for message in project(path, budget_tokens=budget, **given_options).messages:
        if message.kind == CALL:
            open_calls.add(message.payload["tool_call_id"])
        elif message.kind == RESULT:
            assert message.payload["tool_call_id"] in open_calls or message.marker is not None
    torn = {
        message.payload["tool_call_id"] for message in project(path, budget_tokens=budget).messages if message.marker
    }
    for call_id in open_calls - torn:
        assert any(
            message.kind == RESULT and message.payload["tool_call_id"] == call_id
            for message in project(path, budget_tokens=budget, **given_options).messages
        )


@given(paths, options, budgets)
def test_the_budget_is_kept_unless_the_newest_group_alone_breaks_it(path, given_options, budget):
    projection = project(path, budget_tokens=budget, **given_options)
    assert projection.tokens == estimate_tokens(projection.text())
    if projection.tokens <= budget:
        assert not projection.is_oversized
        return
    assert projection.is_oversized
    # Nothing is told but the newest group, and what has no size.
    assert not projection.preface.divergence_line
    assert not projection.decisions
    grouping = Grouping()
    groups = []
    whole = project(path, **given_options)
    for place, message in reversed(list(enumerate(whole.messages))):
        if message.marker is None and message.entry_id != whole.boundary_entry_id:
            groups.extend(grouping.add(message, place))
    groups.extend(grouping.finish())
    newest = groups[0].messages if groups else whole.messages
    assert projection.messages == tuple(newest)


@given(paths, options, budgets, budgets)
def test_more_room_never_shows_less(path, given_options, one, other):
    small, large = (project(path, budget_tokens=budget, **given_options) for budget in sorted((one, other)))
    assert set(map(repr, small.messages)) <= set(map(repr, large.messages))
    assert set(large.preface.untold) <= set(small.preface.untold)
    assert large.boundary_entry_id == small.boundary_entry_id
    whole = project(path, **given_options)
    assert set(map(repr, large.messages)) <= set(map(repr, whole.messages))


@given(paths, options)
def test_enough_room_shows_everything(path, given_options):
    whole = project(path, **given_options)
    roomy = project(path, budget_tokens=1_000_000, **given_options)
    assert roomy.text() == whole.text()


@given(paths)
def test_sizes_are_bounds(path):
    for message in project(path).messages:
        assert len(body_of(message).encode()) <= bytes_of(message)


@settings(max_examples=20)
@given(st.integers(MAX_CALL_DISTANCE - 3, MAX_CALL_DISTANCE + 3))
def test_a_call_belongs_to_a_result_that_is_near_enough(between):
    steps = [
        (CALL, {"tool_call_id": "a", "name": "sh"}),
        *[("note", {"text": "n"})] * between,
        (RESULT, {"tool_call_id": "a", "name": "sh"}),
    ]
    markers = [message.marker for message in project(build(steps)).messages if message.marker]
    assert len(markers) == (0 if between <= MAX_CALL_DISTANCE else 2)


def test_the_estimate_rounds_up_and_counts_bytes():
    assert [estimate_tokens("x" * size) for size in (0, 1, BYTES_PER_TOKEN, BYTES_PER_TOKEN + 1)] == [0, 1, 1, 2]
    assert estimate_tokens("語") == 1
