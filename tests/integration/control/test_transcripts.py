"""Field cases about transcripts: chains that are broken, lines that are damaged, copies, forks, sub-agents."""

from __future__ import annotations

import json
import os
import re

import pytest

from bridge.control.capture.model import Captured
from bridge.control.capture.store import add_captured
from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.folders import transcripts_below
from bridge.control.exchange.foreign.gathering import take_in_all
from bridge.control.exchange.foreign.rawlines import Rebuilt, rebuild
from bridge.control.exchange.imported import ImportRequest
from bridge.control.reading.sessions import read_log
from bridge.control.reading.views import summary_of
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import NewSession
from bridge.conversations.store import list_sessions
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.transcripts.errors import UnknownTranscriptFormat
from tests.transcripts import (
    SESSION,
    all_entries,
    chain,
    claude,
    entries,
    healthy,
    keys,
    kinds,
    lines,
    path_keys,
    raw,
    session_of,
    take,
    write,
)

OTHER = "5a5a5a5a-0000-4000-8000-000000000002"


def opened(folder) -> Controller:
    environment = {"BRIDGE_HOME": str(folder)}
    return Controller(load_settings(environment), clock=SystemClock(), environment=os.environ)


@pytest.fixture
def store(tmp_path):
    with opened(tmp_path / "home") as controller:
        yield controller


def test_fc_01_a_parent_that_was_never_written_is_a_visible_gap(store, tmp_path):
    u1, a1, _, a2, u3 = chain("u1", "a1", "u2", "a2", "u3")
    u2 = claude("u2", "00000000-dead")
    done = take(store, write(tmp_path / "t.jsonl", u1, a1, u2, a2, u3))
    found = {entry.external_id: entry for entry in entries(store, done.session_id)}
    assert len(found) == done.lines == 5
    assert kinds(done) == ["dangling_reference"]
    assert (done.findings[0].line, done.findings[0].offset) == (3, len(lines(u1, a1)))
    assert found["u2"].parent_entry_id == found["u1"].parent_entry_id  # both begin at the root
    assert found["u2"].payload["provider_meta"]["source"]["missing_parent"] == "00000000-dead"
    assert path_keys(store, done.session_id) == ["u2", "a2", "u3"]
    log = read_log(store, Standpoint(), done.session_id, limit=10)
    assert "(gap: 00000000-dead, which came before, is not here) words of u2" in summary_of(log.rows[0].entry)
    assert healthy(store, done.session_id)


def test_fc_02_every_reader_tells_of_the_same_entries_and_the_same_gap(store, tmp_path):
    nine = chain(*(f"{'ua'[number % 2]}{number}" for number in range(9)))
    done = take(store, write(tmp_path / "t.jsonl", *nine[:3], *nine[6:]))
    kept = ["u0", "a1", "u2", "u6", "a7", "u8"]
    assert keys(entries(store, done.session_id)) == kept
    assert kinds(done) == ["dangling_reference"]
    log = read_log(store, Standpoint(), done.session_id, limit=None, all_branches=True)
    assert [row.entry.external_id for row in log.rows if not row.entry.is_root] == kept
    for form in ("jsonl", "markdown", "html"):
        pieces = []
        export_session(store, Standpoint(), ExportRequest(session=done.session_id, format=form), pieces.append)
        text = b"".join(pieces).decode()
        assert all(f"words of {key}" in text for key in kept)
        assert len(re.findall(r"\ba5\b", text)) == 1, form  # the one gap, before u6
    for key in kept:
        hits = recall(store, Standpoint(), done.session_id, key).hits
        assert len(hits) == 1


def test_fc_03_the_active_leaf_is_what_was_written_last(store, tmp_path):
    m = chain("m1", "m2", "m3", "m4", "m5", "m6")
    m[1]["timestamp"] = "2027-01-01T00:00:00.000Z"
    boundary = {
        **claude("c1", None),
        "type": "system",
        "subtype": "compact_boundary",
        "logicalParentUuid": "m6",
        "compactMetadata": {"trigger": "auto", "preTokens": 1000, "preservedSegment": {"headUuid": "m5"}},
    }
    done = take(store, write(tmp_path / "t.jsonl", *m, boundary, claude("m7", "c1"), claude("m8", "unknown")))
    found = {entry.external_id: entry for entry in entries(store, done.session_id)}
    assert session_of(store, done.session_id).active_entry_id == found["m8"].id
    assert kinds(done) == ["dangling_reference"]
    assert found["m7"].parent_entry_id == found["c1"].id
    assert found["c1"].parent_entry_id == found["m6"].id
    assert (found["c1"].kind, found["c1"].payload["tokens_before"]) == ("context.compacted", 1000)


