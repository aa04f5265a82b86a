"""The head-and-cursor rule against a model in memory: any sequence of operations gives the same forest."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bridge.control.recording import Recorder
from bridge.conversations import paths, store
from bridge.conversations.errors import CursorExists, CursorNotFound, HeadMoved, NothingBefore
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.integrity.verify import verify_session
from bridge.storage.store import Store

OWNERS = st.sampled_from(["turn", "delegation:a", "host"])


class ForestMachine(RuleBasedStateMachine):
    """One session. The model: parents by sequence, the head, the cursors' leaves."""

    entries = Bundle("entries")

    def __init__(self, opened: Store) -> None:
        super().__init__()
        self.store = opened
        self.recorder = Recorder(self.store, SystemClock())

    @initialize(target=entries)
    def start(self):
        self.session = self.recorder.create_session(NewSession()).id
        self.root = f"{self.session}-000000"
        self.parents: dict[str, str | None] = {self.root: None}
        self.head = self.root
        self.cursors: dict[str, str] = {}
        return self.root

    def record(self, parent, **options):
        entry = self.recorder.append_now(
            self.session, EntryDraft(kind="user.message", payload={"text": "x"}, **options)
        )
        assert entry.parent_entry_id == parent
        assert entry.sequence == len(self.parents)
        self.parents[entry.id] = parent
        if self.head == parent:
            self.head = entry.id
        self.cursors = {owner: entry.id if leaf == parent else leaf for owner, leaf in self.cursors.items()}
        return entry.id

    @rule(target=entries)
    def append(self):
        return self.record(self.head)

    @rule(target=entries, parent=entries)
    def append_under(self, parent):
        return self.record(parent, parent_entry_id=parent)

    @rule(target=entries, owner=OWNERS)
    def append_at_cursor(self, owner):
        if owner not in self.cursors:
            with pytest.raises(CursorNotFound):
                self.record(None, cursor=owner)
            return self.root
        return self.record(self.cursors[owner], cursor=owner)

    @rule(target=entries, expected=entries)
    def append_expecting(self, expected):
        if expected != self.head:
            with pytest.raises(HeadMoved):
                self.record(None, expected_head=expected)
            return self.root
        return self.record(self.head, expected_head=expected)

    @rule(entry=entries)
    def goto(self, entry):
        move = self.recorder.move_head(self.session, entry)
        assert (move.from_entry_id, move.to_entry_id) == (self.head, entry)
        self.head = entry

    @rule()
    def back(self):
        if self.head == self.root:
            with pytest.raises(NothingBefore):
                self.recorder.back(self.session)
            return
        self.recorder.back(self.session)
        self.head = self.parents[self.head]

    @rule(owner=OWNERS, entry=st.none() | entries)
    def open_cursor(self, owner, entry):
        if owner in self.cursors:
            with pytest.raises(CursorExists):
                self.recorder.transact(lambda r: r.open_cursor(self.session, owner, entry))
            return
        self.recorder.transact(lambda r: r.open_cursor(self.session, owner, entry))
        self.cursors[owner] = self.head if entry is None else entry

    @rule(owner=OWNERS)
    def close_cursor(self, owner):
        if owner not in self.cursors:
            with pytest.raises(CursorNotFound):
                self.recorder.transact(lambda r: r.close_cursor(self.session, owner))
            return
        assert self.recorder.transact(lambda r: r.close_cursor(self.session, owner)) == self.cursors.pop(owner)

    @rule(parents=st.lists(entries, min_size=1, max_size=4), fails=st.booleans())
    def append_together(self, parents, fails):
        """Several in one transaction; when it fails, none of them."""

        def record(recording):
            made = []
            for parent in parents:
                draft = EntryDraft(kind="note", payload={"text": "x"}, parent_entry_id=parent)
                made.append(recording.append(self.session, draft).entry)
            if fails:
                raise LookupError
            return made

        if fails:
            with pytest.raises(LookupError):
                self.recorder.transact(record)
            return
        for entry in self.recorder.transact(record):
            self.parents[entry.id] = entry.parent_entry_id
            if self.head == entry.parent_entry_id:
                self.head = entry.id
            for owner, leaf in self.cursors.items():
                if leaf == entry.parent_entry_id:
                    self.cursors[owner] = entry.id

    @invariant()
    def the_store_agrees(self):
        with self.store.read() as connection:
            assert store.get_head(connection, self.session).entry_id == self.head
            assert {c.owner: c.leaf_entry_id for c in store.list_cursors(connection, self.session)} == self.cursors
            nodes = store.list_nodes(connection, self.session)
            assert {node.id: node.parent_entry_id for node in nodes} == self.parents
            expected, at = [], self.head
            while at is not None:
                expected.append(at)
                at = self.parents[at]
            path = paths.active_path(connection, self.session, include_roots=True)
            assert [entry.id for entry in path] == expected[::-1]

    def teardown(self):
        with self.store.read() as connection:
            assert verify_session(connection, self.session).is_valid


def test_the_forest_keeps_its_rules(database_url):
    """All examples share a store; each has a session of its own."""
    with Store.open(database_url) as opened:
        run_state_machine_as_test(
            lambda: ForestMachine(opened),
            settings=settings(
                max_examples=25,
                stateful_step_count=25,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
            ),
        )
