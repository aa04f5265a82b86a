"""Portable session files: what was written is read back the same, and nothing else is believed."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.canonical import MAX_DEPTH, canonical_text
from bridge.foundation.hashing import digest_hex, entry_hash
from bridge.transcripts.errors import TranscriptInvalid
from bridge.transcripts.portable import (
    FORMAT_VERSION,
    MAX_LINE_BYTES,
    Header,
    PortableEntry,
    read_lines,
    write_lines,
)

SESSION = "20260102-030405-9f3a"
HEADER = Header(
    session={"id": SESSION, "active_entry_id": f"{SESSION}-000001", "label": "a ü"},
    labels={"start": f"{SESSION}-000001"},
    exported_at="2026-01-02T03:04:05.000000Z",
)
MOMENT = "2026-01-02T03:04:05.000000Z"


def entry(sequence, parent, text, *, session=SESSION, kind="user.message", version=2, state=None):
    """An entry under a parent entry (None for a root), with all its hashes right."""
    values = {
        "entry_id": f"{session}-{sequence:06d}",
        "kind": kind,
        "semantic_schema_version": version,
        "payload_hash": digest_hex(text.encode()),
        "context_visibility": "eligible",
        "external_id": None,
        "created_at": MOMENT,
    }
    stamp = {"unknown": "no_path"} if state is None else {"state_digest": state}
    sealed = entry_hash(parent_entry_hash=None if parent is None else parent.entry_hash, stamp=stamp, **values)
    del values["entry_id"]
    return PortableEntry(
        id=f"{session}-{sequence:06d}",
        session_id=session,
        parent_entry_id=None if parent is None else parent.id,
        sequence=sequence,
        state_digest=state,
        unknown_reason="no_path" if state is None else None,
        unknown_path=None,
        unknown_detail=None,
        observed_at=None,
        external_source=None,
        entry_hash=sealed,
        payload_text=text,
        **values,
    )


def session_of(*texts):
    entries = [entry(0, None, "{}", kind="session.root")]
    for number, text in enumerate(texts, 1):
        entries.append(entry(number, entries[-1], text))
    return entries


def lines_of(entries, header=HEADER):
    return list(write_lines(header, entries))


def test_what_was_written_is_read_back():
    entries = session_of('{"text":"hello"}', '{"text":"ü\\n1.50","x":1.50}')
    found = read_lines(lines_of(entries))
    assert found.entries == tuple(entries)
    assert found.header == HEADER


def test_the_digest_covers_the_entry_lines_alone():
    lines = lines_of(session_of('{"text":"hello"}'))
    footer = json.loads(lines[-1])
    assert footer == {"type": "footer", "entries": 2, "digest": sha256(b"".join(lines[1:-1])).hexdigest()}
    other = lines_of(session_of('{"text":"hello"}'), Header({**HEADER.session, "label": "new"}, {}, MOMENT))
    assert other[-1] == lines[-1]


def nested(depth):
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"text":"x"}', "payload"),
        ('{"b":1, "a":2}', "payload_text"),
        ('{"b":1,"a":2}', "payload_text"),
        ("{damaged", "payload_text"),
        ("", "payload_text"),
        (nested(MAX_DEPTH - 1), "payload"),
        (nested(MAX_DEPTH), "payload_text"),
    ],
)
def test_a_payload_is_an_object_in_its_line_or_text_where_that_would_change_it(text, field):
    lines = lines_of(session_of(text))
    assert set(json.loads(lines[2])) & {"payload", "payload_text"} == {field}
    assert read_lines(lines).entries[1].payload_text == text


def test_a_fork_brings_what_it_shares():
    shared = session_of('{"text":"one"}')
    origin = {"forked_from": {"entry_id": shared[-1].id, "entry_hash": shared[-1].entry_hash}}
    root = entry(0, None, canonical_text(origin), session="20260102-030405-0001", kind="session.root")
    own = entry(1, root, '{"text":"two"}', session="20260102-030405-0001")
    assert read_lines(lines_of([*shared, root, own])).entries[-1] == own
    with pytest.raises(TranscriptInvalid) as caught:
        read_lines(lines_of([root, own]))
    assert caught.value.details["reason"] == "origin_missing"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), max_size=4))
def test_any_payloads_survive(payloads):
    entries = session_of(*(canonical_text(payload) for payload in payloads))
    assert read_lines(lines_of(entries)).entries == tuple(entries)


def change(lines, number, **values):
    line = json.loads(lines[number])
    line.update(values)
    return [*lines[:number], json.dumps(line).encode() + b"\n", *lines[number + 1 :]]


LINES = lines_of(session_of('{"text":"one"}', '{"text":"two"}', '{"text":"three"}'))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "cut_short"),
        (LINES[:-1], "cut_short"),
        ([*LINES[:-1], LINES[-1].rstrip(b"\n")], "cut_short"),
        (LINES[1:], "no_header"),
        ([LINES[0], LINES[0], *LINES[1:]], "unknown_type"),
        ([*LINES, LINES[-1]], "after_footer"),
        ([LINES[0], b"{\n"], "not_json"),
        ([LINES[0], b"\xff\n"], "not_json"),
        ([b"[]\n"], "not_an_object"),
        (change(LINES, 0, format_version=99), "unsupported_version"),
        (change(LINES, 0, format_version=True), "unsupported_version"),
        (change(LINES, 0, format_version="1"), "unsupported_version"),
        (change(LINES, 0, session={}), "bad_header"),
        (change(LINES, 0, labels=[]), "bad_header"),
        (change(LINES, 2, unheard_of=1), "bad_entry"),
        (change(LINES, 2, sequence="1"), "bad_entry"),
        (change(LINES, 2, sequence=True), "bad_entry"),
        (change(LINES, 2, unknown_reason=None), "bad_entry"),
        (change(LINES, 2, payload_text="{}"), "bad_entry"),
        (change(LINES, 2, payload={"text": "other"}), "payload_altered"),
        (change(LINES, 2, context_visibility="hidden"), "entry_altered"),
        (change(LINES, 3, parent_entry_id=f"{SESSION}-000000"), "entry_altered"),
        (change(LINES, 3, parent_entry_id=f"{SESSION}-000009"), "parent_missing"),
        ([LINES[0], LINES[2], *LINES[2:]], "parent_missing"),
        ([*LINES[:3], LINES[2], *LINES[3:]], "duplicate_entry"),
        ([*LINES[:4], LINES[5]], "entries_missing"),
        (change(LINES, 5, digest="0" * 64), "digest_differs"),
        (change(LINES, 4, observed_at="2026-01-01T00:00:00.000000Z"), "digest_differs"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused_by_line_and_reason(lines, reason):
    with pytest.raises(TranscriptInvalid) as caught:
        read_lines(lines)
    assert caught.value.details["reason"] == reason
    assert caught.value.details["line"] >= 1


def test_versions_found_and_supported_are_named():
    with pytest.raises(TranscriptInvalid) as caught:
        read_lines(change(LINES, 0, format_version=99))
    assert caught.value.details["found"] == 99
    assert caught.value.details["supported"] == [FORMAT_VERSION]


def test_a_line_beyond_the_limit_is_refused():
    with pytest.raises(TranscriptInvalid) as caught:
        read_lines([b" " * MAX_LINE_BYTES + b"\n"])
    assert caught.value.details["reason"] == "line_too_long"
    assert caught.value.details["line"] == 1


@given(st.binary(max_size=200), st.integers(0, len(LINES)))
def test_any_other_bytes_are_a_typed_error(data, place):
    with pytest.raises(TranscriptInvalid):
        read_lines([*LINES[:place], data + b"\n", *LINES[place:]])
