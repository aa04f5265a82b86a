"""The one place where the forest is written: prepare outside the transaction, then entry, head, cursors and
audit event together inside it.

Preparing (redaction, validation, canonical text, payload hash) needs no lock and may run on any thread.
Inside are only the steps that depend on the session's state: sequence, parent, entry hash, rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar

from bridge.control.appending import LoopQueue
from bridge.conversations import forest
from bridge.conversations.errors import PayloadTooLarge
from bridge.conversations.models import (
    ENTRY_FIELDS,
    ENTRY_HASH_AT,
    ID_AT,
    PARENT_AT,
    ROOT_KIND,
    Appended,
    Entry,
    EntryDraft,
    HeadMove,
    NewSession,
    PreparedEntry,
    Session,
    Visibility,
)
from bridge.conversations.store import parent_session_of, update_session
from bridge.foundation.canonical import canonical_bytes, parse_json
from bridge.foundation.clock import Clock, format_timestamp, parse_timestamp
from bridge.foundation.hashing import digest_hex
from bridge.foundation.outlines import outline_of
from bridge.foundation.redaction import redact
from bridge.foundation.texts import require_storable
from bridge.integrity.chain import append_event
from bridge.integrity.events import ENTRY_APPENDED, HEAD_MOVED, SESSION_CREATED
from bridge.integrity.recorded import BESIDE_COLUMNS, ROW_COLUMNS
from bridge.lineage.descent import MAX_DEPTH, require_acyclic
from bridge.semantics.errors import InvalidPayload
from bridge.semantics.kinds import default_visibility
from bridge.semantics.stamps import UNSTAMPED, Stamp
from bridge.semantics.validation import validate, validate_plain
from bridge.storage.longtexts import LONG_TEXT_BYTES
from bridge.storage.store import Store
from bridge.storage.transaction import Transaction

#: Largest payload of one entry, in bytes of canonical JSON; larger texts belong into files.
MAX_PAYLOAD_BYTES: Final = 4 * 1024 * 1024

#: Where a row has what its event holds beside the hash.
BESIDE_AT: Final = tuple((ENTRY_FIELDS.index(name), name) for name in BESIDE_COLUMNS)

T = TypeVar("T")


class RecordingTransaction:
    """An open write transaction in which several recordings, and rows of ``control`` itself, become one.

    Obtained from :meth:`Recorder.transact`; gone when that function returns. ``moment`` is the time of the
    transaction as text: everything in it happened at once.
    """

    def __init__(self, recorder: Recorder, tx: Transaction, moment: str) -> None:
        self._recorder = recorder
        self.tx = tx
        self.moment = moment

    def append(self, session_id: str, entry: EntryDraft | PreparedEntry, stamp: Stamp = UNSTAMPED) -> Appended:
        """Append an entry (see ``forest.append``) and its audit event.

        A draft is prepared here, under the lock; hand over prepared entries where it matters.
        """
        prepared = self._recorder.prepare(entry, stamp) if isinstance(entry, EntryDraft) else entry
        appended = forest.append(self.tx, session_id, prepared, self.moment)
        if appended.is_new:
            row = appended.row
            body = {
                "entry_id": row[ID_AT],
                "entry_hash": row[ENTRY_HASH_AT],
                "parent_entry_id": row[PARENT_AT],
                "head": appended.head_entry_id,
            }
            # What no entry hash covers: how the stamp was taken, and where the entry came from.
            for at, name in BESIDE_AT:
                if row[at] is not None:
                    body[name] = row[at]
            append_event(self.tx, session_id, ENTRY_APPENDED, body, self.moment)
        return appended

    def create_session(self, new: NewSession, stamp: Stamp = UNSTAMPED) -> Session:
        """Make a session with its root, and its audit event."""
        return self._create(new, {}, stamp)

    def fork(self, entry_id: str, new: NewSession, stamp: Stamp = UNSTAMPED) -> Session:
        """Make a session that goes on from an entry of another one; nothing is copied."""
        return self._create(new, forest.fork_payload(self.tx.connection, entry_id), stamp)

    def take_in_session(
        self, new: NewSession, source: Mapping[str, Any], created_at: str, stamp: Stamp, *, origin: str | None = None
    ) -> Session:
        """Make a session that another program recorded, as of when it began there.

        Parameters
        ----------
        source
            What the other program says about it; kept in its root.
        origin
            The entry here that it goes on from, if it is a fork.
        """
        forked = {} if origin is None else forest.fork_payload(self.tx.connection, origin)
        return self._create(new, forked, stamp, source=source, created_at=created_at)

    def move_head(self, session_id: str, entry_id: str, *, expected_head: str | None = None) -> HeadMove:
        """Move a session's head (see ``forest.move_head``); recorded only if it moves."""
        move = forest.move_head(self.tx, session_id, entry_id, self.moment, expected_head=expected_head)
        return self._record_move(move)

    def back(self, session_id: str, *, steps: int = 1, expected_head: str | None = None) -> HeadMove:
        """Move a session's head up by so many entries (see ``forest.back``)."""
        move = forest.back(self.tx, session_id, self.moment, steps=steps, expected_head=expected_head)
        return self._record_move(move)

    def label(self, session_id: str, entry_id: str, name: str) -> str | None:
        """Name an entry; return the entry that had the name before. The chain keeps every earlier meaning."""
        previous = forest.set_label(self.tx, session_id, entry_id, name, self.moment)
        if previous != entry_id:
            body = {"name": forest.check_label(name), "entry_id": entry_id, "previous_entry_id": previous}
            self.event(session_id, "label.set", body)
        return previous

    def remove_label(self, session_id: str, name: str) -> str | None:
        """Remove a label; return the entry that it named, None if there was none."""
        previous = forest.remove_label(self.tx, session_id, name)
        if previous is not None:
            self.event(session_id, "label.removed", {"name": name, "previous_entry_id": previous})
        return previous

    def open_cursor(self, session_id: str, owner: str, entry_id: str | None = None) -> str:
        """Open a cursor at an entry, or at the head; return its leaf."""
        leaf = forest.open_cursor(self.tx, session_id, owner, entry_id, self.moment)
        self.event(session_id, "cursor.opened", {"owner": owner, "leaf_entry_id": leaf})
        return leaf

    def move_cursor(self, session_id: str, owner: str, entry_id: str) -> str:
        """Set a cursor to another entry; return where it was."""
        previous = forest.move_cursor(self.tx, session_id, owner, entry_id)
        if previous != entry_id:
            body = {"owner": owner, "leaf_entry_id": entry_id, "previous_entry_id": previous}
            self.event(session_id, "cursor.moved", body)
        return previous

    def close_cursor(self, session_id: str, owner: str) -> str:
        """Close a cursor; return its last leaf."""
        leaf = forest.close_cursor(self.tx, session_id, owner)
        self.event(session_id, "cursor.closed", {"owner": owner, "leaf_entry_id": leaf})
        return leaf

    def update_session(self, session_id: str, **changes: str | None) -> Session:
        """Change ``label``, ``status``, ``workspace_id``, ``agent_id`` or ``harness`` of a session."""
        unknown = set(changes) - _CHANGEABLE
        if unknown:
            raise ValueError(f"a session's {sorted(unknown)} cannot be changed")
        require_storable(**changes)
        forest.require_session(self.tx.connection, session_id)
        update_session(self.tx, session_id, self.moment, **changes)
        self.event(session_id, "session.updated", changes)
        return forest.require_session(self.tx.connection, session_id)

    def event(self, chain_id: str, event_type: str, body: Mapping[str, Any]) -> None:
        """Append an audit event of one's own: for changes that are not recordings."""
        append_event(self.tx, chain_id, event_type, body, self.moment)

    def _create(
        self,
        new: NewSession,
        root_payload: dict[str, Any],
        stamp: Stamp,
        *,
        source: Mapping[str, Any] | None = None,
        created_at: str | None = None,
    ) -> Session:
        if new.parent_session_id is not None:
            parent_of = partial(parent_session_of, self.tx.connection)
            require_acyclic(new.id, new.parent_session_id, parent_of, limit=MAX_DEPTH)
        payload = root_payload if source is None else {**root_payload, "source": dict(source)}
        draft = EntryDraft(kind=ROOT_KIND, payload=payload, created_at=created_at or self.moment)
        session, root = forest.create_session(self.tx, new, self._recorder.prepare(draft, stamp))
        body = {
            "entry_id": root.id,
            "entry_hash": root.entry_hash,
            "head": root.id,
            "kind": session.kind,
            "parent_session_id": session.parent_session_id,
            "parent_relation": session.parent_relation,
            # A session that another program recorded is as old as it says.
            "row": {name: getattr(session, name) for name in (*ROW_COLUMNS, *(_TIMES if created_at else ()))},
            **root_payload,
            **beside_of(root),
        }
        append_event(self.tx, session.id, SESSION_CREATED, body, self.moment)
        return session

    def _record_move(self, move: HeadMove) -> HeadMove:
        if move.from_entry_id != move.to_entry_id:
            body = {"from": move.from_entry_id, "head": move.to_entry_id}
            append_event(self.tx, move.session_id, HEAD_MOVED, body, self.moment)
        return move