def test_fc_09_a_torn_tail_waits_and_a_welded_record_is_freed(store, tmp_path):
    whole = [{"type": "session", "version": 3, "id": "p", "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/nowhere"}]
    whole += [pi_line(f"e{number}", f"e{number - 1}" if number > 1 else None) for number in range(1, 9)]
    path = write(tmp_path / "2026_p.jsonl", *whole, b'{"type":"message","id":"e9","parentId":"e8","te')
    done = take(store, path)
    assert len(entries(store, done.session_id)) == 8
    assert [(f.kind, f.line, f.offset) for f in done.findings] == [("torn_tail", 10, len(lines(*whole)))]
    # The writer finishes the record: it is taken then, once.
    path.write_bytes(lines(*whole, pi_line("e9", "e8")))
    again = take(store, path)
    assert (again.added, again.problems, again.skipped) == (1, 0, 9)

    welded = lines(*whole[:2]) + b'{"id":"e9","te' + lines(pi_line("e10", "e1", session="q"))
    (tmp_path / "2026_q.jsonl").write_bytes(welded.replace(b'"id": "p"', b'"id": "q"'))
    done = take(store, tmp_path / "2026_q.jsonl")
    assert [(f.kind, f.line, f.offset) for f in done.findings] == [("welded", 3, welded.index(b'{"id":"e9"'))]
    assert path_keys(store, done.session_id)[-1] == "e10"


def pi_line(key, parent, text=None, session="p"):
    message = {"role": "user", "content": text or f"words of {key} in {session}", "timestamp": 1}
    stamp = "2026-05-01T10:00:01.000Z"
    return {"type": "message", "id": key, "parentId": parent, "timestamp": stamp, "message": message}


def test_fc_10_two_records_on_one_line_are_two(store, tmp_path):
    u1, a1, u2, a2 = chain("u1", "a1", "u2", "a2")
    both = json.dumps(a1).encode() + json.dumps(u2).encode() + b"\n"
    done = take(store, write(tmp_path / "t.jsonl", u1, both, a2))
    assert keys(entries(store, done.session_id)) == ["u1", "a1", "u2", "a2"]
    assert kinds(done) == ["several_records"]
    with store.store.read() as connection:
        assert len(list_sessions(connection)) == 1
    assert raw(store, done.session_id) == lines(u1, both, a2)


@pytest.mark.parametrize(
    "bad", [b'{"type":"attachment","x":\n', b"\xff\xfe\n", b"null\n", b'["a"]\n', b'{"a":{"b":1}\n']
)
def test_fc_12_one_bad_line_hides_nothing(store, tmp_path, bad):
    good = chain(*(f"{'ua'[number % 2]}{number}" for number in range(20)))
    done = take(store, write(tmp_path / "t.jsonl", *good[:6], bad, *good[7:]))
    found = entries(store, done.session_id)
    assert len(found) == 19
    assert found[-1].external_id == "a19"
    damaged, dangling = done.findings
    assert (damaged.line, dangling.line, dangling.kind) == (7, 8, "dangling_reference")
    assert lines(*good[:6], bad)[damaged.offset :][:1] in bad
    assert damaged.kind in {"not_json", "not_utf8", "not_an_object"}
    assert raw(store, done.session_id) == lines(*good[:6], bad, *good[7:])


def test_fc_13_empty_and_headless_files_are_told_and_the_others_taken(store, tmp_path):
    folder = tmp_path / "sessions"
    write(folder / "a_empty.jsonl")
    write(folder / "b_blank.jsonl", b"\n\n")
    write(folder / "c_torn.jsonl", b'{"type":"session","version":3,"id":"s')
    write(folder / "d_good.jsonl", *chain("u1", "a1"))
    told = []
    take_in_all(store, [(path, None) for path in transcripts_below(folder)], ImportRequest(), told.append)
    assert [kinds(done) for done in told] == [["empty"], ["empty"], ["empty"], []]
    assert told[-1].added == 2
    # Once the header is whole, it is one session with one header.
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/nowhere"}
    done = take(store, write(folder / "c_torn.jsonl", header, pi_line("e1", None)))
    assert (done.added, done.problems) == (1, 0)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_fc_14_line_separators_inside_texts_are_text(store, tmp_path, end):
    text = "a\u2028b\u0085c\u2029d\x0b\x0c\x1ce"
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(*chain("u1", "a1", text=text), end=end))
    done = take(store, path)
    found = entries(store, done.session_id)
    assert [entry.payload["text"] for entry in found] == [text, text]
    assert done.problems == 0
    assert raw(store, done.session_id) == path.read_bytes()
    pieces = []
    export_session(store, Standpoint(), ExportRequest(session=done.session_id), pieces.append)
    with opened(tmp_path / "there") as there:
        (tmp_path / "out.jsonl").write_bytes(b"".join(pieces))
        back = take(there, tmp_path / "out.jsonl")
        assert [e.entry_hash for e in entries(there, back.session_id)] == [entry.entry_hash for entry in found]


