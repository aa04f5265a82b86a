"""Controllers in processes of their own: start, race, replacement, kill, stop."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from bridge.foundation.errors import InvalidConfiguration
from bridge.rpc.errors import ControllerUnavailable
from bridge.rpc.resident.client import Client, RemoteError
from bridge.rpc.resident.endpoint import MAX_SOCKET_PATH_BYTES, Endpoint
from bridge.rpc.resident.holding import make_private
from bridge.rpc.resident.starting import connect_or_start, start_in_background
from bridge.storage.schema_version import VERSION_TABLE
from tests.crashing_clients import batter
from tests.prepared import run_command
from tests.serving import MAIN, ROOT, end_by_pid, resident, until


@pytest.fixture
def environment(bridge_home):
    """That of a shell, with a state directory of its own; whatever controller is left for it is ended."""
    found = {**os.environ, "PYTHONPATH": str(ROOT), "BRIDGE_CONTROLLER": "auto"}
    yield found
    end_by_pid(Endpoint(str(bridge_home), found.get("BRIDGE_DATABASE_URL")))


def run(environment, *words, cwd="/"):
    return run_command(list(words), cwd=cwd, environment=environment)


def test_it_says_when_it_answers_and_ends_in_good_order(environment, bridge_home):
    with resident(environment, "--json") as controller:
        controller.signal(signal.SIGTERM)
        status, out, err = controller.wait()
    assert (status, err) == (0, "")
    assert json.loads(out)["pid"] == controller.pid
    left = {path.name for path in (bridge_home / "run").iterdir()}
    assert left == {"controller.lock"}
    assert not Path(f"/tmp/bridge-{os.getuid()}/{controller.endpoint.name}.sock").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_every_request_to_end_is_a_clean_one(environment, number):
    with resident(environment) as controller:
        controller.signal(number)
        assert controller.wait()[0] == 0
        assert controller.endpoint.read_info() is None


def test_there_is_one_controller(environment):
    with resident(environment) as controller:
        second = run(environment, "serve", "--json")
        assert second.returncode == 214
        error = json.loads(second.stderr)["error"]
        assert error["code"] == "controller_running"
        assert error["details"]["pid"] == controller.pid
        assert controller.answers()


def test_a_kill_leaves_nothing_to_remove(environment, bridge_home):
    with resident(environment) as first:
        first.signal(signal.SIGKILL)
        first.wait()
        assert (bridge_home / "run" / "controller.json").exists()
        # Nobody answers there: a command does its work by itself.
        done = run(environment, "session", "new", "--json")
        assert done.returncode == 0, done.stderr
    with resident(environment) as second, Client.connect(second.endpoint) as client:
        assert client.pid == second.pid
        assert len(client.call("sessions/list")["sessions"]) in {0, 1}


def test_of_many_clients_that_find_none_one_starts_it(environment, bridge_home):
    endpoint = Endpoint(str(bridge_home))
    pids, failures = [], []

    def work() -> None:
        try:
            with connect_or_start(endpoint, environment) as client:
                pids.append(client.pid)
                client.call("admin/ping")
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures
    assert len(pids) == 8
    assert len(set(pids)) == 1


def test_who_is_started_holds_nothing_of_who_started_it(environment, bridge_home, repository):
    spoilt = {**environment, "GIT_DIR": "/nonexistent", "BRIDGE_TASK": "t", "BRIDGE_SESSION": "s"}
    # The pipes are at their end when the command returns, or this would not.
    done = run(spoilt, "serve", "--detach", "--json", cwd=repository.path)
    assert done.returncode == 0, done.stderr
    pid = json.loads(done.stdout)["pid"]
    assert str(Path(f"/proc/{pid}/cwd").readlink()) == "/"
    assert os.getsid(pid) != os.getsid(0)
    streams = [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)]
    assert streams == [os.devnull, str(bridge_home / "run/controller.log"), str(bridge_home / "run/controller.log")]
    again = run(environment, "serve", "--detach", "--json")
    assert json.loads(again.stderr)["error"]["details"]["pid"] == pid


def test_one_that_is_started_on_demand_inherits_no_secret_and_no_repository(environment, bridge_home):
    spoilt = {**environment, "GIT_DIR": "/nonexistent", "BRIDGE_TOKEN": "t", "BRIDGE_SESSION": "s"}
    with connect_or_start(Endpoint(str(bridge_home)), spoilt) as client:
        inherited = Path(f"/proc/{client.pid}/environ").read_bytes().split(b"\0")
    names = {item.partition(b"=")[0] for item in inherited}
    assert {b"BRIDGE_HOME", b"PATH"} <= names
    assert names.isdisjoint({b"GIT_DIR", b"BRIDGE_TOKEN", b"BRIDGE_SESSION"})


def test_modules_are_not_taken_from_the_folder_a_client_stands_in(environment, bridge_home, tmp_path, monkeypatch):
    trap = tmp_path / "trap"
    (trap / "bridge").mkdir(parents=True)
    (trap / "bridge" / "__init__.py").write_text("raise SystemExit('trapped')")
    monkeypatch.chdir(trap)
    with connect_or_start(Endpoint(str(bridge_home)), environment) as client:
        assert client.call("admin/ping")


def test_one_that_cannot_start_says_why(environment, bridge_home):
    bridge_home.mkdir(parents=True)
    (bridge_home / "config.toml").write_text("nonsense = 1\n")
    with pytest.raises(ControllerUnavailable, match="unknown key"):
        connect_or_start(Endpoint(str(bridge_home)), environment)
    detached = run(environment, "serve", "--detach", "--json")
    assert json.loads(detached.stderr)["error"]["code"] == "invalid_configuration"


def test_a_store_of_a_newer_bridge_is_said_to_be_one(environment, bridge_home):
    run({**environment, "BRIDGE_CONTROLLER": "off"}, "session", "new")
    with sqlite3.connect(bridge_home / "bridge.db") as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '99'")
    connection.close()
    done = run(environment, "serve", "--detach", "--json")
    error = json.loads(done.stderr)["error"]
    assert done.returncode != 0
    assert error["code"] == "unsupported_schema_version"


def test_it_ends_by_itself(environment):
    with resident(environment, "--idle-timeout", "0.5") as controller:
        assert controller.wait()[0] == 0
        assert controller.endpoint.read_info() is None


def other_build(tmp_path: Path, version: str) -> Path:
    """The same code with another version, in a place of its own."""
    root = tmp_path / version
    shutil.copytree(ROOT / "bridge", root / "bridge", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "schema", root / "schema")
    init = root / "bridge" / "__init__.py"
    init.write_text(init.read_text().replace('"0.1.0"', f'"{version}"'))
    return root


def test_an_idle_older_one_is_replaced(environment, bridge_home, tmp_path):
    older = other_build(tmp_path, "0.0.9")
    with resident(environment, root=older) as controller:
        pid = controller.pid
        # Commands do their work by themselves rather than let yesterday's code answer.
        done = run(environment, "session", "new", "--json")
        assert done.returncode == 0, done.stderr
        with connect_or_start(Endpoint(str(bridge_home)), environment) as client:
            assert client.pid != pid
        assert controller.wait()[0] == 0


def test_a_newer_one_is_not_replaced_unless_asked(environment, bridge_home, tmp_path):
    newer = other_build(tmp_path, "0.9.0")
    with resident(environment, root=newer) as controller:
        with pytest.raises(RemoteError) as refused:
            connect_or_start(Endpoint(str(bridge_home)), environment)
        assert refused.value.code == "other_build"
        assert run(environment, "serve", "--detach").returncode == 214
        replaced = run(environment, "serve", "--replace", "--detach", "--json")
        assert replaced.returncode == 0, replaced.stderr
        assert controller.wait()[0] == 0
        assert json.loads(replaced.stdout)["pid"] != controller.pid


def test_status_and_stop(environment):
    assert run(environment, "serve", "--stop", "--json").stdout == b'{"stopped":false,"pid":null}\n'
    none = run(environment, "serve", "--status", "--json")
    assert (none.returncode, none.stdout) == (1, b'{"running":false}\n')
    with resident(environment) as controller:
        told = json.loads(run(environment, "serve", "--status", "--json").stdout)
        assert (told["running"], told["pid"], told["workers"]) == (True, controller.pid, [])
        assert str(controller.pid) in run(environment, "serve", "--status").stdout.decode()
        assert json.loads(run(environment, "serve", "--stop", "--json").stdout)["stopped"]
        assert controller.wait()[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--status", "--stop"),
        ("--status", "--replace"),
        ("--stop", "--detach"),
        ("--cancel-workers",),
        ("--status", "--idle-timeout", "5"),
    ],
)
def test_options_that_exclude_each_other(environment, words):
    assert run(environment, "serve", *words).returncode == 2


def answers(endpoint):
    try:
        Client.connect(endpoint).close()
    except ControllerUnavailable:
        return False
    return True


def test_a_command_may_leave_a_controller_behind_for_the_next(environment, bridge_home):
    done = run({**environment, "BRIDGE_CONTROLLER": "start"}, "session", "new", "--json")
    assert done.returncode == 0, done.stderr
    endpoint = Endpoint(str(bridge_home))
    first = until(endpoint.read_info)["pid"]
    until(lambda: answers(endpoint))
    # Also after one was killed, whose socket is still there.
    os.kill(first, signal.SIGKILL)
    until(lambda: not endpoint.is_held())
    assert run({**environment, "BRIDGE_CONTROLLER": "start"}, "session", "list").returncode == 0
    until(lambda: endpoint.read_info()["pid"] != first)
    answered = run({**environment, "BRIDGE_CONTROLLER": "required"}, "session", "list", "--json")
    assert len(json.loads(answered.stdout)) == 1


def test_a_command_may_insist_on_a_controller(environment, bridge_home):
    done = run({**environment, "BRIDGE_CONTROLLER": "required"}, "session", "list", "--json")
    assert (done.returncode, done.stdout) == (0, b"[]\n")
    assert Endpoint(str(bridge_home)).read_info() is not None


def test_a_mode_that_is_none_is_refused(environment):
    done = run({**environment, "BRIDGE_CONTROLLER": "sometimes"}, "session", "list", "--json")
    assert json.loads(done.stderr)["error"]["code"] == "invalid_configuration"


def test_config_toml_may_turn_it_off(environment, bridge_home):
    with resident(environment) as controller:
        (bridge_home / "config.toml").write_text('controller = "off"\n')
        # It was started with other settings, so clients are left to themselves, and it ends once nobody is there.
        done = run(environment, "session", "new", "--json")
        assert done.returncode == 0, done.stderr
        with Client.connect(controller.endpoint) as client:
            assert client.call("admin/ping")


def test_many_started_at_once_in_the_background_leave_one(environment, bridge_home):
    endpoint = Endpoint(str(bridge_home))
    for _ in range(3):
        start_in_background(endpoint, environment)
    info = until(endpoint.read_info)
    with connect_or_start(endpoint, environment) as client:
        assert client.pid == info["pid"]


def test_with_and_without_a_controller_at_once(environment, repository, database_url):
    """Commands in processes of their own and through the controller write to one store at the same time."""
    with resident(environment):
        session = json.loads(run(environment, "session", "new", "--json", cwd=repository.path).stdout)["id"]
        assert run(environment, "append", session, "--kind", "user.message", "--text", "go").returncode == 0
        words = [("append", session, "--kind", "note", "--text", f"{number}") for number in range(8)]
        for number in range(2):
            words += [("label", f"{session}.1", f"l{number}"), ("fork", f"{session}.1"), ("context", session)]
            words += [("tree", session), ("session", "list"), ("branches", session), ("root", session)]
        children = [
            subprocess.Popen(
                [sys.executable, "-c", MAIN, *line],
                env={**environment, "BRIDGE_CONTROLLER": ("off", "required")[number % 2]},
                cwd=repository.path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for number, line in enumerate(words)
        ]
        for child in children:
            _, err = child.communicate(timeout=200)
            assert child.returncode == 0, (child.args[3:], err)
        found = json.loads(run(environment, "log", session, "--json", cwd=repository.path).stdout)
        assert sorted(entry["payload"]["text"] for entry in found) == [*(str(number) for number in range(8)), "go"]
        listed = json.loads(run(environment, "session", "list", "--json", cwd=repository.path).stdout)
        assert len(listed) == 3
        assert run({**environment, "BRIDGE_CONTROLLER": "off"}, "verify").returncode == 0


def test_a_store_in_use_by_the_controller_is_not_replaced_under_it(environment, tmp_path):
    run({**environment, "BRIDGE_CONTROLLER": "off"}, "session", "new")
    backup = tmp_path / "backup"
    assert run(environment, "db", "backup", str(backup)).returncode == 0
    with resident(environment):
        done = run(environment, "db", "restore", str(backup), "--json")
        assert json.loads(done.stderr)["error"]["code"] == "database_busy"
        assert "serve --stop" in json.loads(done.stderr)["error"]["hint"]


# -- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", [True, False])
def test_a_place_whose_path_is_too_long_for_a_socket(environment, tmp_path, runtime):
    home = tmp_path / ("x" * MAX_SOCKET_PATH_BYTES)
    short = Path("/tmp") / f"bridge-test-{os.getpid()}"
    changes = {"BRIDGE_HOME": str(home)}
    if runtime:
        short.mkdir(mode=0o700)
        changes["XDG_RUNTIME_DIR"] = str(short)
    try:
        with resident({**environment, **changes}) as controller:
            place = str(controller.endpoint.find_socket())
            assert place.startswith(f"{short}/bridge/" if runtime else f"/tmp/bridge-{os.getuid()}/")
            # Clients find it also where that variable is another one.
            done = run({**environment, "BRIDGE_HOME": str(home), "BRIDGE_CONTROLLER": "required"}, "session", "list")
            assert done.returncode == 0, done.stderr
            controller.signal(signal.SIGTERM)
            controller.wait()
            assert not Path(place).exists()
    finally:
        shutil.rmtree(short, ignore_errors=True)


def test_a_folder_that_others_could_write_to_is_made_private(tmp_path):
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    make_private(tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(InvalidConfiguration):
        make_private(tmp_path / "link")


def test_a_state_directory_that_cannot_be_written_is_named(environment):
    done = run({**environment, "BRIDGE_HOME": "/proc/nothing"}, "serve", "--detach", "--json")
    assert json.loads(done.stderr)["error"]["code"] == "controller_unavailable"


def test_a_controller_that_hangs_holds_up_no_command(environment):
    with resident(environment) as controller:
        controller.signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            done = run(environment, "session", "list", "--json")
            assert (done.returncode, done.stdout) == (0, b"[]\n")
            assert time.monotonic() - begun < 60
        finally:
            controller.signal(signal.SIGCONT)
        assert controller.answers()


def test_one_that_is_killed_while_it_works_leaves_the_command_undecided(environment, repository):
    with resident(environment) as controller:
        session = json.loads(run(environment, "session", "new", "--json", cwd=repository.path).stdout)["id"]
        child = subprocess.Popen(
            [sys.executable, "-c", MAIN, "append", session, "--kind", "note", "--payload", "-", "--json"],
            env=environment,
            cwd=repository.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with Client.connect(controller.endpoint) as client:
            until(lambda: client.call("controller/status")["calls"])
        controller.signal(signal.SIGKILL)
        _, err = child.communicate(timeout=100)
        assert child.returncode == 224
        assert json.loads(err)["error"]["code"] == "controller_lost"


def test_a_controller_is_a_second_one_for_another_database(environment, bridge_home, tmp_path):
    other = {**environment, "BRIDGE_DATABASE_URL": f"sqlite:///{tmp_path}/other.db"}
    with resident(environment) as one, resident(other) as two:
        assert one.endpoint.name != two.endpoint.name
        assert one.answers()


def test_kills_amid_random_calls_lose_nothing_that_was_acknowledged(environment, repository):
    batter(environment, repository.path, rounds=3, clients=4, calls=100, seed=7)


def test_a_controller_with_a_real_worker_is_replaced_only_when_its_workers_may_be_ended(environment, repository):
    with (
        resident(environment) as controller,
        Client.connect(controller.endpoint, directory=str(repository.path)) as client,
    ):
        session = client.call("sessions/new")["id"]
        client.call("sessions/append", {"session": session, "kind": "user.message", "text": "sleep"})
        task = client.call(
            "delegations/request",
            {"session": session, "objective": "sleep", "name": "sleeper", "command": ["sleep", "1000"]},
        )["id"]
        worker = until(
            lambda: next(
                (child for child in psutil.Process(controller.pid).children(recursive=True) if child.name() == "sleep"),
                None,
            )
        )
        for words in (("serve", "--replace", "--detach"), ("serve", "--stop")):
            refused = run(environment, *words, "--json")
            error = json.loads(refused.stderr)["error"]
            assert (refused.returncode, error["code"]) == (215, "controller_busy")
            assert "sleeper" in error["message"]
            assert [one["id"] for one in error["details"]["workers"]] == [task]
        assert worker.is_running()

        replaced = run(environment, "serve", "--replace", "--cancel-workers", "--detach", "--json")
        assert replaced.returncode == 0, replaced.stderr
        assert controller.wait()[0] == 0
        assert not worker.is_running()
    with Client.connect(controller.endpoint, directory=str(repository.path)) as client:
        assert client.pid == json.loads(replaced.stdout)["pid"] != controller.pid
        ended = client.call("delegations/wait", {"task": task, "timeout_ms": 0})
        assert (ended["status"], ended["ended"]) == ("cancelled", True)
    shown = run(environment, "task", "show", task, "--json", cwd=repository.path)
    assert json.loads(shown.stdout)["status"] == "cancelled"
    assert run(environment, "verify").returncode == 0
