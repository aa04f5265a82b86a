"""Several processes append to one session file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from bridge.transcripts.sessionfile import SessionFile
from tests.sessionfiles import beside, create, user

WRITER = """
import sys
from bridge.transcripts.sessionfile import SessionFile, SessionTree
tree = SessionTree(SessionFile.load(sys.argv[1], lock_seconds=60))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    tree.append({"role": "user", "content": f"{sys.argv[2]} {number} " + "x" * (number % 5 * 12_000)})
    print(number, flush=True)
"""


def writer(path, name, count=50):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def begin(*processes):
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


@pytest.mark.timeout(120)
def test_fc_18_two_processes_append_at_once_and_every_entry_is_there(tmp_path):
    path = tmp_path / "x"
    root = create(path).append(None, user("root"))
    processes = [writer(path, name) for name in ("one", "two")]
    begin(*processes)
    for process in processes:
        process.communicate(timeout=100)
        assert process.returncode == 0
    entries = SessionFile.load(path).entries
    assert len(entries) == 101
    for name in ("one", "two"):
        mine = [entry for entry in entries if entry.message["content"].startswith(name)]
        assert [int(entry.message["content"].split()[1]) for entry in mine] == list(range(50))
        assert [entry.parent_id for entry in mine] == [root.id, *(entry.id for entry in mine[:-1])]
    assert beside(path) == []


@pytest.mark.timeout(120)
def test_fc_18_the_lock_of_a_killed_writer_keeps_nobody_out(tmp_path):
    path = tmp_path / "x"
    file = create(path)
    process = writer(path, "one", 4000)
    begin(process)
    told = [int(process.stdout.readline()) for _ in range(5)][-1]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    entries = SessionFile.load(path).entries
    assert len(entries) > told
    file.append(entries[-1].id, user("on"))
    assert len(SessionFile.load(path).entries) == len(entries) + 1
    assert beside(path) == []