def test_fc_14_the_end_of_a_line_is_no_part_of_its_record(store, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(*chain("u1", "a1"), end=b"\r\n"))
    take(store, path)
    (tmp_path / "copy.jsonl").write_bytes(lines(*chain("u1", "a1")))
    assert take(store, tmp_path / "copy.jsonl").added == 0


def test_fc_16_a_raw_line_feed_in_a_text_is_one_damaged_region(store, tmp_path):
    u1, a1, u2 = chain("u1", "a1", "u2")
    spread = json.dumps({**a1, "message": {**a1["message"], "content": "first\nsecond\nthird"}}).replace("\\n", "\n")
    done = take(store, write(tmp_path / "t.jsonl", u1, spread.encode() + b"\n", u2))
    assert [entry.payload["text"] for entry in entries(store, done.session_id)] == [
        "words of u1",
        "first\nsecond\nthird",
        "words of u2",
    ]
    assert [(f.kind, f.line) for f in done.findings] == [("rejoined", 2)]
    broken = b'{"id":"e2","out":"first\nsecond\nthird\n'
    done = take(store, write(tmp_path / "b.jsonl", *chain("u7"), broken, *chain("u8")))
    assert [(f.kind, f.line) for f in done.findings] == [("not_json", 2)]
    assert keys(entries(store, done.session_id))[-2:] == ["u7", "u8"]


