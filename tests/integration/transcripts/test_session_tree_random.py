"""A session tree against a plain model: any order of appends, moves, loads, damage at the end and refusals."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.transcripts.sessionfile import SessionFile, SessionTree
from bridge.transcripts.sessionfile.errors import SessionEntryMissing, SessionInvalidMessage, SessionToolMismatch
from tests.sessionfiles import calling, create, options, result, user

PICK = st.integers(0, 10**6)
NAMES = st.sampled_from(["t1", "t2"])


class TreeMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x"
        self.numbers = count(1)
        self.tree = SessionTree(create(self.path, new_id=self.next_id))
        self.model = []  # id, parent, message
        self.leaf = None
        self.is_torn = False

    def next_id(self):
        return f"e{next(self.numbers)}"

    def lineage(self, identity):
        known = {entry: (parent, message) for entry, parent, message in self.model}
        way = []
        while identity is not None:
            parent, message = known[identity]
            way.append((identity, parent, message))
            identity = parent
        return way[::-1]

    def append(self, message):
        entry = self.tree.append(message)
        self.model.append((entry.id, self.leaf, message))
        self.leaf = entry.id
        self.is_torn = False

    @rule(text=st.text(max_size=30))
    def say(self, text):
        self.append(user(text))

    @rule(name=NAMES)
    def call(self, name):
        self.append(calling((name, "tool-" + name)))

    @rule(name=NAMES)
    def answer(self, name):
        is_called = any(
            call["id"] == name for _, _, message in self.lineage(self.leaf) for call in message.get("toolCalls", ())
        )
        if is_called:
            self.append(result(name, "tool-" + name))
        else:
            with pytest.raises(SessionToolMismatch):
                self.tree.append(result(name, "tool-" + name))

    @rule(pick=PICK)
    def move(self, pick):
        ids = [None, *(entry for entry, _, _ in self.model)]
        before = self.path.read_bytes()
        self.leaf = ids[pick % len(ids)]
        self.tree.move_to(self.leaf)
        assert self.path.read_bytes() == before

    @rule()
    def move_nowhere(self):
        with pytest.raises(SessionEntryMissing):
            self.tree.move_to("nowhere")

    @rule()
    def say_nothing(self):
        with pytest.raises(SessionInvalidMessage):
            self.tree.append({"role": "user"})

    @rule(cut=st.sampled_from([b"{", b'{"type":"entry","id":"cut', b'{"type"']))
    def tear(self, cut):
        if not self.is_torn:
            self.path.write_bytes(self.path.read_bytes() + cut)
            self.is_torn = True

    @rule(ends=st.booleans())
    def load(self, ends):
        if ends and not self.is_torn:
            self.path.write_bytes(self.path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
        file = SessionFile.load(self.path, **options(new_id=self.next_id))
        assert (file.torn_tail is not None) == self.is_torn
        self.tree = SessionTree(file)
        self.leaf = self.model[-1][0] if self.model else None

    @rule(pick=PICK)
    def another_writer(self, pick):
        ids = [None, *(entry for entry, _, _ in self.model)]
        parent = ids[pick % len(ids)]
        other = SessionFile.load(self.path, **options(new_id=self.next_id))
        entry = other.append(parent, user("theirs"))
        self.model.append((entry.id, parent, user("theirs")))
        self.is_torn = False
        self.tree.file.refresh()

    @invariant()
    def agrees(self):
        if not hasattr(self, "model"):
            return
        found = [(entry.id, entry.parent_id, entry.to_json()["message"]) for entry in self.tree.entries]
        assert found == self.model
        assert self.tree.active_leaf_id == self.leaf
        active = [(entry.id, entry.parent_id, entry.to_json()["message"]) for entry in self.tree.active_entries]
        assert active == self.lineage(self.leaf)

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
