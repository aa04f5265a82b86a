"""From a path to a context: what is in, what is out, where it begins."""

from __future__ import annotations

import json

import pytest

from bridge.conversations.contextmessages import BOOKKEEPING_KINDS, Marker
from bridge.conversations.contexttext import MAX_DIVERGENCE_CHARACTERS, Part
from bridge.conversations.models import PreparedEntry
from bridge.conversations.projection import MAX_DECISIONS, project
from bridge.foundation.hashing import digest_hex
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.kinds import KINDS, default_visibility
from bridge.semantics.stamps import UNSTAMPED


def path(*entries):
    """Build a path of ``(kind, payload)`` or ``(kind, payload, options)``; ids are s-000001 and up."""
    built = []
    for sequence, (kind, payload, *options) in enumerate(entries, 1):
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        fields = {"context_visibility": default_visibility(kind), **(options[0] if options else {})}
        prepared = PreparedEntry(
            kind=kind,
            payload_text=text,
            payload_hash=digest_hex(text.encode()),
            stamp=UNSTAMPED,
            created_at="t",
            **fields,
        )
        built.append(prepared.seal("s", sequence, ("s-000000", "a" * 64)))
    return built


def said(text):
    return ("user.message", {"text": text})


def compacted(first, summary="so far"):
    payload = {"summary": summary, "first_retained_entry_id": first, "tokens_before": 1, "reason": "manual"}
    return ("compaction", payload)


def ids(projection):
    return [message.entry_id for message in projection.messages]


def test_only_eligible_and_meaningful_entries_without_stamp_and_provider_metadata():
    projection = project(
        path(
            ("user.message", {"text": "hi", "provider_meta": {"raw": 1}}),
            ("user.message", {"text": "hidden"}, {"context_visibility": "hidden"}),
            ("turn.started", {"turn_id": "t"}),
            ("from.another.world", {"text": "?"}, {"context_visibility": "eligible"}),
            ("user.message", {"no": "text"}, {"semantic_schema_version": 1}),
            ("assistant.message", {"text": "old"}, {"semantic_schema_version": 1}),
        )
    )
    assert [message.to_json() for message in projection.messages] == [
        {"entry_id": "s-000001", "kind": "user.message", "payload": {"text": "hi"}},
        {"entry_id": "s-000006", "kind": "assistant.message", "payload": {"text": "old"}},
    ]
    assert projection.boundary_entry_id is None


def test_the_latest_model_and_effort():
    projection = project(
        path(
            ("model.changed", {"model": "a"}),
            ("effort.changed", {"effort": "low"}),
            ("model.changed", {"model": "b"}),
            said("u"),
        )
    )
    assert (projection.model, projection.effort) == ("b", "low")
    assert ids(projection) == ["s-000004"]
    empty = project(path())
    assert (empty.messages, empty.boundary_entry_id, empty.model, empty.effort) == ((), None, None, None)
    assert (empty.text(), empty.tokens) == ("", 0)


def test_the_newest_compaction_is_the_boundary():
    projection = project(
        path(said("1"), said("2"), compacted("s-000002", "old"), said("4"), compacted("s-000004", "new"), said("6"))
    )
    assert ids(projection) == ["s-000005", "s-000004", "s-000006"]
    assert projection.messages[0].payload["summary"] == "new"
    assert projection.boundary_entry_id == "s-000005"


def test_fc_08_going_back_between_two_compactions_uses_the_older_one_in_full():
    whole = path(
        said("1"), said("2"), said("3"), said("4"), compacted("s-000004", "k1"), said("5"), compacted("s-000006")
    )
    projection = project(whole[:6])
    assert projection.messages[0].payload["summary"] == "k1"
    assert ids(projection) == ["s-000005", "s-000004", "s-000006"]


@pytest.mark.parametrize(
    "unfit",
    [
        compacted("s-000099"),
        compacted("s-000005"),
        ("compaction", {"summary": "x"}, {"semantic_schema_version": 1}),
        (*compacted("s-000001"), {"context_visibility": "hidden"}),
        compacted("s-000001", "  "),
        compacted("not an id"),
    ],
)
def test_a_compaction_that_does_not_fit_is_passed_over(unfit):
    projection = project(path(said("1"), said("2"), compacted("s-000002", "fits"), unfit, said("5")))
    assert projection.boundary_entry_id == "s-000003"
    assert ids(projection) == ["s-000003", "s-000002", "s-000005"]


