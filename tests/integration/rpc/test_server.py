"""The door on the Unix socket: greetings, limits, slow and malicious clients, idleness, the end."""

from __future__ import annotations

import array
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.control.controller import Controller
from bridge.foundation.clock import SystemClock
from bridge.rpc.errors import CommandNotTaken, ControllerLost, ControllerUnavailable
from bridge.rpc.methods.table_controller import SOCKET_METHODS
from bridge.rpc.resident.client import Client, RemoteError
from bridge.rpc.resident.endpoint import Endpoint
from bridge.rpc.resident.residency import CommandLine, Residency
from bridge.rpc.resident.server import End, Limits
from bridge.rpc.roles import Role
from tests.conftest import settings_here
from tests.serving import BUILD, line_of, serving, until

GREETING = json.dumps({"bridge": 1, "role": "operator"}).encode() + b"\n"


@pytest.fixture
def door(controller):
    with serving(controller) as found:
        yield found


def test_a_client_is_greeted_and_answered(door, repository):
    with door.connect(directory=str(repository.path)) as client:
        assert (client.build, client.pid) == (BUILD, os.getpid())
        assert client.call("admin/ping")["pid"] == os.getpid()
        session = client.call("sessions/new", {"label": "here"})
        assert client.call("sessions/list")["sessions"][0]["id"] == session["id"]


def test_the_socket_is_the_users_alone(door):
    path = Path(door.endpoint.find_socket())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_users_process_is_refused(controller):
    with serving(controller, user_of=lambda _peer: os.getuid() + 1) as door:
        with pytest.raises(RemoteError) as refused:
            door.connect()
        assert refused.value.code == "connection_refused"
        assert refused.value.details == {"reason": "user"}


#: Greets in a role, and prints the answer.
WORKER = """
import json, socket, sys
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
peer.connect(sys.argv[1])
peer.sendall(json.dumps({"bridge": 1, "role": sys.argv[2], "session": sys.argv[3]}).encode() + b"\\n")
print(peer.recv(65536).decode())
"""


def _new_session(door):
    with door.connect() as client:
        return client.call("sessions/new", {"label": "s"})["id"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which process is at the other end")
@pytest.mark.parametrize("role", list(Role))
def test_a_workers_process_has_no_role_of_its_own_choice(door, role):
    session = _new_session(door)
    words = [sys.executable, "-c", WORKER, door.endpoint.find_socket(), role, session]
    for environment, is_refused in (({}, False), ({"BRIDGE_CHILD": "d1-1"}, True)):
        answer = subprocess.run(
            words, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, check=True, text=True
        ).stdout
        assert ("connection_refused" in answer) is is_refused, answer
        assert ('"reason":"worker"' in answer.replace(" ", "")) is is_refused


#: Another user's process in the socket's folder: connects, and prints what it was told or why it could not.
STRANGER = """
import os, socket, sys
os.setgid(65534)
os.setuid(65534)
peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    peer.connect(sys.argv[1])
except PermissionError:
    sys.exit("kept out")
print(peer.makefile("rb").readline().decode())
"""


def stranger(door) -> subprocess.CompletedProcess[str]:
    path = Path(door.endpoint.find_socket())
    return subprocess.run(
        [sys.executable, "-I", "-c", STRANGER, path.name],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_real_process_of_another_user_is_kept_out_by_the_folder_and_by_its_credentials(monkeypatch):
    # In a folder of its own with a short path: the one for long paths is shared with whatever else runs here.
    with tempfile.TemporaryDirectory(prefix="b", dir="/tmp") as home:
        monkeypatch.setenv("BRIDGE_HOME", f"{home}/h")
        with (
            Controller(settings_here(), clock=SystemClock(), environment=os.environ) as controller,
            serving(controller) as door,
        ):
            check_that_strangers_are_kept_out(door)


def check_that_strangers_are_kept_out(door):
    assert Path(door.endpoint.find_socket()).parent.parent.name == "h"
    assert "kept out" in stranger(door).stderr
    path = Path(door.endpoint.find_socket())
    path.parent.chmod(0o711)
    assert "kept out" in stranger(door).stderr, "the socket's own mode keeps it out too"
    path.chmod(0o666)
    done = stranger(door)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["ok"] is False
    assert told["error"]["data"]["code"] == "connection_refused"
    assert told["error"]["data"]["details"] == {"reason": "user"}
    still_answers(door)


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b'{"bridge": 2, "role": "operator"}',
        b'{"bridge": 1}',
        b'{"bridge": 1, "role": "emperor"}',
        b'{"bridge": 1, "role": "agent"}',
        b'{"bridge": 1, "role": 5}',
        b'{"bridge": 1, "role": "operator", "more": 1}',
        b'{"bridge": 1, "role": "operator", "directory": "relative"}',
        b'{"bridge": 1, "role": "operator", "directory": "/x\\u0000"}',
        b"\xff\xfe",
        b"[" * 60_000,
        b"x" * 70_000,
        b"GET / HTTP/1.1\r",
    ],
)
def test_what_is_no_greeting_is_refused_in_words(door, greeting):
    with door.raw() as peer:
        peer.sendall(greeting + b"\n")
        answer = line_of(peer)
        assert answer is not None
        assert answer["ok"] is False
        assert answer["error"]["data"]["code"] == "connection_refused"
        assert line_of(peer) is None


