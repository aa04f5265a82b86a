"""Going around from the command line: pages, filters, steps back, forks, slips of the hand, narrow terminals."""

from __future__ import annotations

import json

import pytest

from bridge.cli.rendering import cut, entry_lines, pad, text_width
from bridge.control.reading.paging import Annotated
from bridge.conversations.facets import Annotation
from bridge.conversations.models import PreparedEntry
from bridge.semantics.stamps import UNSTAMPED


def ids(entries) -> list[int]:
    return [entry["sequence"] for entry in entries]


@pytest.fixture
def talk(here, session):
    """A session of two turns, the first with a failed tool; returns how to append to it."""

    def add(kind, *options, **payload):
        words = ("append", session, "--kind", kind, "--payload", "-", *options)
        return here.json(*words, stdin=json.dumps(payload).encode())["id"]

    add("user.message", text="one")
    add("tool.completed", tool_call_id="c", name="bash", status="failed")
    add("assistant.message", text="done")
    add("user.message", text="two")
    add("tool.completed", tool_call_id="d", name="bash", status="completed")
    return add


def test_every_entry_has_turn_facet_and_problem(here, session, talk):
    entries = here.json("log", session)
    first, second = entries[0]["id"], entries[3]["id"]
    assert [entry["turn"] for entry in entries] == [first, first, first, second, second]
    assert [entry["facet"] for entry in entries] == ["messages", "tools", "messages", "messages", "tools"]
    assert [entry["problem"] for entry in entries] == [None, "tool_failed", None, None, None]


def test_an_entry_alone_tells_the_same(here, session, talk):
    for entry in here.json("log", session):
        shown = here.json("show", entry["id"])
        assert {name: shown[name] for name in ("turn", "facet", "problem")} == {
            name: entry[name] for name in ("turn", "facet", "problem")
        }
    text = here("show", "2").ok().stdout
    assert "tool_failed" in text
    assert f"{session[-4:]}.1" in text


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--facet", "tools"), [2, 5]),
        (("--facet", "tools", "--problems"), [2]),
        (("--facet", "tools", "--facet", "messages", "-n", "2"), [4, 5]),
        (("--problems",), [2]),
        (("--facet", "tools", "-n", "1"), [5]),
        (("--turn", "2"), [1, 2, 3]),
        (("--turn", "@"), [4, 5]),
        (("--turn", "@", "--facet", "messages"), [4]),
        (("--before", "4", "-n", "2"), [2, 3]),
        (("--after", "2", "-n", "2"), [3, 4]),
        (("--after", "1", "--before", "4"), [2, 3]),
        (("--before", "1"), []),
        (("--after", "@"), []),
        (("--all", "--problems"), [2]),
        (("--all", "--before", "3", "--after", "1"), [2]),
    ],
)
def test_what_a_log_is_asked_for(here, session, talk, options, found):
    assert ids(here.json("log", session, *options)) == found


def test_a_page_names_the_next_one(here, session, talk):
    tail = session[-4:]
    assert f"there are more: --before {tail}.4" in here("log", session, "-n", "2").ok().stderr
    assert f"there are more: --after {tail}.3" in here("log", session, "-n", "2", "--after", "1").ok().stderr
    assert "there are more" not in here("log", session, "-n", "5").ok().stderr
    assert "no such entries" in here("log", session, "--facet", "approvals").ok().stderr


def test_a_facet_that_is_none_is_refused_with_those_there_are(here, session):
    refused = here("log", session, "--facet", "tool", "--json")
    assert (refused.status, refused.error()["code"]) == (2, "usage")
    assert "tools" in refused.error()["message"]


def test_the_help_names_the_facets_of_the_code():
    from bridge.cli.commands.log import FACETS
    from bridge.conversations.facets import Facet

    assert tuple(Facet) == FACETS


def test_problems_and_hidden_entries_are_marked(here, session, talk):
    talk("note", "--hidden", text="aside")
    lines = here("log", session).ok().stdout.splitlines()
    assert lines[1].startswith(" ! ")
    assert lines[5].startswith("*  ")
    assert lines[5].endswith("(hidden) aside")
    assert "(hidden) aside" in here("tree", session).ok().stdout


def test_going_back_by_steps(here, session, talk):
    moved = here.json("back", session, "--steps", "3")
    assert moved["active_entry_id"] == f"{session}-000002"
    refused = here("back", session, "-n", "3", "--json")
    assert refused.error()["code"] == "nothing_before"
    assert refused.error()["details"] == {"session_id": session, "steps": 3, "possible": 2}
    assert ids(here.json("log", session)) == [1, 2]
    assert here.json("back", session, "-n", "2")["active_entry_id"] == f"{session}-000000"
    assert "is at its beginning" in here("back", session).stderr


