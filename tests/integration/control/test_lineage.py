"""Lineage at its worst: circles behind the API, clocks that go back, equal times, very many notes, and kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bridge.control.lineage.descent import lineage_of
from bridge.control.lineage.notes import MAX_LIMIT, predecessors, read_notes, write_note
from bridge.control.lineage.waking import wake
from bridge.control.standpoint import Standpoint
from bridge.conversations.forest import require_session
from bridge.conversations.listing import store as listing
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import list_sessions
from bridge.lineage.descent import MAX_DEPTH, resolve_predecessor
from bridge.lineage.errors import LineageCycle
from tests.databases import raw_connection

HERE = Standpoint()
TIMES = [f"2026-05-01T00:00:0{number}.000000Z" for number in range(3)]


@pytest.mark.parametrize("seed", range(2))
def test_a_random_graph_with_circles_injected_behind_the_api_is_walked_to_an_end(controller: Any, seed: int) -> None:
    choose = random.Random(seed)
    sessions: list[str] = []
    for number in range(20):
        parent = choose.choice(sessions) if sessions and choose.random() < 0.8 else None
        relation = None if parent is None else choose.choice(("continued", "delegated"))
        kind = "worker" if relation == "delegated" else "chat"
        new = NewSession(kind=kind, parent_session_id=parent, parent_relation=relation)  # type: ignore[arg-type]
        sessions.append(controller.recorder.create_session(new).id)
        draft = EntryDraft(kind="note", payload={"text": f"note {number}"})
        controller.recorder.append_now(sessions[-1], draft)
    with raw_connection(controller.store.url) as connection:
        for name in ("sessions_acyclic", "sessions_stay_acyclic"):
            connection.execute(f"DROP TRIGGER {name}")
        for _ in range(10):
            child, parent = choose.choice(sessions), choose.choice(sessions)
            connection.execute(
                "UPDATE sessions SET parent_session_id = ?, parent_relation = 'continued', kind = 'chat' WHERE id = ?",
                (parent, child),
            )
    for session_id in sessions:
        found = lineage_of(controller, HERE, session_id)
        above = [ancestor.id for ancestor in found.ancestry.sessions]
        assert len(set(above)) == len(above) <= MAX_DEPTH
        assert session_id not in above
        assert found.to_json()
        with controller.store.read() as connection:
            session = require_session(connection, session_id)
            before = predecessors(connection, session).sessions
        assert {one.kind for one in (session, *before)} == {"chat"} or not before
        assert read_notes(controller, HERE, session_id, include_previous=True).notes
        try:
            assert wake(controller, HERE, from_session=session_id).session.parent_session_id == session_id
        except LineageCycle:
            assert found.ancestry.stop is not None


def test_the_latest_chat_is_the_predecessor_whatever_the_clocks_said(
    controller: Any, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal times, and times that go back, told by the rule itself; also at the edge of what is looked at first."""
    choose = random.Random(7)
    places = [world.workspace.id, "another"]
    for _ in range(24):
        kind = choose.choice(("chat", "chat", "worker"))
        controller.recorder.create_session(NewSession(kind=kind, workspace_id=choose.choice(places)))
    for _ in range(12):
        with raw_connection(controller.store.url) as connection:
            for (session_id,) in connection.execute("SELECT id FROM sessions").fetchall():
                connection.execute(
                    "UPDATE session_heads SET updated_at = ? WHERE session_id = ?", (choose.choice(TIMES), session_id)
                )
                connection.execute(
                    "UPDATE sessions SET created_at = ? WHERE id = ?", (choose.choice(TIMES), session_id)
                )
        for looked_at in (1, 3, 1000):
            monkeypatch.setattr(listing, "LATEST_CHATS_LOOKED_AT", looked_at)
            for place in (*places, "nowhere"):
                with controller.store.read() as connection:
                    found = listing.latest_chat(connection, place)
                    everyone = list_sessions(connection)
                assert found == resolve_predecessor(everyone, workspace_id=place, agent_id=None)


def test_among_100_000_notes_the_newest_are_read(controller: Any) -> None:
    session_id = controller.recorder.create_session(NewSession()).id
    first = write_note(controller, HERE, session_id, "one of very many")
    count = 100_000
    with raw_connection(controller.store.url) as connection:
        connection.execute(
            "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
            " context_visibility, unknown_reason, created_at, payload_hash, entry_hash, payload)"
            " WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
            " SELECT session_id, session_id || '-' || CASE WHEN n < 1000000 THEN substr('00000' || n, -6) ELSE n END,"
            " parent_entry_id, n, semantic_schema_version, kind, context_visibility, unknown_reason, created_at,"
            " payload_hash, entry_hash, payload FROM numbers CROSS JOIN session_entries WHERE id = ?",
            (count, first.id),
        )
        connection.execute("UPDATE session_heads SET next_sequence = ? WHERE session_id = ?", (count + 1, session_id))
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT id FROM session_entries WHERE session_id = 'x' AND kind = 'note'"
            " ORDER BY sequence DESC LIMIT 20"
        ).fetchall()
    assert ["ix_session_entries_notes" in row[-1] for row in plan] == [True]
    last = write_note(controller, HERE, session_id, "the last word")
    found = read_notes(controller, HERE, session_id, limit=20)
    assert [note.sequence for note in found.notes] == list(range(count - 18, count + 2))
    assert (found.notes[-1].id, found.has_older) == (last.id, True)
    woken = wake(controller, HERE, from_session=session_id)
    assert (woken.note or pytest.fail("nothing")).text == "the last word"
    both = read_notes(controller, HERE, woken.session.id, include_previous=True, limit=MAX_LIMIT)
    assert len(both.notes) == MAX_LIMIT


