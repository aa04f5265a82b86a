"""Reading along the parents, over forks and branches."""

from __future__ import annotations

import pytest

from bridge.conversations import paths, store
from bridge.conversations.errors import EntryNotFound, PathBroken, SessionNotFound
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.errors import InvalidId
from tests.databases import unguarded


def snapshot(forest):
    with forest.store.read() as connection:
        return connection.exec_driver_sql("SELECT * FROM session_entries ORDER BY session_id, sequence").all()


def test_fc_05_ancestry_follows_parents_whatever_ids_and_times_say(forest):
    s = forest.session()
    z9 = forest.append(s, "note", text="z9", external_id="z9", created_at="2026-03-01T00:00:00Z")
    decoy = forest.append(s, "note", text="b7", external_id="b7", parent_entry_id=f"{s}-000000")
    a1 = forest.append(s, "note", text="a1", external_id="a1", created_at="2026-01-01T00:00:00Z", parent_entry_id=z9.id)
    forest.append(s, "note", text="x", parent_entry_id=decoy.id)
    m5 = forest.append(s, "note", text="m5", external_id="m5", created_at="2026-02-01T00:00:00Z", parent_entry_id=a1.id)
    with forest.store.read() as connection:
        whole = [entry.external_id for entry in paths.ancestors(connection, m5.id, limit=100)]
        paged, at = [], m5.id
        while at is not None:
            (entry,) = paths.ancestors(connection, at, limit=1)
            paged.append(entry.external_id)
            at = paths.parent_of(connection, entry)
    assert whole == paged == ["m5", "a1", "z9"]


def test_fc_05_pages_go_on_over_a_fork(forest):
    s = forest.session()
    forest.say(s, "u1")
    a1 = forest.say(s, "a1")
    fork = forest.recorder.fork(a1.id, NewSession()).id
    forest.say(fork, "u9")
    last = forest.say(fork, "a9")
    with forest.store.read() as connection:
        for size in (1, 2, 3, 4, 5):
            seen, at = [], last.id
            while at is not None:
                page = paths.ancestors(connection, at, limit=size)
                seen += [entry.payload["text"] for entry in page]
                at = paths.parent_of(connection, page[-1])
            assert seen == ["a9", "u9", "a1", "u1"]


def test_fc_06_a_fork_shares_what_came_before_and_nothing_after(forest):
    s = forest.session()
    said = [forest.say(s, text) for text in ("u1", "a1", "u2", "a2", "u3", "a3")]
    fork = forest.recorder.fork(said[1].id, NewSession(parent_session_id=s, parent_relation="forked"))
    assert forest.texts(fork.id) == ["u1", "a1"]
    forest.say(fork.id, "u9")
    forest.reopen()
    assert forest.texts(fork.id) == ["u1", "a1", "u9"]
    assert forest.texts(s) == ["u1", "a1", "u2", "a2", "u3", "a3"]
    with forest.store.read() as connection:
        assert paths.active_path(connection, fork.id)[:2] == said[:2]
        root = store.get_listed_at(connection, fork.id, 0)
        assert root.payload == {"forked_from": {"entry_id": said[1].id, "entry_hash": said[1].entry_hash}}
        assert paths.belongs_to_session(connection, fork.id, said[0].id)
        assert paths.lies_on_active_path(connection, fork.id, said[1].id)
        assert not paths.belongs_to_session(connection, fork.id, said[2].id)
        assert [entry.payload["text"] for entry in paths.active_path(connection, fork.id, last=2)] == ["a1", "u9"]
        assert [node.sequence for node in paths.path_nodes(connection, f"{fork.id}-000001")] == [0, 1, 2, 0, 1]


def test_forks_of_forks(forest):
    at = forest.say(forest.session(), "u0")
    for number in range(1, 6):
        session = forest.recorder.fork(at.id, NewSession()).id
        at = forest.say(session, f"u{number}")
        forest.say(session, f"a{number} after")
    assert forest.texts(at.session_id, at.id) == [f"u{number}" for number in range(6)]


