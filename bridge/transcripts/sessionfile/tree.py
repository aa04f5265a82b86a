"""``SessionTree``: one way through a session file, from a root to the active leaf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.transcripts.sessionfile.file import SessionFile
from bridge.transcripts.sessionfile.queueing import Turns
from bridge.transcripts.sessionfile.records import SessionEntry


class SessionTree:
    """A place in a session file. It begins at the last entry of the file; moving it writes nothing.

    Any number of trees may stand on one file, each at its own place. Operations of one tree happen in the order in
    which they were asked for.
    """

    def __init__(self, file: SessionFile) -> None:
        self.file = file
        self._turns = Turns()
        entries = file.entries
        self._leaf = entries[-1].id if entries else None

    @property
    def active_leaf_id(self) -> str | None:
        """The entry that the next one will follow; None stands for a new root."""
        return self._leaf

    @property
    def entries(self) -> tuple[SessionEntry, ...]:
        """All entries of the file, of all branches, in the order of the file."""
        return self.file.entries

    @property
    def active_entries(self) -> tuple[SessionEntry, ...]:
        """The entries from the root to the active leaf."""
        return self.file.path_to(self._leaf)

    @property
    def active_messages(self) -> tuple[Mapping[str, Any], ...]:
        """The messages from the root to the active leaf, frozen."""
        return tuple(entry.message for entry in self.active_entries)

    def move_to(self, identity: str | None) -> None:
        """Make an entry the active leaf; None selects a new root position. Nothing is written.

        Raises
        ------
        SessionEntryMissing
            If the file has no such entry; the leaf stays.
        """
        with self._turns:
            if identity is not None:
                self.file.entry(identity)
            self._leaf = identity

    def append(self, message: Mapping[str, Any]) -> SessionEntry:
        """Add an entry below the active leaf, and make it the leaf once it is on the disk.

        Raises as :meth:`SessionFile.append`; the leaf stays then.
        """
        with self._turns:
            entry = self.file.append(self._leaf, message)
            self._leaf = entry.id
            return entry
