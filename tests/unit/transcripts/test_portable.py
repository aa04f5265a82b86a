"""Portable session files: what was written is read back the same, and nothing else is believed."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.canonical import MAX_DEPTH, canonical_text
from bridge.foundation.hashing import digest_hex, entry_hash
from bridge.semantics.schemas import field_errors, validator
from bridge.transcripts.errors import TranscriptInvalid, TranscriptPartial, UnsupportedTranscriptVersion
from bridge.transcripts.portable import (
    FORMAT_VERSION,
    MAX_LINE_BYTES,
    Header,
    PortableEntry,
    PortableWriter,
    SessionHeader,
    line_of,
)
from bridge.transcripts.portable_reading import EntryIndex, check, records

SESSION = "20260102-030405-9f3a"
MOMENT = "2026-01-02T03:04:05.000000Z"


def entry(sequence, parent, text, *, session=SESSION, kind="user.message", version=2, state=None, **changes):
    """An entry under a parent entry (None for a root), with all its hashes right."""
    values = {
        "kind": kind,
        "semantic_schema_version": version,
        "payload_hash": digest_hex(text.encode()),
        "context_visibility": "eligible",
        "external_id": None,
        "created_at": MOMENT,
    }
    values.update({name: value for name, value in changes.items() if name in values})
    stamp = {"unknown": "no_path"} if state is None else {"state_digest": state}
    sealed = entry_hash(
        parent_entry_hash=None if parent is None else parent.entry_hash,
        stamp=stamp,
        entry_id=f"{session}-{sequence:06d}",
        **values,
    )
    made = PortableEntry(
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
    return made._replace(**{name: value for name, value in changes.items() if name not in values})


def root(session=SESSION, payload="{}"):
    return entry(0, None, payload, session=session, kind="session.root", context_visibility="hidden")


def session_of(*texts):
    entries = [root()]
    for number, text in enumerate(texts, 1):
        entries.append(entry(number, entries[-1], text))
    return entries


def session_header(entries, *, complete=True, **changes):
    values = {
        "id": entries[0].session_id,
        "kind": "chat",
        "workspace_id": None,
        "agent_id": None,
        "harness": None,
        "label": "a ü",
        "status": "open",
        "parent_session_id": None,
        "parent_relation": None,
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "active_entry_id": entries[-1].id,
        "next_sequence": entries[-1].sequence + 1,
        "complete": complete,
        "labels": {"start": entries[0].id},
    }
    return SessionHeader(**{**values, **changes})


def lines_of(*sessions, headers=None, moment=MOMENT, hidden=True, before=()):
    writer = PortableWriter()
    headers = tuple(session_header(entries) for entries in sessions) if headers is None else headers
    header = Header(
        session_id=sessions[-1][0].session_id, scope="forest", hidden=hidden, sessions=headers, exported_at=moment
    )
    lines = [writer.header(header)]
    lines += [getattr(writer, name)(*values) for name, *values in before]
    lines += [writer.entry(one) for entries in sessions for one in entries]
    return [*lines, writer.footer()]


def read(lines):
    return check(BytesIO(b"".join(lines)))


def entries_of(lines):
    read(lines)
    return [record for record in records(BytesIO(b"".join(lines))) if isinstance(record, PortableEntry)]


def test_what_was_written_is_read_back():
    entries = session_of('{"text":"hello"}', '{"text":"ü\\n1.50","x":1.50}')
    lines = lines_of(entries)
    found = read(lines)
    assert entries_of(lines) == entries
    assert found.header.sessions == (session_header(entries),)
    assert list(found.indexes[SESSION].items()) == [(one.sequence, one.entry_hash) for one in entries]
    assert found.bytes == sum(map(len, lines))
    assert found.file_digest == sha256(b"".join(lines)).hexdigest()


def test_the_digest_covers_the_entry_lines_alone_and_does_not_change_with_the_clock():
    entries = session_of('{"text":"hello"}')
    lines = lines_of(entries)
    footer = json.loads(lines[-1])
    assert footer == {
        "type": "footer",
        "entries": 2,
        "states": 0,
        "manifests": 0,
        "pages": 0,
        "kinds": {"session.root": 1, "user.message": 1},
        "digest": sha256(b"".join(lines[1:-1])).hexdigest(),
    }
    later = lines_of(entries, moment="2030-01-01T00:00:00.000000Z", headers=(session_header(entries, label="new"),))
    assert later[1:] == lines[1:]


def nested(depth):
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"text":"x"}', "payload"),
        ('{"a":null,"b":1.50,"c":18446744073709551615,"d":1e400}', "payload_text"),
        ('{"a":null,"b":1.50,"c":18446744073709551615}', "payload"),
        ('{"a":1e5,"b":-0.0,"c":100000000000000000000.0}', "payload"),
        ('{"b":1, "a":2}', "payload_text"),
        ('{"b":1,"a":2}', "payload_text"),
        ('{"a":1,"a":1}', "payload_text"),
        ('{"a":"\\u0041"}', "payload_text"),
        ("{damaged", "payload_text"),
        ("NaN", "payload_text"),
        ("", "payload_text"),
        ("[1,2]", "payload"),
        ("null", "payload"),
        (nested(MAX_DEPTH - 1), "payload"),
        (nested(MAX_DEPTH), "payload_text"),
        (nested(300), "payload_text"),
    ],
)
def test_a_payload_is_a_value_in_its_line_or_text_where_that_would_change_it(text, field):
    lines = lines_of(session_of(text))
    assert set(json.loads(lines[2])) & {"payload", "payload_text"} == {field}
    assert entries_of(lines)[1].payload_text == text


SEPARATORS = "a\u2028b\u0085c\u2029d\x0b\x0c\x1c\x1d\x1e\r\n\x00\x7fe"


@pytest.mark.parametrize("text", [canonical_text({"text": SEPARATORS}), f"not json {SEPARATORS}"])
def test_fc_14_no_line_holds_what_anyone_takes_for_its_end(text):
    made = entry(1, root(), text, external_id=SEPARATORS, external_source="\u2028")
    lines = lines_of([root(), made], headers=(session_header([root(), made], label="x\u2028y"),))
    for line in lines:
        assert line.endswith(b"\n")
        assert len(line.decode().splitlines()) == 1
    assert entries_of(lines) == [root(), made]


def test_fc_14_a_carriage_return_before_the_line_feed_is_not_part_of_the_record():
    lines = lines_of(session_of('{"text":"one"}'))
    assert read([line[:-1] + b"\r\n" for line in lines]).digest == read(lines).digest


def fork_of(shared, session="20260102-030405-0001"):
    origin = {"forked_from": {"entry_id": shared[-1].id, "entry_hash": shared[-1].entry_hash}}
    first = root(session, canonical_text(origin))
    return [first, entry(1, first, '{"text":"two"}', session=session)]


def test_a_fork_brings_what_it_shares():
    whole = session_of('{"text":"one"}', '{"text":"aside"}')
    shared = [*whole[:2], entry(3, whole[1], '{"text":"more"}')]
    fork = fork_of(shared)
    headers = (session_header(shared, complete=False, next_sequence=9), session_header(fork))
    lines = lines_of(shared, fork, headers=headers)
    assert entries_of(lines) == [*shared, *fork]
    assert read(lines).origins == {fork[0].session_id: {"entry_id": shared[-1].id, "entry_hash": shared[-1].entry_hash}}
    assert read(lines).indexes[SESSION].has_gaps


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (lines_of(fork_of(session_of("{}"))), "origin_missing"),
        (lines_of(session_of("{}"), [root("other"), entry(1, root("other"), "{}", session="other")]), "origin_missing"),
        (lines_of(fork_of(session_of("{}")), session_of("{}")), "origin_missing"),
    ],
)
def test_what_a_fork_shares_must_come_before_it(lines, reason):
    with pytest.raises(TranscriptInvalid) as caught:
        read(lines)
    assert caught.value.details["reason"] == reason


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4).map(canonical_text) | TEXT, max_size=4))
def test_any_payloads_survive(texts):
    entries = session_of(*texts)
    assert entries_of(lines_of(entries)) == entries


@given(st.sets(st.integers(0, 200), min_size=1))
def test_an_index_finds_what_it_was_given(sequences):
    index = EntryIndex()
    for sequence in sorted(sequences):
        index.add(sequence, digest_hex(b"%d" % sequence))
    for sequence in range(-1, 202):
        assert index.find(sequence) == (digest_hex(b"%d" % sequence) if sequence in sequences else None)
    assert index.last == max(sequences)
    assert index.has_gaps == (len(sequences) != max(sequences) + 1)


def change(lines, number, **values):
    line = {**json.loads(lines[number]), **values}
    return [*lines[:number], line_of(line), *lines[number + 1 :]]


def change_session(lines, **values):
    header = json.loads(lines[0])
    header["sessions"][-1].update(values)
    return [line_of(header), *lines[1:]]


STATE = canonical_text(
    {
        "dirty_hash": "d" * 64,
        "head": "a" * 40,
        "operation": None,
        "ref": None,
        "repository_id": "r",
        "settings_digest": "s",
        "stamp_version": 1,
        "worktree_id": "w",
    }
)
PAGE_DIGEST = digest_hex(b"rows")
INDEX = canonical_text([{"directory": "a", "page": PAGE_DIGEST}])
WITH_STATE = lines_of(
    session_of('{"text":"one"}'),
    before=[
        ("page", PAGE_DIGEST, b"rows"),
        ("manifest", "d" * 64, INDEX),
        ("state", digest_hex(STATE.encode()), STATE),
    ],
)
LINES = lines_of(session_of('{"text":"one"}', '{"text":"two"}', '{"text":"three"}'))


def test_states_are_read_back_with_their_manifests():
    found = list(records(BytesIO(b"".join(WITH_STATE))))
    assert (found[1].page_digest, found[1].body) == (PAGE_DIGEST, b"rows")
    assert (found[2].dirty_hash, found[2].text) == ("d" * 64, INDEX)
    assert (found[3].state_digest, found[3].text) == (digest_hex(STATE.encode()), STATE)
    assert read(WITH_STATE).tally.states == 1


@pytest.mark.parametrize(
    ("lines", "reason", "number"),
    [
        ([], "cut_short", 1),
        (LINES[:-1], "cut_short", 5),
        ([*LINES[:-1], LINES[-1].rstrip(b"\n")], "cut_short", 6),
        ([*LINES[:2], LINES[2][:40] + b"\n", *LINES[3:]], "not_json", 3),
        ([*LINES[:2], LINES[2][:40], *LINES[3:]], "not_json", 3),
        (LINES[1:], "no_header", 1),
        ([b"\n", *LINES], "not_json", 1),
        ([b"\xef\xbb\xbf" + LINES[0], *LINES[1:]], "not_json", 1),
        ([LINES[0], LINES[0], *LINES[1:]], "unknown_type", 2),
        ([*LINES, LINES[-1]], "after_footer", 7),
        ([*LINES, b"\n"], "after_footer", 7),
        ([LINES[0], b"{\n"], "not_json", 2),
        ([LINES[0], b"\xff\n"], "not_json", 2),
        ([LINES[0], LINES[1][:-1] + LINES[2], *LINES[3:]], "several_records", 2),
        ([b"[]\n"], "not_an_object", 1),
        (change(LINES, 0, sessions=[]), "bad_header", 1),
        (change(LINES, 0, session_id="other"), "bad_header", 1),
        (change(LINES, 0, unheard_of=1), "bad_header", 1),
        (change_session(LINES, labels=[]), "bad_header", 1),
        (change_session(LINES, id="a/b"), "bad_header", 1),
        (change_session(LINES, kind="other"), "bad_header", 1),
        (change_session(LINES, created_at="yesterday"), "bad_header", 1),
        (change_session(LINES, labels={"x": f"{SESSION}-000009"}), "bad_header", 6),
        (change_session(LINES, active_entry_id=f"{SESSION}-000009"), "bad_header", 6),
        (change_session(LINES, active_entry_id="somewhere"), "bad_header", 6),
        (change_session(LINES, next_sequence=5), "entries_missing", 6),
        (change_session(LINES, next_sequence=2, complete=False), "bad_header", 6),
        (change(LINES, 2, unheard_of=1), "bad_entry", 3),
        (change(LINES, 2, sequence="1"), "bad_entry", 3),
        (change(LINES, 2, sequence=True), "bad_entry", 3),
        (change(LINES, 2, unknown_reason=None), "bad_entry", 3),
        (change(LINES, 2, external_id="x"), "bad_entry", 3),
        (change(LINES, 2, payload_text="{}"), "bad_entry", 3),
        (change(LINES, 2, id=f"{SESSION}-000007"), "bad_entry", 3),
        (change(LINES, 2, parent_entry_id=None), "bad_entry", 3),
        (change(LINES, 2, kind="session.root"), "bad_entry", 3),
        (change(LINES, 2, parent_entry_id="what"), "bad_entry", 3),
        (change(LINES, 1, kind="note"), "bad_entry", 2),
        (change(LINES, 2, kind="assistant.message.delta"), "transient_kind", 3),
        (change(LINES, 2, payload={"text": "other"}), "payload_altered", 3),
        (change(LINES, 2, context_visibility="hidden"), "entry_altered", 3),
        (change(LINES, 2, semantic_schema_version=3), "entry_altered", 3),
        (change(LINES, 3, parent_entry_id=f"{SESSION}-000000"), "entry_altered", 4),
        (change(LINES, 3, parent_entry_id=f"{SESSION}-000003"), "cycle", 4),
        (change(LINES, 3, parent_entry_id=f"{SESSION}-000002"), "cycle", 4),
        (change(LINES, 3, parent_entry_id="other-000001"), "foreign_parent", 4),
        (change(LINES, 3, session_id="other", id="other-000002"), "foreign_session", 4),
        ([LINES[0], LINES[2], *LINES[2:]], "parent_missing", 2),
        ([*LINES[:3], LINES[2], *LINES[3:]], "duplicate_entry", 4),
        ([*LINES[:2], LINES[3], LINES[2], *LINES[4:]], "parent_missing", 3),
        ([*LINES[:4], LINES[5]], "entries_missing", 5),
        (change(LINES, 5, digest="0" * 64), "digest_differs", 6),
        (change(LINES, 5, entries=5), "entries_missing", 6),
        (change(LINES, 5, kinds={"session.root": 4}), "kinds_differ", 6),
        (change(LINES, 5, states=1), "states_missing", 6),
        (change(LINES, 4, observed_at="2026-01-01T00:00:00.000000Z"), "digest_differs", 6),
        ([*LINES[:2], LINES[2].replace(b":", b": ", 1), *LINES[3:]], "not_canonical", 3),
        ([*LINES[:2], LINES[2].replace(b'"one"', b'"\\u006fne"'), *LINES[3:]], "not_canonical", 3),
        ([LINES[0].replace(b":", b": ", 1), *LINES[1:]], "not_canonical", 1),
        ([*WITH_STATE[:1], *WITH_STATE[2:]], "page_missing", 2),
        ([*WITH_STATE[:2], WITH_STATE[1], *WITH_STATE[2:]], "duplicate_digest", 3),
        ([*WITH_STATE[:3], *WITH_STATE[4:]], "states_missing", 6),
        (change(WITH_STATE, 1, body="cm93cw"), "bad_page", 2),
        (change(WITH_STATE, 1, body="cm93cz=="), "bad_page", 2),
        (change(WITH_STATE, 1, body="cm93dA=="), "page_altered", 2),
        (change(WITH_STATE, 3, state={**json.loads(STATE), "head": "b" * 40}), "state_altered", 4),
        (change(WITH_STATE, 3, state={**json.loads(STATE), "more": 1}), "bad_state", 4),
    ],
)
def test_what_is_not_as_it_was_written_is_refused_by_line_offset_and_reason(lines, reason, number):
    with pytest.raises(TranscriptInvalid) as caught:
        read(lines)
    details = caught.value.details
    assert (details["reason"], details["line"]) == (reason, number)
    data = b"".join(lines)
    assert data[: details["offset"]].count(b"\n") in {number - 1, data.count(b"\n") - 1}


@pytest.mark.parametrize("lines", [LINES, WITH_STATE])
def test_an_integer_that_is_written_as_a_fraction_is_refused_wherever_it_stands(lines):
    places = [
        (number, found.end())
        for number, line in enumerate(lines)
        for found in re.finditer(rb"(?<=[:,\[])[0-9]+(?=[,}\]])", line)
    ]
    assert {json.loads(lines[number])["type"] for number, _ in places} >= {"bridge.session", "entry"}
    for number, end in places:
        changed = [*lines[:number], lines[number][:end] + b".0" + lines[number][end:], *lines[number + 1 :]]
        with pytest.raises((TranscriptInvalid, UnsupportedTranscriptVersion)):
            read(changed)


def test_an_entry_beside_its_place_is_out_of_order():
    branches = session_of('{"text":"one"}', '{"text":"two"}')
    aside = entry(3, branches[1], '{"text":"aside"}')
    lines = lines_of([*branches, aside])
    lines[3], lines[4] = lines[4], lines[3]
    with pytest.raises(TranscriptInvalid) as caught:
        read(lines)
    assert (caught.value.details["reason"], caught.value.details["line"]) == ("out_of_order", 5)


@pytest.mark.parametrize("version", [99, 0, 2, "1", True, None, 1.0, [1]])
def test_fc_62_another_format_version_is_named_and_nothing_is_read(version):
    with pytest.raises(UnsupportedTranscriptVersion) as caught:
        read([line_of({**json.loads(LINES[0]), "format_version": version, "more": 1}), *LINES[1:]])
    assert caught.value.details["supported"] == [FORMAT_VERSION]
    assert caught.value.details["line"] == 1


def test_fc_62_an_entry_of_an_unknown_semantic_version_is_carried_as_it_is():
    made = entry(1, root(), '{"text":"x"}', version=99, kind="of.the.future")
    assert entries_of(lines_of([root(), made])) == [root(), made]


def test_a_file_without_hidden_entries_is_for_reading_only():
    with pytest.raises(TranscriptPartial):
        read(lines_of(session_of("{}"), hidden=False))


def test_a_line_beyond_the_limit_is_refused():
    with pytest.raises(TranscriptInvalid) as caught:
        read([b" " * MAX_LINE_BYTES + b"\n"])
    assert caught.value.details["reason"] == "line_too_long"
    assert caught.value.details["line"] == 1


@given(st.binary(max_size=200), st.integers(0, len(LINES)))
def test_any_other_bytes_are_a_typed_error(data, place):
    with pytest.raises(TranscriptInvalid):
        read([*LINES[:place], data + b"\n", *LINES[place:]])


@given(st.data())
def test_any_flipped_bit_is_a_typed_error_but_in_what_nothing_pins(data):
    whole = bytearray(b"".join(WITH_STATE))
    # Nothing pins the header, and a manifest is checked where rows of manifests can be read.
    ends = list(accumulate(map(len, WITH_STATE)))
    place = data.draw(st.integers(ends[0], ends[1] - 1) | st.integers(ends[2], len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(TranscriptInvalid):
        check(BytesIO(bytes(whole)))


@pytest.mark.parametrize("lines", [LINES, WITH_STATE])
def test_every_line_fits_its_published_schema(lines):
    for line in lines:
        value = json.loads(line)
        name = {"bridge.session": "header"}.get(value["type"], value["type"])
        assert field_errors(validator(f"portable/v{FORMAT_VERSION}/{name}"), value) == []


ROOT = Path(__file__).resolve().parents[3]


def test_the_page_names_every_reason_and_every_schema():
    page = (ROOT / "docs/portable-format.md").read_text()
    source = (ROOT / "bridge/transcripts/portable_reading.py").read_text()
    given = set(re.findall(r'invalid\(\s*"([a-z_]+)"', source)) | set(re.findall(r'"(bad_[a-z]+)"', source))
    given |= {f"{name}_missing" for name in ("entries", "states", "manifests", "pages")}
    given |= {f"bad_{name}" for name in ("state", "manifest", "page")}
    listed = page.partition("and a reason:")[2].partition("Then the file")[0]
    assert set(re.findall(r"`([a-z_]+)`", listed)) == given
    schemas = {path.name for path in (ROOT / f"schema/portable/v{FORMAT_VERSION}").glob("*.json")}
    assert set(re.findall(r"schema/portable/v1/([a-z]+\.json)\)", page)) == schemas
    assert f"format version is {FORMAT_VERSION}" in page
    assert f"{MAX_LINE_BYTES // 2**20} MiB" in page
