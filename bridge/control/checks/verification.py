"""Use cases that check what is stored: entries and chains by ``integrity``, states by ``workspaces``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import SystemRandom
from typing import Any, Final, TypeVar

from bridge.control.checks.anchoring import anchor_log, bring_log_up, keep_verified, known_anchors
from bridge.control.checks.bindings import verify_bindings
from bridge.control.checks.states import verify_named_states, verify_stored_states, verify_texts
from bridge.control.checks.store import delegating_sessions
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.soundness import require_sound
from bridge.foundation.texts import is_storable
from bridge.integrity.errors import AnchorDamaged, AnchorNotReached, LogUnsound
from bridge.integrity.log.checking import Anchor, LogVerdict, parse_log_root, verify_log
from bridge.integrity.log.leaves import LogRoot
from bridge.integrity.removal.store import HandedRoot, add_handed_root
from bridge.integrity.report import Finding, Report, Verdict, shown
from bridge.integrity.store import event_count, session_head, session_ids
from bridge.integrity.subtrees import roots
from bridge.integrity.verify import seal_root, verify_other_chains, verify_whole_session
from bridge.recall import index
from bridge.recall.checking import IndexFault, check_entries, check_session, check_totals, stretches
from bridge.storage.errors import DatabaseFailed
from bridge.storage.prepared import any_texts
from bridge.storage.transaction import Connection

T = TypeVar("T")

#: What can be verified on its own: entries and their tree; chains, heads and rows; the log of all events with its
#: anchors; the repository states that entries name; the search index.
PARTS: Final = ("tree", "chain", "log", "states", "index")


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found: one verdict per session, and one per chain that is no session's.

    ``stored`` are one verdict each about the long texts and the repository states of the whole store. They, ``log`` and
    ``index`` are empty or None where they were not looked at.
    """

    sessions: tuple[Verdict, ...]
    chains: tuple[Verdict, ...]
    log: LogVerdict | None = None
    index: Verdict | None = None
    stored: tuple[Verdict, ...] = ()

    @property
    def is_healthy(self) -> bool:
        found = (*self.sessions, *self.chains, *self.stored, self.log, self.index)
        return all(verdict is None or verdict.is_healthy for verdict in found)

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "healthy" if self.is_healthy else "faulty",
            "sessions": [
                {"session_id": verdict.subject, "session_root": verdict.session_root, **verdict.to_json()}
                for verdict in self.sessions
            ],
            "chains": [{"chain_id": verdict.subject, **verdict.to_json()} for verdict in self.chains],
            "stored": [{"part": verdict.subject, **verdict.to_json()} for verdict in self.stored],
            "log": None
            if self.log is None
            else {**self.log.to_json(), **Verdict("log", None, self.log.report).to_json()},
            "index": None if self.index is None else self.index.to_json(),
        }


@dataclass(frozen=True, slots=True)
class SessionRoot:
    """The root of a session and the last sequence that it covers."""

    session_id: str
    session_root: str
    sequence: int

    def to_json(self) -> dict[str, Any]:
        return {"session_id": self.session_id, "session_root": self.session_root, "sequence": self.sequence}


def verify(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    only: Collection[str] = (),
    since: str | None = None,
    whole_index: bool = False,
) -> Verification:
    """Recompute what is stored of one session, or of all and of every other chain. Writes nothing into the store.

    Each session is looked at in a snapshot of its own, so that a long verification does not keep the database from
    clearing its log. When everything was looked at and is healthy, size and root of the log are anchored.

    Parameters
    ----------
    only
        The :data:`PARTS` to look at; none means all that concern what was asked for: of one session neither the log
        nor the index, which are about the whole store.
    since
        An earlier log, as ``ROOT/SIZE``, that the log of now has to extend. The log is looked at then.
    whole_index
        Whether the search index is compared with all entries, and not only with a sample of them. It is looked at then.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If a session is named that cannot be found.
    InvalidLogRoot
        If ``since`` is something else.
    """
    parts = set(only or (PARTS if session is None else ("tree", "chain", "states")))
    earlier = None if since is None else parse_log_root(since)
    parts |= {"log"} if earlier is not None else set()
    parts |= {"index"} if whole_index else set()
    wanted, is_whole = _wanted(controller, standpoint, session, parts), session is None
    known: dict[str, Finding | None] = {}
    verdicts = [
        _read(controller, partial(_verify_session, session_id=session_id, parts=parts, known=known))
        for session_id in wanted
    ]
    chains: list[Verdict] = []
    if is_whole and "chain" in parts:
        chains = _read(controller, verify_other_chains)
        chains += _read(controller, partial(_verify_stray_tasks, sessions=set(wanted)))
    stored: list[Verdict] = []
    if is_whole and "tree" in parts:
        stored.append(_read(controller, verify_texts))
    if is_whole and "states" in parts:
        stored.append(_read(controller, partial(verify_stored_states, known=known)))
    log = _verify_log(controller, earlier) if "log" in parts else None
    index = _verify_index(controller, is_whole=whole_index) if "index" in parts else None
    found = Verification(tuple(verdicts), tuple(chains), log, index, tuple(stored))
    if log is not None and is_whole and parts >= {"chain", "log"} and found.is_healthy:
        keep_verified(controller, log.log)
    return found


