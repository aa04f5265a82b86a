"""Use cases that check what is stored: entries and chains by ``integrity``, states by ``workspaces``."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bridge.control.checks.anchoring import anchor_log, bring_log_up, keep_verified, known_anchors
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.soundness import require_sound
from bridge.foundation.errors import NotCanonical
from bridge.integrity.chain import Finding, Report
from bridge.integrity.errors import AnchorDamaged, AnchorNotReached, LogUnsound
from bridge.integrity.log.checking import Anchor, LogVerdict, parse_log_root, verify_log
from bridge.integrity.log.leaves import LogRoot
from bridge.integrity.removal.store import HandedRoot, add_handed_root
from bridge.integrity.store import event_count, session_head, session_ids, state_digests
from bridge.integrity.subtrees import roots
from bridge.integrity.verify import Verdict, seal_root, verify_other_chains, verify_whole_session
from bridge.recall import index
from bridge.semantics.stamps import UnknownReason
from bridge.storage.errors import DatabaseFailed
from bridge.storage.transaction import Connection
from bridge.workspaces.errors import StateDamaged
from bridge.workspaces.store import load_manifest, load_state

#: What can be verified on its own: entries and their tree; chains, heads and rows; the log of all events with its
#: anchors; the repository states that entries name; the search index.
PARTS: Final = ("tree", "chain", "log", "states", "index")


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found: one verdict per session, and one per chain that is no session's.

    ``log`` and ``index`` are about the whole store, and None where they were not looked at.
    """

    sessions: tuple[Verdict, ...]
    chains: tuple[Verdict, ...]
    log: LogVerdict | None = None
    index: Verdict | None = None

    @property
    def is_healthy(self) -> bool:
        found = (*self.sessions, *self.chains, self.log, self.index)
        return all(verdict is None or verdict.is_healthy for verdict in found)

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "healthy" if self.is_healthy else "faulty",
            "sessions": [
                {"session_id": verdict.subject, "session_root": verdict.session_root, **verdict.to_json()}
                for verdict in self.sessions
            ],
            "chains": [{"chain_id": verdict.subject, **verdict.to_json()} for verdict in self.chains],
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
    known: dict[str, Finding | None] = {}
    chains: list[Verdict] = []
    wanted: list[str] = []
    with controller.store.read() as connection:
        if session is not None:
            wanted = [find_session(connection, standpoint, session)]
        elif parts & {"tree", "chain", "states"}:
            wanted = session_ids(connection)
            chains = verify_other_chains(connection) if "chain" in parts else []
    verdicts = []
    for session_id in wanted if parts & {"tree", "chain", "states"} else ():
        with controller.store.read() as connection:
            verdict = verify_whole_session(connection, session_id, tree="tree" in parts, chain="chain" in parts)
            if "states" in parts:
                _verify_states(verdict.report, connection, session_id, known)
            verdicts.append(verdict)
    log = _verify_log(controller, earlier) if "log" in parts else None
    index = _verify_index(controller) if "index" in parts else None
    found = Verification(tuple(verdicts), tuple(chains), log, index)
    if log is not None and session is None and parts >= {"chain", "log"} and found.is_healthy:
        keep_verified(controller, log.log)
    return found


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
    with controller.store.read() as connection:
        verdict = verify_log(connection, anchors, since=since)
    if damaged is not None:
        verdict.report.add(damaged.code, str(damaged.details["path"]), damaged.message)
    return verdict


def _verify_index(controller: Controller) -> Verdict:
    report = Report()
    fault = search_index_fault(controller)
    report.checked = 1
    if fault is not None:
        report.add("index_damaged", "recall_index", fault)
    return Verdict("recall_index", None, report)


def search_index_fault(controller: Controller) -> str | None:
    """Return what is wrong with the search index; None if nothing is."""
    try:
        if controller.store.write(index.is_sound):
            return None
    except DatabaseFailed as error:
        return error.message
    return "It does not hold what its list of places says."


def _verify_states(report: Report, connection: Connection, session_id: str, known: dict[str, Finding | None]) -> None:
    """Check the repository states that entries name; ``known`` keeps what was found about each."""
    for digest, entry_id in state_digests(connection, session_id):
        if digest not in known:
            known[digest] = _state_fault(connection, digest)
        report.checked += 1
        fault = known[digest]
        if fault is not None:
            report.add(fault.code, fault.subject, f"{fault.message} {entry_id} names it.")


def _state_fault(connection: Connection, digest: str) -> Finding | None:
    try:
        state = load_state(connection, digest)
        if state is UnknownReason.BASE_UNAVAILABLE:
            return Finding("state_missing", digest, "The repository state is not there.")
        if not isinstance(state, UnknownReason):
            load_manifest(connection, state.dirty_hash)
    except (StateDamaged, NotCanonical) as error:
        return Finding("state_altered", digest, error.message)
    return None