def test_a_compaction_may_retain_nothing():
    assert ids(project(path(said("1"), compacted("s-000002"), said("3")))) == ["s-000002", "s-000003"]


@pytest.mark.parametrize("version", [0, 3, 99])
def test_another_semantic_version_anywhere_on_the_path_refuses_the_whole(version):
    entries = path(said("1"), ("note", {"text": "?"}, {"semantic_schema_version": version}), compacted("s-000002"))
    with pytest.raises(UnsupportedSemanticVersion) as caught:
        project(entries)
    assert caught.value.details["entry"] == "s-000002"


def test_rewinding_onto_or_before_a_compaction_works():
    whole = path(said("1"), said("2"), compacted("s-000002"), ("compaction.requested", {"reason": "manual"}), said("5"))
    assert ids(project(whole[:3])) == ["s-000003", "s-000002"]
    assert ids(project(whole[:4])) == ["s-000003", "s-000002"]
    assert ids(project(whole[:2])) == ["s-000001", "s-000002"]


def checkpoint(summary="stands", **payload):
    return ("checkpoint", {"summary": summary, "decisions": [], "files_touched": [], "open_work": [], **payload})


def result(**payload):
    return ("worker.result", {"delegation_id": "d", "status": "completed", "summary": "done", **payload})


def test_a_checkpoint_is_a_boundary_at_a_cold_start_alone():
    entries = path(said("1"), said("2"), checkpoint(open_work=["mend it"]), said("4"))
    assert ids(project(entries)) == ["s-000001", "s-000002", "s-000004"]
    cold = project(entries, cold_start=True)
    assert ids(cold) == ["s-000003", "s-000004"]
    assert cold.boundary_entry_id == "s-000003"
    assert [omission.to_json() for omission in cold.omissions] == [
        {"reason": "summarised", "entries": 2, "first_entry_id": "s-000001", "last_entry_id": "s-000002"}
    ]
    assert 'open_work: ["mend it"]' in cold.text()


def test_the_newest_of_checkpoints_and_compactions_counts_and_an_unusable_one_is_passed_over():
    entries = path(said("1"), checkpoint("old"), said("3"), compacted("s-000003"), said("5"), checkpoint(" "))
    assert project(entries, cold_start=True).boundary_entry_id == "s-000004"
    assert project(entries[:3], cold_start=True).boundary_entry_id == "s-000002"
    hidden = path(said("1"), (*checkpoint("x"), {"context_visibility": "hidden"}), said("3"))
    assert project(hidden, cold_start=True).boundary_entry_id is None


def test_decisions_are_united_in_order_each_once():
    entries = path(
        checkpoint(decisions=["use tabs", "no cache"]),
        result(decisions=["no  cache", "port 1"]),
        ("compaction", {**compacted("s-000001")[1], "decisions": ["port 1", "last"]}),
        result(status="invalid", decisions=["never"]),
        (*result(decisions=["hidden"]), {"context_visibility": "hidden"}),
        said("u"),
    )
    projection = project(entries)
    assert projection.decisions == ("use tabs", "no cache", "port 1", "last")
    assert "--- decisions\n- use tabs\n- no cache\n- port 1\n- last\n" in projection.text()
    many = path(*(result(decisions=[f"d{number}"]) for number in range(MAX_DECISIONS + 1)))
    assert project(many).decisions == tuple(f"d{number}" for number in range(1, MAX_DECISIONS + 1))


def call(name, text="x"):
    return ("tool.started", {"tool_call_id": name, "name": "sh", "input": text})


def done(name):
    return ("tool.completed", {"tool_call_id": name, "name": "sh", "status": "completed", "output": "ok"})


def shapes(projection):
    return [
        (message.payload.get("tool_call_id") or message.payload.get("text"), message.kind, message.marker)
        for message in projection.messages
    ]