def test_the_number_of_forks_on_a_path_at_its_edge(forest, monkeypatch):
    at = forest.say(forest.session(), "u0")
    for number in range(1, 4):
        at = forest.say(forest.recorder.fork(at.id, NewSession()).id, f"u{number}")
    monkeypatch.setattr(paths, "MAX_FORK_DEPTH", 4)
    assert len(forest.texts(at.session_id)) == 4
    monkeypatch.setattr(paths, "MAX_FORK_DEPTH", 3)
    with pytest.raises(PathBroken, match="3 forks"):
        forest.texts(at.session_id)


def test_fc_07_editing_an_old_prompt_keeps_the_old_path(forest):
    s = forest.session()
    u1, a1, u2, a2 = (forest.say(s, text) for text in ("u1", "a1", "u2", "a2"))
    before = snapshot(forest)
    u2b = forest.say(s, "u2b", parent_entry_id=a1.id)
    forest.recorder.move_head(s, u2b.id)
    a2b = forest.say(s, "a2b")
    forest.reopen()
    with forest.store.read() as connection:
        (point,) = paths.branches(connection, s)
        assert [leaf.id for leaf in paths.leaves(connection, s)] == [a2.id, a2b.id]
    assert point.entry_id == a1.id
    assert [(branch.first_entry_id, branch.leaf_entry_id, branch.is_active) for branch in point.branches] == [
        (u2.id, a2.id, False),
        (u2b.id, a2b.id, True),
    ]
    assert forest.texts(s, a2.id) == ["u1", "a1", "u2", "a2"]
    assert forest.texts(s, a2b.id) == ["u1", "a1", "u2b", "a2b"]
    assert [row for row in snapshot(forest) if row in before] == before
    assert u1.sequence == 1


def test_only_conversational_forks_are_branch_points(forest):
    s = forest.session()
    u1 = forest.say(s, "u1")
    forest.say(s, "a1")
    forest.append(s, "usage.updated", payload={"tokens": {"input": 1}}, parent_entry_id=u1.id)
    started = forest.append(s, "turn.started", payload={"turn_id": "t"}, parent_entry_id=u1.id)
    with forest.store.read() as connection:
        assert paths.branches(connection, s) == []
        (everything,) = paths.branches(connection, s, include_all=True)
    assert len(everything.branches) == 3
    forest.say(s, "a2", parent_entry_id=started.id)
    with forest.store.read() as connection:
        (point,) = paths.branches(connection, s)
    assert [branch.first_entry_id for branch in point.branches] == [f"{s}-000002", started.id]
    assert [branch.entries for branch in point.branches] == [1, 2]


def test_fc_40_what_an_abandoned_branch_got_stays_there(forest):
    s = forest.session()
    u1 = forest.say(s, "u1")
    t1 = forest.append(s, "delegation.requested", payload={"delegation_id": "t1"})
    forest.recorder.transact(lambda r: r.open_cursor(s, "delegation:t1"))
    result = {"delegation_id": "t1", "status": "completed", "summary": "ONE"}
    r1 = forest.append(s, "worker.result", payload=result, cursor="delegation:t1")
    forest.recorder.move_head(s, u1.id)
    u2 = forest.say(s, "u2")
    late = forest.append(s, "worker.result", payload={**result, "summary": "late"}, cursor="delegation:t1")

    def kinds(leaf=None):
        with forest.store.read() as connection:
            path = paths.active_path(connection, s) if leaf is None else paths.path_to(connection, leaf)
        return [entry.kind for entry in path]

    for _ in range(2):
        assert kinds() == ["user.message", "user.message"]
        assert forest.head(s) == u2.id
        assert late.parent_entry_id == r1.id
        with forest.store.read() as connection:
            assert not paths.lies_on_active_path(connection, s, r1.id)
            assert paths.belongs_to_session(connection, s, r1.id)
        forest.reopen()
    forest.recorder.move_head(s, late.id)
    assert kinds() == ["user.message", "delegation.requested", "worker.result", "worker.result"]
    assert t1.parent_entry_id == u1.id


