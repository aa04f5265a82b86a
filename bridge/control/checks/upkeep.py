"""Checking a store as a whole, and setting damaged sessions aside so that their siblings stay usable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bridge.control.checks.verification import Verification, index_faults, verify
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import Standpoint
from bridge.conversations.condition import store
from bridge.conversations.soundness import MAX_FLAWS, Flaw, check_sessions
from bridge.foundation.canonical import canonical_text
from bridge.integrity.events import SESSION_QUARANTINED, SESSION_RELEASED
from bridge.recall import index
from bridge.storage.checking import Problem, check_database
from bridge.storage.copying import CopyProgress, TableDigest, copy_store


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What a check found.

    ``quarantined`` are the sessions that are set aside now, ``released`` those that were and are sound again.
    """

    problems: tuple[Problem, ...]
    flaws: tuple[Flaw, ...]
    quarantined: tuple[str, ...]
    released: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not (self.problems or self.flaws)

    def to_json(self) -> dict[str, Any]:
        return {
            "sound": self.is_sound,
            "problems": [asdict(problem) for problem in self.problems],
            "flaws": [asdict(flaw) for flaw in self.flaws],
            "quarantined": list(self.quarantined),
            "released": list(self.released),
        }


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """A copy that is equal to its original: what each table holds, and what verifying the copy found."""

    target: str
    tables: tuple[TableDigest, ...]
    verification: Verification

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "rows": sum(table.rows for table in self.tables),
            "tables": [asdict(table) for table in self.tables],
            "verification": self.verification.to_json(),
        }


def copy_store_to(
    controller: Controller, url: str, *, progress: CopyProgress = lambda _table, _rows: None
) -> StoreCopy:
    """Copy the store to another database and verify every session and chain there.

    Raises
    ------
    CopyRefused
        If the target holds a store with rows, or the copy is not equal; then nothing is left of it.
    DatabaseFailed, DatabaseBusy, InvalidConfiguration
        If the target cannot be used.
    """
    settings = replace(controller.settings, database_url=url)
    with Controller(settings, clock=controller.clock, environment=controller.environment) as target:
        digests = copy_store(controller.store, target.store, progress=progress)
        return StoreCopy(target.store.place, tuple(digests), verify(target, Standpoint(), None))


def check_store(controller: Controller) -> StoreCheck:
    """Check the database, the shape of every session and the search index.

    Damaged sessions are set aside, those that are sound again released; a damaged index is dropped.

    Raises
    ------
    DatabaseFailed, DatabaseBusy
        If the check cannot be made, or its outcome not be written.
    """
    with controller.store.read() as connection:
        problems = check_database(connection)
        flaws = list(check_sessions(connection))
        before = set(store.list_quarantined(connection))
    by_session: dict[str, list[Flaw]] = {}
    for flaw in flaws:
        by_session.setdefault(flaw.session_id, []).append(flaw)
    released = sorted(before - by_session.keys())
    if by_session or released:
        controller.recorder.transact(lambda recording: _set_aside(recording, by_session, released, before))
    if not problems:  # in a damaged database nothing more is written, and the index is the least of it
        problems = _search_index_problems(controller)
    listed = [flaw for found in by_session.values() for flaw in found[:MAX_FLAWS]]
    return StoreCheck(tuple(problems), tuple(listed), tuple(sorted(by_session)), tuple(released))


def _search_index_problems(controller: Controller) -> list[Problem]:
    """Return what is wrong with the search index; a damaged one is dropped, since the next search builds it anew."""
    _, found = index_faults(controller)
    if not found:
        return []
    controller.store.write(index.drop)
    message = f"{found[0].message} It was dropped; the next search builds it anew."
    return [Problem("index_damaged", found[0].subject, message)]


def _set_aside(
    recording: RecordingTransaction,
    by_session: Mapping[str, Sequence[Flaw]],
    released: Sequence[str],
    before: set[str],
) -> None:
    for session_id, flaws in by_session.items():
        findings = canonical_text([asdict(flaw) for flaw in flaws[:MAX_FLAWS]])
        store.put_quarantine(recording.tx, session_id, flaws[0].code, findings, recording.moment)
        if session_id not in before:
            recording.event(session_id, SESSION_QUARANTINED, {"reason": flaws[0].code, "flaws": len(flaws)})
    for session_id in released:
        store.delete_quarantine(recording.tx, session_id)
        recording.event(session_id, SESSION_RELEASED, {})
