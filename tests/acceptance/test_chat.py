"""``bridge chat`` without a terminal, with the scripted agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

SCRIPTED = ("--harness", "scripted")


@pytest.fixture
def chat(bridge_cli, repository):
    """Send text to a chat in the repository; the command's outcome."""

    def run(text: str, *words: str) -> Any:
        return bridge_cli("chat", *words, cwd=repository.path, stdin=text.encode())

    return run


@pytest.fixture
def entries(bridge_cli, repository):
    def read(*words: str) -> list[dict[str, Any]]:
        found = bridge_cli("log", *words, "--json", cwd=repository.path).ok().json()
        # What a new chat begins with has a test of its own.
        return [entry for entry in found if entry["payload"].get("type") != "spark"]

    return read


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [entry["kind"] for entry in found]


def test_a_question_in_a_pipe_is_answered_and_recorded(chat, entries):
    ran = chat("question", "--new", *SCRIPTED).ok()
    assert ran.stdout == "You said: question\n"
    found = entries()
    assert kinds(found) == [
        *["session.status", "user.message", "turn.started", "model.changed", "assistant.message", "turn.completed"]
    ]
    assert all("state_digest" in entry["stamp"] for entry in found)
    assert found[0]["payload"]["restoration"]["mode"] == "fresh"
    assert len({entry["payload"]["turn_id"] for entry in found[1:]}) == 1


def test_a_new_chat_begins_with_the_last_word_of_the_one_before_and_its_agent_is_told(chat, bridge_cli, repository):
    chat("hello", "--new", *SCRIPTED).ok()
    bridge_cli("note", "go on with the parser", cwd=repository.path).ok()
    assert "go on with the parser" in chat("!context", "--new", *SCRIPTED).ok().stdout
    first = bridge_cli("log", "--json", cwd=repository.path).ok().json()[0]
    assert (first["kind"], first["payload"]["type"], first["payload"]["text"]) == (
        "note",
        "spark",
        "go on with the parser",
    )


def test_the_whole_input_is_one_message_unless_lines_are_asked_for(chat, entries):
    ran = chat("one\ntwo\n", "--new", *SCRIPTED).ok()
    assert ran.stdout == "You said: one\ntwo\n"
    assert chat("three\n\n//four\nfive", "--lines").ok().stdout == "You said: three\nYou said: /four\nYou said: five\n"
    assert [entry["payload"]["text"] for entry in entries() if entry["kind"] == "user.message"] == [
        "one\ntwo",
        "three",
        "/four",
        "five",
    ]


def test_tools_leave_their_entries_with_the_files_they_changed(chat, entries, repository):
    chat("!think hm\n!read a.txt\n!edit a.txt alpha => beta\n!ask rm\n", "--new", *SCRIPTED).ok()
    found = entries()
    edit = next(entry for entry in found if entry["payload"].get("paths_written"))
    assert edit["payload"]["paths_written"] == ["a.txt"]
    assert (repository.path / "a.txt").read_text() == "beta\n"
    before = next(entry for entry in found if entry["kind"] == "user.message")
    assert edit["stamp"]["state_digest"] != before["stamp"]["state_digest"]
    assert (
        next(entry["payload"]["decision"] for entry in found if entry["kind"] == "approval.resolved") == "reject_once"
    )


def test_typed_events_on_stderr_and_the_result_on_stdout(chat):
    ran = chat("!say hi", "--new", *SCRIPTED, "--json-lines").ok()
    told = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [record["event"] for record in told] == ["turn_started", "text", "entry", "turn_finished"]
    result = ran.json()
    assert [(turn["status"], turn["text"], turn["restoration"]["mode"]) for turn in result["turns"]] == [
        ("completed", "hi", "fresh")
    ]


