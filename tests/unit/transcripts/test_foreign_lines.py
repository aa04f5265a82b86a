"""Lines and records of files that may be damaged: nothing is lost, nothing is invented."""

from __future__ import annotations

import json
from hashlib import sha256
from io import BytesIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.transcripts.foreign import lines as module
from bridge.transcripts.foreign.lines import content_of, lines_of
from bridge.transcripts.foreign.neutral import MAX_OPAQUE_BYTES, Recent, opaque
from bridge.transcripts.foreign.records import (
    MAX_REJOINED_LINES,
    NOT_A_NUMBER,
    NOT_UNICODE,
    Record,
    pieces_of,
)


def read(data, **how):
    return list(lines_of(BytesIO(data), **how))


def pieces(data, is_record=lambda value: "id" in value):
    return list(pieces_of(lines_of(BytesIO(data)), is_record))


def values(data, **how):
    return [record.value for piece in pieces(data, **how) for record in piece.records]


def damages(data, **how):
    return [(one.kind, one.line, one.offset) for piece in pieces(data, **how) for one in piece.damages]


@settings(max_examples=40)
@given(st.binary(max_size=400), st.integers(1, 60))
@example(b"a\r\n\nb", 3)
def test_lines_are_the_bytes_whatever_they_are(data, block):
    module.BLOCK_BYTES, kept = block, module.BLOCK_BYTES
    try:
        found = read(data)
    finally:
        module.BLOCK_BYTES = kept
    assert b"".join(line.data for line in found) == data
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    for line in found:
        assert data[line.offset : line.offset + line.size] == line.data
        assert b"\n" not in line.data[:-1]


@settings(max_examples=40)
@given(st.binary(max_size=400), st.integers(1, 40), st.integers(1, 60))
def test_a_line_that_is_too_long_is_told_with_its_digest(data, most, block):
    module.BLOCK_BYTES, kept = block, module.BLOCK_BYTES
    try:
        found = read(data, max_bytes=most)
    finally:
        module.BLOCK_BYTES = kept
    assert sum(line.size for line in found) == len(data)
    for line in found:
        original = data[line.offset : line.offset + line.size]
        assert original.count(b"\n") == line.is_ended
        assert line.is_too_long == (line.size > most)
        if line.is_too_long:
            assert (line.data, line.digest) == (b"", sha256(original).hexdigest())


def test_the_edge_of_a_line_that_is_read():
    assert not read(b"abc\n", max_bytes=4)[0].is_too_long
    assert read(b"abcd\n", max_bytes=4)[0].is_too_long


def test_bytes_are_handed_on_as_they_are_read():
    seen = []
    read(b"a\nb", seen=seen.append)
    assert b"".join(seen) == b"a\nb"


def test_what_ends_a_line_is_no_part_of_it():
    assert [content_of(data) for data in (b"a\n", b"a\r\n", b"a", b"a\r", b"\r\n")] == [b"a", b"a", b"a", b"a\r", b""]


def test_repairs_are_made_where_they_are_certain():
    good = b'{"id":1}\n'
    assert values(good + b'{"id":2}{"id":3}\n' + good) == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 1}]
    assert damages(good + b'{"id":2}{"id":3}\n') == [("several_records", 2, 9)]
    assert values(b'{"id":"e9","te{"id":"e10"}\n') == [{"id": "e10"}]
    assert damages(b'{"id":8}{"id":"e9","te{"id":"e10"}\n') == [("welded", 1, 8), ("several_records", 1, 0)]
    assert values(b'{"id":"x","t":"a\nb\nc"}\n' + good) == [{"id": "x", "t": "a\nb\nc"}, {"id": 1}]


def test_a_part_of_a_torn_record_is_no_record():
    torn = b'{"id":"x","content":[{"type":"text","text":"hi"}'
    assert values(torn + b"\n" + b'{"id":1}\n') == [{"id": 1}]
    assert damages(torn) == [("torn_tail", 1, 0)]
    assert pieces(torn)[-1].is_open


def test_bad_lines_before_a_torn_tail_are_told_by_themselves():
    assert damages(b'{"bad\n{"torn') == [("not_json", 1, 0), ("torn_tail", 2, 6)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\xff\n", "not_utf8"), (b"[1]\n", "not_an_object"), (b"nonsense\n", "not_json"), (b'{"a":1e999}\n', "lenient")],
)
def test_kinds_of_damage(data, kind):
    assert damages(data)[0][0] == kind


def test_a_whole_last_record_needs_no_line_feed_and_blank_lines_are_none():
    assert values(b'\n  \n{"id":1}') == [{"id": 1}]
    assert damages(b'\n  \n{"id":1}') == []


def test_what_no_entry_can_hold_becomes_a_marked_text():
    (value,) = values(b'{"id":"\\ud800x","n":NaN,"big":123456789012345678901234567890,"l":[-1e999]}\n')
    assert value["id"] == NOT_UNICODE + "\\ud800x"
    assert (value["n"], value["l"]) == (NOT_A_NUMBER + "nan", [NOT_A_NUMBER + "-inf"])
    assert value["big"] == NOT_A_NUMBER + "123456789012345678901234567890"


def test_regions_of_bad_lines_are_bounded():
    found = pieces(b'{"x\n' * (3 * MAX_REJOINED_LINES) + b'{"id":1}\n')
    assert sum(len(piece.lines) for piece in found) == 3 * MAX_REJOINED_LINES + 1
    assert max(len(piece.lines) for piece in found) <= MAX_REJOINED_LINES


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_no_byte_is_lost_or_read_twice(data):
    found = pieces(data)
    assert b"".join(line.data for piece in found for line in piece.lines) == data
    assert [piece.is_open for piece in found[:-1]] == [False] * len(found[:-1])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.text(max_size=8), _JSON, max_size=4)


@settings(max_examples=40)
@given(st.lists(_OBJECTS, max_size=5), st.data())
def test_good_records_are_found_whatever_stands_between_them(objects, data):
    written = []
    for value in objects:
        written.append(json.dumps({**value, "id": "good"}).encode() + b"\n")
        if data.draw(st.booleans()):
            written.append(data.draw(st.sampled_from([b"", b"\n", b'{"torn\n', b"\xff\xfe\n", b"null\n", b"}\n"])))
    found = [value for value in values(b"".join(written)) if value.get("id") == "good"]
    assert len(found) == len(objects)


def test_the_last_values_are_kept_and_no_more():
    recent = Recent(2)
    for number in range(5):
        recent[str(number)] = number
    assert recent.to_json() == {"3": 3, "4": 4}
    assert recent.get("4") == recent.pop("4") == 4
    assert "4" not in recent


def test_a_long_record_without_a_meaning_is_kept_by_its_name():
    def record(size):
        (line,) = read(b"x" * size)
        return Record({"type": "t"}, line, "")

    assert opaque("t", record(MAX_OPAQUE_BYTES)) == {"raw_type": "t", "raw": {"type": "t"}}
    assert opaque(None, record(MAX_OPAQUE_BYTES + 1)) == {"raw_type": "unknown"}
