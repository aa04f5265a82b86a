"""What a confined child may write, and that the controller stays as free as it was. Real processes throughout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bridge.process import confinement as module
from bridge.process.children import EndReason, spawn, spawn_piped
from bridge.process.confinement import (
    Confinement,
    Notice,
    available,
    confined,
    is_privileges_sealed,
    landlock_abi,
    notices,
)
from bridge.process.errors import ConfinementUnavailable, ProgramNotFound

needs_landlock = pytest.mark.skipif(available() is not None, reason="this kernel has no Landlock")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "kept").write_text("kept\n")
    return own, other


async def run(line: str, tmp_path: Path, confinement: Confinement | None) -> tuple[int | None, str]:
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    child = await spawn(
        ["/bin/sh", "-c", line],
        cwd=tmp_path,
        environment={"PATH": os.environ["PATH"]},
        stdout_path=log,
        stderr_path=log,
        confinement=confinement,
    )
    ended = await child.wait(30)
    assert ended.reason is EndReason.EXITED
    return ended.exit_status, log.read_text()


@needs_landlock
@pytest.mark.anyio
async def test_only_the_named_places_can_be_written(places: tuple[Path, Path], tmp_path: Path) -> None:
    own, other = places
    only = Confinement((own, tmp_path / "missing"))
    line = (
        f"mkdir {own}/a {own}/b && echo x > {own}/a/f && mv {own}/a/f {own}/b/g && rm -r {own}/a && echo y > /dev/null"
    )
    assert await run(line, tmp_path, only) == (0, "")
    for refused in (
        f"echo x > {other}/new",
        f"echo x >> {other}/kept",
        f"mkdir {other}/folder",
        f"rm {other}/kept",
        f"mv {other}/kept {own}/kept",
        f"ln -s x {other}/link",
        f"ln {other}/kept {own}/linked",
        f"truncate -s 0 {other}/kept",
        f"{sys.executable} -c 'import os; os.truncate(\"{other}/kept\", 0)'",
    ):
        status, words = await run(refused, tmp_path, only)
        assert status != 0, refused
        assert "denied" in words or "not permitted" in words or "cross-device" in words.lower(), words
    assert await run(f"cat {other}/kept", tmp_path, only) == (0, "kept\n")
    assert [path.name for path in other.iterdir()] == ["kept"]
    # Neither this thread nor one started later is any less free.
    (other / "free").write_text("free")
    assert await run(f"rm {other}/free", tmp_path, None) == (0, "")


@needs_landlock
@pytest.mark.anyio
async def test_what_a_confined_child_starts_is_confined_as_well(places: tuple[Path, Path], tmp_path: Path) -> None:
    own, other = places
    line = f"setsid env -i /bin/sh -c 'echo x > {other}/late' & wait; test ! -e {other}/late"
    status, words = await run(line, tmp_path, Confinement((own,)))
    assert (status, "denied" in words) == (0, True)


@needs_landlock
@pytest.mark.anyio
async def test_a_child_that_is_spoken_to_is_confined_too(places: tuple[Path, Path], tmp_path: Path) -> None:
    piped = await spawn_piped(
        ["/bin/sh", "-c", f"echo x > {places[1]}/new"],
        cwd=tmp_path,
        environment={"PATH": os.environ["PATH"]},
        stderr_path=tmp_path / "err",
        confinement=Confinement((places[0],)),
    )
    ended = await piped.child.wait(30)
    for end in (piped.input_descriptor, piped.output_descriptor):
        os.close(end)
    assert ended.exit_status != 0
    assert not (places[1] / "new").exists()


@pytest.mark.skipif(landlock_abi() < module.NETWORK_ABI, reason="this kernel's Landlock knows no network")
@pytest.mark.anyio
async def test_an_offline_child_neither_connects_nor_listens(tmp_path: Path) -> None:
    code = """
import socket
for call in ("bind", "connect"):
    with socket.socket() as one:
        try:
            getattr(one, call)(("127.0.0.1", 9 if call == "connect" else 0))
        except OSError as error:
            print(call, type(error).__name__)
        else:
            print(call, "done")
"""
    line = f"{sys.executable} -c '{code.replace(chr(39), chr(34))}'"
    assert await run(line, tmp_path, Confinement((), is_offline=True)) == (
        0,
        "bind PermissionError\nconnect PermissionError\n",
    )
    assert await run(line, tmp_path, Confinement(())) == (0, "bind done\nconnect ConnectionRefusedError\n")


@pytest.mark.skipif(landlock_abi() < module.SCOPE_ABI, reason="this kernel's Landlock lets signals through")
@pytest.mark.anyio
async def test_a_confined_child_cannot_signal_others_and_can_be_ended(tmp_path: Path) -> None:
    assert (await run(f"kill -0 {os.getpid()}", tmp_path, Confinement(())))[0] != 0
    child = await spawn(
        ["/bin/sleep", "60"],
        cwd=tmp_path,
        environment={},
        stdout_path=tmp_path / "out",
        stderr_path=tmp_path / "err",
        confinement=Confinement(()),
    )
    assert (await child.cancel(5)).signal == signal.SIGTERM


@needs_landlock
@pytest.mark.anyio
async def test_a_program_that_is_missing_is_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(ProgramNotFound):
        await spawn(
            ["no-such-program"],
            cwd=tmp_path,
            environment={"PATH": os.environ["PATH"]},
            stdout_path=tmp_path / "out",
            stderr_path=tmp_path / "err",
            confinement=Confinement(()),
        )
    assert "bridge-confined-start" not in {thread.name for thread in threading.enumerate()}


@needs_landlock
def test_confined_processes_can_gain_no_privileges_and_are_known_by_it(tmp_path: Path) -> None:
    process = confined(Confinement(()), lambda: subprocess.Popen(["/bin/sleep", "60"]))
    try:
        assert is_privileges_sealed(process.pid) is True
    finally:
        process.kill()
        process.wait()
    assert is_privileges_sealed(2**22 + 1) is None


def test_without_landlock_nothing_is_started_and_the_notice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "landlock_abi", lambda: module.MIN_ABI - 1)
    assert available() is Notice.LANDLOCK_UNAVAILABLE
    assert notices(Confinement(is_offline=True)) == (Notice.LANDLOCK_UNAVAILABLE, Notice.NETWORK_UNENFORCED)
    called: list[int] = []
    with pytest.raises(ConfinementUnavailable):
        confined(Confinement(), lambda: called.append(1))
    assert called == []


def test_the_oldest_kernel_that_serves_cannot_keep_the_network_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "landlock_abi", lambda: module.MIN_ABI)
    assert available() is None
    assert notices(Confinement(is_offline=True)) == (Notice.NETWORK_UNENFORCED,)
    assert notices(Confinement()) == ()