@pytest.mark.parametrize(
    ("directive", "code"),
    [("!crash 3", "crashed"), ("!fail no", "agent_error"), ("!rubbish\n" * 20, "protocol_broken")],
)
def test_a_turn_that_fails_is_recorded_and_the_next_one_starts_from_the_record(chat, entries, directive, code):
    ran = chat(f"!say first\n{directive}\n!sleep 5", "--new", *SCRIPTED)
    assert ran.status == 1
    found = entries()
    assert next(entry["payload"]["code"] for entry in found if entry["kind"] == "error") == code
    assert found[-1]["payload"]["status"] == "failed"
    again = chat("!context").ok()
    assert "!say first" in again.stdout
    restored = [entry["payload"]["restoration"] for entry in entries() if entry["kind"] == "session.status"]
    assert restored[-1]["mode"] == "fresh"
    assert {"mode": "native_resume", "reason": "native_session_elsewhere"} in restored[-1]["passed_over"]


def test_the_agents_own_session_is_taken_up_where_it_ends(chat, entries):
    chat("hello", "--new", *SCRIPTED).ok()
    assert chat("!context").ok().stdout == "I was told nothing.\n"  # it knows by itself
    modes = [entry["payload"]["restoration"]["mode"] for entry in entries() if entry["kind"] == "session.status"]
    assert modes == ["fresh", "native_resume"]


def test_elsewhere_the_agent_is_told_what_is_recorded_there_and_nothing_else(chat, bridge_cli, repository):
    ran = chat(
        "first\n/label start\nsecond\n/cd start\n!context\n/tree\n/cd -\n!context", "--new", "--lines", *SCRIPTED
    ).ok()
    there = ran.stdout.split("--- bridge\n")[1]
    told, tree = there.split("● ", 1)
    assert "first" in told
    assert "second" not in told
    # Where the agent's own session ends it is taken up again.
    assert tree.endswith("I was told nothing.\n")
    assert "branch points:" in ran.stderr
    assert bridge_cli("branches", "--json", cwd=repository.path).ok().json()


def test_a_resume_that_fails_is_recorded_before_the_fall_back(chat, entries, bridge_home):
    chat("hello", "--new", *SCRIPTED).ok()
    for path in (bridge_home / "scripted").glob("*.json"):
        path.unlink()
    assert "hello" in chat("!context").ok().stdout
    assert kinds(entries())[6:8] == ["session.resume_failed", "session.status"]
    assert entries()[7]["payload"]["restoration"]["mode"] == "fresh"


def test_a_divergence_is_told_once_to_person_and_agent(chat, repository):
    chat("!read a.txt", "--new", *SCRIPTED).ok()
    repository.write("a.txt", "changed\n")
    ran = chat("!context\n!context", "--lines").ok()
    assert ran.stderr.count("warning:") == 1
    assert ': "a.txt". The agent was told' in ran.stderr
    told, silent = ran.stdout.splitlines()[0], ran.stdout.splitlines()[-1]
    assert '"a.txt"' in told
    assert silent == "I was told nothing."


def test_a_checkpoint_and_a_compaction(chat, entries):
    ran = chat("hello\n/checkpoint\n/compact\n!context", "--new", "--lines", *SCRIPTED).ok()
    assert "1 messages so far, the last one: hello" in ran.stdout
    found = kinds(entries())
    assert found[6] == "checkpoint"
    assert found[7:10] == ["compaction.requested", "checkpoint", "compaction"]
    restoration = entries()[10]["payload"]["restoration"]
    assert restoration["mode"] == "checkpoint_restored"
    assert {"mode": "native_resume", "reason": "compacted_since"} in restoration["passed_over"]
    assert "--- compaction" in ran.stdout


def test_verbs_in_a_pipe(chat):
    ran = chat(
        "hello\n/show @\n/recall hello\n/find hello\n/diff\n/back 2\n/sid\n/root\n/help\n/quit\nnever",
        "--new",
        "--lines",
        *SCRIPTED,
    ).ok()
    assert "never" not in ran.stdout
    assert "turn.completed" in ran.stdout
    assert "aligned: " in ran.stdout
    assert "  open  hello" in ran.stdout