def test_a_number_where_back_takes_a_session_is_explained(here, session, talk):
    assert here("back", "3").status != 0
    assert "bridge back --steps 3" in here("back", "3").stderr


def test_goto_wants_both_and_says_how(here, session, talk):
    tail = session[-4:]
    refused = here("goto", f"{tail}.2", "--json")
    assert (refused.status, refused.error()["hint"]) == (2, f"Name both: bridge goto {tail} {tail}.2")
    assert ids(here.json("log", session)) == [1, 2, 3, 4, 5]


def test_a_fork_is_a_session_that_shares_what_lies_before(here, session, talk):
    fork = here.json("fork", f"{session[-4:]}.3", "--label", "another way")
    assert fork["forked_from"]["entry_id"] == f"{session}-000003"
    assert (fork["parent_session_id"], fork["parent_relation"]) == (session, "forked")
    before = here.json("log", session)
    assert here.json("log", fork["id"]) == before[:3]
    here.json("append", fork["id"], "--kind", "note", "--text", "mine")
    assert here.json("log", session) == before
    assert ids(here.json("log", fork["id"])) == [1, 2, 3, 1]
    assert ids(here.json("log", fork["id"], "--all")) == [1]
    # The origin's later entries are none of the fork's.
    refused = here("log", fork["id"], "--before", f"{session[-4:]}.5", "--json")
    assert refused.error()["code"] == "entry_not_found"
    (third,) = [node for node in here.json("tree", session) if node["sequence"] == 3]
    assert third["forks"] == [fork["id"]]
    assert f"forks {fork['id'][-4:]}" in here("tree", session).ok().stdout


def test_a_fork_of_nothing_is_refused(here, session):
    assert here("fork", "nosuch", "--json").error()["code"] == "entry_not_found"
    assert len(here.json("session", "list")) == 1


def test_sessions_come_in_pages(here):
    made = [here.json("session", "new", "--label", f"s{number}")["id"] for number in range(5)]
    made.reverse()
    found, before = [], []
    while True:
        page = here.json("session", "list", "-n", "2", *before)
        found += [session["id"] for session in page]
        if len(page) < 2:
            break
        before = ["--before", page[-1]["id"]]
    assert found == made
    assert f"--before {made[1][-4:]}" in here("session", "list", "-n", "2").ok().stderr


def test_branches_come_in_pages_the_last_ones_first(here, session, say):
    first = say(session, "u1")
    ends = [say(session, f"way {number}", "--parent", first) for number in range(4)]
    found = here.json("branches", session)
    assert [branch["leaf_entry_id"] for branch in found] == ends
    assert [branch["leaf_entry_id"] for branch in here.json("branches", session, "-n", "2")] == ends[2:]
    page = here("branches", session, "-n", "2", "--before", ends[2]).ok()
    assert "way 0" in page.stdout
    assert "way 2" not in page.stdout


def test_a_tree_is_limited_with_a_notice_and_keeps_the_head(here, session, say):
    for number in range(6):
        say(session, f"u{number}")
    here.json("goto", session, "2")
    drawn = here("tree", session, "-n", "2").ok()
    tail = session[-4:]
    assert [line.split("  ")[0] for line in drawn.stdout.splitlines()[1:]] == [
        "⋮ 1 more",
        f"● {tail}.2",
        "⋮ 2 more",
        f"○ {tail}.5",
        f"○ {tail}.6",
    ]
    assert "only the last 2 entries" in drawn.stderr
    assert ids(here.json("tree", session, "-n", "2")) == [2, 5, 6]
    assert ids(here.json("tree", session)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("長い", 4), ("e\u0301", 1), ("a\u200bb", 2), ("ﾊﾝ", 2), ("👍", 2), ("", 0)]
)
def test_columns_of_a_terminal(text, width):
    assert text_width(text) == width
    assert text_width(pad(text, 6)) == 6
    assert text_width(cut(text * 9, 5)) <= 5


@pytest.mark.parametrize(("width", "time"), [(100, "2026-"), (80, ":"), (40, None)])
def test_a_line_fits_the_terminal(width, time):
    prepared = PreparedEntry(
        "assistant.message", '{"text":"' + "長い文 " * 40 + '"}', "0" * 64, "eligible", UNSTAMPED, ""
    )
    entry = prepared._replace(created_at="2026-01-02T03:04:05.000000Z").seal(
        "20260102-030405-9f3a", 12, ("p", "0" * 64)
    )
    row = Annotated(entry, Annotation(None, None, "error"))
    (line,) = entry_lines([row], {}, head_entry_id=entry.id, width=width)
    assert width - 1 <= text_width(line) <= width
    assert line.startswith("*! 9f3a.12  ")
    assert (time or "assistant  長") in line
