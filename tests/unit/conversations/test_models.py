"""Drafts and entries as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bridge.conversations.models import Entry, EntryDraft, PreparedEntry
from bridge.foundation.ids import new_session_id
from bridge.semantics.stamps import UNSTAMPED, Stamp, UnknownReason


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"payload": {}, "payload_text": "{}"},
        {"payload": {}, "parent_entry_id": "a", "cursor": "b"},
    ],
)
def test_contradictory_drafts(options):
    with pytest.raises(ValueError, match="a draft"):
        EntryDraft(kind="note", **options)


def sealed(stamp=UNSTAMPED, **options) -> Entry:
    prepared = PreparedEntry(
        kind="note",
        payload_text='{"text":"x"}',
        payload_hash="a" * 64,
        context_visibility="eligible",
        stamp=stamp,
        created_at="t",
        **options,
    )
    return prepared.seal("s", 7, ("s-000003", "b" * 64))


def test_an_entry_has_its_place_and_recomputes_its_hash():
    entry = sealed(external_id="x", external_source="host")
    assert (entry.id, entry.parent_entry_id, entry.sequence) == ("s-000007", "s-000003", 7)
    assert entry.compute_hash("b" * 64) == entry.entry_hash
    assert entry.compute_hash("c" * 64) != entry.entry_hash
    assert entry.payload == {"text": "x"}


def test_json_has_the_published_names():
    assert sealed(Stamp(state_digest="d" * 64, observed_at="o")).to_json() == {
        "id": "s-000007",
        "session_id": "s",
        "parent_entry_id": "s-000003",
        "sequence": 7,
        "semantic_schema_version": 2,
        "kind": "note",
        "payload": {"text": "x"},
        "context_visibility": "eligible",
        "stamp": {"state_digest": "d" * 64, "observed_at": "o"},
        "external_id": None,
        "external_source": None,
        "created_at": "t",
        "payload_hash": "a" * 64,
        "entry_hash": sealed(Stamp(state_digest="d" * 64)).entry_hash,
    }
    unknown = Stamp(unknown_reason=UnknownReason.UNREADABLE_PATH, unknown_path="p", unknown_detail="d", observed_at="o")
    assert sealed(unknown).to_json()["stamp"] == {
        "unknown": "unreadable_path",
        "path": "p",
        "detail": "d",
        "observed_at": "o",
    }


def test_a_reason_from_a_newer_program_reads_as_unknown_version():
    fields = {**sealed().__dict__, "unknown_reason": "moon_phase"}
    entry = Entry.from_row(fields[name] for name in Entry.__dataclass_fields__)
    assert entry.stamp == Stamp(unknown_reason=UnknownReason.STAMP_VERSION, unknown_detail="moon_phase")


def test_session_ids_sort_by_time():
    assert new_session_id(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "9f3a") == "20260102-030405-9f3a"