def _wanted(controller: Controller, standpoint: Standpoint, session: str | None, parts: set[str]) -> list[str]:
    """Return the ids of the sessions to look at."""
    if session is not None:
        with controller.store.read() as connection:
            found = find_session(connection, standpoint, session)
        return [found] if parts & {"tree", "chain", "states"} else []
    return _read(controller, session_ids) if parts & {"tree", "chain", "states"} else []


def _read(controller: Controller, look: Callable[[Connection], T]) -> T:
    """Return what is found in a snapshot; if a text in it is not even UTF-8, look once more, taking it as it is."""
    with suppress(DatabaseFailed), controller.store.read() as connection:
        return look(connection)
    # Behind the failure, and not while it is dealt with: it holds on to a statement that it broke off.
    with controller.store.read() as connection, any_texts(connection):
        return look(connection)


def _verify_session(
    connection: Connection, *, session_id: str, parts: set[str], known: dict[str, Finding | None]
) -> Verdict:
    if not is_storable(session_id):
        report = Report()
        report.add("session_missing", session_id, "Rows name it as their session; no session can be called so.")
        return Verdict(shown(session_id), None, report)
    verdict = verify_whole_session(connection, session_id, tree="tree" in parts, chain="chain" in parts)
    if "chain" in parts:
        verify_bindings(verdict.report, connection, session_id, verdict.delegations)
    if "states" in parts:
        verify_named_states(verdict.report, connection, session_id, known)
    return verdict


def _verify_stray_tasks(connection: Connection, *, sessions: set[str]) -> list[Verdict]:
    """Return a verdict for each session that tasks name as theirs and that is not there."""
    verdicts = []
    for session_id in sorted(delegating_sessions(connection) - sessions):
        report = Report()
        if is_storable(session_id):
            verify_bindings(report, connection, session_id, {})
        report.add("evidence_altered", session_id, "Tasks name it as their session, and it is not there.")
        verdicts.append(Verdict(shown(session_id), None, report))
    return verdicts


def read_root(controller: Controller, standpoint: Standpoint, session: str | None) -> SessionRoot:
    """Return the root of a session, and record in its chain that this root was given out.

    Raises
    ------
    TreeUnsound
        If its entries do not form one tree.
    SessionQuarantined
        If it was found damaged: its root is nothing to rely on.
    SessionNotFound, AmbiguousReference, InvalidReference
        If it cannot be found.
    """
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        require_sound(connection, session_id)
        reading = roots.read(connection, session_id)
        handed = HandedRoot(reading.exact_through, event_count(connection, session_id))
        head = session_head(connection, session_id)
    sequence = 0 if head is None else head[1] - 1

    def record(recording: RecordingTransaction) -> None:
        roots.keep(recording.tx, reading)
        seal_root(recording.tx, session_id, reading.root, sequence, recording.moment)
        add_handed_root(recording.tx, session_id, reading.root, handed)

    controller.recorder.transact(record)
    with suppress(AnchorNotReached, AnchorDamaged, LogUnsound):  # a verification says so, and what of it
        anchor_log(controller)
    return SessionRoot(session_id, reading.root, sequence)


def _verify_log(controller: Controller, since: LogRoot | None) -> LogVerdict:
    damaged: AnchorDamaged | None = None
    anchors: list[Anchor] = []
    try:
        # Before the events are read: what is anchored meanwhile may be beyond them.
        anchors = known_anchors(controller)
    except AnchorDamaged as error:
        damaged = error
    if since is not None:
        with suppress(LogUnsound):  # what is missing is found below
            bring_log_up(controller)
    verdict = _read(controller, partial(verify_log, anchors=anchors, since=since))
    if damaged is not None:
        verdict.report.add(damaged.code, str(damaged.details["path"]), damaged.message)
    return verdict


def _verify_index(controller: Controller, *, is_whole: bool) -> Verdict:
    report = Report()
    report.checked, faults = index_faults(controller, is_whole=is_whole)
    for fault in faults:
        report.add("index_damaged", fault.subject, fault.message)
    return Verdict("recall_index", None, report)


def index_faults(controller: Controller, *, is_whole: bool = False) -> tuple[int, list[IndexFault]]:
    """Return how many entries the search index was compared with, and what is wrong with it.

    The database checks the structure; then the words of a sample of entries are worked out anew and looked up.

    Parameters
    ----------
    is_whole
        Whether to do so of all entries.
    """
    checked = 0
    faults: list[IndexFault] = []
    try:
        if not controller.store.write(index.is_sound):
            return 0, [IndexFault("recall_index", "It does not hold what its list of places says.")]
        with controller.store.read() as connection:
            faults += check_totals(connection)
            wanted = stretches(connection, None if is_whole else SystemRandom())
        for stretch in wanted:
            for first, count in stretch.pages():
                with controller.store.read() as connection:
                    found, wrong = check_entries(connection, stretch.session_id, first, count)
                checked += found
                faults += wrong
            with controller.store.read() as connection:
                faults += check_session(connection, stretch.session_id)
    except DatabaseFailed as error:
        faults.append(IndexFault("recall_index", error.message))
    return checked, faults