@pytest.mark.parametrize("format_name", [None, "claude-code", "codex", "pi", "gemini"])
def test_fc_17_a_document_of_another_agent_is_refused_by_what_it_is(store, tmp_path, format_name):
    document = {"info": {"id": "ses_1"}, "messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
    path = tmp_path / "full.jsonl"
    path.write_text(json.dumps(document, indent=2))
    with pytest.raises(UnknownTranscriptFormat) as refused:
        take(store, path, format_name=format_name)
    assert "one JSON document over" in refused.value.message
    assert refused.value.code == "unknown_transcript_format"
    assert all_entries(store) == 0


def test_fc_18_two_writers_of_one_transcript_are_two_branches(store, tmp_path):
    """Two programs that resumed one session append under the same leaf, each blind to the other."""
    start = chain("u1", "a1")
    left = [claude(f"u{n}", "a1" if n == 10 else f"u{n - 1}") for n in range(10, 60)]
    right = [claude(f"v{n}", "a1" if n == 10 else f"v{n - 1}", text="x" * 100_000) for n in range(10, 60)]
    mixed = [line for pair in zip(left, right, strict=True) for line in pair]
    done = take(store, write(tmp_path / "t.jsonl", *start, *mixed))
    found = {entry.external_id: entry for entry in entries(store, done.session_id)}
    assert len(found) == 102
    assert done.problems == 0
    assert found["u10"].parent_entry_id == found["v10"].parent_entry_id == found["a1"].id
    assert path_keys(store, done.session_id)[-1] == "v59"


def test_fc_20_verbatim_copies_are_one_and_other_content_is_a_conflict(store, tmp_path):
    u1, a1, u2, a2 = chain("u1", "a1", "u2", "a2")
    boundary = {**claude("b", None), "type": "system", "subtype": "compact_boundary", "logicalParentUuid": "a2"}
    other = {**a1, "message": {**a1["message"], "content": [{"type": "text", "text": "something else"}]}}
    done = take(store, write(tmp_path / "t.jsonl", u1, a1, u2, a2, boundary, u1, a1, claude("u3", "a2")))
    found = {entry.external_id: entry for entry in entries(store, done.session_id)}
    assert list(found) == ["u1", "a1", "u2", "a2", "b", "u3"]
    assert found["u3"].parent_entry_id == found["a2"].id
    assert done.problems == 0
    again = take(store, write(tmp_path / "v.jsonl", u1, a1, u2, a2, boundary, u1, other, claude("u3", "a2")))
    assert (again.added, [(f.kind, f.line) for f in again.findings]) == (0, [("conflict", 7)])
    assert found["a1"].payload["text"] == "words of a1"
    with store.store.read() as connection:
        (source,) = rows.sources_at(connection, str(tmp_path / "v.jsonl"))
        kept = b"".join(rebuild(connection, source, Rebuilt()))
    assert kept == (tmp_path / "v.jsonl").read_bytes()


def test_fc_22_a_logical_parent_that_comes_later_resolves_without_changing_the_entry(store, tmp_path):
    boundary = {**claude("b", None), "type": "system", "subtype": "compact_boundary", "logicalParentUuid": "a9"}
    summary = claude("s", "b", text="what happened so far", isCompactSummary=True)
    done = take(store, write(tmp_path / "t.jsonl", boundary, summary, *chain("u1", "a1")[:1], claude("a1", "u1")))
    before = {entry.external_id: entry for entry in entries(store, done.session_id)}
    assert kinds(done) == ["unresolved_logical_parent"]
    with store.store.read() as connection:
        (link,) = rows.links_of(connection, done.session_id)
    assert (link.entry_id, link.relation, link.target_key, link.target_entry_id) == (
        before["b"].id,
        "logical_parent",
        "a9",
        None,
    )
    assert before["s"].payload["summary"] == "what happened so far"
    older = take(store, write(tmp_path / "o.jsonl", *chain("u8", "a9", sessionId=OTHER)))
    target = entries(store, older.session_id)[-1]
    with store.store.read() as connection:
        (link,) = rows.links_of(connection, done.session_id)
    assert (link.target_session_id, link.target_entry_id) == (older.session_id, target.id)
    after = {entry.external_id: entry.entry_hash for entry in entries(store, done.session_id)}
    assert after == {key: entry.entry_hash for key, entry in before.items()}


def test_fc_23_a_summary_is_no_prompt_and_hides_no_history(store, tmp_path):
    boundary = {**claude("b", None), "type": "system", "subtype": "compact_boundary", "logicalParentUuid": "a1"}
    done = take(
        store,
        write(
            tmp_path / "t.jsonl",
            *chain("u1", "a1"),
            boundary,
            claude("s", "b", text="a huge summary", isCompactSummary=True, isVisibleInTranscriptOnly=True),
            claude("m", "s", text="<local-command-caveat>", isMeta=True),
            claude("r", "m", text="said before", isReplay=True),
            claude("u2", "r"),
        ),
    )
    found = entries(store, done.session_id)
    prompts = [entry.external_id for entry in found if entry.kind == "user.message"]
    assert prompts == ["u1", "u2"]
    assert next(entry for entry in found if entry.external_id == "s").kind == "context.compacted"
    assert path_keys(store, done.session_id) == ["u1", "a1", "b", "s", "m", "r", "u2"]


def fork_of_twelve():
    twelve = chain(*(f"{'ua'[number % 2]}{number:02d}" for number in range(12)))
    five = [claude(f"w{n}", "a11" if n == 0 else f"w{n - 1}", sessionId=OTHER) for n in range(5)]
    return twelve, five


@pytest.mark.parametrize("order", ["AB", "BA", "ABAB", "BAAB", "BBA"])
@pytest.mark.parametrize("rows_keep_their_id", [True, False])
def test_fc_24_a_fork_and_a_copy_are_taken_once_in_every_order(store, tmp_path, order, rows_keep_their_id):
    twelve, five = fork_of_twelve()
    copied = twelve if rows_keep_their_id else [{**line, "sessionId": OTHER} for line in twelve]
    paths = {
        "A": write(tmp_path / "one" / f"{SESSION}.jsonl", *twelve),
        "B": write(tmp_path / "two" / f"{OTHER}.jsonl", *copied, *five),
    }
    results = [take(store, paths[name]) for name in order]
    assert all_entries(store) == 17
    assert sum(done.added for done in results) == 17
    assert all(done.problems == 0 for done in results)
    with store.store.read() as connection:
        sessions = list_sessions(connection)
    whole = [session for session in sessions if len(path_keys(store, session.id)) == 17]
    assert len(whole) == 1
    assert path_keys(store, whole[0].id)[12:] == [f"w{n}" for n in range(5)]
    if rows_keep_their_id or order.startswith("A"):
        assert (whole[0].parent_relation, len(sessions)) == ("forked", 2)
    assert all(healthy(store, session.id) for session in sessions)


def test_fc_24_the_longer_copy_wins(store, tmp_path):
    ten = chain(*(f"u{number}" for number in range(10)))
    short = take(store, write(tmp_path / "one" / f"{SESSION}.jsonl", *ten[:6]))
    long = take(store, write(tmp_path / "two" / f"{SESSION}.jsonl", *ten))
    assert (short.session_id, short.added, long.added) == (long.session_id, 6, 4)
    assert take(store, write(tmp_path / "three" / f"{SESSION}.jsonl", *ten[:3])).added == 0
    assert len(path_keys(store, long.session_id)) == 10


def test_fc_26_one_reply_in_several_lines_is_counted_once(store, tmp_path):
    usage = {"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 30}

    def part(key, parent, block, used=usage):
        message = {"role": "assistant", "id": "msg_1", "model": "m", "content": [block], "usage": used}
        return {**claude(key, parent, "assistant"), "message": message}

    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    done = take(
        store,
        write(
            tmp_path / "t.jsonl",
            claude("u1", None),
            part("p1", "u1", {"type": "thinking", "thinking": "hm"}, {**usage, "output_tokens": 2}),
            part("p2", "p1", {"type": "text", "text": "I look"}),
            part("p3", "p2", {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}),
            {**claude("r1", "p3"), "message": {"role": "user", "content": [result]}},
        ),
    )
    found = entries(store, done.session_id)
    said = [(entry.external_id, entry.kind) for entry in found if entry.kind != "usage.updated"]
    assert said == [
        ("u1", "user.message"),
        ("p1", "reasoning.completed"),
        ("p2", "assistant.message"),
        ("p3", "tool.started"),
        ("r1", "tool.completed"),
    ]
    used = [entry.payload["tokens"] for entry in found if entry.kind == "usage.updated"]
    totals = {name: sum(tokens.get(name, 0) for tokens in used) for name in ("input", "output", "cache_read")}
    assert totals == {"input": 100, "output": 7, "cache_read": 30}
    assert found[-1].payload["name"] == "Bash"
    turns = {row.annotation.turn for row in read_log(store, Standpoint(), done.session_id, limit=20).rows}
    assert len(turns) == 1


def test_fc_27_a_sub_agent_is_linked_to_a_parent_that_comes_later(store, tmp_path):
    def rollout(name, identity, source, *texts):
        meta = {"id": identity, "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/nowhere", "source": source}
        items = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts
        ]
        stamps = [f"2026-05-01T10:00:{n:02d}.000Z" for n in range(1, len(items) + 1)]
        payloads = [{"timestamp": s, "type": "response_item", "payload": i} for s, i in zip(stamps, items, strict=True)]
        return write(
            tmp_path / f"rollout-{name}.jsonl",
            {"timestamp": stamps[0], "type": "session_meta", "payload": meta},
            *payloads,
        )

    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "P", "depth": 2}}}
    child = take(store, rollout("child", "C", spawn, "look here"))
    session = session_of(store, child.session_id)
    assert (session.kind, session.parent_session_id) == ("worker", None)
    with store.store.read() as connection:
        known = rows.native(connection, "codex", "C")
        assert list_sessions(connection, kinds=["chat"]) == []
    assert (known.parent_native_id, known.depth, known.parent_relation) == ("P", 2, "delegated")
    parent = take(store, rollout("parent", "P", "cli", "do it"))
    session = session_of(store, child.session_id)
    assert (session.parent_session_id, session.parent_relation) == (parent.session_id, "delegated")
    assert healthy(store, child.session_id)


@pytest.mark.parametrize(
    ("since", "status"), [("2026-01-01T00:00:00Z", "recorded"), ("2036-01-01T00:00:00Z", "created")]
)
def test_what_hooks_recorded_from_its_beginning_is_not_taken_in_again(store, tmp_path, since, status):
    live = store.recorder.create_session(NewSession(label="live"))
    captured = Captured(
        host="claude-code",
        native_id=SESSION,
        session_id=live.id,
        workspace_id=None,
        started_at=since,
        last_event_at=since,
    )
    store.store.write(lambda tx: add_captured(tx.connection, captured))
    done = take(store, write(tmp_path / "t.jsonl", *chain("u1", "a1")))
    assert [(one.status, one.session_id == live.id) for one in done.sessions] == [(status, status == "recorded")]
    grown = take(store, write(tmp_path / "t.jsonl", *chain("u1", "a1", "u2")))
    assert (done.added, grown.added) == ((0, 0) if status == "recorded" else (2, 1))
    assert entries(store, live.id) == []