def test_another_build_is_told_whose_the_controller_is(door):
    with pytest.raises(RemoteError) as refused:
        door.connect(build="0.0.1+other")
    assert refused.value.code == "other_build"
    assert refused.value.exit_status == 225
    assert refused.value.details["controller"] == BUILD
    with door.connect(build=BUILD) as client:
        assert client.call("admin/ping")


def test_an_agent_reaches_its_own_session_only(door, repository):
    with door.connect(directory=str(repository.path)) as client:
        own, other = (client.call("sessions/new")["id"] for _ in range(2))
    with door.connect(role="agent", session=own, directory=str(repository.path)) as agent:
        assert agent.call("sessions/context", {"session": own})
        for method, params in [
            ("sessions/context", {"session": other}),
            ("controller/status", {}),
            ("controller/stop", {}),
        ]:
            with pytest.raises(RemoteError) as refused:
                agent.call(method, params)
            assert refused.value.code in {"session_not_found", "method_not_found"}


def test_who_only_looks_cannot_stop_it_or_run_commands(door):
    with door.connect(role="observer") as observer:
        assert observer.call("controller/status")["pid"] == os.getpid()
        for method in ("controller/stop", "commands/run"):
            with pytest.raises(RemoteError) as refused:
                observer.call(method)
            assert refused.value.code == "method_not_found"


@pytest.mark.parametrize("role", [str(role) for role in Role])
@pytest.mark.parametrize("name", SOCKET_METHODS)
def test_who_may_call_the_methods_of_the_socket(door, repository, name, role):
    method = SOCKET_METHODS[name]
    with door.connect(directory=str(repository.path)) as operator:
        session = operator.call("sessions/new")["id"]
    params = {"build": "another"} if name == "controller/stop" else {}
    with door.connect(role=role, session=session, directory=str(repository.path)) as client:
        if name == "controller/status" and role in method.roles:
            jsonschema_rs.validator_for(method.result).validate(client.call(name))
            return
        with pytest.raises(RemoteError) as refused:
            client.call(name, params)
    assert (refused.value.code == "method_not_found") == (role not in method.roles)
    still_answers(door)


# -- clients that do others no harm ----------------------------------------------------------------------------------


def still_answers(door) -> None:
    with door.connect(timeout_seconds=20) as client:
        assert client.call("admin/ping", timeout_seconds=20)


def test_whoever_says_nothing_is_shown_out(controller):
    with serving(controller, limits=Limits(greeting_seconds=0.1)) as door, door.raw() as silent:
        still_answers(door)
        answer = line_of(silent)
        assert answer is not None
        assert answer["error"]["data"]["details"] == {"reason": "greeting"}
        assert line_of(silent) is None


def test_half_a_line_holds_up_nobody_and_is_not_waited_for_for_ever(controller):
    with serving(controller, limits=Limits(line_seconds=0.2)) as door, door.raw() as half:
        half.sendall(GREETING + b'{"jsonrpc"')
        still_answers(door)
        assert line_of(half)["ok"]
        assert line_of(half) is None


def test_a_line_of_a_hundred_megabytes_is_refused_and_the_next_one_answered(door):
    with door.raw() as flood:
        flood.sendall(GREETING)
        assert line_of(flood)["ok"]
        chunk = b"x" * 1_000_000
        for _ in range(100):
            flood.sendall(chunk)
        still_answers(door)
        flood.sendall(b'\n{"jsonrpc":"2.0","id":7,"method":"admin/ping"}\n')
        refused = line_of(flood)
        assert refused["error"]["data"]["details"]["reason"] == "too_large"
        assert line_of(flood)["id"] == 7


def test_whoever_never_reads_is_given_up_and_holds_up_nobody(controller):
    with serving(controller, limits=Limits(send_seconds=0.5)) as door, door.raw() as deaf:
        deaf.settimeout(0.2)
        deaf.sendall(GREETING)
        call = b'{"jsonrpc":"2.0","id":1,"method":"nothing/' + b"x" * 60_000 + b'"}\n'
        with pytest.raises(OSError):  # noqa: PT012 - whenever its buffers are full
            for _ in range(1000):
                deaf.sendall(call * 10)
        still_answers(door)
        until(lambda: door.server.connections == 0)


