"""An ordinary day with the installed program, and many writers at once."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, SessionRequest, append_entry, start_session
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

#: Appends that each of two processes makes through the API, and through the program, which starts anew each time.
API_APPENDS = 200
CLI_APPENDS = 4

API_WRITER = """
import os, sys
from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, append_entry
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import HeadMoved
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

session, count, refused = sys.argv[1], int(sys.argv[2]), 0
with Controller(load_settings(os.environ), clock=SystemClock(), environment=os.environ, create=False) as controller:
    head = f"{session}-000000"
    for number in range(count):
        while True:
            request = AppendRequest(kind="note", text=f"{os.getpid()} {number}", expected_head=head)
            try:
                head = append_entry(controller, Standpoint(), session, request).entry.id
                break
            except HeadMoved as error:
                head, refused = error.details["actual"], refused + 1
print(refused)
"""

CLI_WRITER = """
import json, os, subprocess, sys

session, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
head = f"{session}-000000"
for number in range(count):
    while True:
        words = ["append", session, "--kind", "note", "--text", f"{os.getpid()} {number}", "--json"]
        done = subprocess.run([*command, *words, "--expect-head", head], capture_output=True)
        if done.returncode == 0:
            head = json.loads(done.stdout)["id"]
            break
        error = json.loads(done.stderr)["error"]
        assert (done.returncode, error["code"]) == (50, "head_moved"), error
        head = error["details"]["actual"]
"""


def bytes_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file, folder and link below a folder with its mode and content."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root, name)
            content = b"" if path.is_dir() else path.read_bytes()
            found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def two_writers(bridge_cli, code: str, *words: str) -> None:
    """Run a writer twice at the same time, to its end."""
    environment = bridge_cli.environment({"PYTHONPATH": os.pathsep.join(sys.path)})
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, *words], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    for writer in writers:
        _, stderr = writer.communicate(timeout=90)
        assert writer.returncode == 0, stderr.decode()


def sequences(bridge_cli, session: str, *options: str) -> list[int]:
    return [entry["sequence"] for entry in bridge_cli("log", session, *options, "--json").ok().json()]


def test_a_first_day(installed_cli, repository):
    before = bytes_below(repository.path)

    def bridge(*words: str):
        return installed_cli(*words, cwd=repository.path)

    workspace = bridge("init", "--json").ok().json()
    session = bridge("session", "new", "--label", "first day", "--json").ok().json()
    assert session["workspace_id"] == workspace["id"]
    tail = session["id"][-4:]
    bridge("append", tail, "--kind", "user.message", "--text", "Add a file").ok()
    said = bridge("append", "@", "--kind", "assistant.message", "--text", "Which one?", "--json").ok().json()
    assert said["stamp"]["head"] == repository.head()
    assert bridge("status", "--check").ok().stdout.startswith(f"{tail}  aligned  first day  ")
    moved = bridge("goto", "@", f"{tail}.1", "--json").ok().json()
    assert moved["active_entry_id"] == f"{session['id']}-000001"
    assert bytes_below(repository.path) == before

    repository.write("c.txt", "behind your back\n")
    checked = bridge("status", tail, "--check", "--json")
    assert checked.status == 1
    assert [path["path"] for path in checked.json()["paths"]] == ["c.txt"]
    assert '"c.txt"' in bridge("diff", said["id"]).ok().stdout


@pytest.fixture
def made(bridge_home):
    """Makes sessions without the program's start-up: messages given as text, or as text and parent."""

    def make(*messages: str | tuple[str, str], directory: Path | None = None, label: str | None = None) -> str:
        with Controller(load_settings(os.environ), clock=SystemClock(), environment={}) as controller:
            here = Standpoint(directory)
            session = start_session(controller, here, SessionRequest(label=label)).session.id
            for message in messages:
                text, parent = message if isinstance(message, tuple) else (message, None)
                append_entry(controller, here, session, AppendRequest(kind="user.message", text=text, parent=parent))
            return session

    return make