def test_fc_42_later_results_do_not_replace_earlier_ones(forest):
    s = forest.session()
    forest.append(s, "delegation.requested", payload={"delegation_id": "t1"})
    rounds = [
        forest.append(s, "worker.result", payload={"delegation_id": "t1", "status": "completed", "summary": text})
        for text in ("ONE", "TWO", "THREE")
    ]
    forest.reopen()
    with forest.store.read() as connection:
        read = paths.active_path(connection, s)[1:]
    assert [entry.payload["summary"] for entry in read] == ["ONE", "TWO", "THREE"]
    assert read == rounds
    assert len({entry.entry_hash for entry in read}) == 3


def test_the_last_entries(forest):
    s = forest.session()
    for number in range(5):
        forest.say(s, f"u{number}")
    with forest.store.read() as connection:
        for last in range(8):
            texts = [entry.payload["text"] for entry in paths.active_path(connection, s, last=last)]
            assert texts == [f"u{number}" for number in range(5)][max(0, 5 - last) :]


def test_the_shape_without_bodies(forest):
    s = forest.session()
    u1 = forest.say(s, "u1")
    forest.say(s, "a1")
    forest.say(s, "a2", parent_entry_id=u1.id)
    with forest.store.read() as connection:
        assert [node.id[-1] for node in store.list_nodes(connection, s)] == ["0", "1", "2", "3"]
        assert [node.id[-1] for node in store.list_children(connection, s, u1.id)] == ["2", "3"]
        assert [entry.sequence for entry in store.iterate_entries(connection, s, after_sequence=1)] == [2, 3]
        assert store.count_entries(connection, s) == 4


def test_what_is_not_there(forest):
    with forest.store.read() as connection:
        with pytest.raises(SessionNotFound):
            paths.active_path(connection, "20260102-030405-aaaa")
        with pytest.raises(SessionNotFound):
            paths.branches(connection, "20260102-030405-aaaa")
        with pytest.raises(EntryNotFound):
            paths.path_to(connection, "20260102-030405-aaaa-000001")
        with pytest.raises(InvalidId):
            paths.path_to(connection, "nonsense")


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM session_entries WHERE sequence = 2",
        "UPDATE session_entries SET parent_entry_id = id WHERE sequence = 2",
        "UPDATE session_entries SET parent_entry_id = substr(id, 1, 21) || '000004' WHERE sequence = 2",
        "UPDATE session_entries SET parent_entry_id = 'elsewhere' WHERE sequence = 2",
    ],
)
def test_a_broken_path_is_an_error_and_never_a_silent_end(forest, damage):
    s, healthy = forest.session(), forest.session()
    for number in range(4):
        forest.say(s, f"u{number}")
    forest.say(healthy, "u1")
    with unguarded(forest.store.url) as connection:
        connection.execute(damage + f" AND session_id = '{s}'")
    with pytest.raises(PathBroken):
        forest.texts(s)
    assert forest.texts(healthy) == ["u1"]
    with forest.store.read() as connection:
        assert [entry.payload["text"] for entry in paths.active_path(connection, s, last=2)] == ["u2", "u3"]


def test_a_fork_of_what_is_gone_is_a_broken_path(forest):
    s = forest.session()
    entry = forest.say(s, "u1")
    fork = forest.recorder.fork(entry.id, NewSession()).id
    forest.recorder.append_now(fork, EntryDraft(kind="note", payload={"text": "n"}))
    with unguarded(forest.store.url) as connection:
        connection.execute(f"DELETE FROM session_entries WHERE id = '{entry.id}'")
    with pytest.raises(PathBroken, match="not there any more"):
        forest.texts(fork)


def test_a_deep_path(forest):
    """Deeper than any recursion limit of Python or SQLite's expression depth."""
    s = forest.session()

    def many(recording):
        draft = forest.recorder.prepare(EntryDraft(kind="note", payload={"text": "x"}))
        for _ in range(5000):
            recording.append(s, draft)

    forest.recorder.transact(many)
    with forest.store.read() as connection:
        path = paths.active_path(connection, s)
        assert paths.branches(connection, s) == []
    assert [entry.sequence for entry in path] == list(range(1, 5001))