def test_one_connection_too_many_is_told_so(controller):
    with serving(controller, limits=Limits(connections=3)) as door:
        clients = [door.connect() for _ in range(3)]
        with pytest.raises(RemoteError) as refused:
            door.connect()
        assert refused.value.details == {"reason": "too_many", "limit": 3}
        clients.pop().close()
        until(lambda: door.server.connections < 3)
        clients.append(door.connect())
        for client in clients:
            client.close()


def test_many_clients_at_once(door, repository):
    def work(number: int) -> str:
        with door.connect(directory=str(repository.path)) as client:
            session = client.call("sessions/new", {"label": f"s{number}"})["id"]
            for step in range(5):
                client.call("sessions/append", {"session": session, "kind": "note", "text": f"{number}.{step}"})
            return session

    with ThreadPoolExecutor(8) as pool:
        sessions = set(pool.map(work, range(16)))
    assert len(sessions) == 16
    with door.connect() as client:
        assert all(len(client.call("sessions/log", {"session": session})["entries"]) == 5 for session in sessions)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=200), max_size=5), st.booleans())
def test_no_bytes_whatsoever_end_the_controller(door, lines, greets):
    with door.raw() as peer:
        try:
            peer.sendall(GREETING if greets else b"")
            for line in lines:
                peer.sendall(line + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # shown out at the first line
    with door.connect() as client:
        assert client.call("admin/ping")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["admin/ping", "controller/status", "controller/stop", "commands/run", "$/cancel"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    ),
)
def test_no_params_of_the_own_calls_end_the_controller(door, method, params):
    if method == "controller/stop" and params in ({}, None):
        params = {"build": "another"}
    with door.raw() as peer:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        peer.sendall(GREETING + json.dumps(request).encode() + b"\n")
        peer.shutdown(socket.SHUT_WR)
        assert line_of(peer)["ok"]
        answer = line_of(peer)
        if method != "$/cancel":
            assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    still_answers(door)


# -- the end ---------------------------------------------------------------------------------------------------------


def test_it_ends_when_it_was_idle_for_long_enough(controller):
    with serving(controller, idle_seconds=0.3) as door:
        client = door.connect()
        time.sleep(0.8)
        assert client.call("admin/ping"), "a connection keeps it"
        client.close()
        until(lambda: door.why)
        assert door.why is End.IDLE
        assert door.endpoint.find_socket() is None
        with pytest.raises(ControllerUnavailable):
            door.connect()


def test_it_ends_when_its_state_directory_is_gone(controller):
    # In use or not: nobody finds it any more, and it would hold memory and a process for ever.
    with serving(controller, idle_seconds=0.3) as door:
        client = door.connect()
        shutil.rmtree(door.endpoint.folder)
        until(lambda: door.why)
        assert door.why is End.LOST
        client.close()


class WithWorkers(Residency):
    """A controller that says it has a worker."""

    asked = 0
    has_workers = True

    def workers(self):
        return [{"id": "d1", "name": "tester", "status": "running"}] if self.has_workers else []

    def cancel_workers(self):
        self.asked += 1


def test_workers_keep_it(controller):
    residency = WithWorkers(controller, build=BUILD, run_command=None)
    with serving(controller, residency=residency, idle_seconds=0.1) as door:
        with door.connect() as client:
            with pytest.raises(RemoteError) as busy:
                client.call("controller/stop")
            assert busy.value.code == "controller_busy"
            assert busy.value.exit_status == 215
            assert "tester" in busy.value.message
            assert busy.value.details["workers"][0]["id"] == "d1"
        time.sleep(0.4)
        assert door.why is None
        with door.connect() as client:
            stopped = client.call("controller/stop", {"cancel_workers": True})
            jsonschema_rs.validator_for(SOCKET_METHODS["controller/stop"].result).validate(stopped)
            assert stopped["cancelled"] == ["d1"]
        until(lambda: door.why)
        assert (door.why, residency.asked) == (End.STOPPED, 1)


def test_a_stop_meant_for_another_build_is_refused(door):
    with door.connect() as client:
        with pytest.raises(RemoteError) as refused:
            client.call("controller/stop", {"build": "0.0.1+older"})
        assert refused.value.code == "other_build"


