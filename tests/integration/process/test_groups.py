"""Ending what another controller started: its children, by identity, group and marker."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.process.groups import EndReport, end_group, end_marked, find_by_environment
from bridge.process.identity import Marker, identity_of, is_running

GRACE_SECONDS = 0.3


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def start(
    children: list[subprocess.Popen[bytes]], command: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], **(environment or {})},
    )
    children.append(process)
    return process


def start_python(children: list[subprocess.Popen[bytes]], code: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
    children.append(process)
    return process


def until_file(path: Path) -> str:
    deadline = time.monotonic() + 15
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def test_identity_of_nobody_is_none() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert identity_of(process.pid) is None
    assert identity_of(0) is None
    assert identity_of(-1) is None


def test_identity_is_stable_and_same_from_another_process(children: list[subprocess.Popen[bytes]]) -> None:
    process = start(children, "sleep 20")
    identity = identity_of(process.pid)
    code = f"from bridge.process.identity import identity_of; print(repr(identity_of({process.pid}).start_time))"
    seen = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert identity is not None
    assert float(seen.stdout) == identity.start_time
    assert is_running(identity)


def test_a_reused_pid_is_not_the_recorded_process(children: list[subprocess.Popen[bytes]]) -> None:
    identity = identity_of(start(children, "sleep 20").pid)
    assert identity is not None
    assert not is_running(replace(identity, start_time=identity.start_time - 0.01))


def test_a_zombie_is_not_running(children: list[subprocess.Popen[bytes]]) -> None:
    process = start(children, "exit 0")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    identity = identity_of(process.pid)
    assert identity is not None
    assert not is_running(identity)


async def test_a_reused_pid_is_not_signalled(children: list[subprocess.Popen[bytes]]) -> None:
    process = start(children, "sleep 20")
    identity = identity_of(process.pid)
    assert identity is not None
    earlier = replace(identity, start_time=identity.start_time - 5)
    assert await end_group(earlier, grace_seconds=GRACE_SECONDS) == EndReport()
    assert is_running(identity)


async def test_group_is_ended_with_its_leader(children: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    process = start(children, f"sleep 20 & echo $! > {tmp_path}/pid; wait")
    inner = identity_of(int(until_file(tmp_path / "pid")))
    identity = identity_of(process.pid)
    assert identity is not None
    assert inner is not None
    report = await end_group(identity, grace_seconds=GRACE_SECONDS)
    assert set(report.found) == {identity, inner}
    assert report.survivors == ()
    assert not is_running(inner)


@pytest.mark.parametrize("is_marked", [False, True])
async def test_group_is_ended_after_its_leader_is_gone(
    children: list[subprocess.Popen[bytes]], tmp_path: Path, is_marked: bool
) -> None:
    marker = Marker(secrets.token_hex(8)) if is_marked else None
    process = start(
        children,
        f"trap '' TERM; sleep 20 & echo $! > {tmp_path}/pid; sleep 0.2",
        {marker.name: marker.value} if marker else None,
    )
    identity = identity_of(process.pid)
    inner = identity_of(int(until_file(tmp_path / "pid")))
    process.wait()
    assert identity is not None
    assert inner is not None
    assert identity_of(process.pid) is None
    assert is_running(inner)
    report = await end_group(identity, grace_seconds=GRACE_SECONDS, marker=marker)
    assert report == EndReport(found=(inner,), killed=(inner,))
    assert not is_running(inner)


async def test_a_leaderless_group_without_the_marker_is_left_alone(
    children: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start(children, f"sleep 20 & echo $! > {tmp_path}/pid; sleep 0.1")
    identity = identity_of(process.pid)
    inner = identity_of(int(until_file(tmp_path / "pid")))
    process.wait()
    assert identity is not None
    assert inner is not None
    assert await end_group(identity, grace_seconds=GRACE_SECONDS, marker=Marker("somebody-else")) == EndReport()
    assert is_running(inner)


async def test_an_unrecorded_child_is_found_and_ended_by_its_marker(children: list[subprocess.Popen[bytes]]) -> None:
    marker = Marker(secrets.token_hex(8))
    process = start(children, "exec sleep 20", {marker.name: marker.value})
    start(children, "exec sleep 20", {marker.name: marker.value + "-other"})
    identity = identity_of(process.pid)
    assert await find_by_environment(marker.name, marker.value) == [identity]
    report = await end_marked(marker, grace_seconds=GRACE_SECONDS)
    assert report.found == (identity,)
    assert await find_by_environment(marker.name, marker.value) == []


async def test_nothing_to_end_is_an_empty_report() -> None:
    assert await end_marked(Marker("nobody")) == EndReport()


async def test_orphans_of_a_killed_controller_are_found_and_ended(
    children: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    marker = Marker(secrets.token_hex(8))
    code = f"""
import anyio
from pathlib import Path
from bridge.process.children import spawn
from bridge.process.identity import Marker
here = Path({str(tmp_path)!r})
async def main():
    child = await spawn(["/bin/sh", "-c", "sleep 20 & echo $! > pid; wait"],
                        cwd=here, environment={{"PATH": "/bin:/usr/bin"}}, stdout_path=here / "out",
                        stderr_path=here / "err", marker=Marker({marker.value!r}))
    (here / "leader").write_text(f"{{child.pid}}\\n")
    await child.wait()
anyio.run(main)
"""
    controller = start_python(children, code)
    leader = identity_of(int(until_file(tmp_path / "leader")))
    inner = identity_of(int(until_file(tmp_path / "pid")))
    controller.kill()
    controller.wait()
    assert leader is not None
    assert inner is not None
    assert is_running(leader)
    assert set(await find_by_environment(marker.name, marker.value)) == {leader, inner}
    report = await end_group(leader, grace_seconds=GRACE_SECONDS, marker=marker)
    assert set(report.found) == {leader, inner}
    assert report.survivors == ()
    assert not is_running(inner)
