"""Reading session files: what is taken, and how everything else is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transcripts.sessionfile import MAX_ENTRIES, MAX_FILE_BYTES, MAX_LINE_BYTES, SessionFileError
from bridge.transcripts.sessionfile.reading import generation, read
from tests.sessionfiles import TIME, as_line, calling, entry_line, header_line, result, user

GOOD = [header_line(), entry_line("e1"), entry_line("e2", "e1"), entry_line("e3", "e1")]


def whole(*lines):
    return b"".join(line + b"\n" for line in lines)


def ids(data):
    return [entry.id for entry in read(data, "x").ledger.entries]


def refusal(data):
    with pytest.raises(SessionFileError) as caught:
        read(data, "x")
    error = caught.value
    assert error.details["constant"] == error.constant == error.code.upper()
    return error


def code(*lines, end=b"\n"):
    return refusal(b"\n".join(lines) + end).constant


def test_a_header_alone_is_a_session():
    contents = read(whole(header_line()), "x")
    assert contents.ledger.header.id == "session-1"
    assert contents.ledger.entries == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"\r", None])
def test_line_ends_of_mail_and_a_missing_last_one_are_valid(end, last):
    data = end.join(GOOD) + (end if last is None else last)
    assert ids(data) == ["e1", "e2", "e3"]
    assert read(data, "x").torn is None
    assert read(data, "x").lines() == GOOD


def test_a_last_line_cut_short_is_set_aside():
    cut = b'{"type":"entry","id":"cut'
    contents = read(whole(*GOOD) + cut, "x")
    assert [entry.id for entry in contents.ledger.entries] == ["e1", "e2", "e3"]
    assert contents.torn is not None
    assert (contents.torn.line, contents.torn.offset, contents.torn.data) == (5, len(whole(*GOOD)), cut)


@given(st.integers(1, len(GOOD[-1]) - 1))
def test_wherever_the_last_line_was_cut(at):
    contents = read(whole(*GOOD[:-1]) + GOOD[-1][:at], "x")
    assert contents.torn is not None
    assert contents.torn.data == GOOD[-1][:at]
    assert len(contents.ledger) == 2


@pytest.mark.parametrize("tail", [b"not-json", b'{"a":1}x', b'{"a" 1', b"[", b'"text', b"{]", b"tru", b" ", b"\r"])
def test_any_other_last_line_is_damage(tail):
    assert code(*GOOD, tail, end=b"") == "SESSION_INVALID_JSON"


def test_a_whole_last_line_that_is_no_entry_is_no_tail():
    assert code(*GOOD, b'{"a":1}', end=b"") == "SESSION_INVALID_ENTRY"


def test_a_line_cut_short_is_damage_once_it_has_ended():
    assert code(*GOOD, b'{"type":"entry","id":"cut') == "SESSION_INVALID_JSON"


def test_what_is_not_utf8_is_damage_in_the_last_line_too():
    assert code(*GOOD, b'{"type":"\xff') == "SESSION_INVALID_UTF8"
    error = refusal(whole(GOOD[0]) + '{"id":"é'.encode()[:-1])
    assert error.constant == "SESSION_INVALID_UTF8"
    assert (error.details["line"], error.details["offset"]) == (2, len(GOOD[0]) + 1)
    assert code(header_line(id="\ud800") if False else b'{"type":"session\xc0"}') == "SESSION_INVALID_UTF8"


@pytest.mark.parametrize(
    "line",
    [
        b"not-json",
        b"",
        b" ",
        b"[]",
        b"1",
        b"NaN",
        b'{"a":1,"a":2}',
        b'{"a":"\\ud800"}',
        b'{"a":1e999}',
        b'\xef\xbb\xbf{"a":1}',
        b"{'a':1}",
        b'{"a":"tab\there"}',
        b'{"a":18446744073709551616}',
        b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
def test_a_line_that_is_no_json_object(line):
    assert code(GOOD[0], line, GOOD[1]) == "SESSION_INVALID_JSON"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "message"}, "SESSION_INVALID_ENTRY"),
        ({"type": 1}, "SESSION_INVALID_ENTRY"),
        ({"version": 2}, "SESSION_UNSUPPORTED_VERSION"),
        ({"version": True}, "SESSION_INVALID_ENTRY"),
        ({"version": 1.0}, "SESSION_INVALID_ENTRY"),
        ({"version": "1"}, "SESSION_INVALID_ENTRY"),
        ({"id": ""}, "SESSION_INVALID_ENTRY"),
        ({"id": "x" * 257}, "SESSION_INVALID_ENTRY"),
        ({"id": 7}, "SESSION_INVALID_ENTRY"),
        ({"parentId": "e1"}, "SESSION_PARENT_MISSING"),
        ({"parentId": "e3"}, "SESSION_PARENT_MISSING"),
        ({"parentId": ""}, "SESSION_INVALID_ENTRY"),
        ({"timestamp": "yesterday"}, "SESSION_INVALID_ENTRY"),
        ({"timestamp": "2026-02-30T00:00:00Z"}, "SESSION_INVALID_ENTRY"),
        ({"timestamp": "2026-01-02T03:04:05"}, "SESSION_INVALID_ENTRY"),
        ({"message": None}, "SESSION_INVALID_ENTRY"),
        ({"message": {"role": "robot", "content": ""}}, "SESSION_INVALID_MESSAGE"),
        ({"message": {"role": "user"}}, "SESSION_INVALID_MESSAGE"),
        ({"message": {**user(), "extra": 1}}, "SESSION_INVALID_MESSAGE"),
        ({"extra": 1}, "SESSION_INVALID_ENTRY"),
    ],
)
def test_an_entry_that_breaks_the_contract(changes, expected):
    line = entry_line(**{"identity": "e1", **{key: changes[key] for key in changes if key != "id"}})
    if "id" in changes:
        line = as_line({**json.loads(line), "id": changes["id"]})
    if "message" in changes:
        line = as_line({**json.loads(line), "message": changes["message"]})
    if "parentId" in changes:
        line = as_line({**json.loads(line), "parentId": changes["parentId"]})
    assert code(GOOD[0], line, entry_line("e3")) == expected


@pytest.mark.parametrize("field", ["type", "version", "id", "parentId", "timestamp", "message"])
def test_an_entry_lacks_a_field(field):
    record = json.loads(GOOD[1])
    del record[field]
    assert code(GOOD[0], as_line(record)) == "SESSION_INVALID_ENTRY"


@pytest.mark.parametrize("field", ["type", "version", "id", "timestamp"])
def test_a_header_lacks_a_field(field):
    record = json.loads(GOOD[0])
    del record[field]
    assert code(as_line(record)) == "SESSION_INVALID_HEADER"


@pytest.mark.parametrize(
    "changes", [{"id": ""}, {"id": None}, {"timestamp": "x"}, {"cwd": "/"}, {"version": None}, {"type": "entry"}]
)
def test_a_header_that_breaks_the_contract(changes):
    assert code(header_line(**changes)) == "SESSION_INVALID_HEADER"


def test_a_second_header_is_no_entry():
    assert code(GOOD[0], GOOD[0]) == "SESSION_INVALID_ENTRY"


def test_an_id_is_there_once():
    error = refusal(whole(*GOOD, entry_line("e2")))
    assert error.constant == "SESSION_DUPLICATE_ID"
    assert error.details["id"] == "e2"
    assert error.details["line"] == 5


def test_a_result_matches_a_call_on_its_own_branch():
    call, answer = entry_line("c", "e1", calling(("t1", "grep"))), entry_line("r", "c", result("t1", "grep"))
    assert ids(whole(*GOOD, call, answer, entry_line("again", "r", result("t1", "grep"))))[-1] == "again"
    elsewhere = entry_line("r", "e2", result("t1", "grep"))
    error = refusal(whole(*GOOD, call, elsewhere))
    assert error.constant == "SESSION_TOOL_MISMATCH"
    assert (error.details["id"], error.details["tool_call_id"]) == ("r", "t1")
    assert code(*GOOD, call, entry_line("r", "c", result("t1", "sed"))) == "SESSION_TOOL_MISMATCH"
    assert code(*GOOD, call, entry_line("r", None, result("t1", "grep"))) == "SESSION_TOOL_MISMATCH"


def padded(identity, size):
    bare = len(entry_line(identity, None, user("")))
    return entry_line(identity, None, user("x" * (size - bare)))


def test_a_line_has_its_limit():
    assert ids(whole(GOOD[0], padded("big", MAX_LINE_BYTES))) == ["big"]
    assert ids(whole(GOOD[0], padded("big", MAX_LINE_BYTES) + b"\r")) == ["big"]
    error = refusal(whole(GOOD[0], padded("big", MAX_LINE_BYTES + 1)))
    assert error.constant == "SESSION_LINE_TOO_LARGE"
    assert (error.details["id"], error.details["bytes"]) == ("big", MAX_LINE_BYTES + 1)
    assert code(GOOD[0], b"x" * (MAX_LINE_BYTES + 1), end=b"") == "SESSION_LINE_TOO_LARGE"
    assert code(GOOD[0], b'{"a":"' + b"x" * MAX_LINE_BYTES, end=b"") == "SESSION_LINE_TOO_LARGE"


def test_a_file_has_its_limits():
    lines = [header_line(), *(padded(f"e{number}", MAX_LINE_BYTES - 1) for number in range(63))]
    rest = MAX_FILE_BYTES - len(whole(*lines))
    full = whole(*lines, padded("last", rest - 1))
    assert len(full) == MAX_FILE_BYTES
    assert len(ids(full)) == 64
    assert refusal(full + b"\n").constant == "SESSION_FILE_TOO_LARGE"


def test_a_file_has_so_many_entries():
    lines = [header_line(), *(entry_line(f"e{number}") for number in range(MAX_ENTRIES))]
    assert len(ids(whole(*lines))) == MAX_ENTRIES
    error = refusal(whole(*lines, entry_line("more")))
    assert (error.constant, error.details["id"]) == ("SESSION_TOO_MANY_ENTRIES", "more")


def test_fc_09_a_record_welded_to_a_torn_one_is_refused_with_line_and_offset():
    torn = read(whole(*GOOD) + b'{"type":"message","id":"e9","parentId":"e8","te', "x")
    assert torn.torn is not None
    error = refusal(whole(GOOD[0], b'{"id":"e9","te{"type":"entry","id":"e10"}', GOOD[1]))
    assert error.constant == "SESSION_INVALID_JSON"
    assert (error.details["line"], error.details["offset"]) == (2, len(GOOD[0]) + 1)


def test_fc_10_two_records_on_one_line_are_refused():
    error = refusal(whole(GOOD[0], GOOD[1] + GOOD[2], GOOD[3]))
    assert (error.constant, error.details["line"]) == ("SESSION_INVALID_JSON", 2)


def test_fc_12_a_bad_line_in_the_middle_refuses_the_whole_session():
    lines = [header_line(), *(entry_line(f"e{number}") for number in range(19))]
    lines[7] = b'{"type":"attachment","x":'
    error = refusal(whole(*lines))
    assert (error.constant, error.details["line"]) == ("SESSION_INVALID_JSON", 8)
    assert error.details["offset"] == len(whole(*lines[:7]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "empty"), (b"\n\n", "blank"), (b"\r\n", "blank"), (b'{"type":"session","version":3,"id":"s', "torn_header")],
)
def test_fc_13_a_file_without_a_header_is_named_so(data, reason):
    error = refusal(data)
    assert (error.constant, error.details["reason"]) == ("SESSION_EMPTY", reason)


def test_fc_14_only_the_byte_0a_ends_a_line():
    text = "a\u2028b\u0085c\u2029d\x0b\x0c\x1ce"
    raw = entry_line("e1", None, user(text))
    assert "\u2028".encode() in raw
    contents = read(whole(header_line() + b"\r", raw + b"\r"), "x")
    assert contents.ledger.entries[0].message["content"] == text
    assert contents.ledger.entries[0].line == raw
    assert read(generation(contents.lines()), "x").ledger.entries == contents.ledger.entries


def test_fc_16_a_raw_line_feed_inside_a_string_is_refused():
    assert code(GOOD[0], b'{"id":"e2","out":"first\nsecond\nthird"}', GOOD[1]) == "SESSION_INVALID_JSON"


def test_fc_17_a_document_of_another_program_is_refused_once():
    pretty = json.dumps({"sessionId": "x", "messages": [{"id": 1, "type": "user"}]}, indent=2).encode()
    error = refusal(pretty + b"\n")
    assert (error.constant, error.details["line"]) == ("SESSION_INVALID_JSON", 1)
    assert code(b'{"sessionId":"x","messages":[]}') == "SESSION_INVALID_HEADER"


def test_fc_62_another_version_is_refused_and_both_are_named():
    for line in (header_line(version=99), header_line(version=0), header_line(version=99, new=1)):
        error = refusal(whole(line, GOOD[1]))
        assert error.constant == "SESSION_UNSUPPORTED_VERSION"
        assert error.details["supported"] == [1]
    assert error.details["found"] == 99


def test_fc_62_an_unknown_kind_of_event_is_kept_as_it_is():
    event = {"role": "event", "kind": "weather.changed", "payload": {"to": 1.50, "n": [None]}}
    line = b'{"type":"entry","version":1,"id":"e","parentId":null,"timestamp":"' + TIME.encode() + b'","message":'
    line += b'{"role":"event","kind":"weather.changed","payload":{"to":1.50,"n":[null]}}}'
    entry = read(whole(header_line(), line), "x").ledger.entries[0]
    assert entry.to_json()["message"] == event
    assert entry.line == line


LINES = st.sampled_from(
    [
        *GOOD,
        entry_line("c", "e1", calling(("t", "n"))),
        entry_line("r", "c", result("t", "n")),
        b"",
        b"x",
        b"{",
        GOOD[1][:30],
    ]
)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_session_or_a_named_refusal(data):
    _read_or_refuse(data)
    _read_or_refuse(whole(*GOOD) + data)


@given(st.lists(LINES, max_size=8), st.sampled_from([b"\n", b"\r\n"]), st.sampled_from([b"", b"\n"]))
def test_any_order_of_lines_is_a_session_or_a_named_refusal(lines, end, last):
    _read_or_refuse(end.join([header_line(), *lines]) + last)


@given(st.data())
def test_any_altered_byte_is_a_session_or_a_named_refusal(data):
    bytes_ = bytearray(whole(*GOOD))
    at = data.draw(st.integers(0, len(bytes_) - 1))
    bytes_[at] = data.draw(st.integers(0, 255))
    _read_or_refuse(bytes(bytes_))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8) | st.just(1.5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("type", "version", "id", "parentId", "timestamp", "message", "role", "content", "toolCalls", "kind")


@given(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
    st.sampled_from(["entry", "message", "call", "header"]),
)
def test_any_structure_is_a_session_or_a_named_refusal(value, where):
    if where == "header":
        _read_or_refuse(whole(as_line({**json.loads(GOOD[0]), **value})))
    elif where == "entry":
        _read_or_refuse(whole(GOOD[0], as_line({**json.loads(GOOD[1]), **value})))
    elif where == "message":
        _read_or_refuse(whole(GOOD[0], entry_line("e1", None, {"role": "assistant", **value})))
    else:
        call = {"id": "t", "name": "n", **value}
        _read_or_refuse(
            whole(GOOD[0], entry_line("e1", None, {"role": "assistant", "content": "", "toolCalls": [call]}))
        )


def _read_or_refuse(data):
    try:
        contents = read(data, "x")
    except SessionFileError:
        return
    again = read(generation(contents.lines()), "x")
    assert again.torn is None
    assert again.ledger.entries == contents.ledger.entries
    assert again.lines() == contents.lines()