@pytest.mark.parametrize("text", ["/nope", "/cd", "/back x", "/tree some", "/help nope"])
def test_a_mistyped_verb_sends_nothing(chat, entries, text):
    ran = chat(text, "--new", *SCRIPTED)
    assert ran.status == 2
    assert "never sent" not in ran.stdout
    assert entries() == []


def test_without_a_harness_nothing_is_made(chat, bridge_cli, repository, tmp_path):
    ran = bridge_cli("chat", "--json", cwd=repository.path, stdin=b"x", environment={"PATH": os.environ["PATH"]})
    assert ran.error()["code"] == "harness_not_chosen"
    assert bridge_cli("session", "list", "--json", cwd=repository.path).ok().json() == []
    assert chat("x", "--harness", "nobody", "--json").error()["code"] == "unknown_harness"
    assert chat("x", "--harness", "gemini", "--json").error()["code"] == "program_not_found"


def test_a_harness_of_the_configuration(chat, bridge_home, entries, tmp_path):
    import sys

    script = tmp_path / "script.toml"
    script.write_text('[[turn]]\nmatch = "hello"\n[[turn.step]]\nsay = "{prompt} from the script, turn {turn}"\n')
    bridge_home.mkdir()
    command = [sys.executable, "-m", "bridge.adapters.scripted", "--script", str(script)]
    (bridge_home / "config.toml").write_text(
        f'chat_harness = "mine"\n[harness.mine]\ncommand = {json.dumps(command)}\n'
        'env = {X = "1"}\ncapabilities = ["fs"]\n'
    )
    assert chat("hello", "--new").ok().stdout == "hello from the script, turn 1\n"
    assert chat("!run sh -c 'echo $X'").status == 0
    assert any(entry["payload"].get("output") == "1\nexit status 0" for entry in entries())


def test_a_model_is_passed_on_and_recorded(chat, entries):
    chat("hello", "--new", *SCRIPTED, "--model", "scripted-2").ok()
    assert next(entry["payload"]["model"] for entry in entries() if entry["kind"] == "turn.started") == "scripted-2"
    assert chat("hello", "--model", "none", "--json").error()["code"] == "model_not_offered"


def test_secrets_in_what_is_said_are_masked(chat, entries):
    secret = "ghp_" + "a1B2" * 9
    chat(f"token {secret}", "--new", *SCRIPTED).ok()
    assert secret not in json.dumps(entries())


def test_control_characters_of_the_agent_do_not_reach_the_terminal(chat):
    assert chat("!say a\x1b[2Jb", "--new", *SCRIPTED).ok().stdout == "a\\x1b[2Jb\n"


#: Keeps a turn going until a file is there, however long the machine takes.
WAIT_FOR_FILE = "!run sh -c 'while [ ! -e go ]; do sleep 0.1; done'"


# -- signals and crashes ---------------------------------------------------------------------------------------


