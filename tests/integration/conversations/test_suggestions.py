"""Hints for references that name nothing: what people type who mean something else."""

from __future__ import annotations

import pytest

from bridge.conversations.errors import AmbiguousReference, EntryNotFound, SessionNotFound
from bridge.conversations.references import resolve_entry_id, resolve_session

S, T = "20260102-030405-9f3a", "20260103-030405-beef"


@pytest.fixture
def two(forest):
    for session_id, label in ((S, "morning"), (T, None)):
        forest.session(id=session_id, label=label)
        forest.say(session_id, "u1")
    forest.recorder.label(S, f"{S}-000001", "before-retry")
    with forest.store.read() as connection:
        yield connection


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("9F3A", "Did you mean 9f3a?"),
        ("f3a", "Did you mean 9f3a?"),
        ("9f3", "Did you mean 9f3a?"),
        ("9f3b", "Did you mean 9f3a?"),
        ("Morning", "Did you mean morning?"),
        ("mornign", "Did you mean morning?"),
        ("20260102", "Did you mean 9f3a?"),
        ("030405", "Did you mean 9f3a or beef?"),
        ("9f3a.1", "9f3a.1 is an entry; its session is 9f3a."),
        ("zzzz", "List them: bridge session list"),
        ("9", "List them: bridge session list"),
    ],
)
def test_sessions(two, reference, hint):
    with pytest.raises(SessionNotFound) as refused:
        resolve_session(two, reference)
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("9f3a/1", "Write it with a dot: 9f3a.1"),
        ("9f3a:1", "Write it with a dot: 9f3a.1"),
        ("9f3a#1", "Write it with a dot: 9f3a.1"),
        ("9f3a-1", "Write it with a dot: 9f3a.1"),
        ("9f3a-000007", "Write it with a dot: 9f3a.7"),
        ("9F3A/1", "Write it with a dot: 9f3a.1"),
        (f"{S}-1", "Write it with a dot: 9f3a.1"),
        ("9f3a", "9f3a is a session; its head is 9f3a.@"),
        ("9f3a.9", "Session 9f3a has the entries 1 to 1; the head is 9f3a.1."),
        ("9f3a.", "Put a number, a label or @ behind the dot"),
        ("9f3a.befor-retry", "Did you mean 'before-retry'?"),
        ("before_retry", "Did you mean 'before-retry'?"),
        ("#1", "An entry's number is written 1"),
        ("@~2", "There are no relative references"),
        ("@^", "There are no relative references"),
        ("@{1}", "There are no relative references"),
        ("@-1", "There are no relative references"),
        ("-1", "There are no relative references"),
        ("HEAD", "There are no relative references"),
        ("HEAD~3", "There are no relative references"),
        ("zzzz", "Look with bridge log or bridge tree."),
    ],
)
def test_entries(two, reference, hint):
    with pytest.raises(EntryNotFound) as refused:
        resolve_entry_id(two, reference)
    assert refused.value.hint.startswith(hint)


def test_spaces_around_a_reference_mean_nothing(two):
    assert resolve_session(two, " 9f3a\n") == S
    assert resolve_entry_id(two, "\t9f3a.1 ") == f"{S}-000001"


def test_a_session_without_entries_says_so(forest):
    session = forest.session(id=S)
    with forest.store.read() as connection, pytest.raises(EntryNotFound) as refused:
        resolve_entry_id(connection, f"{session}.4")
    assert refused.value.hint == "Session 9f3a has no entries yet."


def test_a_full_id_is_that_session_whatever_else_ends_like_it(forest):
    forest.session(id="20260101-000000-aaaa")
    forest.session(id="x-20260101-000000-aaaa")
    with forest.store.read() as connection:
        assert resolve_session(connection, "20260101-000000-aaaa") == "20260101-000000-aaaa"
        with pytest.raises(AmbiguousReference) as refused:
            resolve_session(connection, "aaaa")
    assert set(refused.value.details["matches"]) == {"20260101-000000-aaaa", "x-20260101-000000-aaaa"}
