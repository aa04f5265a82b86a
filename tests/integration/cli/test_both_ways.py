"""The same command line in this process and through the resident controller: the same bytes, the same status."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bridge.cli.registry import COMMANDS, RESIDENT, GroupSpec
from tests.prepared import run_command
from tests.serving import MAIN, ROOT, resident, until


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A repository and a store with a conversation in it, and a controller for it."""
    base = tmp_path_factory.mktemp("b")
    repository, home = base / "r", base / "h"
    repository.mkdir()
    environment = {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BRIDGE_", "GIT_", "XDG_", "PYTHON"))
        },
        "HOME": str(base),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "BRIDGE_HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PYTHONPATH": str(ROOT),
    }
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        (repository / "a.txt").write_text("alpha\n")
        subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@example.invalid", *words],
            cwd=repository,
            env=environment,
            check=True,
        )
    with resident(environment) as controller:
        yield Place(repository, controller.environment)


class Place:
    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        session = json.loads(self.run("off", "session", "new", "--label", "talk", "--json").stdout)
        self.environment["BRIDGE_SESSION"] = session["id"]
        for kind, text in [("user.message", "Grüße ☃"), ("assistant.message", "and back"), ("note", "\x1b[31mred")]:
            assert self.run("off", "append", "@", "--kind", kind, "--text", text).returncode == 0
        self.run("off", "label", "1", "start")

    def run(self, mode: str, *words: str, stdin: bytes = b"", environment: dict[str, str] | None = None):
        own = {**self.environment, **(environment or {}), "BRIDGE_CONTROLLER": mode}
        return run_command(list(words), cwd=self.directory, environment=own, stdin=stdin)


#: Every command that the controller may run, with lines that succeed and lines that fail, and change nothing.
READING = [
    ("log",),
    ("log", "--json"),
    ("log", "-n", "1"),
    ("log", "--all"),
    ("--json", "log"),
    ("log", "nothing-like-it"),
    ("log", "nothing-like-it", "--json"),
    ("log", "--limit", "0"),
    ("log", "--limit", "0", "--json"),
    ("log", "--no-such-option"),
    ("log", "a", "b", "c"),
    ("tree",),
    ("tree", "--json"),
    ("show", "2"),
    ("show", "start", "--json"),
    ("show",),
    ("branches",),
    ("branches", "--json"),
    ("context",),
    ("context", "--json"),
    ("status",),
    ("status", "--json"),
    ("status", "--check"),
    ("diff", "1"),
    ("diff", "1", "--json"),
    ("diff", "99"),
    ("notes",),
    ("notes", "--json"),
    ("recall", "back"),
    ("recall", "back", "--json"),
    ("find", "back"),
    ("find", "back", "--json"),
    ("result", "nothing"),
    ("result", "nothing", "--json"),
    ("session", "list"),
    ("session", "list", "--json"),
    ("session", "show"),
    ("session", "show", "--json"),
    ("session", "lineage"),
    ("session", "show", "zzzz"),
    ("task", "list"),
    ("task", "list", "--json"),
    ("task", "show", "nothing"),
    ("task", "log", "nothing"),
    ("task", "path", "nothing", "--json"),
    ("task", "diff", "nothing"),
    ("task", "send", "nothing", "hello"),
    ("task", "resume", "nothing/at-all"),
    ("approvals",),
    ("approvals", "--json"),
    ("approve", "nothing"),
    ("deny", "nothing", "--json"),
    ("append", "@", "--kind", "nonsense", "--text", "x"),
    ("append", "@", "--kind", "note"),
    ("append", "@", "--kind", "note", "--text", "x", "--expect-head", "1", "--json"),
    ("goto", "@", "99"),
    ("fork", "99"),
    ("back", "999"),
    ("label", "77", "name"),
    ("root", "zzzz"),
]  # fmt: skip


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_the_same_bytes(place, words):
    here, there = place.run("off", *words), place.run("required", *words)
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


#: Lines that change something, with what differs from one time to the next.
CHANGING = [
    ("append", "@", "--kind", "note", "--text", "Grüße"),
    ("append", "@", "--kind", "note", "--text", "x", "--json"),
    ("append", "@", "--kind", "note", "--payload", "-", "--json"),
    ("append", "@", "--kind", "note", "--payload", "note.json"),
    ("note", "Grüße"),
    ("note", "x", "--json"),
    ("session", "new"),
    ("session", "new", "--json", "--label", "other"),
    ("wake",),
    ("wake", "--json"),
    ("label", "2", "name"),
    ("goto", "@", "start"),
    ("goto", "@", "2", "--json"),
    ("back",),
    ("fork", "start"),
    ("fork", "start", "--json"),
    ("root",),
]
VARYING = re.compile(
    rb"\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d(\.\d+Z)?|\d{8}-\d{6}-[0-9a-f]{4}|[0-9a-f]{64}|\b[0-9a-f]{4}\.\d+"
    rb"|\b[0-9a-f]{4}\b|-?\d{6}\b|\b\d+\b"
)


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_the_same_words_about_a_change(place, words):
    (place.directory / "note.json").write_text('{"text": "from a file"}')
    told = []
    for mode in ("off", "required"):
        place.run("off", "goto", "@", "start")
        done = place.run(mode, *words, stdin=b'{"text": "from standard input"}')
        assert done.returncode == 0, done.stderr
        told.append((VARYING.sub(b"#", done.stdout), VARYING.sub(b"#", done.stderr)))
    (place.directory / "note.json").unlink()
    # Whichever test is next finds the conversation where it was.
    place.run("off", "goto", "@", "3")
    assert told[0] == told[1]


