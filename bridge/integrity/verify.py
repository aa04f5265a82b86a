"""What a verification says of each session: healthy, or which rows are not as they were recorded.

``chain.verify_session`` recomputes entries and events. Here comes what lies around them: the session's own row,
the head's counter, the origin of a fork, the tree as a whole, and the root that was last sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, Final

from bridge.integrity import store
from bridge.integrity.chain import (
    SESSION_CREATED,
    SESSION_IMPORTED,
    Finding,
    Report,
    append_event,
    body_of,
    last_import,
    verify_chain,
    verify_forest,
    verify_recorded,
)
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.removal.tombstones import removal_fault, removed_without_chain, tombstone_faults
from bridge.integrity.subtrees.roots import differing_pages
from bridge.integrity.tree import TreeNode, session_root
from bridge.storage.transaction import Connection, Transaction

#: Event that records the root of a session when somebody was given it.
ROOT_SEALED: Final = "root.sealed"
#: Event that changes columns of a session's row.
SESSION_UPDATED: Final = "session.updated"
#: Columns of a session's row that its creation records; updates record those they change.
_CREATED_COLUMNS: Final = ("kind", "parent_session_id", "parent_relation")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about one session, or about one chain that is no session's.

    Parameters
    ----------
    subject
        The id of the session or chain.
    session_root
        The recomputed root; None for a chain, and for a session that has none.
    report
        Rows recomputed and findings.
    is_removed
        Whether the chain is that of a session that was removed in order.
    """

    subject: str
    session_root: str | None
    report: Report
    is_removed: bool = False

    @property
    def is_healthy(self) -> bool:
        return self.report.is_valid

    def to_json(self) -> dict[str, Any]:
        return {
            "status": ("removed" if self.is_removed else "healthy") if self.is_healthy else "faulty",
            "checked": self.report.checked,
            "withheld": self.report.withheld,
            "problems": self.report.problems,
            "findings": [finding_to_json(finding) for finding in self.report.findings],
        }


def finding_to_json(finding: Finding) -> dict[str, str]:
    """Return a finding as an object."""
    return {"code": finding.code, "subject": finding.subject, "message": finding.message}


def verify_whole_session(connection: Connection, session_id: str, *, tree: bool = True, chain: bool = True) -> Verdict:
    """Recompute all that is stored of a session. Never raises for what is damaged: that is what it reports.

    Parameters
    ----------
    tree
        Whether entries, their tree, its sealed and imported roots, and what is kept of it are recomputed.
    chain
        Whether the chain is, and compared with entries, head, row and origin.
    """
    report, root = Report(), None
    if tree:
        report.include(verify_forest(connection, session_id))
    if chain:
        report.include(verify_recorded(connection, session_id))
        _verify_row(report, connection, session_id)
        _verify_counter(report, connection, session_id)
        _verify_origin(report, connection, session_id)
        for entry_id, fault in tombstone_faults(connection, session_id):
            report.add("tombstone_altered", entry_id, fault)
    if tree:
        root = _verify_tree(report, connection, session_id)
        _verify_seal(report, connection, session_id)
        _verify_import(report, connection, session_id, root)
    return Verdict(session_id, root, report)


def _verify_tree(report: Report, connection: Connection, session_id: str) -> str | None:
    """Return the root of a session; compare what is kept of its tree."""
    try:
        root = root_of(connection, session_id)
        differing = differing_pages(connection, session_id)
    except TreeUnsound as error:
        report.add("tree_unsound", str(error.details.get("entry_id", session_id)), error.message)
        return None
    for number in differing:
        report.add("subtrees_altered", f"{session_id} page {number}", "The subtree hashes kept there are not exact.")
    return root


def verify_other_chains(connection: Connection) -> list[Verdict]:
    """Verify the chains that are no session's; one that begins as a session's says that its session is gone."""
    sessions, chains = set(store.session_ids(connection)), store.chain_ids(connection)
    verdicts = []
    for session_id in removed_without_chain(connection, chains):
        report = Report()
        report.add("events_missing", session_id, "It has a tombstone, but its chain is not there.")
        verdicts.append(Verdict(session_id, None, report))
    for chain_id in chains:
        if chain_id in sessions:
            continue
        report = verify_chain(connection, chain_id)
        is_of_session = store.first_event_type(connection, chain_id) in (SESSION_CREATED, SESSION_IMPORTED)
        last = store.last_event_hash(connection, chain_id)
        fault = removal_fault(connection, chain_id, report.checked, last) if is_of_session else None
        if fault is not None:
            report.add("session_missing", chain_id, fault)
        verdicts.append(Verdict(chain_id, None, report, is_removed=is_of_session and fault is None))
    return verdicts


