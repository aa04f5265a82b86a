"""A client's copy of a session, kept up to date by ``sessions/sync`` and proven by nothing but hashes.

The client holds ids, parents and hashes of all entries. Of an answer it believes nothing: it computes each new entry's
hash from its fields under its parent's, derives the hashes of all subtrees itself, and checks that they come to the
root that the answer names. What does not add up is dropped, and everything is fetched anew once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.foundation.hashing import entry_hash
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.tree import TreeNode, raw_hash, subtree_hash

#: The method that answers.
METHOD: Final = "sessions/sync"

#: Calls a method with params and returns its result.
Caller = Callable[[str, dict[str, Any]], Mapping[str, Any]]


class MirrorDiverged(Exception):
    """What was answered does not come to the root that it names."""


class SessionMirror:
    """The copy of one session.

    Parameters
    ----------
    session_id
        The session's full id.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.root: str | None = None
        self.active_entry_id: str | None = None
        self.labels: dict[str, str] = {}
        #: Entries by id in the order of sequence, as they were answered.
        self.entries: dict[str, Mapping[str, Any]] = {}
        self._last = -1

    def update(self, call: Caller) -> int:
        """Fetch what is new, check it, and return how many entries that were.

        Raises
        ------
        MirrorDiverged
            If even a full listing does not come to its root.
        """
        try:
            return self._update(call)
        except MirrorDiverged:
            if self.root is None and not self.entries:
                raise
        self._forget()
        return self._update(call)

    def _update(self, call: Caller) -> int:
        params: dict[str, Any] = {"session": self.session_id, "session_root": self.root}
        if self.root is not None:
            params["known"] = self._last
        added = 0
        while True:
            answer = call(METHOD, params)
            if answer["status"] == "full" and params.get("session_root") is not None:
                self._forget()
            added += self._take(answer)
            if not answer["hasMore"]:
                break
            params = {"session": self.session_id, "session_root": None, "known": self._last}
        subtrees = self._subtrees()
        for point in answer["branch_points"]:
            if subtrees.get(point["entry_id"]) != point["subtree_hash"]:
                raise MirrorDiverged(f"the branches at {point['entry_id']} are not those that were answered")
        root = next(iter(self.entries), None)
        if root is None or subtrees[root] != answer["session_root"]:
            raise MirrorDiverged("the entries do not come to the root that was answered")
        self.root, self.active_entry_id = answer["session_root"], answer["active_entry_id"]
        return added

    def _take(self, answer: Mapping[str, Any]) -> int:
        for entry in answer["entries"]:
            parent = entry["parent_entry_id"]
            above = None if parent is None else self.entries.get(parent)
            if entry["sequence"] <= self._last or (parent is not None and above is None):
                raise MirrorDiverged(f"{entry['id']} does not follow what is here")
            stamp = entry["stamp"]
            computed = entry_hash(
                parent_entry_hash=None if above is None else above["entry_hash"],
                entry_id=entry["id"],
                kind=entry["kind"],
                semantic_schema_version=entry["semantic_schema_version"],
                payload_hash=entry["payload_hash"],
                context_visibility=entry["context_visibility"],
                stamp={name: stamp[name] for name in ("state_digest", "unknown") if stamp.get(name) is not None},
                external_id=entry["external_id"],
                created_at=entry["created_at"],
            )
            if computed != entry["entry_hash"]:
                raise MirrorDiverged(f"the hash of {entry['id']} does not follow from its fields")
            self.entries[entry["id"]] = entry
            self._last = entry["sequence"]
        for label in answer["labels"]:
            if label["entry_id"] is None:
                self.labels.pop(label["name"], None)
            else:
                self.labels[label["name"]] = label["entry_id"]
        return len(answer["entries"])

    def _subtrees(self) -> dict[str, str]:
        """Return the hash of every subtree, derived from the entries alone."""
        waiting: dict[str, list[bytes]] = {}
        found: dict[str, str] = {}
        for entry in reversed(self.entries.values()):
            node = TreeNode(entry["id"], entry["parent_entry_id"], entry["sequence"], entry["entry_hash"])
            try:
                own = subtree_hash(raw_hash(node), waiting.pop(node.id, ()), node)
            except TreeUnsound as error:
                raise MirrorDiverged(error.message) from error
            found[node.id] = own.hex()
            if node.parent_entry_id is not None:
                waiting.setdefault(node.parent_entry_id, []).append(own)
        return found

    def _forget(self) -> None:
        self.root, self.active_entry_id, self._last = None, None, -1
        self.entries, self.labels = {}, {}