def test_reading_a_session(bridge_cli, repository, made):
    session = made("Add a file", ("None", "1"), ("Which one?", "1"), directory=repository.path, label="two ways")
    tail = session[-4:]

    def bridge(*words: str):
        return bridge_cli(*words, cwd=repository.path).ok()

    assert [line.split("  ")[-1] for line in bridge("log").stdout.splitlines()] == ["Add a file", "None"]
    assert bridge("tree", "@").stdout.splitlines() == [
        f"{tail} two ways",
        f"● {tail}.1  user.message  Add a file",
        f"├─○ {tail}.3  user.message  Which one?",
        f"● {tail}.2  user.message  None  ◀ head",
    ]
    assert [branch["active"] for branch in bridge("branches", "--json").json()] == [True, False]
    bridge("label", "3", "question")
    assert bridge("show", "question", "--json").json()["id"] == f"{session}-000003"
    assert bridge("back", "--json").json()["active_entry_id"] == f"{session}-000001"
    context = bridge("context", tail, "--json").json()
    assert [message["payload"]["text"] for message in context["messages"]] == ["Add a file"]
    assert [found["id"] for found in bridge("session", "list", "--json").json()] == [session]
    assert bridge("session", "show", "--json").json()["labels"] == [
        {"name": "question", "entry_id": f"{session}-000003"}
    ]


def test_two_programs_append_to_one_path(bridge_cli, made):
    session = made()
    two_writers(bridge_cli, CLI_WRITER, session, str(CLI_APPENDS), *bridge_cli.command)
    assert sequences(bridge_cli, session) == list(range(1, 2 * CLI_APPENDS + 1))


def test_two_processes_append_hundreds_to_one_path(bridge_cli, made):
    session = made()
    two_writers(bridge_cli, API_WRITER, session, str(API_APPENDS))
    assert sequences(bridge_cli, session) == list(range(1, 2 * API_APPENDS + 1))
    assert len(bridge_cli("branches", session, "--all", "--json").ok().json()) == 1


def test_explicit_parents_of_two_processes_never_move_the_head_off_its_branch(bridge_cli, made):
    session = made("u1", "a1")
    # Without an expected head: each writer extends a branch of its own under the first entry.
    code = API_WRITER.replace("expected_head=head", "parent=head").replace("-000000", "-000001")
    two_writers(bridge_cli, code, session, "50")
    assert sequences(bridge_cli, session) == [1, 2]
    assert sequences(bridge_cli, session, "--all") == list(range(1, 103))


def test_an_unsupported_version_closes_one_path_only(bridge_cli, bridge_home, made):
    session, sibling = made("from the future"), made("of today")
    entry = f"{session}-000001"
    with closing(sqlite3.connect(bridge_home / "bridge.db")) as connection:
        connection.execute("DROP TRIGGER session_entries_no_update")
        connection.execute("UPDATE session_entries SET semantic_schema_version = 3 WHERE id = ?", (entry,))
        connection.commit()
    refused = bridge_cli("context", session, "--json")
    assert refused.error()["code"] == "unsupported_semantic_version"
    assert refused.stdout == ""
    shown = bridge_cli("show", entry, "--json").ok().json()
    assert (shown["readable"], shown["payload"]) == (False, None)
    assert json.loads(shown["payload_text"]) == {"text": "from the future"}
    (message,) = bridge_cli("context", sibling, "--json").ok().json()["messages"]
    assert message["payload"] == {"text": "of today"}


def test_fc_51_the_program_started_from_a_hook_of_another_repository(bridge_cli, repository, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", "-b", "main", other], check=True)
    (other / "f").write_text("f\n")
    subprocess.run(["git", "add", "f"], cwd=other, check=True)
    (other / "f").write_text("changed\n")
    kept = bytes_below(other)
    inherited = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git" / "index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"),
    }

    def bridge(*words: str):
        return bridge_cli(*words, "--json", cwd=repository.path, environment=inherited).ok().json()

    session = bridge("session", "new")
    assert session["workspace"]["path"] == str(repository.path)
    entry = bridge("append", session["id"], "--kind", "note", "--text", "x")
    assert entry["stamp"]["head"] == repository.head()
    assert bridge("status", session["id"])["divergence"] == "aligned"
    assert bytes_below(other) == kept