def beside_of(entry: Entry) -> dict[str, str]:
    """Return what of an entry no hash covers, as its event holds it."""
    return {name: value for name in BESIDE_COLUMNS if (value := getattr(entry, name)) is not None}


_TIMES = ("created_at", "updated_at")
_CHANGEABLE = frozenset({"label", "status", "workspace_id", "agent_id", "harness"})


class Recorder:
    """Records into the forest. Safe to share between threads.

    Parameters
    ----------
    store
        Where to; its writer thread runs the transactions.
    clock
        Source of ``created_at`` and of audit times.
    max_payload_bytes
        Largest payload of one entry.
    """

    def __init__(self, store: Store, clock: Clock, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self._store = store
        self._clock = clock
        self._max_payload_bytes = max_payload_bytes
        # The queue of the loop that appended last; another loop makes its own, and both work.
        self._loop_queue: LoopQueue | None = None

    def prepare(self, draft: EntryDraft, stamp: Stamp = UNSTAMPED) -> PreparedEntry:
        """Redact, validate, encode and hash a draft: all that can be done before the transaction.

        Raises
        ------
        TransientKind, UnknownKind, InvalidPayload
            If the draft does not fit the current semantic schema.
        NotCanonical
            If the payload is not plain JSON.
        InvalidText
            If the external id, its source or the cursor cannot be kept.
        PayloadTooLarge
            If its canonical text is longer than ``max_payload_bytes``.
        """
        _require_storable(draft)
        kind = draft.kind
        value, _, _, encoded = redact(_payload_of(draft))
        validate(kind, value, canonical=encoded)
        if len(encoded) > self._max_payload_bytes:
            raise _too_large(kind, len(encoded), self._max_payload_bytes)
        # In the order of the fields: by their names it takes twice as long.
        return PreparedEntry(
            kind,
            encoded.decode(),
            digest_hex(encoded),
            draft.context_visibility or default_visibility(kind),
            stamp,
            self._clock.timestamp() if draft.created_at is None else self._time_of(draft.created_at),
            draft.external_id,
            None if draft.external_id is None else draft.external_source,
            draft.parent_entry_id,
            draft.cursor,
            draft.expected_head,
            payload_outline=outline_of(value) if len(encoded) > LONG_TEXT_BYTES else None,
        )

    def prepare_read(
        self,
        kind: str,
        payload: dict[str, Any],
        *,
        visibility: Visibility | None,
        external_id: str,
        external_source: str,
        created_at: str,
    ) -> PreparedEntry:
        """Prepare what was read from a text in which no secret is: at half the cost of :meth:`prepare`.

        Parameters
        ----------
        payload
            Plain JSON values, of a text that is not suspicious (``redaction.is_suspicious``).
        external_id, external_source
            Printable texts.
        created_at
            A time as entries have it.

        Raises
        ------
        TransientKind, UnknownKind, InvalidPayload, NotCanonical, PayloadTooLarge
            As :meth:`prepare` does.
        """
        encoded = canonical_bytes(payload)
        validate_plain(kind, payload)
        if len(encoded) > self._max_payload_bytes:
            raise _too_large(kind, len(encoded), self._max_payload_bytes)
        return PreparedEntry(
            kind,
            encoded.decode(),
            sha256(encoded).hexdigest(),
            visibility or default_visibility(kind),
            UNSTAMPED,
            created_at,
            external_id,
            external_source,
            payload_outline=outline_of(payload) if len(encoded) > LONG_TEXT_BYTES else None,
        )

    def append(
        self,
        session_id: str,
        draft: EntryDraft,
        stamp: Stamp = UNSTAMPED,
        *,
        first: Callable[[RecordingTransaction], None] | None = None,
    ) -> Future[Appended]:
        """Prepare an entry now and append it on the writer thread; the future resolves once it is durable.

        Parameters
        ----------
        first
            Runs before the append in the same transaction (storing the repository state that the stamp names). It
            may run again if that is undone, so it does nothing but read and write through what it is given.

        Raises
        ------
        BridgeError
            What preparing raises, at once. What appending raises comes through the future.
        """
        return self._store.submit(self._append_job(session_id, draft, stamp, first), is_repeatable=True)

    async def append_async(
        self,
        session_id: str,
        draft: EntryDraft,
        stamp: Stamp = UNSTAMPED,
        *,
        first: Callable[[RecordingTransaction], None] | None = None,
    ) -> Appended:
        """Append an entry from a task of an event loop; return once it is durable. Raises what :meth:`append` does.

        What the tasks of one loop append at the same time shares one transaction. Cancelled before it began, nothing
        is written; later the entry is written as a whole.
        """
        job = self._append_job(session_id, draft, stamp, first)
        return await self._queue_of_loop().write(job, is_repeatable=True)

    async def append_prepared(
        self,
        session_id: str,
        prepared: PreparedEntry,
        *,
        first: Callable[[RecordingTransaction], None] | None = None,
    ) -> Appended:
        """Append what was prepared before, as :meth:`append_async` does."""
        job = self._prepared_job(session_id, prepared, self._now(), first)
        return await self._queue_of_loop().write(job, is_repeatable=True)

    def append_now(
        self,
        session_id: str,
        draft: EntryDraft,
        stamp: Stamp = UNSTAMPED,
        *,
        first: Callable[[RecordingTransaction], None] | None = None,
    ) -> Entry:
        """Append an entry and return it once it is durable. Raises what :meth:`append` does."""
        return self._store.write(self._append_job(session_id, draft, stamp, first), is_repeatable=True).entry

    def transact(self, fn: Callable[[RecordingTransaction], T]) -> T:
        """Run a function in one write transaction and return its result once it is durable.

        If the function raises, nothing of it is written. It must be quick, and must not wait for other writes.
        """
        moment = self._now()
        return self._store.write(lambda tx: fn(RecordingTransaction(self, tx, moment)))

    def submit(self, fn: Callable[[RecordingTransaction], T]) -> Future[T]:
        """Queue a function as :meth:`transact` runs it, and return its future."""
        moment = self._now()
        return self._store.submit(lambda tx: fn(RecordingTransaction(self, tx, moment)))

    def create_session(self, new: NewSession, stamp: Stamp = UNSTAMPED) -> Session:
        """Make a session with its synthetic root. Raises as ``forest.create_session``."""
        return self.transact(lambda recording: recording.create_session(new, stamp))

    def fork(self, entry_id: str, new: NewSession, stamp: Stamp = UNSTAMPED) -> Session:
        """Make a session that goes on from an entry of another one."""
        return self.transact(lambda recording: recording.fork(entry_id, new, stamp))

    def move_head(self, session_id: str, entry_id: str, *, expected_head: str | None = None) -> HeadMove:
        """Move a session's head; no file changes. Raises as ``forest.move_head``."""
        return self.transact(lambda recording: recording.move_head(session_id, entry_id, expected_head=expected_head))

    def back(self, session_id: str, *, steps: int = 1, expected_head: str | None = None) -> HeadMove:
        """Move a session's head up by so many entries. Raises as ``forest.back``."""
        return self.transact(lambda recording: recording.back(session_id, steps=steps, expected_head=expected_head))

    def label(self, session_id: str, entry_id: str, name: str) -> str | None:
        """Name an entry; return the entry that had the name before. Raises as ``forest.set_label``."""
        return self.transact(lambda recording: recording.label(session_id, entry_id, name))

    def _append_job(
        self,
        session_id: str,
        draft: EntryDraft,
        stamp: Stamp,
        first: Callable[[RecordingTransaction], None] | None,
    ) -> Callable[[Transaction], Appended]:
        prepared = self.prepare(draft, stamp)
        moment = prepared.created_at if draft.created_at is None else self._now()
        return self._prepared_job(session_id, prepared, moment, first)

    def _prepared_job(
        self,
        session_id: str,
        prepared: PreparedEntry,
        moment: str,
        first: Callable[[RecordingTransaction], None] | None,
    ) -> Callable[[Transaction], Appended]:
        def run(tx: Transaction) -> Appended:
            recording = RecordingTransaction(self, tx, moment)
            if first is not None:
                first(recording)
            return recording.append(session_id, prepared)

        return run

    def _queue_of_loop(self) -> LoopQueue:
        queue = self._loop_queue
        loop = asyncio.get_running_loop()
        if queue is None or queue.loop is not loop:
            queue = self._loop_queue = LoopQueue(self._store, loop)
        return queue

    def _now(self) -> str:
        return self._clock.timestamp()

    def _time_of(self, created_at: str) -> str:
        try:
            # Hashes cover the stored text: other precisions and offsets become the one form that is stored.
            return format_timestamp(parse_timestamp(created_at))
        except ValueError as error:
            raise InvalidPayload(
                f"created_at is not a time with an offset: {created_at[:80]!r}. Nothing was written.",
                details={"fields": [{"path": "/created_at", "message": "is not an ISO 8601 time with an offset"}]},
            ) from error


def _too_large(kind: str, size: int, limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The payload of {kind} has {size} bytes; an entry holds {limit}. Nothing was written.",
        details={"bytes": size, "limit": limit},
    )


def _require_storable(draft: EntryDraft) -> None:
    if draft.external_id is not None or draft.cursor is not None:
        require_storable(external_id=draft.external_id, external_source=draft.external_source, cursor=draft.cursor)


def _payload_of(draft: EntryDraft) -> Any:
    if draft.payload_text is not None:
        return parse_json(draft.payload_text)
    return draft.payload
