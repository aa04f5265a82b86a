"""The hook client in a child process, as hosts run it: it is quiet, quick and never in the way."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridge.hooks.client as client

PATH = Path(client.__file__)
START = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "host", "cwd": "/"}
TOLD = '2 files you read or edited changed after your last turn: "a.txt", "\\u00fc".'


def report(**changes):
    result = {"divergence": "diverged", "agent_text": TOLD, **changes}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


@pytest.fixture
def program(tmp_path):
    """Return a function that makes an executable which keeps what it was asked and prints an answer."""

    def make(body: str) -> str:
        path = tmp_path / "bridge"
        path.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/arguments"\ncat > "{tmp_path}/asked"\n{body}\n')
        path.chmod(0o755)
        return str(path)

    return make


def run(event, *arguments, session="20260101-000000-ffff", **options):
    environment = {key: value for key, value in os.environ.items() if key != client.SESSION_VARIABLE}
    if session is not None:
        environment[client.SESSION_VARIABLE] = session
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PATH), *arguments],
        input=data,
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
        **options,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    return done.stdout


def printing(text):
    return f"cat <<'END'\n{text}\nEND"


def test_it_imports_the_standard_library_and_nothing_else():
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('client', {str(PATH)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(foreign - {'client', '__main__'}))\n"
        "print(sorted({'typing', 'subprocess', 'pathlib'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["[]", "[]"]


@pytest.mark.parametrize("host", sorted(client.HOST_EVENTS))
@pytest.mark.parametrize("source", ["startup", "resume", "fork", None])
def test_at_a_start_it_prints_exactly_one_object(program, tmp_path, host, source):
    event = {**START, "source": source}
    printed = run(event, host, program(printing(report())))
    expected = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": TOLD}}
    assert json.loads(printed) == expected
    assert printed == json.dumps(expected).encode("ascii")
    assert (tmp_path / "arguments").read_text().split() == [
        *("rpc", "--stdio", "--role", "agent", "--session", "20260101-000000-ffff")
    ]
    asked = json.loads((tmp_path / "asked").read_text())
    assert (asked["method"], asked["params"]) == ("divergence/report", {"moment": "start"})


def test_an_event_without_a_source_counts_as_a_start(program):
    event = {name: value for name, value in START.items() if name != "source"}
    assert run(event, "codex", program(printing(report())))


SILENT_EVENTS = [
    *({**START, "hook_event_name": name} for name in ("UserPromptSubmit", "BeforeAgent", "PostToolUse", "AfterTool")),
    *({**START, "hook_event_name": name} for name in ("Stop", "SessionEnd", "", None, 7)),
    {**START, "source": "compact"},
    {**START, "source": "clear"},
    {},
    [],
    "SessionStart",
    b"",
    b"{",
    b"\xff\xfe",
    b"null",
    b"[" * 100_000,
]


@pytest.mark.parametrize("event", SILENT_EVENTS, ids=range(len(SILENT_EVENTS)))
def test_other_events_and_what_is_no_event_ask_nothing_and_say_nothing(program, tmp_path, event):
    assert run(event, "claude-code", program(printing(report()))) == b""
    assert not (tmp_path / "asked").exists()


def test_outside_a_recorded_conversation_it_is_inert(program, tmp_path):
    assert run(START, "claude-code", program(printing(report())), session=None) == b""
    assert run(START, "claude-code", program(printing(report())), session="") == b""
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("arguments", [(), ("claude-code",), ("other", "/bin/true"), ("claude-code", "a", "b")])
def test_a_line_that_was_changed_by_hand_is_harmless(arguments):
    assert run(START, *arguments) == b""


@pytest.mark.parametrize("named", ["bridge", "./bridge", "/no/such/program", "/", ""])
def test_a_program_that_is_gone_or_not_named_in_full_is_harmless(program, named):
    program(printing(report()))
    assert run(START, "codex", named) == b""


ANSWERS = [
    "",
    "exit 1",
    "exit 2",
    "echo not json",
    "echo '{}'",
    "echo '[]'",
    "echo log line; " + printing(report()),
    'echo \'{"jsonrpc":"2.0","id":1,"error":{"code":46,"message":"There is no session"}}\'',
    printing(report(divergence="aligned", agent_text="")),
    printing(report(divergence="unknown", agent_text="It cannot be told.")),
    printing(report(agent_text="")),
    printing(report(agent_text=None)),
    printing(report(agent_text=["x"])),
    printing(report(agent_text="x" * (client.MAX_TEXT_CHARACTERS + 1))),
    "kill -9 $$",
    "echo noise >&2; exit 3",
]


@pytest.mark.parametrize("body", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_that_is_none_is_not_passed_on(program, body):
    assert run(START, "gemini", program(body)) == b""


def test_the_longest_text_is_passed_on(program):
    text = "x" * client.MAX_TEXT_CHARACTERS
    assert text.encode() in run(START, "gemini", program(printing(report(agent_text=text))))


def test_a_program_that_hangs_is_ended_with_what_it_started(program, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.5)
    stdout = io.BytesIO()
    body = f'sleep 300 & echo $! > "{tmp_path}/pid"; wait'
    begun = time.monotonic()
    environment = {**os.environ, client.SESSION_VARIABLE: "x"}
    status = client.main(["codex", program(body)], environment, io.BytesIO(json.dumps(START).encode()), stdout)
    assert (status, stdout.getvalue()) == (0, b"")
    assert time.monotonic() - begun < 60
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while _is_running(pid):
        assert time.monotonic() < deadline, "the program's child still runs"
        time.sleep(0.05)


def _is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_host_that_never_closes_its_end_is_not_waited_for_forever():
    source = PATH.read_text(encoding="utf-8").replace("LIFE_SECONDS = 5.0", "LIFE_SECONDS = 0.3")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source, "codex", "/bin/true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, client.SESSION_VARIABLE: "x"},
    ) as process:
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_status_0(number, program, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(PATH), "codex", program("sleep 300")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, client.SESSION_VARIABLE: "x"},
    ) as process:
        process.stdin.write(json.dumps(START).encode())
        process.stdin.close()
        deadline = time.monotonic() + 4
        while not (tmp_path / "asked").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(timeout=60) == 0


def test_closed_and_broken_streams_are_harmless(program):
    command = [sys.executable, "-I", "-S", str(PATH), "codex", program(printing(report()))]
    environment = {**os.environ, client.SESSION_VARIABLE: "x"}
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *command], env=environment, timeout=60, check=False
    )
    assert closed.returncode == 0
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command,
            input=json.dumps(START).encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_event_above_the_limit_is_read_to_its_end_and_not_looked_at(program, tmp_path):
    event = json.dumps({**START, "padding": "x" * client.MAX_EVENT_BYTES}).encode()
    assert run(event, "codex", program(printing(report()))) == b""
    assert not (tmp_path / "asked").exists()


@given(st.binary(max_size=200), st.lists(st.text(max_size=20), max_size=3))
def test_nothing_that_comes_in_is_ever_an_error(data, arguments):
    stdout = io.BytesIO()
    assert client.main(arguments, {client.SESSION_VARIABLE: "x"}, io.BytesIO(data), stdout) == 0
    assert stdout.getvalue() == b""
    assert client.main(arguments, {client.SESSION_VARIABLE: "x"}, None, None) == 0


def test_it_can_be_loaded_without_being_run():
    spec = importlib.util.spec_from_file_location("loaded", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main([], {}, None, None) == 0
