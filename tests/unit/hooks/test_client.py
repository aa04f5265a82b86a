"""The hook client in a child process, as hosts run it: it is quiet, quick and never in the way."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bridge.hooks.client as client
from bridge.foundation.redaction import portable_formats, redact

PATH = Path(client.__file__)
START = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "host"}
TOLD = '2 files you read or edited changed after your last turn: "a.txt", "\\u00fc".'
#: A busy machine takes longer over starting a process than a person should wait; the limits have tests of their own.
SLOW = {"PATIENCE_SECONDS = 0.3": "PATIENCE_SECONDS = 60.0"}


class Place:
    """The folder of a client with all that it goes by, and a registered checkout beside it."""

    def __init__(self, root: Path) -> None:
        self.checkout = root / "checkout"
        (self.checkout / "inner").mkdir(parents=True)
        self.folder = root / "hooks"
        (self.folder / client.SPOOL_FOLDER).mkdir(parents=True)
        self.socket = root / "s"
        self.started = root / "a-controller-was-started"
        facts = {
            "socket": str(self.socket),
            "info": str(root / "info.json"),
            "start": ["/bin/sh", "-c", f"env > {self.started}.new; mv {self.started}.new {self.started}"],
            "environment": {"BRIDGE_HOME": str(root)},
        }
        self.facts = facts
        self.be_patient(60.0)
        (self.folder / client.PLACES_FILE).write_text(json.dumps({os.path.realpath(self.checkout): 1}))
        (self.folder / client.FORMATS_FILE).write_text(json.dumps({"formats": portable_formats()}))
        self.write(SLOW)

    def be_patient(self, seconds: float, **changes) -> None:
        facts = {**self.facts, "patience": seconds, **changes}
        (self.folder / client.SETTINGS_FILE).write_text(json.dumps(facts))

    def write(self, changes: dict[str, str]) -> None:
        source = PATH.read_text(encoding="utf-8")
        for old, new in changes.items():
            assert old in source
            source = source.replace(old, new)
        self.program = self.folder / "bridge-hook"
        self.program.write_text(f"#!{sys.executable} -IS\n{source}")
        self.program.chmod(0o755)

    def event(self, **changes) -> dict:
        return {**START, "cwd": str(self.checkout), **changes}

    def run(self, event, *arguments, environment=None, **options) -> bytes:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        done = subprocess.run(
            [self.program, *(arguments or ("claude-code",))],
            input=data,
            capture_output=True,
            env={**os.environ, **(environment or {})},
            timeout=60,
            check=False,
            **options,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    @property
    def spooled(self) -> list[dict]:
        return [json.loads(path.read_bytes()) for path in (self.folder / client.SPOOL_FOLDER).glob("*.json")]

    def lost(self, host: str = "claude-code") -> int:
        path = self.folder / f"{client.LOST_PREFIX}{host}"
        return path.stat().st_size if path.exists() else 0


class Controller:
    """Something that listens where a controller would, and does as it is told."""

    def __init__(self, path: Path, answer: bytes, *, pause: float = 0.0) -> None:
        self.received: list[bytes] = []
        self._answer, self._pause = answer, pause
        self._is_over = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                got = b""
                while got.count(b"\n") < 2:
                    more = peer.recv(65536)
                    if not more:
                        break
                    got += more
                self.received.append(got)
                self._is_over.wait(self._pause)
                try:
                    peer.sendall(self._answer)
                except OSError:
                    continue

    def close(self) -> None:
        self._is_over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)


WELCOME = b'{"bridge":1,"ok":true,"build":"x","pid":1}\n'


def answering(**answer) -> bytes:
    return WELCOME + json.dumps({"taken": True, **answer}).encode() + b"\n"


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def controller(place):
    made: list[Controller] = []

    def make(answer: bytes = answering(context=TOLD), **options) -> Controller:
        made.append(Controller(place.socket, answer, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_it_imports_the_standard_library_and_little_of_it():
    heavy = "{'typing', 'subprocess', 'pathlib', 're', 'json', 'socket', 'signal', 'enum'}"
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('client', {str(PATH)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(foreign - {'client', '__main__'}))\n"
        f"print(sorted({heavy} & set(sys.modules)))\n"
    )
    # importlib.util itself brings a few of them; what it brings is taken off.
    base = f"import importlib.util, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, text=True)
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", base], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["[]", bare.stdout.strip()]


@pytest.mark.parametrize(
    ("host", "event"),
    [(host, event) for host, events in client.HEARD_EVENTS.items() for event in sorted(events)],
)
def test_it_prints_exactly_the_keys_that_every_host_accepts(place, controller, host, event):
    listening = controller(answering(context=TOLD, notice="Bridge: 1 path changed.", foreign="never passed on"))
    printed = place.run(place.event(hook_event_name=event), host)
    expected = {
        "hookSpecificOutput": {"hookEventName": event, "additionalContext": TOLD},
        "systemMessage": "Bridge: 1 path changed.",
    }
    assert json.loads(printed) == expected
    assert printed == json.dumps(expected).encode("ascii")
    greeting, line = listening.received[0].splitlines()
    assert json.loads(greeting)["role"] == "hook"
    sent = json.loads(line)
    assert (sent["host"], sent["event"]) == (host, place.event(hook_event_name=event))
    assert set(sent) == {"id", "host", "at", "parent", "patience", "event"}
    assert place.spooled == []


@pytest.mark.parametrize(
    "event",
    ["PreToolUse", "PostToolUse", "Stop", "SubagentStop", "PreCompact", "SessionEnd", "BeforeTool", "AfterAgent"],
)
def test_at_other_events_it_says_nothing_whatever_the_controller_answers(place, controller, event):
    listening = controller(answering(context=TOLD, notice="x"))
    assert place.run(place.event(hook_event_name=event)) == b""
    assert len(listening.received) == 1


@pytest.mark.parametrize(
    "answer",
    [
        answering(context="x" * (client.MAX_TEXT_CHARACTERS + 1)),
        answering(context=""),
        answering(context=None, notice=None),
        answering(context=["x"], notice=7),
        answering(notice="x" * (client.MAX_NOTICE_CHARACTERS + 1)),
    ],
)
def test_an_answer_of_another_form_is_not_passed_on(place, controller, answer):
    controller(answer)
    assert place.run(place.event()) == b""
    assert place.spooled == []


def test_the_longest_text_is_passed_on(place, controller):
    controller(answering(context="x" * client.MAX_TEXT_CHARACTERS, notice="y" * client.MAX_NOTICE_CHARACTERS))
    assert b"x" * client.MAX_TEXT_CHARACTERS in place.run(place.event(), "gemini")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json\n",
        WELCOME,
        WELCOME + b"not json\n",
        WELCOME + b"[]\n",
        WELCOME + b'{"taken": false}\n',
        WELCOME + b'{"jsonrpc": "2.0", "id": 1, "result": {}}\n',
        b'{"bridge":1,"ok":false,"error":{"message":"There is no role hook here."}}\n',
    ],
    ids=range(8),
)
def test_a_controller_that_does_not_take_the_event_an_older_one_say_leaves_it_to_be_kept(place, controller, answer):
    controller(answer)
    assert place.run(place.event()) == b""
    assert [one["event"] for one in place.spooled] == [place.event()]
    assert place.lost() == 0


def test_without_a_controller_the_event_is_kept_and_one_is_started_in_the_background_not_twice(place):
    environment = {"GIT_DIR": "/nowhere", "BRIDGE_DATABASE_URL": "x", "KEPT": "yes"}
    assert place.run(place.event(), environment=environment) == b""
    assert [one["event"] for one in place.spooled] == [place.event()]
    deadline = time.monotonic() + 60
    while not place.started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    inherited = dict(line.split("=", 1) for line in place.started.read_text().splitlines() if "=" in line)
    assert (inherited["KEPT"], inherited["BRIDGE_HOME"]) == ("yes", str(place.folder.parent))
    assert "GIT_DIR" not in inherited
    assert "BRIDGE_DATABASE_URL" not in inherited
    place.started.unlink()
    assert place.run(place.event()) == b""
    assert len(place.spooled) == 2
    assert not place.started.exists()


def test_a_program_of_the_controller_that_is_gone_is_harmless(place):
    place.be_patient(60.0, start=["/no/such/python"])
    assert place.run(place.event()) == b""
    assert len(place.spooled) == 1


def test_a_controller_that_hangs_costs_less_than_the_limit_and_nothing_is_lost(place, controller):
    place.write({})
    place.be_patient(client.PATIENCE_SECONDS)
    controller(answering(context=TOLD), pause=20)
    base = []
    for _ in range(3):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        base.append(time.monotonic() - begun)
    begun = time.monotonic()
    assert place.run(place.event()) == b""
    # Beyond the start of any process on this machine now, no more than it may live.
    assert time.monotonic() - begun - max(base) < client.PATIENCE_SECONDS + max(base)
    assert len(place.spooled) + place.lost() == 1


def test_what_takes_longer_than_its_life_is_counted(place, controller):
    controller(answering(), pause=20)
    # Nothing of the time is left for keeping it.
    place.be_patient(0.3)
    place.write({"KEEP_SECONDS = 0.07": "KEEP_SECONDS = -60.0"})
    assert place.run(place.event()) == b""
    assert place.spooled == []
    assert place.lost() == 1


@pytest.mark.parametrize("directory", ["/", "/no/such/folder", "", None, 7, "relative", "checkout"])
def test_outside_of_registered_checkouts_it_is_inert(place, controller, directory):
    listening = controller()
    assert place.run(place.event(cwd=directory)) == b""
    assert (listening.received, place.spooled, place.lost()) == ([], [], 0)


def test_inside_of_one_at_any_depth_and_through_a_link_it_is_not(place, controller, tmp_path):
    listening = controller()
    link = tmp_path / "link"
    link.symlink_to(place.checkout / "inner")
    for directory in (place.checkout, place.checkout / "inner", link, place.checkout / "gone" / "deeper"):
        assert place.run(place.event(cwd=str(directory)))
    assert len(listening.received) == 4


def test_agents_that_bridge_runs_itself_are_left_alone(place, controller):
    listening = controller()
    assert place.run(place.event(), environment={client.CHILD_VARIABLE: "chat-1"}) == b""
    assert listening.received == []


BROKEN = [b"{", b"\xff\xfe", b"null", b"[]", b'"SessionStart"', b"{}", b'{"hook_event_name": 7}', b"[" * 100_000]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_event_asks_nothing_and_says_nothing(place, controller, data):
    listening = controller()
    assert place.run(data) == b""
    assert listening.received == []


@pytest.mark.parametrize("arguments", [("other",), ("claude-code", "codex")])
def test_a_line_that_was_changed_by_hand_is_harmless(place, controller, arguments):
    listening = controller()
    assert place.run(place.event(), *arguments) == b""
    assert listening.received == []


def test_an_event_with_line_feeds_is_one_line_to_the_controller(place, controller):
    listening = controller()
    event = place.event(hook_event_name="UserPromptSubmit", prompt="a\nb\u2028c")
    place.run(json.dumps(event, indent=2).encode().replace(b"\n", b"\r\n"))
    assert json.loads(listening.received[0].splitlines()[1])["event"] == event


def test_an_event_above_the_limit_is_read_to_its_end_and_counted(place, controller):
    listening = controller()
    event = json.dumps(place.event(padding="x" * client.MAX_EVENT_BYTES)).encode()
    assert place.run(event, "codex") == b""
    assert (listening.received, place.lost("codex"), place.spooled) == ([], 1, [])


def test_secrets_never_reach_the_disk(place):
    secret = "ghp_" + "a1B2" * 9
    key = "AKIA" + "ABCDEFGH12345678"
    event = place.event(hook_event_name="UserPromptSubmit", prompt=f"use {secret} and {key}", deep=[{"k": secret}])
    assert place.run(event) == b""
    kept = place.spooled[0]["event"]
    assert kept["prompt"] == "use [redacted:github-token] and [redacted:aws-access-key]"
    assert kept["deep"] == [{"k": "[redacted:github-token]"}]
    assert secret not in "".join(path.read_text() for path in place.folder.rglob("*.json"))


@given(
    st.lists(
        st.sampled_from(
            [
                "ghp_" + "a1B2" * 9,
                "sk-ant-api03-" + "x" * 40,
                "https://me:hunter2@example.com/",
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmnop",
                "aws_secret_access_key = " + "A" * 40,
                "plain words",
                "\n",
            ]
        ),
        max_size=6,
    )
)
def test_masking_agrees_with_the_controllers_own(parts):
    text = " ".join(parts)
    assert client._masked_text(text, portable_formats()) == redact({"t": text}).value["t"]


def test_without_the_formats_nothing_is_kept_but_counted(place):
    (place.folder / client.FORMATS_FILE).unlink()
    assert place.run(place.event()) == b""
    assert (place.spooled, place.lost()) == ([], 1)


def test_the_folder_is_bounded_in_events_and_each_in_bytes(place):
    spool = place.folder / client.SPOOL_FOLDER
    for number in range(client.MAX_SPOOLED - 1):
        (spool / f"{number}.json").touch()
    assert place.run(place.event()) == b""
    assert (len(list(spool.iterdir())), place.lost()) == (client.MAX_SPOOLED, 0)
    assert place.run(place.event()) == b""
    assert (len(list(spool.iterdir())), place.lost()) == (client.MAX_SPOOLED, 1)
    for path in spool.iterdir():
        path.unlink()
    assert place.run(place.event(prompt="x" * 200_000)) == b""
    assert len(place.spooled[0]["event"]["prompt"]) == client.MAX_SPOOLED_TEXT
    assert place.run(place.event(many=["x" * 4_000] * 20)) == b""
    assert (len(place.spooled), place.lost()) == (1, 2)


def test_a_host_that_never_closes_its_end_is_not_waited_for_forever(place):
    place.write({})
    with subprocess.Popen([place.program, "codex"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.wait(timeout=60) == 0
        assert process.stdout.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_status_0_and_the_event_is_counted(number, place, controller):
    listening = controller(answering(), pause=20)
    with subprocess.Popen([place.program, "codex"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(json.dumps(place.event()).encode())
        process.stdin.close()
        deadline = time.monotonic() + 60
        while not listening.received and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
    assert place.lost("codex") == 1


def test_closed_and_broken_streams_are_harmless(place, controller):
    controller()
    closed = subprocess.run(["sh", "-c", 'exec "$0" codex <&- >&- 2>&-', place.program], timeout=60, check=False)
    assert closed.returncode == 0
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [place.program, "codex"],
            input=json.dumps(place.event()).encode(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


@given(st.binary(max_size=200), st.lists(st.text(max_size=20), max_size=3))
def test_nothing_that_comes_in_is_ever_an_error(data, arguments):
    stdout = io.BytesIO()
    for words in (arguments, ["codex"]):
        assert client.main(words, {}, io.BytesIO(data), stdout, "/no/such/folder") == 0
        assert client.main(words, {}, None, None, "/no/such/folder") == 0
    assert stdout.getvalue() == b""
