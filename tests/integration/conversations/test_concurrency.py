"""Several processes on one file: nothing lost, nothing doubled, no chain forked."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridge.conversations import paths, store
from bridge.integrity.verify import verify_session

SCRIPT = Path(__file__).with_name("appending.py")
ROOT = Path(__file__).parents[3]


def start(forest, session_id, count, mode, name, *more):
    arguments = [sys.executable, str(SCRIPT), forest.url, session_id, str(count), mode, name, *more]
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
    )


def finish(children):
    results = [child.communicate(timeout=110) for child in children]
    assert [child.returncode for child in children] == [0] * len(children), results
    return [out.split() for out, _ in results]


def texts(path):
    return [entry.payload["text"][:40].rstrip("x") for entry in path]


def test_two_processes_that_expect_the_head_make_one_path(forest):
    s = forest.session()
    finish([start(forest, s, 200, "expect", name) for name in ("a", "b")])
    with forest.store.read() as connection:
        path = paths.active_path(connection, s)
        nodes = store.list_nodes(connection, s)
        report = verify_session(connection, s)
    assert [node.sequence for node in nodes] == list(range(401))
    assert sorted(texts(path)) == sorted(f"{name} {n}" for name in "ab" for n in range(200))
    for name in "ab":
        assert [text for text in texts(path) if text.startswith(name)] == [f"{name} {n}" for n in range(200)]
    assert report.is_valid, report
    assert report.checked == 401 + 401


def test_with_explicit_parents_the_head_never_leaves_its_branch(forest):
    s = forest.session()
    first = forest.say(s, "u1")
    mine = forest.say(s, "u2")
    forest.recorder.move_head(s, first.id)
    children = [start(forest, s, 200, "branch", name, first.id) for name in ("a", "b")]
    finish(children)
    with forest.store.read() as connection:
        head = store.get_head(connection, s).entry_id
        on_path = texts(paths.active_path(connection, s))
        nodes = store.list_nodes(connection, s)
        leaves = [node.id for node in paths.leaves(connection, s)]
        branches = [texts(paths.path_to(connection, leaf)) for leaf in leaves]
    # The first append under the head took the head along; from then on the head's branch is that writer's.
    (winner,) = {text[0] for text in on_path[1:]}
    assert on_path == ["u1"] + [f"{winner} {n}" for n in range(200)]
    assert head in leaves
    assert branches[0] == ["u1", "u2"]
    assert sorted(branch[1:] for branch in branches[1:]) == [[f"{name} {n}" for n in range(200)] for name in "ab"]
    assert [node.sequence for node in nodes] == list(range(403))
    assert mine.id == leaves[0]


def test_fc_18_two_writers_of_one_session_with_large_entries(forest):
    s = forest.session()
    finish([start(forest, s, 50, "large", name) for name in ("a", "b")])
    with forest.store.read() as connection:
        path = paths.active_path(connection, s)
        assert verify_session(connection, s).is_valid
        assert paths.branches(connection, s) == []
    assert sorted(texts(path)) == sorted(f"{name} {n}" for name in "ab" for n in range(50))
    assert sum(len(entry.payload_text) > 100_000 for entry in path) == 10


def test_fc_18_a_killed_writer_leaves_no_lock_behind(forest):
    s = forest.session()
    child = start(forest, s, 100_000, "plain", "killed")
    deadline = time.monotonic() + 60
    while forest.head(s).endswith("-000000"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    forest.say(s, "u after")
    with forest.store.read() as connection:
        assert texts(paths.active_path(connection, s, last=1)) == ["u after"]
        assert verify_session(connection, s).is_valid


@pytest.mark.timeout(300)
def test_fc_65_eight_processes_do_not_fork_the_chain(forest):
    s = forest.session()
    finish([start(forest, s, 100, "plain", f"p{number}") for number in range(8)])
    forest.reopen()
    with forest.store.read() as connection:
        report = verify_session(connection, s)
        assert len(paths.active_path(connection, s)) == 800
        ordinals = connection.exec_driver_sql("SELECT ordinal FROM audit_events ORDER BY ordinal").scalars().all()
        previous = connection.exec_driver_sql("SELECT count(DISTINCT event_hash) FROM audit_events").scalar()
    assert report.is_valid, report
    assert ordinals == list(range(801))
    assert previous == 801