def root_of(connection: Connection, session_id: str, *, through: int | None = None) -> str:
    """Return the root of a session, in hexadecimal, from its stored entry hashes.

    Parameters
    ----------
    through
        The last sequence that counts; None means all. Earlier roots can be told again: entries never change.

    Raises
    ------
    TreeUnsound
        If the entries do not form one tree.
    """
    nodes: Iterator[TreeNode] = (TreeNode(*row) for row in store.iterate_tree(connection, session_id))
    if through is not None:
        nodes = dropwhile(lambda node: node.sequence > through, nodes)
    return session_root(nodes)


def seal_root(tx: Transaction, session_id: str, root: str, sequence: int, moment: str) -> bool:
    """Record a root that somebody is given, once; return whether it was new."""
    body = {"session_root": root, "sequence": sequence}
    if _last_body(tx.connection, session_id, ROOT_SEALED) == body:
        return False
    append_event(tx, session_id, ROOT_SEALED, body, moment)
    return True


def _verify_row(report: Report, connection: Connection, session_id: str) -> None:
    row = store.session_row(connection, session_id)
    if row is None:
        report.add("session_missing", session_id, "Its entries are there, the session is not.")
        return
    recorded: dict[str, Any] = {}
    for event in store.iterate_events(connection, session_id):
        if event.event_type in (SESSION_CREATED, SESSION_IMPORTED, SESSION_UPDATED):
            body = body_of(event.body)
            is_creation = event.event_type != SESSION_UPDATED
            recorded.update({name: body[name] for name in body if name in _CREATED_COLUMNS or not is_creation})
    for name, value in recorded.items():
        if name in row and row[name] != value:
            report.add("session_altered", session_id, f"Its {name} is not the one that was recorded.")


def _verify_counter(report: Report, connection: Connection, session_id: str) -> None:
    head = store.session_head(connection, session_id)
    if head is None:
        report.add("head_missing", session_id, "The session has no head.")
        return
    imported = last_import(connection, session_id)
    # Of a session that is here in part, the numbers of what is not here stay taken.
    expected = max(store.last_sequence(connection, session_id) + 1, imported.next_sequence if imported else 0)
    if head[1] != expected:
        report.add("head_altered", session_id, f"Its next sequence is {head[1]}; after its entries it is {expected}.")


def _verify_origin(report: Report, connection: Connection, session_id: str) -> None:
    created = _last_body(connection, session_id, SESSION_CREATED)
    imported = _last_body(connection, session_id, SESSION_IMPORTED)
    origin = created.get("forked_from", imported.get("forked_from"))
    if not isinstance(origin, dict):
        return
    entry_id = str(origin.get("entry_id"))
    stored = store.entry_hash_anywhere(connection, entry_id)
    if stored is None:
        report.add("origin_missing", entry_id, f"{session_id} was forked from it, but it is not there.")
    elif stored != origin.get("entry_hash"):
        report.add("origin_altered", entry_id, f"{session_id} was forked from it under another hash.")


def _verify_seal(report: Report, connection: Connection, session_id: str) -> None:
    sealed = _last_body(connection, session_id, ROOT_SEALED)
    sequence = sealed.get("sequence")
    if not isinstance(sequence, int):
        return
    try:
        root = root_of(connection, session_id, through=sequence)
    except TreeUnsound:
        return  # told by the caller already: a tree that is unsound in part is so as a whole
    if root != sealed.get("session_root"):
        report.add("root_altered", session_id, f"The root through sequence {sequence} is not the one that was sealed.")


def _verify_import(report: Report, connection: Connection, session_id: str, root: str | None) -> None:
    """Check what was taken in from elsewhere against the root that was recorded then."""
    imported = last_import(connection, session_id)
    if imported is None or root is None:
        return  # without a root the tree is unsound, which was told
    if store.last_sequence(connection, session_id) > imported.sequence:
        root = root_of(connection, session_id, through=imported.sequence)
    if root != imported.session_root:
        message = f"The root through sequence {imported.sequence} is not the one that was imported."
        report.add("root_altered", session_id, message)


def _last_body(connection: Connection, session_id: str, event_type: str) -> dict[str, Any]:
    return body_of(store.last_event_of_type(connection, session_id, event_type) or "{}")
