"""From a path to a context: what is in, what is out, where it begins."""

from __future__ import annotations

import json

import pytest

from bridge.conversations.models import PreparedEntry
from bridge.conversations.projection import BOOKKEEPING_KINDS, project
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
    assert project(path()).to_json() == {"messages": [], "boundary_entry_id": None, "model": None, "effort": None}


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


def test_bookkeeping_names_known_kinds():
    assert set(KINDS) > BOOKKEEPING_KINDS
