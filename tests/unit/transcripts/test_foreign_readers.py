"""Every reader under fire: whatever a record holds, it yields entries that can be recorded, and its state is JSON.

``--hypothesis-profile=soak`` goes on for long (``make soak``).
"""

from __future__ import annotations

import json
import sqlite3
from io import BytesIO
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.semantics.kinds import KINDS
from bridge.semantics.validation import payload_errors
from bridge.transcripts.claude.reading import ClaudeReader
from bridge.transcripts.claude.reading import recognises as is_claude
from bridge.transcripts.codex.reading import CodexReader
from bridge.transcripts.codex.reading import recognises as is_codex
from bridge.transcripts.errors import UnsupportedTranscriptVersion
from bridge.transcripts.foreign.lines import lines_of
from bridge.transcripts.foreign.neutral import Hints, LabelSet, LeafMoved, Neutral, SessionFacts
from bridge.transcripts.foreign.records import Damage, pieces_of
from bridge.transcripts.gemini.reading import GeminiReader
from bridge.transcripts.gemini.reading import recognises as is_gemini
from bridge.transcripts.opencode.reading import OpenCodeReader
from bridge.transcripts.pi.reading import PiReader
from bridge.transcripts.pi.reading import recognises as is_pi

FIXTURES = Path(__file__).parents[2] / "fixtures" / "transcripts"
READERS = {
    "claude-code": ClaudeReader,
    "codex": CodexReader,
    "pi": PiReader,
    "gemini": GeminiReader,
    "opencode": OpenCodeReader,
}
SIGNS = {"claude-code": is_claude, "codex": is_codex, "pi": is_pi, "gemini": is_gemini}


def fixture_lines(name):
    """Return the lines of an agent's transcripts."""
    if name == "opencode":
        return opencode_lines()
    files = sorted((FIXTURES / name).rglob("*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines(keepends=True)]


def opencode_lines():
    from bridge.transcripts.opencode.database import lines_of_session, sessions_of

    connection = sqlite3.connect(":memory:")
    connection.executescript((FIXTURES / "opencode" / "opencode.sql").read_text())
    found = [line for session, _ in sessions_of(connection) for line in lines_of_session(connection, session)]
    connection.close()
    return found


def items_of(reader, data):
    found = []
    for piece in pieces_of(lines_of(BytesIO(data)), lambda _value: True):
        for record in piece.records:
            try:
                found.extend(reader.read(record))
            except UnsupportedTranscriptVersion:
                return found
    return found


def require_recordable(items):
    """Check that items can be written: kinds and payloads fit the contract, keys and sessions are texts."""
    for item in items:
        assert isinstance(item, (Neutral, SessionFacts, Damage, LabelSet, LeafMoved))
        if isinstance(item, Neutral):
            assert item.kind in KINDS
            assert payload_errors(2, item.kind, item.payload) == [], item
            assert item.key
            assert item.session
        if isinstance(item, SessionFacts):
            assert item.kind in {"chat", "worker"}
            assert (item.parent is None) or item.relation in {"delegated", "forked", "continued"}


@pytest.mark.parametrize("name", READERS)
def test_what_the_agents_write_is_read_and_can_be_gone_on_with_anywhere(name):
    lines = fixture_lines(name)
    whole = items_of(READERS[name](Hints("x")), b"".join(lines))
    require_recordable(whole)
    assert sum(isinstance(item, Neutral) for item in whole) >= 6
    if name == "opencode":
        return  # it is always read from its beginning
    for cut in range(0, len(lines), 11):
        first = READERS[name](Hints("x"))
        before = items_of(first, b"".join(lines[:cut]))
        state = orjson.loads(orjson.dumps(first.state()))
        after = items_of(READERS[name](Hints("x"), state), b"".join(lines[cut:]))
        # Where damage is, is told from the beginning of what was read.
        told = [item for item in before + after if not isinstance(item, Damage)]
        assert told == [item for item in whole if not isinstance(item, Damage)]


@pytest.mark.parametrize("name", SIGNS)
def test_each_form_is_recognised_and_no_other(name):
    for other in SIGNS:
        signs = [SIGNS[name](json.loads(line)) for line in fixture_lines(other)]
        assert any(signs) == (name == other)


#: Few in the suite; all that the profile says where it asks for more than usual.
EXAMPLES = settings().max_examples if settings().max_examples > 100 else 20
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["", "user", "assistant", "text", "tool_use", "message", "toolCall", "x" * 2000, "a\u2028\x00"])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def changed(draw, value, depth=0):
    """Return a value with something in it replaced, left out or added, anywhere."""
    if depth > 6 or draw(st.integers(0, 9)) == 0:
        return draw(_VALUES)
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)) == 0:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: changed(draw, value[key], depth + 1)}
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], changed(draw, value[at], depth + 1), *value[at + 1 :]]
    return draw(_VALUES)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_reader_survives_every_change_of_structure(name, data):
    lines = [json.loads(line) for line in fixture_lines(name)]
    start = data.draw(st.integers(0, max(0, len(lines) - 12)))
    some = lines[start : start + 12]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(some) - 1))
        some[at] = changed(data.draw, some[at])
    reader = READERS[name](Hints("x"))
    require_recordable(items_of(reader, b"".join(orjson.dumps(one) + b"\n" for one in some)))
    orjson.dumps(reader.state())


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_reader_survives_every_change_of_bytes(name, data):
    lines = fixture_lines(name)
    start = data.draw(st.integers(0, max(0, len(lines) - 6)))
    text = bytearray(b"".join(lines[start : start + 6]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        action = data.draw(st.sampled_from(["set", "cut", "repeat"]))
        if action == "set":
            text[at] = data.draw(st.integers(0, 255))
        elif action == "cut":
            del text[at : at + data.draw(st.integers(1, 40))]
        else:
            text[at:at] = text[at : at + data.draw(st.integers(1, 40))]
        if not text:
            return
    require_recordable(items_of(READERS[name](Hints("x")), bytes(text)))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=EXAMPLES)
@given(record=st.dictionaries(st.text(max_size=10), _VALUES, max_size=6))
def test_a_reader_survives_any_record(name, record):
    require_recordable(items_of(READERS[name](Hints()), orjson.dumps(record) + b"\n"))