def test_8_agents_with_500_notes_each_at_once_lose_none(controller: Any) -> None:
    sessions = [controller.recorder.create_session(NewSession()).id for _ in range(4)]

    def leave(number: int) -> None:
        session_id, sender = sessions[number % 4], f"agent-{number}"
        for count in range(500):
            draft = EntryDraft(kind="note", payload={"text": str(count), "sender": sender})
            controller.recorder.append(session_id, draft).result()

    threads = [threading.Thread(target=leave, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        with controller.store.read() as connection:
            rows = connection.exec_driver_sql(
                "SELECT json_extract(payload, '$.text') FROM session_entries WHERE session_id = ? AND kind = 'note'"
                " AND json_extract(payload, '$.sender') = ? ORDER BY sequence",
                (sessions[number % 4], f"agent-{number}"),
            )
            assert [row[0] for row in rows] == [str(count) for count in range(500)]


_LEAVING = """\
import os, sys
from bridge.control.controller import Controller
from bridge.control.lineage.notes import write_note
from bridge.control.lineage.waking import wake
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

with Controller(load_settings(os.environ), clock=SystemClock(), environment=os.environ) as controller:
    session = wake(controller, Standpoint()).session.id
    print(session, flush=True)
    number = 0
    while True:
        print(write_note(controller, Standpoint(), session, f"note {number}").text, flush=True)
        number += 1
"""


def test_an_abrupt_end_loses_no_note(controller: Any) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        [sys.executable, "-c", _LEAVING], env=environment, stdout=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stdout is not None
        session_id = agent.stdout.readline().strip()
        told = [agent.stdout.readline().strip() for _ in range(20)]
        agent.send_signal(signal.SIGKILL)
        told += [line.strip() for line in agent.stdout if line.endswith("\n")]
    found = [note.text for note in read_notes(controller, HERE, session_id, limit=MAX_LIMIT).notes]
    assert found[0] == "Session started."
    # Of the last one it may be that it was kept and not told any more, never the other way round.
    assert told[-150:] == [text for text in found if text in set(told)][-150:]
    assert told[-1] in found[-2:]
    woken = wake(controller, HERE, from_session=session_id)
    assert (woken.note or pytest.fail("nothing")).text == found[-1]


@pytest.mark.parametrize(
    ("config", "project", "has_spark"), [(None, None, False), (True, None, True), (True, False, False)]
)
def test_a_workers_first_context_holds_delegation_evidence_and_where_configured_the_spark(
    world: Any, bridge_home: Path, another_controller: Any, config: Any, project: Any, has_spark: bool
) -> None:
    if config is not None:
        (bridge_home / "config.toml").write_text(f"[worker]\nspark = {str(config).lower()}\n")
    if project is not None:
        world.repo.write("bridge.toml", f"[worker]\nspark = {str(project).lower()}\n")
        world.repo.git("add", "bridge.toml")
        world.repo.git("commit", "-q", "-m", "its settings")
    controller = another_controller()
    plan = world.table(
        "b",
        command=[
            sys.executable,
            "-c",
            "import json, os; print(json.load(open(os.environ['BRIDGE_TASK'])).get('spark'))",
        ],
        needs=["a"],
        acceptance_criteria=["it is done"],
        owned_paths=["b.txt"],
    )
    world.run(world.shell("a", "echo the very evidence") + plan, session_id=world.session("x"), controller=controller)
    task = world.task("b")
    assert (world.result("b")["summary"].strip() == "x") is has_spark
    (brief, *_) = [entry for entry in world.path(task.worker_session_id, controller) if entry.kind == "handoff.brief"]
    text = brief.payload["text"]
    evidence = world.entry(world.task("a").result_entry_id).payload_text
    assert "do b" in text
    assert "It is done when:\n- it is done" in text
    assert "It may write: b.txt." in text
    assert evidence in text
    assert ("Last word of the session that asks: x" in text) is has_spark
    with controller.store.read() as connection:
        worker = require_session(connection, task.worker_session_id)
        assert (worker.parent_session_id, worker.parent_relation) == (task.parent_session_id, "delegated")
        assert predecessors(connection, worker).sessions == ()


def test_notes_reach_those_who_are_joined_by_a_delegation_and_nobody_else(world: Any) -> None:
    world.run(world.shell("a", "true") + world.shell("b", "true"))
    first, second = world.task("a"), world.task("b")
    with world.controller.store.read() as connection:
        orchestrator = require_session(connection, first.parent_session_id)
    controller, above = world.controller, orchestrator.id
    write_note(controller, HERE, first.worker_session_id, "look at this", recipient=orchestrator.agent_id)
    write_note(controller, HERE, above, "do it again", recipient=first.worker_agent_id)
    write_note(controller, HERE, second.worker_session_id, "psst", recipient=first.worker_agent_id)
    received = [(note.text, note.sender) for note in read_notes(controller, HERE, above).received]
    assert received == [("look at this", first.worker_agent_id)]
    received = [(note.text, note.sender) for note in read_notes(controller, HERE, first.worker_session_id).received]
    assert received == [("do it again", orchestrator.agent_id)]
    assert read_notes(controller, HERE, second.worker_session_id).received == ()
