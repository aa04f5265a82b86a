"""Two copies of a session that both went on: the one that comes second becomes a fork of the one that is here.

Nothing is overwritten and nothing is renamed. Where an entry of the copy is under an entry that both have, a session is
forked from that entry, and what the copy has below it is recorded there: same kinds, payloads, stamps and times, under
ids of their own, each with its id and hash in the copy as its external id. The fork's id follows from the copy's first
entry in it, so the same copy taken in again adds nothing, and one that has grown goes on where it was. Whichever copy
comes first, both are here afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bridge.control.exchange.imported import ImportedSession
from bridge.control.recording import RecordingTransaction
from bridge.conversations.exchange.store import iterate_hashes
from bridge.conversations.models import ID_AT, Entry, NewSession, PreparedEntry
from bridge.conversations.store import find_external, get_head, label_target, session_exists
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import entry_id, split_entry_id
from bridge.storage.transaction import Connection
from bridge.transcripts.portable import SessionHeader

#: What the source of a fork's entries begins with; the id of the session follows.
SOURCE: Final = "bridge:"
#: Hexadecimal digits of a hash in ids made of one.
_ID_DIGITS: Final = 12
_HASH_DIGITS: Final = 16


def common_sequences(connection: Connection, session_id: str, incoming: Iterable[tuple[int, str]]) -> set[int]:
    """Return the sequences of the entries that a session here and a copy of it have in common."""
    there = dict(incoming)
    return {sequence for sequence, hashed in iterate_hashes(connection, session_id) if there.get(sequence) == hashed}


@dataclass(slots=True)
class _Group:
    """What the copy has under one common entry."""

    fork_id: str
    is_new: bool = False
    added: int = 0
    entries: int = 0
    last: str | None = None


@dataclass(slots=True)
class ForkWriter:
    """Records what a copy has beyond the common entries; :meth:`add` is given all of its entries, ascending.

    Parameters
    ----------
    recording
        The open transaction; None to only count.
    session
        What the copy says of itself.
    common
        Sequences of the common entries.
    """

    connection: Connection
    recording: RecordingTransaction | None
    session: SessionHeader
    common: set[int]
    _groups: dict[int, _Group] = field(default_factory=dict)
    #: Of each entry that is not common: the group it is in, and its id here; None if it is not here.
    _places: dict[int, tuple[_Group, str | None]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        if entry.sequence in self.common or entry.parent_entry_id is None:
            return
        above = split_entry_id(entry.parent_entry_id)[1]
        if above in self.common:
            group = self._group_at(above, entry)
            parent: str | None = entry_id(group.fork_id, 0)
        else:
            group, parent = self._places[above]
        group.entries += 1
        source, external_id = SOURCE + self.session.id, f"{entry.id}@{entry.entry_hash[:_HASH_DIGITS]}"
        known = find_external(self.connection, group.fork_id, source, external_id)
        place = None if known is None else known.id
        if place is None:
            group.added += 1
            if self.recording is not None:
                prepared = PreparedEntry(
                    kind=entry.kind,
                    payload_text=entry.payload_text,
                    payload_hash=digest_hex(entry.payload_text.encode()),
                    context_visibility=entry.context_visibility,
                    stamp=entry.stamp,
                    created_at=entry.created_at,
                    external_id=external_id,
                    external_source=source,
                    parent_entry_id=parent,
                    semantic_schema_version=entry.semantic_schema_version,
                )
                place = self.recording.append(group.fork_id, prepared).row[ID_AT]
        group.last = place
        self._places[entry.sequence] = (group, place)

    def finish(self) -> list[ImportedSession]:
        """Set heads and labels of the new forks; return what became of each."""
        results = []
        active = split_entry_id(self.session.active_entry_id)[1]
        for group in self._groups.values():
            if self.recording is not None:
                self._name_entries(group)
                place = self._places.get(active)
                target = place[1] if place is not None and place[0] is group else group.last
                if group.is_new and target is not None:
                    self.recording.move_head(group.fork_id, target)
            head = None if self.recording is None else get_head(self.recording.tx.connection, group.fork_id)
            results.append(
                ImportedSession(
                    group.fork_id,
                    "forked" if group.is_new else "continued" if group.added else "unchanged",
                    group.added,
                    group.entries,
                    complete=True,
                    active_entry_id=None if head is None else head.entry_id,
                )
            )
        return results

    def _group_at(self, above: int, entry: Entry) -> _Group:
        group = self._groups.get(above)
        if group is None:
            day = self.session.id[:15] if self.session.id[8:9] == "-" else entry.created_at[:10].replace("-", "")
            fork_id = f"{day}-{digest_hex(f'{self.session.id} {entry.entry_hash}'.encode())[:_ID_DIGITS]}"
            group = self._groups[above] = _Group(fork_id, not session_exists(self.connection, fork_id))
            if group.is_new and self.recording is not None:
                new = NewSession(
                    id=fork_id,
                    kind=self.session.kind,  # type: ignore[arg-type]  # the header's schema allows no other
                    harness=self.session.harness,
                    label=self.session.label,
                    status=self.session.status,
                    parent_session_id=self.session.id,
                    parent_relation="forked",
                )
                self.recording.fork(entry_id(self.session.id, above), new)
        return group

    def _name_entries(self, group: _Group) -> None:
        if self.recording is None:
            return
        for name, target in self.session.labels.items():
            place = self._places.get(split_entry_id(target)[1])
            known = label_target(self.recording.tx.connection, group.fork_id, name)
            if place is not None and place[0] is group and place[1] is not None and known is None:
                self.recording.label(group.fork_id, place[1], name)
