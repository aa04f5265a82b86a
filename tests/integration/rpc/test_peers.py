"""Who may be the operator at the controller's socket: a worker's processes may not, whatever they drop."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from bridge.process.confinement import Confinement, available, confined
from bridge.process.identity import MARKER_VARIABLE
from bridge.rpc.resident.peers import is_workers, peer_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which process is at the other end")

#: Says its pid on a line and lives until its input ends; started by what is in front of it.
SAY = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


def judged(*before, environment=None, confinement=None):
    """Start a process, behind others, and return whether it is taken for a worker's."""
    argv = [*before, sys.executable, "-c", SAY]

    def start():
        return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    process = start() if confinement is None else confined(confinement, start)
    try:
        return is_workers(int(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_the_mark_is_seen_also_where_a_child_drops_it():
    plain = {"PATH": os.environ["PATH"]}
    assert not judged(environment=plain)
    assert judged(environment={**plain, MARKER_VARIABLE: "d1-1"})
    # The shell keeps the mark, what it starts has none.
    line = 'env -i "$@"; exit'
    assert judged("/bin/sh", "-c", line, "sh", environment={**plain, MARKER_VARIABLE: "d1-1"})


@pytest.mark.skipif(available() is not None, reason="this kernel has no Landlock")
def test_a_confined_process_without_a_mark_and_without_its_parents_is_known_all_the_same():
    plain = {"PATH": os.environ["PATH"]}
    assert judged(environment=plain, confinement=Confinement())
    assert judged("setsid", "--fork", environment=plain, confinement=Confinement())


def test_the_process_at_the_other_end_is_told(tmp_path):
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen()
        client.connect(path)
        peer, _ = listener.accept()
        with peer:
            assert peer_process(peer) == os.getpid()
