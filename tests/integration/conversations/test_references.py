"""What people type instead of full ids."""

from __future__ import annotations

import pytest

from bridge.conversations.errors import AmbiguousReference, EntryNotFound, InvalidReference, SessionNotFound
from bridge.conversations.references import MAX_MATCHES, resolve_entry, resolve_entry_id, resolve_session

S, T = "20260102-030405-9f3a", "20260103-030405-beef"


@pytest.fixture
def two(forest):
    """Two sessions with entries 1 to 3; entry 2 of the first is labelled ``start``, the second's head is 1."""
    for session_id, label in ((S, "morning"), (T, None)):
        forest.session(id=session_id, label=label)
        for text in ("u1", "a1", "u2"):
            forest.say(session_id, text)
    forest.recorder.label(S, f"{S}-000002", "start")
    forest.recorder.move_head(T, f"{T}-000001")
    with forest.store.read() as connection:
        yield connection


@pytest.mark.parametrize(
    ("reference", "found"),
    [(S, S), ("9f3a", S), ("030405-9f3a", S), ("beef", T), ("morning", S), ("@", T)],
)
def test_sessions(two, reference, found):
    assert resolve_session(two, reference) == found


def test_the_current_session_is_that_of_the_context(two):
    assert resolve_session(two, "@", context_session_id=S) == S


@pytest.mark.parametrize("reference", ["f3a", "9f3", "030405", "9F3A", "%", "_", "nobody", "start"])
def test_no_such_session(two, reference):
    with pytest.raises(SessionNotFound):
        resolve_session(two, reference)


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        (f"{S}-000002", f"{S}-000002"),
        ("9f3a.3", f"{S}-000003"),
        ("9f3a.0003", f"{S}-000003"),
        (f"{S}.1", f"{S}-000001"),
        ("9f3a.start", f"{S}-000002"),
        ("9f3a.@", f"{S}-000003"),
        ("beef.@", f"{T}-000001"),
        ("morning.1", f"{S}-000001"),
        ("@.2", f"{T}-000002"),
        ("@", f"{T}-000001"),
        ("start", f"{S}-000002"),
    ],
)
def test_entries(two, reference, found):
    assert resolve_entry_id(two, reference) == found
    assert resolve_entry(two, reference).id == found


@pytest.mark.parametrize(
    ("reference", "found"),
    [("2", f"{S}-000002"), ("start", f"{S}-000002"), ("@", f"{S}-000003"), ("beef.1", f"{T}-000001")],
)
def test_entries_in_a_context(two, reference, found):
    assert resolve_entry_id(two, reference, context_session_id=S) == found


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        ("9f3a.9", EntryNotFound),
        (f"{S}-000009", EntryNotFound),
        ("9f3a.nobody", EntryNotFound),
        ("9f3a.", EntryNotFound),
        ("nobody", EntryNotFound),
        ("nobody.1", SessionNotFound),
        ("start.1", SessionNotFound),
        (".1", InvalidReference),
        ("2", InvalidReference),
        ("", InvalidReference),
        ("x" * 200, EntryNotFound),
        ("x" * 201, InvalidReference),
        ("9" * 30, EntryNotFound),
        ("9f3a." + "9" * 30, EntryNotFound),
    ],
)
def test_no_such_entry(two, reference, error):
    with pytest.raises(error):
        resolve_entry_id(two, reference)


def test_ambiguity_lists_the_matches(forest):
    sessions = [f"2026010{day}-030405-9f3a" for day in (2, 3)]
    for session_id in sessions:
        forest.session(id=session_id, label="same")
        forest.say(session_id, "u1")
        forest.recorder.label(session_id, f"{session_id}-000001", "start")
    with forest.store.read() as connection:
        for reference in ("9f3a", "same", "9f3a.1"):
            with pytest.raises(AmbiguousReference) as caught:
                (resolve_entry_id if "." in reference else resolve_session)(connection, reference)
            assert sorted(caught.value.details["matches"]) == sessions
        with pytest.raises(AmbiguousReference) as caught:
            resolve_entry_id(connection, "start")
        assert sorted(caught.value.details["matches"]) == [f"{session_id}-000001" for session_id in sessions]
        assert resolve_entry_id(connection, "start", context_session_id=sessions[0]) == f"{sessions[0]}-000001"
        # A full id is never ambiguous, and neither is a longer tail.
        assert resolve_session(connection, sessions[0]) == sessions[0]
        with pytest.raises(AmbiguousReference):
            resolve_session(connection, "030405-9f3a")


def test_the_number_of_matches_listed_is_bounded(forest):
    for number in range(MAX_MATCHES + 1):
        forest.session(id=f"s{number}-same")
        if number == MAX_MATCHES - 1:
            assert listed(forest) == (MAX_MATCHES, False)
    assert listed(forest) == (MAX_MATCHES, True)


def listed(forest):
    with forest.store.read() as connection, pytest.raises(AmbiguousReference) as caught:
        resolve_session(connection, "same")
    return len(caught.value.details["matches"]), caught.value.details["more"]


def test_without_any_session_there_is_no_current_one(forest):
    with forest.store.read() as connection, pytest.raises(SessionNotFound, match="no session yet"):
        resolve_session(connection, "@")


def test_the_current_session_is_never_a_workers(forest):
    chat = forest.session(workspace_id="w1")
    forest.session(kind="worker", workspace_id="w1")
    other = forest.session(workspace_id="w2")
    with forest.store.read() as connection:
        assert resolve_session(connection, "@") == other
        assert resolve_session(connection, "@", workspace_ids=["w1"]) == chat
