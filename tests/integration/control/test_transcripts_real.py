"""Transcripts that the agents themselves wrote: what becomes of them, again, as they grow, with secrets in them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.folders import host_folders, oldest_first, transcripts_below
from bridge.control.exchange.foreign.gathering import Watch, files_of, take_in_all
from bridge.control.exchange.imported import ImportRequest
from bridge.control.standpoint import Standpoint
from bridge.conversations.store import get_entry, list_sessions
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.repository import discover
from bridge.semantics.stamps import UnknownReason
from bridge.transcripts.errors import UnsupportedTranscriptVersion
from bridge.workspaces.registration import register
from bridge.workspaces.store import load_state
from tests.transcripts import (
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

FIXTURES = Path(__file__).parents[2] / "fixtures" / "transcripts"


def opened(folder, url=None) -> Controller:
    environment = {"BRIDGE_HOME": str(folder), **({} if url is None else {"BRIDGE_DATABASE_URL": url})}
    return Controller(load_settings(environment), clock=SystemClock(), environment=os.environ)


@pytest.fixture
def store(tmp_path):
    with opened(tmp_path / "state") as controller:
        yield controller


@pytest.fixture
def host(tmp_path):
    """A home directory with the folders of all agents as they were."""
    home = tmp_path / "home"
    places = {
        "claude-code": ".claude/projects",
        "codex": ".codex/sessions",
        "pi": ".pi/agent/sessions",
        "gemini": ".gemini/tmp",
    }
    for name, place in places.items():
        shutil.copytree(FIXTURES / name, home / place)
    data = home / ".local/share/opencode"
    data.mkdir(parents=True)
    with sqlite3.connect(data / "opencode.db") as connection:
        connection.executescript((FIXTURES / "opencode" / "opencode.sql").read_text())
    connection.close()
    return home


def gathered(store, home, **request):
    told = []
    take_in_all(store, files_of(host_folders({"HOME": str(home)})), ImportRequest(**request), told.append)
    return told


def told_entries(store, session_id):
    return [
        (entry.kind, entry.payload.get("text") or entry.payload.get("name")) for entry in entries(store, session_id)
    ]


def test_what_the_agents_wrote_is_taken_in_once_on_every_database(tmp_path, database_url, host):
    with opened(tmp_path / "state", database_url) as store:
        dry = gathered(store, host, dry_run=True)
        assert all_entries(store) == 0
        first = gathered(store, host)
        assert [done.problems for done in first] == [0] * len(first)
        # Forks are seen as such only once what they were forked from is there.
        assert sum(done.added for done in dry) >= sum(done.added for done in first) == all_entries(store)
        again = gathered(store, host)
        assert sum(done.added for done in again) == 0
        assert all(done.lines == done.skipped for done in again)
        with store.store.read() as connection:
            sessions = list_sessions(connection)
        assert Counter(session.harness for session in sessions) == {
            "claude-code": 7,
            "pi": 2,
            "codex": 1,
            "gemini": 1,
            "opencode": 1,
        }
        assert all(healthy(store, session.id) for session in sessions)
        for done in first:
            if done.format not in {"opencode"}:
                assert raw(store, done.session_id) == Path(str(done.path)).read_bytes()


def test_claude_code_with_a_fork_a_compaction_and_sub_agents(store, host):
    results = {Path(done.path).stem: done for done in gathered(store, host) if done.format == "claude-code"}
    main, fork = results["efd6f6ad-c25b-468a-8568-5b5b7baecd58"], results["8d3f9af2-83fe-4c05-abb0-f5a41df1c1b0"]
    session = session_of(store, fork.session_id)
    assert (session.parent_session_id, session.parent_relation) == (main.session_id, "forked")
    shared = path_keys(store, fork.session_id)
    assert shared[: len(shared) - fork.added] == path_keys(store, main.session_id)[: len(shared) - fork.added]
    found = entries(store, main.session_id)
    counts = Counter(entry.kind for entry in found)
    assert counts["context.compacted"] == 2
    assert counts["tool.started"] == counts["tool.completed"] == 3
    said = [text for kind, text in told_entries(store, main.session_id) if kind == "user.message"]
    assert said[:2] == ["edit a.txt", "what does a.txt say?"]
    edit = next(entry for entry in found if entry.kind == "tool.completed" and entry.payload["name"] == "Edit")
    assert edit.payload["paths_written"] == ["a.txt"]
    # The compaction goes on from where the conversation was.
    boundary = next(entry for entry in found if entry.payload.get("reason") == "manual")
    assert next(e for e in found if e.id == boundary.parent_entry_id).kind == "assistant.message"
    with store.store.read() as connection:
        workers = list_sessions(connection, kinds=["worker"])
        depths = {rows.natives_of(connection, worker.id)[0].depth for worker in workers}
    assert {worker.parent_session_id for worker in workers} == {main.session_id}
    assert depths == {1, 2, 3, 4, 5}


def test_codex_reads_one_of_its_two_streams(store, host):
    done = next(done for done in gathered(store, host) if done.format == "codex")
    found = told_entries(store, done.session_id)
    assert [text for kind, text in found if kind == "user.message"] == ["what does a.txt say?", "say it again"]
    assert [text for kind, text in found if kind == "assistant.message"] == ["It says hello.", "Again: hello."]
    counts = Counter(kind for kind, _ in found)
    assert (counts["turn.started"], counts["turn.completed"], counts["usage.updated"]) == (2, 2, 3)
    assert counts["model.changed"] == 1


def test_pi_gemini_and_opencode(store, host):
    results = {done.format: done for done in gathered(store, host) if done.format in {"pi", "gemini", "opencode"}}
    pi = told_entries(store, results["pi"].session_id)
    assert pi[-1] == ("assistant.message", "A fork says hello.")
    assert len(path_keys(store, results["pi"].session_id)) == 11 + 3
    gemini = [kind for kind, _ in told_entries(store, results["gemini"].session_id)]
    assert gemini.count("tool.started") == gemini.count("tool.completed") == 2
    assert session_of(store, results["gemini"].session_id).harness == "gemini"
    opencode = told_entries(store, results["opencode"].session_id)
    assert [kind for kind, _ in opencode if kind != "usage.updated"] == [
        "user.message",
        "tool.started",
        "tool.completed",
        "assistant.message",
    ]


def test_an_opencode_database_is_read_while_it_is_written(store, host):
    path = host / ".local/share/opencode/opencode.db"
    first = take(store, path)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    session = writer.execute("SELECT id FROM session").fetchone()[0]
    data = json.dumps({"role": "user", "time": {"created": 1796099999000}})
    writer.execute("INSERT INTO message VALUES ('msg_z', ?, 1796099999000, 1, ?)", (session, data))
    part = json.dumps({"type": "text", "text": "one more"})
    writer.execute("INSERT INTO part VALUES ('prt_z', 'msg_z', ?, 1796099999000, 1, ?)", (session, part))
    writer.commit()
    writer.execute("INSERT INTO message VALUES ('msg_zz', ?, 1796099999001, 1, ?)", (session, data))
    before = {one.name: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
    second = take(store, path)
    assert before == {one.name: one.read_bytes() for one in path.parent.iterdir() if not one.name.endswith("-shm")}
    writer.rollback()
    writer.close()
    assert (second.session_id, second.added) == (first.session_id, 1)
    assert entries(store, second.session_id)[-1].payload["text"] == "one more"
    assert take(store, path).added == 0
    rebuilt = [json.loads(line) for line in raw(store, second.session_id).splitlines()]
    assert [row["row"].get("id") for row in rebuilt if row["table"] == "message"][-1] == "msg_z"


def test_what_grows_is_continued_and_what_is_written_anew_is_compared(store, tmp_path):
    six = chain("u1", "a1", "u2", "a2", "u3", "a3")
    path = write(tmp_path / "t.jsonl", *six[:2])
    assert take(store, path).added == 2
    write(path, *six[:5])
    grown = take(store, path)
    assert (grown.added, grown.skipped, grown.lines) == (3, 2, 5)
    write(path, *six[2:], *six[:2])
    turned = take(store, path)
    assert (turned.added, turned.skipped) == (1, 0)
    assert keys(entries(store, turned.session_id)) == ["u1", "a1", "u2", "a2", "u3", "a3"]


def test_a_head_that_somebody_moved_stays_where_it_is(store, tmp_path):
    four = chain("u1", "a1", "u2", "a2")
    path = write(tmp_path / "t.jsonl", *four[:2])
    done = take(store, path)
    first = entries(store, done.session_id)[0]
    store.recorder.move_head(done.session_id, first.id)
    write(path, *four)
    assert take(store, path).added == 2
    assert session_of(store, done.session_id).active_entry_id == first.id


def test_watching_takes_in_lines_as_they_come(store, tmp_path):
    folder = tmp_path / "watched"
    records = chain("u1", "a1", "u2")
    path = write(folder / "t.jsonl", records[0])
    told, rounds = [], []
    half = lines(records[2])[:40]

    def pause(_seconds):
        rounds.append(all_entries(store))
        with path.open("ab") as file:
            if len(rounds) == 1:
                file.write(lines(records[1]) + half)
            elif len(rounds) == 2:
                file.write(lines(records[2])[40:])
            elif len(rounds) == 3:
                write(folder / "other.jsonl", *chain("u9", sessionId="other"))
        return len(rounds) == 5

    def files():
        return [(one, None) for one in transcripts_below(folder)]

    Watch(store, files, ImportRequest(), told.append, pause).run()
    assert rounds == [1, 2, 3, 4, 4]
    assert [done.problems for done in told] == [0] * 4


def test_secrets_are_masked_in_entries_and_lines_unless_they_are_to_stay(store, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    spoken = claude("u1", None, text=f"line one\n{secret} is the token")
    escaped = lines(claude("u2", "u1", text=secret)).replace(b"ghp_", b"\\u0067hp_")
    path = write(tmp_path / "t.jsonl", spoken, escaped, claude("u3", "u2"), f'{{"torn": "{secret}'.encode() + b"\n")
    done = take(store, path)
    for entry in entries(store, done.session_id):
        assert secret not in entry.payload_text
    kept = raw(store, done.session_id)
    assert secret.encode() not in kept
    assert b"hp_" + secret[4:].encode() not in kept
    assert kept.splitlines()[2] == path.read_bytes().splitlines()[2]
    digests = {
        entry.external_id: entry.payload["provider_meta"]["source"]["digest"]
        for entry in entries(store, done.session_id)
    }
    assert len(set(digests.values())) == 3
    pieces = []
    written = export_session(store, Standpoint(), ExportRequest(session=done.session_id, format="raw"), pieces.append)
    assert (written.rebuilt.is_exact, written.rebuilt.changed_lines) == (False, 3)
    with opened(tmp_path / "other") as other:
        done = take(other, path, keep_raw=True)
        assert raw(other, done.session_id) == path.read_bytes()
        assert all(secret not in entry.payload_text for entry in entries(other, done.session_id))


def test_what_git_was_is_what_the_source_knew(store, tmp_path, repository):
    root = Path(os.fsdecode(repository.path))
    (root / "a.txt").write_text("x")
    repository.git("add", ".")
    repository.git("commit", "-qm", "one")
    commit = repository.git("rev-parse", "HEAD").strip()
    location = discover(root)
    store.recorder.transact(lambda recording: register(recording.tx, location, moment=recording.moment))
    (root / "a.txt").write_text("dirty now")
    moment = "2026-05-01T10:00:00.000Z"

    def rollout(name, git, cwd):
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"hi {name}"}]}
        meta = {"id": name, "timestamp": moment, "cwd": str(cwd), "git": git}
        head = {"timestamp": moment, "type": "session_meta", "payload": meta}
        return write(
            tmp_path / f"rollout-{name}.jsonl", head, {"timestamp": moment, "type": "response_item", "payload": item}
        )

    known = take(store, rollout("one", {"commit_hash": commit, "branch": "main"}, root))
    session = session_of(store, known.session_id)
    assert session.workspace_id is not None
    with store.store.read() as connection:
        root_entry = get_entry(connection, session.id, f"{session.id}-000000")
        state = load_state(connection, str(root_entry.state_digest))
    assert (state.head, state.ref, state.repository_id) == (commit, "refs/heads/main", location.repository_id)
    assert entries(store, known.session_id)[0].stamp.unknown_reason is UnknownReason.UNSTAMPED
    unknown = take(store, rollout("two", {"commit_hash": commit}, "/nowhere/at/all"))
    with store.store.read() as connection:
        root_entry = get_entry(connection, unknown.session_id, f"{unknown.session_id}-000000")
    assert root_entry.stamp.unknown_reason is UnknownReason.UNSTAMPED
    assert session_of(store, unknown.session_id).workspace_id is None
    assert root_entry.payload["source"]["git_commit"] == commit


@pytest.mark.parametrize("version", [4, 5, "3", None])
def test_pi_versions_beyond_three_are_refused_by_name(store, tmp_path, version):
    header = {"type": "session", "version": version, "id": "p", "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/n"}
    entry = {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "hi"}}
    path = write(tmp_path / "x_p.jsonl", header, entry)
    with pytest.raises(UnsupportedTranscriptVersion) as refused:
        take(store, path)
    assert refused.value.details["supported"] == [1, 2, 3]
    assert all_entries(store) == 0


def test_pi_version_one_is_a_line_and_two_a_tree(store, tmp_path):
    moment = "2026-05-01T10:00:00.000Z"
    said = [
        {"type": "message", "timestamp": moment, "message": {"role": "user", "content": f"number {n}"}}
        for n in range(3)
    ]
    one = {"type": "session", "id": "v1", "timestamp": moment, "cwd": "/n"}
    compaction = {"type": "compaction", "timestamp": moment, "summary": "so far", "firstKeptEntryIndex": 1}
    done = take(store, write(tmp_path / "x_v1.jsonl", one, *said, compaction))
    found = entries(store, done.session_id)
    assert [entry.kind for entry in found] == ["user.message"] * 3 + ["context.compacted"]
    assert [entry.parent_entry_id for entry in found[1:]] == [entry.id for entry in found[:-1]]
    two = {**one, "id": "v2", "version": 2}
    tree = [{**line, "id": f"i{n}", "parentId": ["i0", None][n == 0]} for n, line in enumerate(said)]
    label = {"type": "label", "id": "i3", "parentId": "i2", "timestamp": moment, "targetId": "i1", "label": "fork-here"}
    done = take(store, write(tmp_path / "x_v2.jsonl", two, *tree, label))
    found = {entry.external_id: entry for entry in entries(store, done.session_id)}
    assert found["i1"].parent_entry_id == found["i2"].parent_entry_id == found["i0"].id
    assert session_of(store, done.session_id).active_entry_id == found["i3"].id  # as Pi itself has it


def test_a_fork_of_codex_repeats_its_origin_at_another_time(store, tmp_path):
    def rollout(name, fork, count, moment):
        meta = {"id": name, "timestamp": moment, "cwd": "/n", **({"forked_from_id": fork} if fork else {})}
        items = [
            {"type": "message", "id": f"msg_{n if n < 4 else (name, n)}", "role": "user", "content": f"number {n}"}
            for n in range(count)
        ]
        return write(
            tmp_path / f"rollout-{name}.jsonl",
            {"timestamp": moment, "type": "session_meta", "payload": meta},
            *({"timestamp": moment, "type": "response_item", "payload": item} for item in items),
        )

    origin = rollout("origin", None, 6, "2026-05-01T10:00:00.000Z")
    fork = rollout("fork", "origin", 7, "2026-05-02T10:00:00.000Z")
    take(store, origin)
    done = take(store, fork)
    assert done.added == 3
    assert session_of(store, done.session_id).parent_relation == "forked"
    assert len(path_keys(store, done.session_id)) == 7
    with opened(tmp_path / "turned") as turned:
        assert take(turned, fork).added + take(turned, origin).added == all_entries(turned) == 9


def test_the_agents_folders_are_found_by_home_and_variables(tmp_path):
    for name in (".claude/projects", "elsewhere/projects", "codex/sessions", ".pi/agent/sessions", ".gemini/tmp"):
        (tmp_path / name).mkdir(parents=True)
    found = host_folders({"HOME": str(tmp_path)})
    assert [(one.form.name, one.path.relative_to(tmp_path).as_posix()) for one in found] == [
        ("claude-code", ".claude/projects"),
        ("pi", ".pi/agent/sessions"),
        ("gemini", ".gemini/tmp"),
    ]
    named = {"CLAUDE_CONFIG_DIR": str(tmp_path / "elsewhere"), "CODEX_HOME": str(tmp_path / "codex")}
    found = host_folders({"HOME": str(tmp_path / "none"), **named})
    assert [one.path.relative_to(tmp_path).as_posix() for one in found] == ["elsewhere/projects", "codex/sessions"]


def test_origins_come_before_their_forks(host):
    found = oldest_first(transcripts_below(host / ".claude/projects"))
    names = [path.stem for path in found if "subagents" not in path.parts]
    assert names == ["efd6f6ad-c25b-468a-8568-5b5b7baecd58", "8d3f9af2-83fe-4c05-abb0-f5a41df1c1b0"]


def test_a_folder_with_anything_else_in_it_is_no_trouble(store, tmp_path):
    write(tmp_path / "f" / "t.jsonl", *chain("u1"))
    write(tmp_path / "f" / "settings.json", {"a": 1})
    write(tmp_path / "f" / "other.jsonl", {"hello": "world"})
    told = []
    take_in_all(store, [(one, None) for one in transcripts_below(tmp_path / "f")], ImportRequest(), told.append)
    assert [(Path(done.path).name, kinds(done), done.added) for done in told] == [
        ("other.jsonl", ["unknown_format"], 0),
        ("t.jsonl", [], 1),
    ]


@pytest.mark.parametrize("agent", ["claude-code", "codex", "pi"])
def test_chats_that_the_search_is_measured_with_are_whole(store, agent):
    """``tests/benchmarks/search_real.py``: two prompts and two answers, in this order, whichever agent wrote them."""
    folder = FIXTURES.parents[1] / "benchmarks" / "transcripts" / agent
    found = sorted(folder.glob("*.jsonl"))
    assert len(found) == 4
    for path in found:
        recorded = [one.kind for one in entries(store, take(store, path).session_id)]
        said = [kind for kind in recorded if kind in ("user.message", "assistant.message")]
        assert said == ["user.message", "assistant.message"] * 2
        assert "tool.completed" in recorded
