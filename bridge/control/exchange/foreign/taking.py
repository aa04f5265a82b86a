"""Takes entries of a transcript in, batch by batch: what is here already is recognised, what is missing is added.

An entry is known by the key that the other program gave it, and by the digest of the line that it was read from. The
same key with other content is a conflict: the first one stays, the other is kept among the raw lines and reported.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import orjson

from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.linking import link_children, link_parent, parent_here, resolve_links
from bridge.control.exchange.foreign.natives import (
    Native,
    RecentPlaces,
    label_for,
    merged,
    session_id_for,
    source_facts,
)
from bridge.control.exchange.foreign.places import head_alone
from bridge.control.exchange.foreign.preparing import Preparer, Ready, Work, safe_key, source_name, time_of
from bridge.control.exchange.foreign.sinks import Growing, Sink, StoreSink, require_not_removed
from bridge.control.exchange.imported import ImportFinding
from bridge.control.reading.views import MISSING_PARENT
from bridge.conversations.errors import InvalidLabel, SessionRemoved
from bridge.conversations.growing import Placed
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import entry_hash_of, get_session, session_exists
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.ids import entry_id, split_entry_id
from bridge.transcripts.foreign.neutral import SOURCE_META, LabelSet, LeafMoved, SessionFacts
from bridge.transcripts.foreign.records import Damage

#: Entries whose places are remembered; older ones are looked up in the store.
MAX_REMEMBERED: Final = 20_000
#: A host may date its first record a little before the hook that tells of the session.
HOOK_MARGIN: Final = timedelta(minutes=1)
PARENT, LOGICAL_PARENT = "parent", "logical_parent"


class Taker:
    """Takes in the entries of one transcript.

    Parameters
    ----------
    preparer
        What prepared the entries.
    findings
        Is given what is not as it should be.
    """

    def __init__(self, preparer: Preparer, findings: Findings) -> None:
        self._format = preparer.format_name
        self._places = preparer.places
        self._recorder = preparer.recorder
        self._findings = findings
        self._recent = RecentPlaces(MAX_REMEMBERED)
        self._has_links: bool | None = None
        self.natives: dict[str, Native] = {}
        # Within a batch: the store, the growers of its sessions, what is known of its keys.
        self._sink: Sink
        self._growers: dict[str, Growing] = {}
        self._known: dict[tuple[str, str], rows.KnownEntry] = {}
        self._asked: set[tuple[str, str]] = set()
        self._fresh: set[str] = set()
        self._new_keys: dict[str, tuple[str, Placed]] = {}

    def take(self, sink: Sink, batch: list[Work]) -> None:
        """Take in a batch; what is raised undoes all of it."""
        self._begin_batch(sink)
        for work in batch:
            if type(work) is Ready and work.session not in self.natives:
                self._meet(SessionFacts(work.session))
            elif type(work) is tuple and isinstance(work[0], SessionFacts):
                self._meet(work[0])
        self._look_up(batch)
        for work in batch:
            if type(work) is Ready:
                self._entry(work)
            elif type(work) is tuple:
                self._other(*work)
        self._finish_batch()

    def end(self, sink: Sink) -> None:
        """Take in what waited for a first entry that did not come."""
        waiting = [native for native in self.natives.values() if native.waiting and not native.is_removed]
        if not waiting:
            return
        self._begin_batch(sink)
        for native in waiting:
            ready, native.waiting = native.waiting, []
            if native.session_id is None:
                self._create(native, ready[0].prepared.created_at, None)
            self._look_up(list(ready))
            for one in ready:
                self._append(native, one)
        self._finish_batch()

    def _begin_batch(self, sink: Sink) -> None:
        self._sink = sink
        self._growers, self._known, self._new_keys = {}, {}, {}
        # Keys that were asked for; and sessions that this batch made, of which the store knows no other.
        self._asked, self._fresh = set(), set()

    # -- sessions ----------------------------------------------------------------------------------------------

    def _meet(self, facts: SessionFacts) -> None:
        """Learn of a session: which one it is here, if it is."""
        native = self.natives.get(facts.session)
        if native is not None:
            native.facts = merged(native.facts, facts)
            return
        native = self.natives[facts.session] = Native(facts.session, facts)
        row = native.row = rows.native(self._sink.connection, self._format, safe_key(facts.session))
        if row is None:
            return
        native.first_key, native.first_digest = row.first_key, row.first_digest
        if row.session_id is not None:
            self._adopt(native, row.session_id, row.leaf_entry_id)
        elif row.copy_session_id is not None and row.copy_entry_id is not None:
            self._follow(native, row.copy_session_id)
            hashed = entry_hash_of(self._sink.connection, row.copy_session_id, row.copy_entry_id)
            native.copy_leaf = None if hashed is None else (row.copy_entry_id, hashed)

    def _adopt(self, native: Native, session_id: str, leaf: str | None) -> None:
        """Go on with a session that is here."""
        try:
            require_not_removed(self._sink.connection, session_id)
        except SessionRemoved as error:
            native.is_removed = True
            self._findings.add("session_removed", error.message, None, None)
            return
        native.session_id = session_id
        grower = self._grower(session_id)
        native.may_move = grower.head_id in (leaf, entry_id(session_id, 0))
        if leaf is not None:
            hashed = entry_hash_of(self._sink.connection, session_id, leaf)
            native.leaf = None if hashed is None else (leaf, hashed)

    def _follow(self, native: Native, session_id: str) -> None:
        """Take the entries of a session for those of another one, as long as they are the same."""
        for other in rows.natives_of(self._sink.connection, session_id):
            if other.format == self._format:
                native.copy_of, native.copy_source = session_id, source_name(self._format, other.native_id)

    def _begin(self, native: Native, first: Ready) -> None:
        """Decide what a session is that is not here: a copy, a fork of what came before it, or a new one."""
        key = first.base
        if native.first_key is None:
            native.first_key, native.first_digest = key, first.digest
        for other in rows.natives_beginning_with(self._sink.connection, self._format, key):
            if other.native_id != safe_key(native.id) and other.session_id is not None:
                source = source_name(self._format, other.native_id)
                known = rows.known_entries(self._sink.connection, other.session_id, source, [key]).get(key)
                if known is not None and _is_same(known, first):
                    native.copy_of, native.copy_source = other.session_id, source
                    return
        origin = None
        if first.parent is not None:
            found = self._recent.anywhere(first.parent)
            if found is not None and found[0] != native.id:
                origin = found[2][0]
        self._create(native, first.prepared.created_at, origin)

    def _create(self, native: Native, moment: str, origin: str | None) -> None:
        facts = native.facts
        created_at = time_of(facts.created_at) or moment
        session_id = session_id_for(self._format, native.id, created_at)
        require_not_removed(self._sink.connection, session_id)
        native.waiting, waiting = [], native.waiting
        if session_exists(self._sink.connection, session_id):
            self._adopt(native, session_id, None)
        else:
            parent, relation = parent_here(self._sink.connection, self._format, facts)
            if origin is not None:
                parent, relation = split_entry_id(origin)[0], "forked"
            place = self._places.of(facts.cwd)
            new = NewSession(
                id=session_id,
                kind="worker" if facts.kind == "worker" else "chat",
                workspace_id=None if place is None else place.workspace_id,
                harness=self._format,
                label=label_for(facts),
                parent_session_id=parent,
                parent_relation=relation,  # type: ignore[arg-type]  # readers have no other words
            )
            stamp = head_alone(place, facts.commit, facts.branch)
            self._sink.create(new, source_facts(self._format, native), created_at, stamp, origin)
            native.is_new = native.may_move = True
            self._fresh.add(session_id)
        native.session_id, native.copy_of = session_id, None
        for one in waiting:
            self._append(native, one)

    # -- entries -----------------------------------------------------------------------------------------------

    def _entry(self, ready: Ready) -> None:
        native = self.natives[ready.session]
        if native.is_removed:
            return
        native.seen += 1
        native.last_moment = ready.prepared.created_at
        if native.recorded_as is not None:
            return
        if native.session_id is None and native.copy_of is None:
            if ready.is_aside:
                native.waiting.append(ready)
                return
            native.recorded_as = self._recorded_as(native, ready)
            if native.recorded_as is not None:
                return
            self._begin(native, ready)
        if native.copy_of is not None and native.session_id is None and not self._goes_on_as_copy(native, ready):
            leaf = native.copy_leaf
            self._create(native, ready.prepared.created_at, None if leaf is None else leaf[0])
        if native.session_id is not None:
            self._append(native, ready)

    def _recorded_as(self, native: Native, first: Ready) -> str | None:
        """Return the session that hooks recorded this one as, if they were there from its beginning."""
        found = rows.captured_as(self._sink.connection, self._format, native.id)
        if found is None:
            return None
        session_id, since = found
        began = parse_timestamp(first.prepared.created_at)
        return session_id if began >= parse_timestamp(since) - HOOK_MARGIN else None

    def _goes_on_as_copy(self, native: Native, ready: Ready) -> bool:
        """Return whether an entry is one of the session that this one has copied so far."""
        copied, source = str(native.copy_of), str(native.copy_source)
        if self._find(copied, source, ready.base) is None:
            if ready.is_aside:
                native.waiting.append(ready)
            return ready.is_aside
        own = self._find(copied, source, ready.key)
        if own is not None:
            if not _is_same(own, ready):
                self._conflict(ready, own.id)
            native.copy_leaf = native.copy_leaf if ready.is_aside else (own.id, own.entry_hash)
            self._recent.put(native.id, ready.key, copied, (own.id, own.entry_hash))
        return True

    def _append(self, native: Native, ready: Ready) -> None:
        session_id = native.session_id or ""
        if session_id not in self._fresh or (session_id, ready.base) in self._known:
            # Of a record that is here, all is here: how many entries it became depends on what was read before it.
            source = ready.prepared.external_source or ""
            whole = self._find(session_id, source, ready.base)
            known = whole if ready.base is ready.key else self._find(session_id, source, ready.key)
            if known is not None:
                self._recognise(native, ready, known)
            if whole is not None or known is not None:
                return
        self._add(native, ready, session_id, ready.key)

    def _recognise(self, native: Native, ready: Ready, known: rows.KnownEntry) -> None:
        """Take note of an entry that is here already."""
        if not _is_same(known, ready):
            self._conflict(ready, known.id)
        placed = (known.id, known.entry_hash)
        self._recent.put(native.id, ready.key, native.session_id or "", placed)
        if native.leaf is None and not ready.is_aside:
            native.leaf = placed

    def _add(self, native: Native, ready: Ready, session_id: str, key: str) -> None:
        prepared = ready.prepared
        grower = self._grower(session_id)
        parent, missing = self._parent(native, ready, grower, session_id)
        if missing is not None and missing[0] == PARENT:
            prepared = self._marked(ready, missing[1])
        placed = grower.add(prepared, parent)
        native.added += 1
        self._recent.put(native.id, key, session_id, placed)
        self._known_now(session_id, key, placed, ready)
        self._new_keys[key] = (session_id, placed)
        if missing is not None and not self._sink.is_dry:
            self._link(session_id, placed[0], *missing)
        if not ready.is_aside:
            native.leaf, native.leaf_moved = placed, True

    def _parent(
        self, native: Native, ready: Ready, grower: Growing, session_id: str
    ) -> tuple[Placed, tuple[str, str] | None]:
        """Return the entry that one follows; and relation and key of what it names and is not here."""
        wanted, relation = ready.parent, PARENT
        if wanted is None:
            wanted, relation = ready.logical_parent, LOGICAL_PARENT
        if wanted is None:
            return grower.root(), None
        here = self._recent.get(native.id, wanted)
        if here is None:
            known = self._find(session_id, ready.prepared.external_source or "", wanted)
            if known is not None:
                return (known.id, known.entry_hash), None
            elsewhere = self._recent.anywhere(wanted)
            here = None if elsewhere is None else elsewhere[1:]
        if here is not None and here[0] == session_id:
            return here[1], None
        if here is not None and native.is_new and grower.head_id == entry_id(session_id, 0):
            # What a fork goes on from lies in its origin, and its root says so.
            return grower.root(), None
        if here is not None:
            return grower.root(), (relation, wanted)
        what = "parent" if relation == PARENT else "logical parent"
        kind = "dangling_reference" if relation == PARENT else "unresolved_logical_parent"
        self._findings.add(kind, f"the {what} {wanted[:80]} is not here", ready.line, ready.offset)
        return grower.root(), (relation, wanted)

    def _marked(self, ready: Ready, missing: str) -> Any:
        """Return an entry that says which parent it named in vain."""
        prepared = ready.prepared
        payload = orjson.loads(prepared.payload_text)
        payload["provider_meta"][SOURCE_META][MISSING_PARENT] = missing
        draft = EntryDraft(
            kind=prepared.kind,
            payload=payload,
            context_visibility=prepared.context_visibility,  # type: ignore[arg-type]  # it was checked
            external_id=prepared.external_id,
            external_source=prepared.external_source or "",
            created_at=prepared.created_at,
        )
        return self._recorder.prepare(draft)

    def _conflict(self, ready: Ready, entry: str) -> None:
        message = f"{ready.key[:80]!r} is {entry} already, with other content; that stays"
        self._findings.add("conflict", message, ready.line, ready.offset)

    # -- what else a transcript says ---------------------------------------------------------------------------

    def _other(self, item: Any, line: int, offset: int) -> None:
        if isinstance(item, Damage):
            self._findings.add(item.kind, item.message, item.line, item.offset)
        elif isinstance(item, SessionFacts):
            self._retitle(self.natives[item.session])
        elif isinstance(item, LeafMoved):
            self._move_leaf(item, line, offset)
        elif isinstance(item, LabelSet):
            self._label(item, line, offset)

    def _retitle(self, native: Native) -> None:
        """Give a session that has no label yet the title that the transcript tells later."""
        label = label_for(native.facts)
        if label is None or native.session_id is None or not isinstance(self._sink, StoreSink):
            return
        session = get_session(self._sink.connection, native.session_id)
        if session is not None and session.label is None:
            self._sink.recording.update_session(native.session_id, label=label)

    def _move_leaf(self, item: LeafMoved, line: int, offset: int) -> None:
        native = self.natives.get(item.session)
        if native is None or native.session_id is None:
            return
        if item.key is None:
            native.leaf, native.leaf_moved = self._grower(native.session_id).root(), True
            return
        found = self._recent.get(native.id, safe_key(item.key))
        if found is None:
            known = self._find(native.session_id, source_name(self._format, native.id), safe_key(item.key))
            found = None if known is None else (native.session_id, (known.id, known.entry_hash))
        if found is None:
            self._findings.add("unknown_target", f"goes on from {item.key[:80]!r}, which is not here", line, offset)
        else:
            native.leaf, native.leaf_moved = found[1], True

    def _label(self, item: LabelSet, line: int, offset: int) -> None:
        native = self.natives.get(item.session)
        if native is None or native.session_id is None or item.name is None or not isinstance(self._sink, StoreSink):
            return
        found = self._recent.get(native.id, safe_key(item.key))
        if found is None or found[0] != native.session_id:
            self._findings.add("unknown_target", f"names {item.key[:80]!r}, which is not here", line, offset)
            return
        self._flush_growers()
        try:
            self._sink.recording.label(native.session_id, found[1][0], item.name)
        except InvalidLabel:
            self._findings.add("unusable_label", f"{item.name[:80]!r} cannot be a label here", line, offset)

    # -- within a batch ----------------------------------------------------------------------------------------

    def _grower(self, session_id: str) -> Growing:
        found = self._growers.get(session_id)
        if found is None:
            found = self._growers[session_id] = self._sink.grower(session_id)
        return found

    def _look_up(self, batch: list[Work]) -> None:
        """Ask at once which keys of a batch, and which parents, are entries already."""
        wanted: dict[tuple[str, str], set[str]] = {}
        for work in batch:
            if type(work) is not Ready:
                continue
            native = self.natives[work.session]
            session_id = native.session_id or native.copy_of
            if session_id is None:
                continue
            source = native.copy_source if native.session_id is None else source_name(self._format, native.id)
            keys = wanted.setdefault((session_id, str(source)), set())
            keys.update((work.key, work.base))
            keys.update(key for key in (work.parent, work.logical_parent) if key is not None)
        for (session_id, source), keys in wanted.items():
            missing = [key for key in keys if (session_id, key) not in self._asked]
            for key, known in rows.known_entries(self._sink.connection, session_id, source, missing).items():
                self._known[session_id, key] = known
            self._asked.update((session_id, key) for key in missing)

    def _find(self, session_id: str, source: str, key: str) -> rows.KnownEntry | None:
        if (session_id, key) not in self._asked and session_id not in self._fresh:
            self._asked.add((session_id, key))
            found = rows.known_entries(self._sink.connection, session_id, source, [key]).get(key)
            if found is not None:
                self._known[session_id, key] = found
        return self._known.get((session_id, key))

    def _known_now(self, session_id: str, key: str, placed: Placed, ready: Ready) -> None:
        prepared = ready.prepared
        self._asked.add((session_id, key))
        self._known[session_id, key] = rows.KnownEntry(placed[0], placed[1], prepared.kind, prepared.payload_text)

    def _link(self, session_id: str, entry: str, relation: str, target: str) -> None:
        if isinstance(self._sink, StoreSink):
            row = rows.LinkRow(session_id, entry, relation, self._format, target, None, None)
            rows.add_link(self._sink.recording.tx, row)
            self._has_links = True

    def _flush_growers(self) -> None:
        """Store the heads of the sessions of a batch, and begin anew with them."""
        for native in self.natives.values():
            grower = None if native.session_id is None else self._growers.get(native.session_id)
            if grower is None:
                continue
            follows = native.may_move and native.leaf_moved
            head = self._sink.finish(grower, native.leaf if follows else None, native.last_moment)
            native.leaf_moved = native.leaf_moved and not follows
            if native.may_move:
                native.may_move = native.leaf is None or native.leaf[0] == head or native.leaf_moved
        self._growers = {}

    def _finish_batch(self) -> None:
        self._flush_growers()
        if not isinstance(self._sink, StoreSink):
            return
        tx, moment = self._sink.recording.tx, self._sink.moment
        for native in self.natives.values():
            if native.recorded_as is not None:
                native.waiting = []
            if native.session_id is None and native.copy_of is None:
                continue
            row = _row_of(self._format, native, moment)
            if native.row is None or replace(native.row, updated_at=moment) != row:
                rows.put_native(tx, row)
                link_parent(self._sink.recording, self._format, native)
                link_children(self._sink.recording, self._format, native)
                native.row = row
        if self._has_links is None:
            self._has_links = rows.has_open_links(tx.connection, self._format)
        if self._has_links and self._new_keys:
            resolve_links(tx, self._format, self._new_keys)


def _row_of(format_name: str, native: Native, moment: str) -> rows.NativeRow:
    known, facts = native.row, native.facts
    leaf = native.leaf[0] if native.leaf is not None else None if known is None else known.leaf_entry_id
    return rows.NativeRow(
        format=format_name,
        native_id=safe_key(native.id),
        session_id=native.session_id,
        copy_session_id=native.copy_of,
        copy_entry_id=None if native.copy_leaf is None else native.copy_leaf[0],
        first_key=native.first_key,
        first_digest=native.first_digest,
        parent_native_id=None if facts.parent is None else safe_key(facts.parent),
        parent_relation=facts.relation,
        parent_key=facts.parent_key,
        depth=facts.depth,
        leaf_entry_id=leaf,
        created_at=moment if known is None else known.created_at,
        updated_at=moment,
    )


def _is_same(known: rows.KnownEntry, ready: Ready) -> bool:
    """Return whether an entry here is what a record says: read from the same line, or with the same content."""
    if known.payload is None:
        return False
    prepared = ready.prepared
    if known.payload == prepared.payload_text and known.kind == prepared.kind:
        return True
    here, there = orjson.loads(known.payload), orjson.loads(prepared.payload_text)
    mine = here.get("provider_meta", {}).pop(SOURCE_META, {})
    theirs = there.get("provider_meta", {}).pop(SOURCE_META, {})
    if mine.get("digest") == theirs.get("digest"):
        return True
    return bool(known.kind == prepared.kind and here == there)


class Findings:
    """Collects what is not as it should be: the first ones whole, all of them counted by kind."""

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self._limit = limit
        self.kept: list[ImportFinding] = []
        self.count = 0
        self.kinds: dict[str, int] = {}

    def add(self, kind: str, message: str, line: int | None, offset: int | None) -> None:
        self.count += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if len(self.kept) < self._limit:
            self.kept.append(ImportFinding(self.path, kind, message, line, offset))

    def drop(self, kind: str) -> None:
        """Take back what was found of a kind: it is looked at again."""
        self.kept = [one for one in self.kept if one.kind != kind]
        self.count -= self.kinds.pop(kind, 0)
