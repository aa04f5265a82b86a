"""Children that behave, children that do not, and the groups they lead. Real processes throughout."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from bridge.process import errors
from bridge.process.children import Child, EndReason, spawn
from bridge.process.identity import Marker, ProcessIdentity, group_members, identity_of, is_running

GRACE_SECONDS = 0.3
#: Ends by itself even if a test fails to end it.
SLEEP = "import time; time.sleep(20)"
IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "

Start = Callable[..., Awaitable[Child]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    async def start_child(*argv: str, **options: Any) -> Child:
        settings: dict[str, Any] = {
            "cwd": tmp_path,
            "environment": {"PATH": os.environ["PATH"]},
            "stdout_path": tmp_path / "stdout",
            "stderr_path": tmp_path / "stderr",
        }
        return await spawn(argv, **(settings | options))

    return start_child


def python(code: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", code)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(15):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await anyio.sleep(0.01)


def announced(path: Path) -> Callable[[], bool]:
    return lambda: path.exists() and path.read_text().endswith("\n")


async def test_output_goes_into_files_and_the_status_comes_back(start: Start, tmp_path: Path) -> None:
    child = await start("/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    ended = await child.wait(15)
    assert (ended.reason, ended.exit_status, ended.signal) == (EndReason.EXITED, 7, None)
    assert (tmp_path / "stdout").read_text() == "out\n"
    assert (tmp_path / "stderr").read_text() == "err\n"
    assert (tmp_path / "stdout").stat().st_mode & 0o777 == 0o600
    assert ended.output_bytes == 8
    assert ended.left_behind.found == ()


async def test_one_file_can_take_both_streams_and_keeps_what_it_held(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("earlier\n")
    child = await start("/bin/sh", "-c", "echo out; echo err >&2", stdout_path=log, stderr_path=log)
    assert (await child.wait(15)).output_bytes == 8
    assert log.read_text() == "earlier\nout\nerr\n"


async def test_child_reads_nothing_leads_its_own_session_and_sees_only_its_environment(
    start: Start, tmp_path: Path
) -> None:
    code = "import os, sys; print(repr(sys.stdin.read()), os.getpid() == os.getsid(0) == os.getpgid(0))"
    child = await start(*python(code + "; print(os.path.samefile('.', sys.argv[1]))"), str(tmp_path))
    await child.wait(15)
    assert (tmp_path / "stdout").read_text() == "'' True\nTrue\n"
    child = await start("/usr/bin/env", environment={"ONLY": "this"}, stdout_path=tmp_path / "env")
    await child.wait(15)
    assert (tmp_path / "env").read_text() == "ONLY=this\n"


async def test_death_by_signal_is_told_from_an_exit_status(start: Start) -> None:
    ended = await (await start("/bin/sh", "-c", "kill -9 $$")).wait(15)
    assert (ended.reason, ended.exit_status, ended.signal) == (EndReason.EXITED, None, 9)


async def test_waiting_twice_gives_the_same_answer(start: Start) -> None:
    child = await start("/bin/sh", "-c", "exit 3")
    first = await child.wait(15)
    assert await child.wait(15) == first
    assert await child.cancel() == first


async def test_time_limit_ends_the_child(start: Start) -> None:
    child = await start(*python(SLEEP))
    ended = await child.wait(0.05, grace_seconds=GRACE_SECONDS)
    assert ended.reason is EndReason.TIMED_OUT
    assert ended.signal is not None
    assert not is_running(child.identity)


async def test_cancel_lets_a_cooperative_child_finish(start: Start, tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(4)))\n"
        "print('ready', flush=True)\ntime.sleep(20)"
    )
    child = await start(*python(code))
    await until(announced(tmp_path / "stdout"))
    ended = await child.cancel(10)
    assert (ended.reason, ended.exit_status) == (EndReason.CANCELLED, 4)
    assert ended.left_behind.killed == ()
    assert (tmp_path / "stdout").read_text() == "ready\nsaved\n"


async def test_cancel_kills_a_child_that_ignores_sigterm(start: Start, tmp_path: Path) -> None:
    child = await start(*python(IGNORE_SIGTERM + "print('ready', flush=True); " + SLEEP))
    await until(announced(tmp_path / "stdout"))
    ended = await child.cancel(GRACE_SECONDS)
    assert (ended.reason, ended.signal) == (EndReason.CANCELLED, 9)
    assert ended.left_behind.killed == (child.identity,)


async def test_a_stopped_child_can_be_cancelled(start: Start, tmp_path: Path) -> None:
    child = await start("/bin/sh", "-c", "echo ready; kill -STOP $$; sleep 20")
    await until(announced(tmp_path / "stdout"))
    ended = await child.cancel(10)
    assert (ended.reason, ended.signal) == (EndReason.CANCELLED, 15)


async def test_the_waiting_task_learns_of_the_cancellation(start: Start, tmp_path: Path) -> None:
    child = await start("/bin/sh", "-c", "echo ready; sleep 20")
    await until(announced(tmp_path / "stdout"))
    seen: list[EndReason] = []

    async def wait() -> None:
        seen.append((await child.wait(15)).reason)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.lowlevel.checkpoint()
        assert (await child.cancel(GRACE_SECONDS)).reason is EndReason.CANCELLED
    assert seen == [EndReason.CANCELLED]


async def test_cancelling_the_wait_leaves_the_child_running(start: Start) -> None:
    child = await start(*python(SLEEP))
    with anyio.move_on_after(0.05) as scope:
        await child.wait()
    assert scope.cancelled_caught
    assert is_running(child.identity)
    await child.cancel(GRACE_SECONDS)


async def test_cancel_ends_grandchildren_that_ignore_sigterm(start: Start, tmp_path: Path) -> None:
    grandchild = IGNORE_SIGTERM + "import os; print(os.getpid(), flush=True); " + SLEEP
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {grandchild!r}])\n{SLEEP}"
    child = await start(*python(code))
    await until(announced(tmp_path / "stdout"))
    identity = identity_of(int((tmp_path / "stdout").read_text()))
    ended = await child.cancel(GRACE_SECONDS)
    assert identity is not None
    assert identity in ended.left_behind.killed
    assert not is_running(identity)
    assert group_members(child.pid) == []


async def test_grandchildren_do_not_outlive_a_leader_that_exits(start: Start, tmp_path: Path) -> None:
    child = await start("/bin/sh", "-c", "sleep 20 & echo $!; exit 0")
    ended = await child.wait(15, grace_seconds=GRACE_SECONDS)
    left = int((tmp_path / "stdout").read_text())
    assert (ended.reason, ended.exit_status) == (EndReason.EXITED, 0)
    assert [identity.pid for identity in ended.left_behind.found] == [left]
    assert not any(is_running(identity) for identity in ended.left_behind.found)


async def test_jobs_in_groups_of_their_own_are_ended_with_the_session(start: Start, tmp_path: Path) -> None:
    code = f"import os\nif os.fork() == 0:\n os.setpgid(0, 0)\n print(os.getpid(), flush=True)\n {SLEEP}\n{SLEEP}"
    child = await start(*python(code))
    await until(announced(tmp_path / "stdout"))
    identity = identity_of(int((tmp_path / "stdout").read_text()))
    await child.cancel(GRACE_SECONDS)
    assert identity is not None
    assert not is_running(identity)


async def test_a_daemon_that_left_the_session_is_found_by_its_marker(start: Start, tmp_path: Path) -> None:
    code = f"import os\nif os.fork() == 0:\n os.setsid()\n print(os.getpid(), flush=True)\n {SLEEP}\n"
    child = await start(*python(code + "import time; time.sleep(0.2)"), marker=Marker(secrets.token_hex(8)))
    await until(announced(tmp_path / "stdout"))
    daemon = identity_of(int((tmp_path / "stdout").read_text()))
    ended = await child.wait(15, grace_seconds=GRACE_SECONDS)
    assert daemon in ended.left_behind.found
    assert isinstance(daemon, ProcessIdentity)
    assert not is_running(daemon)


@pytest.mark.parametrize(("extra", "reason"), [(0, EndReason.EXITED), (1, EndReason.OUTPUT_LIMIT)])
async def test_output_limit_at_its_edge(start: Start, tmp_path: Path, extra: int, reason: EndReason) -> None:
    limit = 5000
    code = f"import sys; sys.stdout.write('o' * 2000); sys.stderr.write('e' * {limit - 2000 + extra})"
    ended = await (await start(*python(code), output_limit_bytes=limit)).wait(15)
    assert (ended.reason, ended.output_bytes) == (reason, limit + extra)
    assert (tmp_path / "stdout").stat().st_size == 2000
    assert (tmp_path / "stderr").stat().st_size == 3000


async def test_a_child_that_never_stops_writing_is_ended(start: Start, tmp_path: Path) -> None:
    code = "import time\nwhile True:\n print('x' * 1000, flush=True); time.sleep(0.001)"
    ended = await (await start(*python(code), output_limit_bytes=10_000)).wait(15, grace_seconds=GRACE_SECONDS)
    assert ended.reason is EndReason.OUTPUT_LIMIT
    assert (tmp_path / "stdout").stat().st_size == 10_000


async def test_a_deleted_log_is_measured_all_the_same(start: Start) -> None:
    code = "import os, time\nos.unlink('stdout')\nprint('x' * 20_000, flush=True)\ntime.sleep(20)"
    ended = await (await start(*python(code), output_limit_bytes=10_000)).wait(15, grace_seconds=GRACE_SECONDS)
    assert ended.reason is EndReason.OUTPUT_LIMIT


async def test_typed_errors_when_nothing_can_be_started(start: Start, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program\n")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x00\x01\x02")
    binary.chmod(0o755)
    with pytest.raises(errors.ProgramNotFound):
        await start("no-such-program-anywhere")
    with pytest.raises(errors.ProgramNotFound):
        await start(str(script))
    with pytest.raises(errors.ProgramNotFound):
        await start()
    with pytest.raises(errors.ProgramNotExecutable):
        await start(str(plain))
    with pytest.raises(errors.ProgramNotExecutable):
        await start(str(binary))
    with pytest.raises(errors.ProgramNotExecutable):
        await start(str(tmp_path))
    with pytest.raises(errors.WorkingDirectoryMissing):
        await start("true", cwd=tmp_path / "missing")
    with pytest.raises(errors.WorkingDirectoryMissing):
        await start("true", cwd=plain)
    with pytest.raises(errors.SpawnFailed):
        await start("true", "a\x00b")
    with pytest.raises(errors.SpawnFailed):
        await start("true", "a" * 10_000_000)
    with pytest.raises(errors.SpawnFailed):
        await start("true", stdout_path=tmp_path / "missing" / "stdout")


async def test_many_children_at_once(start: Start, tmp_path: Path) -> None:
    statuses: list[int | None] = []

    async def one(number: int) -> None:
        child = await start("/bin/sh", "-c", f"sleep 0.1; exit {number}", stdout_path=tmp_path / f"out{number}")
        statuses.append((await child.wait(30)).exit_status)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    assert sorted(status for status in statuses if status is not None) == list(range(20))