def test_calls_that_run_are_answered_before_the_end(controller):
    begun, go_on = threading.Event(), threading.Event()

    def slow(_command: CommandLine) -> int:
        begun.set()
        assert go_on.wait(30)
        return 7

    with serving(controller, run_command=slow) as door, door.raw() as peer:
        peer.sendall(GREETING)
        send_command(peer, [])
        assert begun.wait(30)
        door.end()
        until(lambda: door.endpoint.find_socket() is None)
        with pytest.raises(ControllerUnavailable):
            door.connect()
        go_on.set()
        assert line_of(peer)["ok"]
        assert line_of(peer)["result"] == {"exit_status": 7}
        assert line_of(peer) is None


def test_settings_that_changed_end_it_once_nobody_needs_it(controller):
    with serving(controller, is_outdated=lambda: True, idle_seconds=0.05) as door:
        until(lambda: door.why)


def test_a_lost_connection_is_told(door):
    client = door.connect()
    door.end()
    until(lambda: door.why)
    with pytest.raises(ControllerLost):
        client.call("admin/ping")
    client.close()


def test_nobody_there(tmp_path):
    with pytest.raises(ControllerUnavailable):
        Client.connect(Endpoint(str(tmp_path)))


# -- command lines ---------------------------------------------------------------------------------------------------


def send_command(peer: socket.socket, descriptors: list[int], **changes: object) -> None:
    streams = ["utf-8"] * len(descriptors) + [None] * (3 - len(descriptors))
    params = {"arguments": ["log"], "directory": "/", "environment": {}, "streams": streams, **changes}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "commands/run", "params": params}).encode() + b"\n"
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    assert peer.sendmsg([message], rights) == len(message)


def test_a_command_gets_the_clients_own_descriptors_and_they_are_closed_after_it(controller):
    seen = []

    def run(command: CommandLine) -> int:
        seen.append(command)
        os.write(command.descriptors[1], b"from the controller")
        return 3

    reading, writing = os.pipe()
    with serving(controller, run_command=run) as door, door.raw() as peer:
        peer.sendall(GREETING)
        send_command(peer, [0, writing])
        os.close(writing)
        assert line_of(peer)["ok"]
        assert line_of(peer)["result"] == {"exit_status": 3}
        assert os.read(reading, 100) == b"from the controller"
        assert os.read(reading, 100) == b""
        assert seen[0].arguments == ["log"]
        assert seen[0].descriptors[2] is None
    os.close(reading)


def test_descriptors_that_do_not_fit_the_words_are_refused(controller):
    with serving(controller, run_command=lambda _command: 0) as door, door.raw() as peer:
        peer.sendall(GREETING)
        send_command(peer, [0], streams=["utf-8", "utf-8", None])
        assert line_of(peer)["ok"]
        assert line_of(peer)["error"]["data"]["code"] == "command_not_taken"


def test_a_command_that_is_left_to_the_client_is_said_so(controller):
    def run(_command: CommandLine) -> int:
        raise CommandNotTaken("Not here.")

    with serving(controller, run_command=run) as door, door.raw() as peer:
        peer.sendall(GREETING)
        send_command(peer, [])
        assert line_of(peer)["ok"]
        assert line_of(peer)["error"]["data"]["code"] == "command_not_taken"


@pytest.mark.parametrize("how", ["cancel", "hang up"])
def test_a_command_learns_that_its_client_gave_up(controller, how):
    begun, learned = threading.Event(), threading.Event()

    def run(command: CommandLine) -> int:
        begun.set()
        if command.cancelled.wait(30):
            learned.set()
        return 130

    with serving(controller, run_command=run) as door, door.raw() as peer:
        peer.sendall(GREETING)
        send_command(peer, [])
        assert begun.wait(30)
        if how == "cancel":
            peer.sendall(b'{"jsonrpc":"2.0","method":"$/cancel","params":{"id":1}}\n')
        else:
            peer.close()
        assert learned.wait(30)


def test_a_command_of_a_client_that_is_gone_already_is_not_begun(controller):
    states = []
    with serving(controller, run_command=lambda command: states.append(command.cancelled.is_set()) or 0) as door:
        with door.raw() as peer:
            peer.sendall(GREETING)
            assert line_of(peer)["ok"]
            # The controller hangs while the client gives up, and reads both at once.
            hanging = threading.Event()
            door.loop.call_soon_threadsafe(lambda: (hanging.set(), time.sleep(0.3)))
            assert hanging.wait(30)
            send_command(peer, [])
        until(lambda: door.server.connections == 0)
    assert states == [True]


def test_a_refusal_is_read_also_by_a_client_that_greets_too_late(controller, monkeypatch):
    slowly = Client._send

    def send(self, message):
        time.sleep(0.3)
        slowly(self, message)

    with serving(controller, user_of=lambda _peer: os.getuid() + 1) as door:
        monkeypatch.setattr(Client, "_send", send)
        with pytest.raises(RemoteError) as refused:
            door.connect()
        assert refused.value.code == "connection_refused"
