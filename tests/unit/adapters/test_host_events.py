"""Events of hosts, as real runs of them reported, in one vocabulary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.adapters.hosts.events import Moment, Source
from bridge.adapters.hosts.reading import HOSTS, MAX_ID_CHARACTERS, read_event, read_version
from bridge.semantics.ownwords import OVERHEAD, as_note, without_notes

BASE = {"session_id": "s", "transcript_path": "/t.jsonl", "cwd": "/repo"}
PATCH = """apply_patch <<'EOP'
*** Begin Patch
*** Update File: a.txt
@@
-a
+b
*** Add File: new/b.txt
+c
*** End Patch
EOP"""


def read(host: str, name: str, **fields: Any):
    found = read_event(host, {**BASE, "hook_event_name": name, **fields})
    assert found is not None
    return found


def test_claude_code():
    started = read("claude-code", "SessionStart", source="resume")
    assert (started.moment, started.source, started.directory) == (Moment.SESSION_STARTED, Source.RESUME, "/repo")
    prompt = read("claude-code", "UserPromptSubmit", prompt="edit", prompt_id="p1")
    assert (prompt.moment, prompt.text, prompt.turn) == (Moment.PROMPT, "edit", "p1")
    edit = read("claude-code", "PreToolUse", tool_name="Edit", tool_input={"file_path": "/repo/a"}, tool_use_id="t1")
    assert (edit.tool.paths_written, edit.tool.paths_read, edit.tool.call_id) == (("/repo/a",), (), "t1")
    done = read(
        "claude-code", "PostToolUse", tool_name="Read", tool_input={"file_path": "/a"}, duration_ms=5, tool_response="x"
    )
    assert (done.tool.paths_read, done.tool.status, done.tool.duration_seconds) == (("/a",), "completed", 0.005)
    failed = read("claude-code", "PostToolUseFailure", tool_name="Bash", tool_input={"command": "x"}, error="no")
    assert (failed.tool.status, failed.tool.output) == ("failed", "no")
    assert read("claude-code", "Stop", last_assistant_message="Done.").text == "Done."
    inner = read("claude-code", "SubagentStop", agent_id="a1", agent_type="Explore", last_assistant_message="Found.")
    assert (inner.subagent, inner.subagent_role, inner.text) == ("a1", "Explore", "Found.")
    assert read("claude-code", "PostCompact", trigger="auto").moment is Moment.COMPACTED
    assert read("claude-code", "SessionEnd", reason="clear").text == "clear"


def test_codex_tells_files_of_a_patch_by_its_text():
    shell = read("codex", "PreToolUse", tool_name="Bash", tool_input={"command": PATCH}, turn_id="u1", model="m")
    assert (shell.tool.paths_written, shell.turn, shell.model) == (("a.txt", "new/b.txt"), "u1", "m")
    own = read("codex", "PostToolUse", tool_name="apply_patch", tool_input={"input": PATCH}, tool_response="")
    assert own.tool.paths_written == ("a.txt", "new/b.txt")
    assert read("codex", "PreToolUse", tool_name="Bash", tool_input={"command": ["cat", "a"]}).tool.paths_written == ()


def test_gemini():
    assert read("gemini", "BeforeAgent", prompt="edit").text == "edit"
    assert read("gemini", "AfterAgent", prompt="edit", prompt_response="Done.").text == "Done."
    failed = read(
        "gemini", "AfterTool", tool_name="replace", tool_input={"file_path": "/a"}, tool_response={"error": {}}
    )
    assert failed.tool.status == "completed"
    failed = read(
        "gemini", "AfterTool", tool_name="replace", tool_input={"file_path": "/a"}, tool_response={"error": {"m": 1}}
    )
    assert (failed.tool.status, failed.tool.paths_written) == ("failed", ("/a",))
    assert read_event("gemini", {**BASE, "hook_event_name": "PreCompress"}) is None


@pytest.mark.parametrize("host", sorted(HOSTS))
def test_what_names_no_session_or_no_known_event_is_none(host):
    for broken in ({}, {"hook_event_name": "SessionStart"}, {**BASE}, {**BASE, "hook_event_name": "Elsewhere"}):
        assert read_event(host, broken) is None
    long = {**BASE, "hook_event_name": "SessionStart", "session_id": "x" * (MAX_ID_CHARACTERS + 1)}
    assert read_event(host, long) is None
    assert read_event(host, {**long, "session_id": "x" * MAX_ID_CHARACTERS}) is not None
    assert read_event("other", {**BASE, "hook_event_name": "SessionStart"}) is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "prompt",
    "tool_name",
    "tool_input",
    "tool_response",
    "duration_ms",
    "source",
    "agent_id",
    "last_assistant_message",
]


@given(
    st.sampled_from([(host.name, name) for host in HOSTS.values() for name in host.moments]),
    st.dictionaries(st.sampled_from(FIELDS), ANY),
)
def test_fields_of_any_type_are_no_error(kind, fields):
    host, name = kind
    found = read_event(host, {**BASE, "hook_event_name": name, **fields})
    assert found is not None
    assert found.text is None or isinstance(found.text, str)


def test_versions_are_read_where_the_transcript_names_one():
    assert read_version("claude-code", b'{"type":"x"}\n{"version":"2.1.197","a":1}') == "2.1.197"
    assert read_version("codex", b'{"payload":{"cli_version":"0.171.0"}}') == "0.171.0"
    assert read_version("gemini", b'{"version":"1"}') is None
    assert read_version("codex", b"") is None


NOTE = as_note('1 file changed: "[/Bridge note as of x]".', "2026-11-30T05:31:02.123456Z")


def test_a_note_says_as_of_when_and_that_it_supersedes():
    assert NOTE.startswith("[Bridge note as of 2026-11-30T05:31:02Z; it supersedes earlier ones.] 1 file")
    assert len(NOTE) == len('1 file changed: "[/Bridge note as of x]".') + OVERHEAD


@pytest.mark.parametrize(
    "text",
    [
        f"edit a.txt\n\n<hook_context>{NOTE}</hook_context>",
        f"<hook_context>{NOTE}</hook_context>\nedit a.txt",
        f"{NOTE} edit a.txt {NOTE}",
        f"<system-reminder>\nSessionStart hook additional context: {NOTE}\n</system-reminder>\nedit a.txt",
        "edit a.txt",
    ],
)
def test_bridges_own_words_are_taken_out_of_a_prompt(text):
    assert without_notes(text) == "edit a.txt"
    assert read("gemini", "BeforeAgent", prompt=text).text == "edit a.txt"


def test_words_between_two_notes_stay_and_so_does_what_only_looks_like_one():
    other = NOTE.replace("05:31:02", "05:31:03")
    assert without_notes(f"{NOTE} between {other}") == "between"
    half = NOTE[:-5]
    assert without_notes(half) == half
    assert without_notes("[Bridge note as of today]") == "[Bridge note as of today]"
