"""Whole reports after commands that move HEAD: how HEAD lies, which paths differ, and what people and agents read."""

from __future__ import annotations

import pytest

from bridge.foundation.clock import SystemClock
from bridge.git.observe import observe
from bridge.storage.store import Store
from bridge.workspaces.divergence import compare
from bridge.workspaces.store import load_manifest, load_state, save_state

MOMENT = "2026-01-02T03:04:05.000000Z"
TABLES = ("repository_states", "manifests", "manifest_pages")


def look(repository):
    return observe(repository.path, clock=SystemClock(), include_unobserved=True)


def amend(repository):
    repository.git("commit", "-q", "--amend", "-m", "better words")


def rebase(repository):
    repository.git("rebase", "-q", "main")


def squash(repository):
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--squash", "topic")
    repository.git("commit", "-q", "-m", "topic (#1)")


def reset(repository):
    repository.git("reset", "-q", "--hard", "HEAD~1")


def switch(repository):
    repository.git("checkout", "-q", "main")


def lose(repository):
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "-q", "--prune=now")


def orphan(repository):
    repository.git("checkout", "-q", "--orphan", "fresh")
    repository.commit("start", c_txt="c\n")


CASES = {
    amend: ("rewritten", [], True),
    rebase: ("rewritten", ["main.txt"], True),
    squash: ("rewritten", ["main.txt"], True),
    reset: ("behind", ["two.txt"], True),
    switch: ("diverged", ["main.txt", "one.txt", "two.txt"], True),
    lose: ("missing", [], False),
    orphan: ("unrelated", ["c.txt", "untracked.txt"], True),
}


@pytest.fixture
def topic(repository):
    """A branch ``topic`` of two commits that is checked out, a ``main`` that moved on, and uncommitted work."""
    repository.git("checkout", "-q", "-b", "topic")
    for name in ("one", "two"):
        repository.write(f"{name}.txt", f"{name}\n")
        repository.commit(name)
    repository.git("checkout", "-q", "main")
    repository.write("main.txt", "main\n")
    repository.commit("main")
    repository.git("checkout", "-q", "topic")
    repository.write("untracked.txt", "u\n")
    return repository


@pytest.mark.parametrize("event", list(CASES), ids=lambda event: event.__name__)
def test_the_stored_stamp_is_compared_and_stays_byte_for_byte(topic, bridge_home, event):
    relation, paths, is_complete = CASES[event]
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as store:
        then = look(topic)
        digest = store.write(lambda tx: save_state(tx, then, MOMENT))
        before = rows(store)
        event(topic)
        with store.read() as connection:
            state, manifest = load_state(connection, digest), load_manifest(connection, then.state.dirty_hash)
        report = compare(state, manifest, look(topic))
        # What is there now is stored beside what was, as an append would.
        store.write(lambda tx: save_state(tx, look(topic), MOMENT))
        after = rows(store)
    assert {table: [row for row in after[table] if row in before[table]] for table in TABLES} == before
    value = report.to_json()
    assert value["divergence"] == "diverged"
    assert value["head"]["relation"] == relation
    assert (value["head"]["then"], value["head"]["now"]) == (then.state.head, topic.head())
    assert [path["path"] for path in value["paths"]] == paths
    assert value["paths_complete"] is is_complete


def rows(store):
    with store.read() as connection:
        return {
            table: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1")]
            for table in TABLES
        }
