"""Taking events of hosts: with a real store, real repositories, and the events as hosts send them."""

from __future__ import annotations

import itertools
import json
import os
import threading
from typing import Any

import pytest

from bridge.agents.store import agent_of_session, list_agents
from bridge.control.capture import settling
from bridge.control.capture.health import health_of
from bridge.control.capture.model import NOTHING, Delivery, Told
from bridge.control.capture.places import PLACES_FILE, hooks_folder, note_places
from bridge.control.capture.spool import TAKEN_IN, Spool, count_kept
from bridge.control.capture.taking import Capture
from bridge.control.sessions import AppendRequest, append_entry, initialise
from bridge.control.standpoint import Standpoint
from bridge.conversations.paths import path_to
from bridge.conversations.store import get_session, list_sessions
from bridge.integrity.chain import verify_chain
from bridge.integrity.store import iterate_events
from bridge.semantics.ownwords import MARK, without_notes
from bridge.storage.errors import DatabaseBusy
from tests.serving import until

_ids = itertools.count()


class Host:
    """A host's session that hands its events to a capture."""

    def __init__(self, capture: Capture, controller: Any, repository: Any, *, session: str = "native-1") -> None:
        self.capture, self.controller, self.repository = capture, controller, repository
        self.session = session
        self.parent: int | None = None

    def fire(self, name: str, *, live: bool = True, delivery_id: str | None = None, **fields: Any) -> Told:
        raw = {"hook_event_name": name, "session_id": self.session, "cwd": str(self.repository.path), **fields}
        delivery = Delivery(
            id=delivery_id or f"d{next(_ids)}", host="claude-code", raw=raw, parent=self.parent, is_live=live
        )
        self.taken = self.capture.take(delivery)
        return self.taken.told

    def start(self, source: str = "startup", **options: Any) -> Told:
        return self.fire("SessionStart", source=source, **options)

    def prompt(self, text: str = "do it", **options: Any) -> Told:
        return self.fire("UserPromptSubmit", prompt=text, **options)

    def edit(self, name: str, content: str, *, by: str = "Edit", **options: Any) -> None:
        given = {"file_path": str(self.repository.path / name)} if by == "Edit" else {"command": f"write {name}"}
        call = f"t{next(_ids)}"
        self.fire("PreToolUse", tool_name=by, tool_input=given, tool_use_id=call, **options)
        self.repository.write(name, content)
        self.fire("PostToolUse", tool_name=by, tool_input=given, tool_use_id=call, tool_response="ok", **options)

    def stop(self, text: str = "Done.", *, settle: bool = True, **options: Any) -> None:
        self.fire("Stop", last_assistant_message=text, **options)
        if settle:
            until(lambda: self.kinds()[-1] == "turn.completed")

    @property
    def session_id(self) -> str:
        assert self.taken.captured is not None
        return self.taken.captured.session_id

    def entries(self) -> list[Any]:
        with self.controller.store.read() as connection:
            session = get_session(connection, self.session_id)
            assert session is not None
            return [entry for entry in path_to(connection, session.active_entry_id) if not entry.is_root]

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.entries()]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Wait for quiet as ever, but not for seconds."""
    monkeypatch.setattr(settling, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(settling, "LEAST_SECONDS", 0.1)


@pytest.fixture
def capture(controller):
    made = Capture(controller)
    yield made
    made.close()


@pytest.fixture
def host(capture, controller, repository):
    initialise(controller, repository.path)
    return Host(capture, controller, repository)


def test_a_conversation_is_recorded_with_stamps(host):
    host.start()
    host.prompt("edit a.txt")
    host.edit("a.txt", "new\n")
    host.stop("Edited.")
    host.fire("SessionEnd", reason="other")
    assert host.kinds() == [
        "session.status",
        "user.message",
        "turn.started",
        "tool.started",
        "tool.completed",
        "assistant.message",
        "turn.completed",
        "session.status",
    ]
    entries = host.entries()
    assert all(entry.stamp.state_digest for entry in entries)
    before, after = entries[3].stamp.state_digest, entries[4].stamp.state_digest
    assert before != after == entries[-1].stamp.state_digest
    assert entries[4].payload["paths_written"] == [str(host.repository.path / "a.txt")]
    assert len({entry.payload.get("turn_id") for entry in entries[1:7]}) == 1
    with host.controller.store.read() as connection:
        assert verify_chain(connection, host.session_id).is_valid


def test_an_aligned_tree_and_the_agents_own_edits_say_nothing(host):
    assert host.start() == NOTHING
    assert host.prompt() == NOTHING
    host.edit("a.txt", "mine\n")
    host.edit("b.txt", "mine too\n", by="Bash")
    host.stop()
    assert host.prompt("again") == NOTHING
    host.repository.commit("by the agent")
    host.stop()
    assert host.start("resume") == NOTHING
    assert host.prompt("and again") == NOTHING


def test_what_others_change_in_a_used_file_is_told_once(host):
    host.start()
    host.prompt()
    host.edit("a.txt", "mine\n")
    host.stop()
    host.repository.write("a.txt", "theirs\n")
    told = host.prompt("second")
    assert told.context is not None
    assert told.context.startswith(MARK)
    assert '1 file you read or edited changed after your last turn: "a.txt".' in told.context
    assert without_notes(told.context) == ""
    assert len(told.context) <= 800
    assert told.notice is not None
    assert told.notice.startswith("Bridge: 1 path changed")
    host.stop()
    assert host.prompt("third") == NOTHING
    assert host.entries()[-2].payload["text"] == "third"


def test_at_a_prompt_other_files_are_no_news_but_at_a_resume_and_with_a_moved_head_they_are(host):
    host.start()
    host.prompt()
    host.edit("a.txt", "mine\n")
    host.stop()
    host.repository.write("b.txt", "theirs\n")
    assert host.prompt("second") == NOTHING
    host.stop()
    host.repository.write("c.txt", "theirs\n")
    told = host.start("resume")
    assert told.context is not None
    assert '"c.txt" (new)' in told.context
    # The prompt that follows says it no second time.
    assert host.prompt("third") == NOTHING
    host.stop()
    host.repository.commit("elsewhere")
    assert host.prompt("fourth").context is not None


def test_a_note_by_a_person_does_not_hide_what_changed(host, controller):
    host.start()
    host.prompt()
    host.edit("a.txt", "mine\n")
    host.stop()
    host.repository.write("a.txt", "theirs\n")
    append_entry(controller, Standpoint(), host.session_id, AppendRequest(kind="note", text="later"))
    assert host.prompt("second").context is not None


def test_a_formatter_that_runs_beside_the_hook_at_the_end_of_a_turn_is_no_news(host, monkeypatch):
    monkeypatch.setattr(settling, "LEAST_SECONDS", 1.0)
    host.start()
    host.prompt()
    host.edit("a.txt", "mine\n")
    host.stop(settle=False)
    host.repository.write("a.txt", "FORMATTED\n")
    until(lambda: host.kinds()[-1] == "turn.completed")
    assert host.prompt("second") == NOTHING


def test_the_next_prompt_closes_a_turn_that_still_waits(host, monkeypatch):
    monkeypatch.setattr(settling, "LEAST_SECONDS", 60.0)
    host.start()
    host.prompt()
    host.stop(settle=False)
    assert host.prompt("at once") == NOTHING
    assert host.kinds()[-4:] == ["assistant.message", "turn.completed", "user.message", "turn.started"]


def test_a_turn_that_goes_on_after_its_end_is_not_closed_twice(host):
    host.start()
    host.prompt()
    host.stop("Half.", settle=False)
    host.edit("a.txt", "more\n")
    host.stop("Whole.")
    assert host.kinds().count("turn.completed") == 1


def test_what_a_broken_off_tool_did_is_no_news_and_what_changed_after_a_broken_off_turn_is(host):
    host.start()
    host.prompt()
    host.fire("PreToolUse", tool_name="Bash", tool_input={"command": "long"}, tool_use_id="never-ended")
    host.repository.commit("by the tool", a_txt="x\n")
    assert host.prompt("stop that") == NOTHING
    ended = [entry.payload for entry in host.entries() if entry.kind == "turn.completed"]
    assert [one["status"] for one in ended] == ["cancelled"]
    host.edit("a.txt", "y\n")
    host.repository.write("a.txt", "theirs\n")
    assert host.prompt("and now").context is not None


def test_unknown_is_told_to_the_person_once_and_not_to_the_agent(host):
    host.start()
    host.prompt()
    host.stop()
    index = host.repository.path / ".git" / "index"
    whole = index.read_bytes()
    index.write_bytes(b"x")
    told = host.prompt("second")
    assert told.notice is not None
    assert told.context is None
    assert told.notice.startswith("Bridge: cannot tell whether files changed")
    assert host.start("resume") == NOTHING
    index.write_bytes(whole)
    assert host.prompt("third").context is None


def test_a_session_that_the_same_process_turned_into_another_is_a_fork(host, capture, controller, repository):
    host.parent = os.getpid()
    host.start()
    host.prompt("original")
    host.edit("a.txt", "mine\n")
    host.stop()
    first = host.session_id
    repository.write("a.txt", "theirs\n")
    assert host.start("resume").context is not None
    fork = Host(capture, controller, repository, session="native-2")
    fork.parent = os.getpid()
    # Told already, under the old name.
    assert fork.prompt("forked") == NOTHING
    with controller.store.read() as connection:
        made = get_session(connection, fork.session_id)
    assert made is not None
    assert (made.parent_session_id, made.parent_relation) == (first, "forked")
    assert [entry.payload["text"] for entry in fork.entries() if entry.kind == "user.message"] == ["original", "forked"]
    # The old one was told nothing.
    host.parent = None
    assert host.prompt("back").context is not None
    assert host.session_id == first


def test_a_new_session_continues_the_one_before_it(host, capture, controller, repository):
    host.start()
    host.prompt()
    host.stop()
    second = Host(capture, controller, repository, session="native-2")
    second.start()
    with controller.store.read() as connection:
        made = get_session(connection, second.session_id)
    assert made is not None
    assert (made.parent_session_id, made.parent_relation, made.harness) == (host.session_id, "continued", "claude-code")


def test_sub_agents_become_workers_in_the_agent_tree(host, controller):
    host.start()
    host.prompt()
    inner = {"agent_id": "sub-1", "agent_type": "Explore"}
    host.fire("SubagentStart", **inner)
    worker = host.session_id
    host.fire("PreToolUse", tool_name="Edit", tool_input={"file_path": "b.txt"}, tool_use_id="i1", **inner)
    host.repository.write("b.txt", "by the sub-agent\n")
    host.fire("PostToolUse", tool_name="Edit", tool_input={"file_path": "b.txt"}, tool_use_id="i1", **inner)
    host.fire("SubagentStop", last_assistant_message="Found.", **inner)
    assert host.kinds() == ["session.status", "tool.started", "tool.completed", "assistant.message", "session.status"]
    host.stop()
    with controller.store.read() as connection:
        session = get_session(connection, worker)
        agent = agent_of_session(connection, worker)
        above = agent_of_session(connection, host.session_id)
        assert session is not None
        assert agent is not None
        assert above is not None
        assert (session.kind, session.parent_session_id, session.parent_relation) == (
            "worker",
            host.session_id,
            "delegated",
        )
        assert (agent.parent_agent_id, agent.depth, agent.role, agent.status) == (above.id, 1, "Explore", "ended")
        assert len(list_agents(connection)) == 2
    assert host.prompt("and?") == NOTHING


def test_outside_of_registered_checkouts_nothing_is_recorded(capture, controller, repository, tmp_path):
    for place in (repository.path, tmp_path, tmp_path / "gone"):
        stranger = Host(capture, controller, repository)
        assert stranger.fire("SessionStart", cwd=str(place)) == NOTHING
    with controller.store.read() as connection:
        assert list_sessions(connection) == []


def test_an_answer_that_was_too_late_is_owed_and_told_with_the_next(host, capture):
    host.start()
    host.prompt()
    host.edit("a.txt", "mine\n")
    host.stop()
    host.repository.write("a.txt", "theirs\n")
    late = host.prompt("second")
    capture.too_late(host.taken)
    host.stop()
    told = host.prompt("third")
    assert told.context == late.context
    host.stop()
    assert host.prompt("fourth") == NOTHING
    assert health_of(host.controller, "claude-code").to_json()["late"] == 1


def test_events_of_many_sessions_at_once_are_all_there(host, capture, controller, repository):
    hosts = [Host(capture, controller, repository, session=f"many-{number}") for number in range(6)]

    def talk(one: Host) -> None:
        one.start()
        for number in range(5):
            one.prompt(f"{one.session} {number}")
            one.fire("Stop", last_assistant_message="ok")

    threads = [threading.Thread(target=talk, args=(one,)) for one in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in hosts:
        texts = [entry.payload["text"] for entry in one.entries() if entry.kind == "user.message"]
        assert texts == [f"{one.session} {number}" for number in range(5)]


def test_secrets_and_what_no_entry_can_hold_are_no_reason_to_lose_an_event(host):
    host.start()
    secret = "ghp_" + "a1B2" * 9
    host.prompt(f"use {secret}")
    host.fire("PreToolUse", tool_name="x", tool_input={"blob": "y" * (5 * 1024 * 1024)}, tool_use_id="big")
    entries = host.entries()
    assert "[redacted:github-token]" in entries[1].payload["text"]
    assert entries[-1].kind == "provider.unknown"
    assert entries[-1].payload["raw_type"] == "tool.started"


# -- what was kept by the client -----------------------------------------------------------------------------------


def keep(controller, raw, *, identity, host="claude-code"):
    folder = hooks_folder(controller.settings) / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    data = json.dumps({"id": identity, "host": host, "at": 1.5, "parent": 1, "event": raw})
    (folder / f"{identity}.json").write_text(data)


def raw(repository, name, session="kept", **fields):
    return {"hook_event_name": name, "session_id": session, "cwd": str(repository.path), **fields}


def test_kept_events_are_taken_in_in_order_once_and_without_a_state(host, capture, controller, repository):
    spool = Spool(controller, capture)
    assert spool.is_empty()
    keep(controller, raw(repository, "UserPromptSubmit", prompt="first"), identity="10-1")
    keep(controller, raw(repository, "SessionStart", source="startup"), identity="f-1")
    keep(controller, raw(repository, "Stop", last_assistant_message="ok"), identity="11-1")
    assert count_kept(controller.settings) == 3
    assert (spool.take_in().taken, spool.is_empty()) == (3, True)
    host.session = "kept"
    told = host.prompt("live")
    assert told == NOTHING
    entries = host.entries()
    assert [entry.kind for entry in entries][:4] == [
        "session.status",
        "user.message",
        "turn.started",
        "assistant.message",
    ]
    assert [entry.stamp.unknown_reason for entry in entries[:4]] == ["unstamped"] * 4
    keep(controller, raw(repository, "UserPromptSubmit", prompt="first"), identity="10-1")
    count = len(host.entries())
    assert spool.take_in().taken == 1
    assert len(host.entries()) == count
    assert health_of(controller, "claude-code").to_json()["taken_in_later"] == 3
    with controller.store.read() as connection:
        assert verify_chain(connection, "capture").is_valid


def test_what_was_recorded_though_its_client_gave_up_is_not_recorded_twice(host, capture, controller, repository):
    host.start()
    host.prompt("once", delivery_id="20-1")
    keep(controller, raw(repository, "UserPromptSubmit", session="native-1", prompt="once"), identity="20-1")
    Spool(controller, capture).take_in()
    assert host.kinds().count("user.message") == 1


def test_after_a_missed_prompt_the_agents_own_edits_are_no_news(host, capture, controller, repository):
    host.start()
    host.prompt()
    host.stop()
    keep(controller, raw(repository, "UserPromptSubmit", session="native-1", prompt="missed"), identity="30-1")
    Spool(controller, capture).take_in()
    repository.write("a.txt", "by the agent, seen by nobody\n")
    keep(controller, raw(repository, "Stop", session="native-1", last_assistant_message="ok"), identity="31-1")
    Spool(controller, capture).take_in()
    assert host.prompt("live again") == NOTHING


def test_a_missed_resume_is_made_up_for_at_the_first_prompt(host, capture, controller, repository):
    host.start()
    host.prompt()
    host.stop()
    repository.write("other.txt", "theirs\n")
    keep(controller, raw(repository, "SessionStart", session="native-1", source="resume"), identity="40-1")
    Spool(controller, capture).take_in()
    told = host.prompt("live")
    assert told.context is not None
    assert '"other.txt" (new)' in told.context


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"id": "x", "host": "claude-code"}', b"\xff", b"[" * 90_000])
def test_a_damaged_kept_event_is_put_aside_and_the_rest_taken(host, capture, controller, repository, data):
    keep(controller, raw(repository, "SessionStart", source="startup"), identity="51-1")
    folder = hooks_folder(controller.settings) / "spool"
    (folder / "50-1.json").write_bytes(data)
    found = Spool(controller, capture).take_in()
    assert (found.taken, found.damaged) == (1, 1)
    assert [path.name for path in folder.iterdir()] == ["50-1.damaged"]


def test_a_busy_store_leaves_kept_events_where_they_are(host, capture, controller, repository, monkeypatch):
    keep(controller, raw(repository, "SessionStart", source="startup"), identity="60-1")

    def busy(_delivery):
        raise DatabaseBusy("The store is busy.")

    with monkeypatch.context() as patched:
        patched.setattr(capture, "take", busy)
        with pytest.raises(DatabaseBusy):
            Spool(controller, capture).take_in()
    assert count_kept(controller.settings) == 1
    assert Spool(controller, capture).take_in().taken == 1


def test_the_controller_keeps_what_it_cannot_record_without_secrets(host, capture, controller, repository):
    spool = Spool(controller, capture)
    secret = "ghp_" + "a1B2" * 9
    delivery = Delivery(id="70-1", host="claude-code", raw=raw(repository, "UserPromptSubmit", prompt=secret))
    spool.keep(delivery)
    files = list((hooks_folder(controller.settings) / "spool").iterdir())
    assert [path.name for path in files] == ["70-1.json"]
    assert secret not in files[0].read_text()
    assert files[0].stat().st_mode & 0o777 == 0o600
    assert spool.take_in().taken == 1


def test_the_audit_says_what_was_taken_in(host, capture, controller, repository):
    keep(controller, raw(repository, "SessionStart", source="startup"), identity="80-1")
    Spool(controller, capture).take_in()
    with controller.store.read() as connection:
        events = list(iterate_events(connection, "capture"))
    assert [event.event_type for event in events] == [TAKEN_IN]


def test_places_are_those_of_people(controller, repository, tmp_path):
    initialise(controller, repository.path)
    assert not hooks_folder(controller.settings).exists()
    hooks_folder(controller.settings).mkdir(parents=True)
    note_places(controller)
    assert json.loads((hooks_folder(controller.settings) / PLACES_FILE).read_text()) == {str(repository.path): 1}
