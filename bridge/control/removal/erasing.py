"""Use case: the payload of one entry is erased, wholly or where it holds something; its hash stays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bridge.control.contents.keeping import drop_states
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.control.removal import store
from bridge.control.removal.traces import backups_with, mask_raw_rows, mask_task_files, needles_of
from bridge.control.standpoint import Standpoint, find_entry
from bridge.conversations.errors import EraseRefused
from bridge.conversations.models import Entry
from bridge.conversations.references import require_entry
from bridge.conversations.removal.store import entries_with_payload, replace_payload
from bridge.conversations.soundness import require_sound
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import short_entry
from bridge.integrity.removal.store import tombstones_of
from bridge.integrity.removal.tombstones import WHOLE, masked_text, withhold
from bridge.recall.index import forget_session
from bridge.workspaces.store import kept_manifests


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, and where the text still is.

    Parameters
    ----------
    matches
        How many places of the payload were masked; None if all of it went.
    raw_texts
        Raw rows and files of tasks in which it was masked as well.
    states_dropped
        Kept contents of files behind the entry's stamp that are kept no longer.
    also_in
        Other entries that hold the same payload.
    left
        Files in which it may still stand, since they are too large to rewrite.
    backups
        Backups beside the store that still hold it.
    not_scrubbed
        Why the database's own files may still hold what was deleted from them; None if they do not.
    """

    entry_id: str
    session_id: str
    payload_hash: str
    matches: int | None
    raw_texts: int
    states_dropped: int
    also_in: tuple[str, ...]
    left: tuple[str, ...]
    backups: tuple[str, ...]
    not_scrubbed: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "entry_id": self.entry_id,
            "session_id": self.session_id,
            "payload_hash": self.payload_hash,
            "matches": self.matches,
            "raw_texts": self.raw_texts,
            "states_dropped": self.states_dropped,
            "also_in": list(self.also_in),
            "left": list(self.left),
            "backups": list(self.backups),
            "not_scrubbed": self.not_scrubbed,
        }


def erase(controller: Controller, standpoint: Standpoint, reference: str, *, pattern: str | None = None) -> Erased:
    """Erase an entry's payload: from its row, the search index, kept contents of files, and what is kept raw.

    Ids, times and hashes stay, so every hash above it holds; a verification says "withheld".

    Parameters
    ----------
    pattern
        A regular expression; only what it matches in the payload's strings is masked. None: all of the payload.

    Raises
    ------
    EraseRefused
        If the entry is a root, is erased already, or does not hold the pattern; or that is no regular expression.
    EntryNotFound, SessionNotFound, AmbiguousReference, InvalidReference
        If the entry cannot be found.
    SessionQuarantined
        If its session was found damaged: what is wrong with it must stay visible.
    """
    expression = None if pattern is None else _compiled(pattern)
    with controller.store.read() as connection:
        entry = require_entry(connection, find_entry(connection, standpoint, reference))
        require_sound(connection, entry.session_id)
    text, matches = _tombstone(entry, expression)
    needles = expression if expression is not None else needles_of(entry.payload_text)

    def write(recording: RecordingTransaction) -> int:
        tx = recording.tx
        current = require_entry(tx.connection, entry.id)
        if current.payload_text != entry.payload_text:
            raise EraseRefused(f"{short_entry(entry.id)} was erased meanwhile. Nothing was changed.")
        forget_session(tx, entry.session_id)
        tombstone = digest_hex(text.encode())
        withhold(
            tx,
            entry.session_id,
            entry.id,
            payload_hash=entry.payload_hash,
            tombstone_hash=tombstone,
            in_part=matches is not None,
            moment=recording.moment,
        )
        replace_payload(tx, entry.session_id, entry.id, text)
        return 0 if needles is None else mask_raw_rows(tx, entry.session_id, needles)

    rows = controller.recorder.transact(write)
    files, left, dropped = 0, list[str](), _drop_contents(controller, entry)
    with controller.store.read() as connection:
        tasks = store.delegations_of(connection, entry.session_id)
        also_in = entries_with_payload(connection, entry.payload_hash, beside=entry.id)
        erased = {one for one in also_in if one in tombstones_of(connection, one.rpartition("-")[0])}
    if needles is not None:
        files, left = mask_task_files(controller.settings.tasks, tasks, needles)
    return Erased(
        entry_id=entry.id,
        session_id=entry.session_id,
        payload_hash=entry.payload_hash,
        matches=matches,
        raw_texts=rows + files,
        states_dropped=dropped,
        also_in=tuple(one for one in also_in if one not in erased),
        left=tuple(left),
        backups=tuple(backups_with(controller, entry_id=entry.id)),
        not_scrubbed=controller.store.scrub(),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise EraseRefused(
            f"The pattern {pattern[:80]!r} is no regular expression: {error}. Nothing was changed."
        ) from error


def _tombstone(entry: Entry, pattern: re.Pattern[str] | None) -> tuple[str, int | None]:
    """Return what will stand in the place of a payload, and how many matches that masks; None for all of it."""
    name = short_entry(entry.id)
    if entry.is_root:
        raise EraseRefused(f"{name} is the root of its session and holds no words. Nothing was changed.")
    if entry.payload_text == WHOLE:
        raise EraseRefused(f"{name} is erased already. Nothing was changed.")
    if pattern is None:
        return WHOLE, None
    try:
        text, matches = masked_text(entry.payload_text, pattern)
    except NotCanonical as error:
        raise EraseRefused(
            f"The payload of {name} cannot be masked in part: {error.message} Nothing was changed.",
            hint="Erase all of it: bridge erase ENTRY",
        ) from error
    if not matches:
        raise EraseRefused(f"{name} does not hold the pattern. Nothing was changed.", details={"entry_id": entry.id})
    return text, matches


def _drop_contents(controller: Controller, entry: Entry) -> int:
    """Let go of the contents of files that were kept behind an entry's stamp: what is secret may be in them."""
    if entry.state_digest is None:
        return 0
    with controller.store.read() as connection:
        dirty = store.dirty_hashes_of(connection, [entry.state_digest])
        keys = {one[:2] for one in kept_manifests(connection) if one[1] in dirty}
    return drop_states(controller.store, controller.settings, keys)
