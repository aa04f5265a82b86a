"""Where a projection gets a path from: entries in memory, or a store that is read from the leaf up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from bridge.conversations.models import Entry
from bridge.conversations.shape import store
from bridge.conversations.shape.runs import LANDMARK_KINDS, PathShape, rows_upwards
from bridge.conversations.shape.store import Row
from bridge.semantics.kinds import ELIGIBLE, READABLE_VERSIONS
from bridge.storage.transaction import Connection

#: An entry's id, its place on the path (the first is 0), and its row.
Placed: TypeAlias = tuple[str, int, Row]


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry whose word holds for the whole path, without its payload.

    ``is_told`` says whether what it says may stand in a context; a hidden one still counts where facts are looked for.
    """

    entry_id: str
    version: int
    kind: str
    is_told: bool


class PathSource(Protocol):
    """A path as a projection reads it."""

    @property
    def leaf_entry_id(self) -> str | None:
        """The last entry; None for an empty path."""

    @property
    def length(self) -> int:
        """How many entries it has."""

    @property
    def marks(self) -> Sequence[Mark]:
        """Entries of the kinds in ``LANDMARK_KINDS`` and of unreadable versions, root first."""

    def payload_of(self, entry_id: str) -> str:
        """Return the stored payload of a mark."""

    def position(self, entry_id: str) -> int | None:
        """Return an entry's place; None if it does not lie on the path."""

    def id_at(self, position: int) -> str:
        """Return the id of the entry at a place."""

    def upwards(self) -> Iterator[Placed]:
        """Yield the entries, leaf first, reading no further than it is asked for."""


class EntriesInMemory:
    """A path that is at hand, root first."""

    def __init__(self, path: Sequence[Entry]) -> None:
        self._path = path
        self._places = {entry.id: place for place, entry in enumerate(path)}
        self.length = len(path)
        self.leaf_entry_id = path[-1].id if path else None
        self.marks = [
            Mark(entry.id, entry.semantic_schema_version, entry.kind, entry.context_visibility == ELIGIBLE)
            for entry in path
            if entry.kind in LANDMARK_KINDS or entry.semantic_schema_version not in READABLE_VERSIONS
        ]

    def payload_of(self, entry_id: str) -> str:
        return self._path[self._places[entry_id]].payload_text

    def position(self, entry_id: str) -> int | None:
        return self._places.get(entry_id)

    def id_at(self, position: int) -> str:
        return self._path[position].id

    def upwards(self) -> Iterator[Placed]:
        for place in range(len(self._path) - 1, -1, -1):
            entry = self._path[place]
            payload = entry.payload_text if entry.context_visibility == ELIGIBLE else None
            row = (entry.semantic_schema_version, entry.kind, payload)
            yield entry.id, place, row


class StoredPath:
    """A path in a store, as far as it is asked for; usable while the connection's snapshot lasts."""

    def __init__(self, connection: Connection, shape: PathShape) -> None:
        self._connection = connection
        self.shape = shape
        self.length = shape.length
        self.leaf_entry_id = shape.id_at(shape.length - 1) if shape.length else None
        self.marks = [
            Mark(found.entry_id, mark.semantic_schema_version, mark.kind, mark.context_visibility == ELIGIBLE)
            for found in shape.landmarks
            for mark in (found.waymark,)
        ]
        self._places = {found.entry_id: (found.session_id, found.waymark.sequence) for found in shape.landmarks}

    def payload_of(self, entry_id: str) -> str:
        # It was seen in this snapshot.
        return store.payload_at(self._connection, *self._places[entry_id]) or ""

    def position(self, entry_id: str) -> int | None:
        return self.shape.position(entry_id)

    def id_at(self, position: int) -> str:
        return self.shape.id_at(position)

    def upwards(self) -> Iterator[Placed]:
        return rows_upwards(self._connection, self.shape)