class Running:
    """A chat whose turn runs: started, and waited for until its agent is at work."""

    def __init__(self, bridge_cli, directory: Path, text: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [*bridge_cli.command, "chat", *words],
            cwd=directory,
            env=bridge_cli.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.close()
        self._bridge_cli, self._directory = bridge_cli, directory
        self._heard = ""

    def wait_for(self, kind: str) -> None:
        for _ in range(200):
            ran = self._bridge_cli("log", "--json", cwd=self._directory)
            if ran.status == 0 and kind in kinds(ran.json()):
                return
            time.sleep(0.1)
        raise AssertionError(f"no {kind}")

    def wait_until_told(self, words: str) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._heard += line.decode()
            if words in self._heard:
                return
        raise AssertionError(f"{words!r} is not in {self._heard!r}")

    def agents(self) -> list[psutil.Process]:
        return [child for child in psutil.Process(self.process.pid).children(recursive=True) if child.is_running()]

    def end(self) -> tuple[int, str]:
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        status = self.process.wait(60)
        errors = self._heard + self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return status, errors


@pytest.fixture
def running(bridge_cli, repository):
    started: list[Running] = []

    def start(text: str, *words: str) -> Running:
        started.append(Running(bridge_cli, repository.path, text, *words))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


def test_a_chat_that_was_killed_loses_nothing_and_leaves_nothing_running(chat, entries, running):
    chat("hello", "--new", *SCRIPTED).ok()
    one = running("!stubborn\n!read a.txt\n!leave 600\n!stall")
    one.wait_for("tool.completed")
    agents = one.agents()
    assert agents
    one.process.send_signal(signal.SIGKILL)
    one.end()
    again = chat("!context", "--json").ok()
    assert not any(agent.is_running() and agent.status() != psutil.STATUS_ZOMBIE for agent in agents)
    found = entries()
    assert "tool.completed" in kinds(found)
    closed = next(entry for entry in found if entry["payload"].get("status") == "failed")
    assert closed["kind"] == "turn.completed"
    assert closed["payload"]["reason"] == "The chat ended in the middle of the turn."
    turn = again.json()["turns"][0]
    assert turn["restoration"]["mode"] == "fresh"
    assert "!read a.txt" in turn["text"]
    assert [entry["kind"] for entry in found if entry["kind"] == "turn.started"] == ["turn.started"] * 3


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 235), (signal.SIGHUP, 235)])
def test_a_signal_ends_a_chat_in_order(entries, running, number, status):
    one = running("!say first\n!sleep 100", "--new", *SCRIPTED)
    one.wait_for("turn.started")
    agents = one.agents()
    one.process.send_signal(number)
    ended, errors = one.end()
    assert ended == status, errors
    assert entries()[-1]["payload"]["status"] == "cancelled"
    assert not any(agent.is_running() for agent in agents)


def test_ctrl_c_cancels_and_twice_kills(entries, running):
    one = running("!say first\n!read a.txt\n!sleep 100", "--new", *SCRIPTED)
    one.wait_for("tool.completed")
    one.process.send_signal(signal.SIGINT)
    status, _ = one.end()
    assert status == 1
    assert entries()[-1]["payload"]["status"] == "cancelled"
    assert "first" in [entry["payload"].get("text") for entry in entries()]
    two = running("!stubborn\n!plan a\n!stall")
    two.wait_for("plan.updated")
    two.process.send_signal(signal.SIGINT)
    # Two signals that come before the first is taken are one.
    two.wait_until_told("Ctrl-C again ends the agent")
    two.process.send_signal(signal.SIGINT)
    status, errors = two.end()
    assert status == 1
    assert "ending the agent" in errors
    assert entries()[-1]["payload"]["reason"] == "The agent was killed."


def test_the_head_moves_during_a_turn_and_its_events_stay_on_their_branch(
    chat, entries, running, bridge_cli, repository
):
    chat("first", "--new", *SCRIPTED).ok()
    target = entries()[-1]["id"]
    one = running(f"!plan a\n{WAIT_FOR_FILE}\n!say late")
    one.wait_for("plan.updated")
    bridge_cli("goto", "@", target, cwd=repository.path).ok()
    repository.write("go")
    assert one.end()[0] == 0
    assert entries()[-1]["id"] == target
    every = entries("--all")
    late = next(entry for entry in every if entry["payload"].get("text") == "late")
    assert next(entry["kind"] for entry in every if entry["id"] == late["parent_entry_id"]) == "tool.completed"


def test_two_chats_in_one_session_do_not_mix(chat, entries, running, repository):
    chat("first", "--new", *SCRIPTED).ok()
    one = running(f"!plan a\n{WAIT_FOR_FILE}\n!say from one")
    one.wait_for("plan.updated")
    refused = chat("from two")
    repository.write("go")
    assert refused.status == 206
    assert one.end()[0] == 0
    assert chat("from two").status == 0
    texts = [entry["payload"]["text"] for entry in entries() if entry["kind"] == "assistant.message"]
    assert texts == ["You said: first", "from one", "You said: from two"]