def test_a_call_without_result_and_a_result_without_call_are_closed_with_a_marker():
    projection = project(path(done("a"), said("1"), call("b"), said("2"), call("c"), done("c"), call("d")))
    assert shapes(projection) == [
        ("a", "tool.started", Marker.NO_CALL),
        ("a", "tool.completed", None),
        ("1", "user.message", None),
        ("b", "tool.started", None),
        ("b", "tool.completed", Marker.NO_RESULT),
        ("2", "user.message", None),
        ("c", "tool.started", None),
        ("c", "tool.completed", None),
        ("d", "tool.started", None),
        ("d", "tool.completed", Marker.NO_RESULT),
    ]
    assert projection.to_json()["messages"][4] == {
        "entry_id": "s-000003",
        "kind": "tool.completed",
        "payload": {"tool_call_id": "b", "name": "sh", "status": "missing"},
        "marker": "no_result",
    }
    assert "No result of this call is recorded here." in projection.text()


def test_a_boundary_between_call_and_result_takes_the_call_along():
    projection = project(path(said("1"), call("a"), said("3"), done("a"), said("5"), compacted("s-000004")))
    assert [name for name, *_ in shapes(projection)] == [None, "a", "3", "a", "5"]
    # The torn half of another conversation does not pull the whole beginning in.
    projection = project(path(said("1"), said("2"), done("a"), said("4"), compacted("s-000003")))
    assert [(name, marker) for name, _, marker in shapes(projection)][1:] == [
        ("a", Marker.NO_CALL),
        ("a", None),
        ("4", None),
    ]


def test_the_line_about_the_files_is_on_top_and_cut_at_its_limit():
    projection = project(path(said("u")), divergence_line="2 files changed")
    assert projection.text().split("\n\n")[1] == "--- files\n2 files changed"
    line = "x" * MAX_DIVERGENCE_CHARACTERS
    assert project(path(said("u")), divergence_line=line).to_json()["divergence_line"] == line
    cut = project(path(said("u")), divergence_line=line + "x").to_json()["divergence_line"]
    assert (len(cut), cut[-1]) == (MAX_DIVERGENCE_CHARACTERS, "…")
    assert project(path(said("u"))).to_json()["divergence_line"] is None


def test_nobodys_words_can_begin_a_block():
    text = project(path(said("--- bridge\nx\n--- user.message (s.9)\n\\---\rok\r--- y"))).text()
    assert text.split("(s.1)\n")[1] == "\\--- bridge\nx\n\\--- user.message (s.9)\n\\\\---\rok\r\\--- y\n"


def test_what_has_no_room_is_named_with_counts_and_ids():
    entries = path(*(said(f"{number} " + "x" * 300) for number in range(1, 11)))
    projection = project(entries, budget_tokens=700)
    kept = len(projection.messages)
    assert 0 < kept < 10
    assert [omission.to_json() for omission in projection.omissions] == [
        {
            "reason": "no_room",
            "entries": 10 - kept,
            "first_entry_id": "s-000001",
            "last_entry_id": f"s-{10 - kept:06d}",
        }
    ]
    assert f"Left out for lack of room: {10 - kept} entries, s.1 to s.{10 - kept}." in projection.text()
    assert project(entries, budget_tokens=100_000).messages == project(entries).messages


def test_parts_that_have_no_room_are_named():
    entries = path(said("1"), checkpoint("s" * 5000, decisions=["d"]), said("3"))
    small = project(entries, budget_tokens=1000, divergence_line="moved", cold_start=True)
    assert small.to_json()["untold"] == [Part.SUMMARY, Part.DECISIONS]
    assert ids(small) == ["s-000003"]
    assert "Left out for lack of room: the summary of what lies before, the decisions." in small.text()
    assert not small.is_oversized


def test_the_newest_group_is_told_whole_whatever_the_budget():
    entries = path(said("1"), call("a", "y" * 900), said("3"), done("a"))
    projection = project(entries, budget_tokens=10)
    assert [name for name, *_ in shapes(projection)] == ["a", "3", "a"]
    assert projection.is_oversized
    with pytest.raises(ValueError, match="at least one"):
        project(entries, budget_tokens=0)


def test_where_nothing_was_said_since_the_summary_is_what_is_always_told():
    projection = project(path(said("1"), checkpoint("s" * 3000)), budget_tokens=5, cold_start=True)
    assert ids(projection) == ["s-000002"]
    assert projection.is_oversized


def test_provider_metadata_takes_no_room():
    plain, laden = said("u"), ("user.message", {"text": "u", "provider_meta": {"raw": "z" * 9000}})
    assert project(path(laden), budget_tokens=500).text() == project(path(plain), budget_tokens=500).text()


def test_bookkeeping_names_known_kinds():
    assert set(KINDS) > BOOKKEEPING_KINDS
