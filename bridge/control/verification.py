"""Use cases that check what is stored: entries and chains by ``integrity``, states by ``workspaces``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint, find_session
from bridge.foundation.errors import NotCanonical
from bridge.integrity.chain import Finding, Report
from bridge.integrity.store import session_head, session_ids, state_digests
from bridge.integrity.verify import Verdict, root_of, seal_root, verify_other_chains, verify_whole_session
from bridge.semantics.stamps import UnknownReason
from bridge.storage.transaction import Connection
from bridge.workspaces.errors import StateDamaged
from bridge.workspaces.store import load_manifest, load_state


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found: one verdict per session, and one per chain that is no session's."""

    sessions: tuple[Verdict, ...]
    chains: tuple[Verdict, ...]

    @property
    def is_healthy(self) -> bool:
        return all(verdict.is_healthy for verdict in (*self.sessions, *self.chains))

    def to_json(self) -> dict[str, Any]:
        return {
            "status": "healthy" if self.is_healthy else "faulty",
            "sessions": [
                {"session_id": verdict.subject, "session_root": verdict.session_root, **verdict.to_json()}
                for verdict in self.sessions
            ],
            "chains": [{"chain_id": verdict.subject, **verdict.to_json()} for verdict in self.chains],
        }


@dataclass(frozen=True, slots=True)
class SessionRoot:
    """The root of a session and the last sequence that it covers."""

    session_id: str
    session_root: str
    sequence: int

    def to_json(self) -> dict[str, Any]:
        return {"session_id": self.session_id, "session_root": self.session_root, "sequence": self.sequence}


def verify(controller: Controller, standpoint: Standpoint, session: str | None) -> Verification:
    """Recompute everything that is stored of one session, or of all and of every other chain. Writes nothing.

    Each session is looked at in a snapshot of its own, so that a long verification does not keep the database from
    clearing its log.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If a session is named that cannot be found.
    """
    known: dict[str, Finding | None] = {}
    with controller.store.read() as connection:
        if session is not None:
            wanted = [find_session(connection, standpoint, session)]
            chains: list[Verdict] = []
        else:
            wanted, chains = session_ids(connection), verify_other_chains(connection)
    verdicts = []
    for session_id in wanted:
        with controller.store.read() as connection:
            verdict = verify_whole_session(connection, session_id)
            _verify_states(verdict.report, connection, session_id, known)
            verdicts.append(verdict)
    return Verification(tuple(verdicts), tuple(chains))


def read_root(controller: Controller, standpoint: Standpoint, session: str | None) -> SessionRoot:
    """Return the root of a session, and record in its chain that this root was given out.

    Raises
    ------
    TreeUnsound
        If its entries do not form one tree.
    SessionNotFound, AmbiguousReference, InvalidReference
        If it cannot be found.
    """
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        root = root_of(connection, session_id)
        head = session_head(connection, session_id)
    sequence = 0 if head is None else head[1] - 1
    controller.recorder.transact(
        lambda recording: seal_root(recording.tx, session_id, root, sequence, recording.moment)
    )
    return SessionRoot(session_id, root, sequence)


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