#: Commands that no controller runs for anybody, each for a reason; a new command is put here or into ``RESIDENT``.
BY_THEMSELVES = {
    **dict.fromkeys(("chat", "demo", "mcp", "rpc", "serve"), "talks with somebody, or is a controller itself"),
    **dict.fromkeys(
        (
            "anchor",
            "delegate",
            "erase",
            "run",
            "session prune",
            "verify",
            "db check",
            "db copy",
            "db reindex",
            "task retry",
        ),
        "takes long",
    ),
    **dict.fromkeys(
        ("export", "import", "proof"), "reads or writes files and pipes of any size: a stalled one would hold a thread"
    ),
    **dict.fromkeys(("files", "init", "task adopt", "task cancel", "task discard"), "works on checkouts and processes"),
    **dict.fromkeys(("db backup", "db restore", "db status", "db upgrade", "doctor"), "looks after store and machine"),
    **dict.fromkeys(("hooks install", "hooks status", "hooks uninstall"), "works on settings of other programs"),
}


def test_every_command_is_one_or_the_other():
    known = set()
    for spec in COMMANDS:
        known |= {f"{spec.name} {one.name}" for one in spec.commands} if isinstance(spec, GroupSpec) else {spec.name}
    assert known == RESIDENT | BY_THEMSELVES.keys()
    assert not RESIDENT & BY_THEMSELVES.keys()


def test_every_command_for_the_controller_is_compared():
    named = {" ".join(words[:2]) if words[0] in {"session", "task"} else words[0] for words in READING + CHANGING}
    assert named - {"--json"} == RESIDENT


def test_an_entry_says_what_was_read_from_the_clients_standard_input(place):
    done = place.run(
        "required", "append", "@", "--kind", "note", "--payload", "-", "--json", stdin=b'{"text": "piped"}'
    )
    assert json.loads(done.stdout)["payload"]["text"] == "piped"


def test_a_closed_stream_is_closed_there_as_well(place):
    command = 'exec "$@" >&-'
    told = []
    for mode in ("off", "required"):
        done = subprocess.run(
            ["sh", "-c", command, "sh", sys.executable, "-c", MAIN, "log"],
            cwd=place.directory,
            env={**place.environment, "BRIDGE_CONTROLLER": mode},
            capture_output=True,
            timeout=100,
            check=False,
        )
        told.append((done.returncode, done.stderr))
    assert told[0] == told[1]
    assert told[0][0] == 119


def test_a_reader_that_went_away_ends_it_quietly(place):
    told = []
    for mode in ("off", "required"):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "log"],
            cwd=place.directory,
            env={**place.environment, "BRIDGE_CONTROLLER": mode},
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=100,
            check=False,
        )
        os.close(writing)
        told.append((done.returncode, done.stderr))
    assert told == [(141, b""), (141, b"")]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_ends_a_command_in_the_controller_too(place, form):
    told = []
    for mode in ("off", "required"):
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "append", "@", "--kind", "note", "--payload", "-", *form],
            cwd=place.directory,
            env={**place.environment, "BRIDGE_CONTROLLER": mode},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # It waits for its standard input: in this process, or in a thread of the controller.
        until(lambda process=process: waits(process.pid))
        process.send_signal(signal.SIGINT)
        process.wait(100)  # with its standard input still open: its end would be an answer, too
        out, err = process.communicate(timeout=100)
        told.append((process.returncode, out, err))
    assert told[0] == told[1]
    assert told[0][0] == 130
    assert b"Interrupted" in told[0][2]


def waits(pid: int) -> bool:
    """Whether a process is at its work and waits: for standard input, or for the controller."""
    where = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
    return where in {"pipe_read", "anon_pipe_read", "unix_stream_read_generic", "unix_stream_data_wait"}


@pytest.mark.parametrize("words", [("log",), ("session", "list"), ("log", "--json"), ("log", "zzzz")], ids=" ".join)
def test_the_same_bytes_on_a_terminal(place, words):
    told = []
    for mode in ("off", "required"):
        leader, follower = pty.openpty()
        os.set_blocking(leader, True)
        found = bytearray()

        def read(leader=leader, found=found) -> None:
            try:
                while data := os.read(leader, 65536):
                    found.extend(data)
            except OSError:
                return  # nobody holds the other end any more

        reader = threading.Thread(target=read)
        reader.start()
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words],
            cwd=place.directory,
            env={**place.environment, "BRIDGE_CONTROLLER": mode, "TERM": "xterm-256color", "COLUMNS": "60"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
        )
        os.close(follower)
        status = process.wait(100)
        reader.join(100)
        os.close(leader)
        told.append((status, bytes(found)))
    assert told[0] == told[1]
    assert told[0][1]


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("log", "--help"), {}),
        (("log", "--verbose"), {}),
        (("log",), {"BRIDGE_LOG": "debug"}),
        (("doctor",), {}),
        (("--version",), {}),
    ],
)
def test_what_is_not_for_the_controller_runs_here(place, words, environment):
    done = place.run("required", *words, environment=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("changed", [{"TZ": "Asia/Tokyo"}, {"HOME": "/nonexistent"}, {"GIT_CONFIG_GLOBAL": "/none"}])
def test_a_client_whose_answer_would_be_another_one_gives_it_itself(place, changed):
    here, there = (place.run(mode, "log", environment=changed) for mode in ("off", "auto"))
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
    assert there.returncode == 0
    refused = place.run("required", "log", "--json", environment=changed)
    assert json.loads(refused.stderr)["error"]["code"] == "controller_unavailable"
