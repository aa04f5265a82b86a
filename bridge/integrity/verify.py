"""What a verification says of each session: healthy, or which rows are not as they were recorded.

Entries are read once (``entries``) and the chain once (``recorded``), side by side. Here they are put together with
what lies around them: the head's counter, the origin of a fork, the tree as a whole, and the roots that were given out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import dropwhile
from typing import Any

from bridge.foundation.texts import is_storable
from bridge.integrity import store
from bridge.integrity.chain import append_event, body_of, last_import
from bridge.integrity.entries import EntryScan
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.events import ROOT_SEALED, SESSION_CREATED, SESSION_IMPORTED, WORKSPACE_RELINKED
from bridge.integrity.recorded import ChainReader, Recorded, beside_line, compare_rows, read_recorded
from bridge.integrity.removal.tombstones import removal_fault, removed_without_chain
from bridge.integrity.report import Report, Verdict, shown
from bridge.integrity.store import StoredEntry
from bridge.integrity.subtrees.roots import differing_pages
from bridge.integrity.tree import TreeNode, session_root
from bridge.storage.transaction import Connection, Transaction


def verify_session(connection: Connection, session_id: str) -> Report:
    """Verify all that is stored of a session, as :func:`verify_whole_session`."""
    return verify_whole_session(connection, session_id).report


def verify_entries(connection: Connection, session_id: str, *, gaps_through: int = -1) -> Report:
    """Recompute payload hash, entry hash, parents and sequence of all entries of a session.

    Parameters
    ----------
    gaps_through
        Sequences up to this one may be missing: only a part of the session was taken in.
    """
    report = Report()
    for _ in EntryScan(connection, session_id, report, is_checked=True, gaps_through=gaps_through):
        pass
    return report


def verify_whole_session(connection: Connection, session_id: str, *, tree: bool = True, chain: bool = True) -> Verdict:
    """Recompute all that is stored of a session. Never raises for what is damaged: that is what it reports.

    Parameters
    ----------
    tree
        Whether entries, their tree, its sealed and imported roots, and what is kept of it are recomputed.
    chain
        Whether the chain is, and compared with entries, head, labels, cursors, row and origin.
    """
    report = Report()
    imported = last_import(connection, session_id)
    # Of a session that is here in part, what others hold of it keeps its numbers.
    is_partial = imported is not None and (imported.has_gaps or imported.next_sequence > imported.sequence + 1)
    gaps_through = imported.next_sequence - 1 if imported is not None and is_partial else -1
    through = -1 if imported is None else imported.sequence
    scan = EntryScan(connection, session_id, report, is_checked=tree, gaps_through=gaps_through)
    beside = _Beside(iter(scan), through)
    recorded = None
    if chain:
        recorded = read_recorded(connection, session_id, report, iter(beside), through)
        compare_rows(report, connection, session_id, recorded)
        _verify_counter(report, connection, session_id, recorded, scan.last_sequence)
        _verify_origin(report, connection, session_id, recorded)
        if recorded.imported.get("beside_digest") not in (None, beside.digest()):
            message = "What was taken in beside what is hashed is not what its entries have."
            report.add("entry_altered", session_id, message)
    else:
        for _ in beside:
            pass
    root = _verify_tree(report, connection, session_id, scan) if tree else None
    if tree and root is not None:
        _verify_roots(report, connection, session_id, scan, recorded)
    return Verdict(session_id, root, report, {} if recorded is None else recorded.delegations)


class _Beside:
    """Hands entries on, and keeps the digest of what no hash covers of those that were taken in."""

    def __init__(self, entries: Iterator[StoredEntry], through: int) -> None:
        self._entries = entries
        self._through = through
        self._digest = sha256()

    def __iter__(self) -> Iterator[StoredEntry]:
        for entry in self._entries:
            if entry.sequence <= self._through:
                self._digest.update(beside_line(entry))
            yield entry

    def digest(self) -> str:
        return self._digest.hexdigest()


def beside_digest(connection: Connection, session_id: str, through: int) -> str:
    """Return the digest of what no entry hash covers, of the entries of a session up to a sequence."""
    beside = _Beside(store.iterate_entries(connection, session_id, with_payload=False), through)
    for _ in beside:
        pass
    return beside.digest()


def _verify_tree(report: Report, connection: Connection, session_id: str, scan: EntryScan) -> str | None:
    """Return the root of a session; compare what is kept of its tree."""
    try:
        root = scan.root()
        differing = differing_pages(connection, session_id)
    except TreeUnsound as error:
        report.add("tree_unsound", str(error.details.get("entry_id") or session_id), error.message)
        return None
    for number in differing:
        report.add("subtrees_altered", f"{session_id} page {number}", "The subtree hashes kept there are not exact.")
    return root


def _verify_roots(
    report: Report, connection: Connection, session_id: str, scan: EntryScan, recorded: Recorded | None
) -> None:
    """Compare the root that was last sealed, and the one last taken in, with those of the entries."""
    if recorded is None:
        sealed = _last_body(connection, session_id, ROOT_SEALED)
        imported = _last_body(connection, session_id, SESSION_IMPORTED)
    else:
        sealed, imported = recorded.sealed, recorded.imported
    for body, what in ((sealed, "sealed"), (imported, "imported")):
        sequence = body.get("sequence")
        if isinstance(sequence, int) and scan.root(sequence) != body.get("session_root"):
            message = f"The root through sequence {sequence} is not the one that was {what}."
            report.add("root_altered", session_id, message)


def verify_other_chains(connection: Connection) -> list[Verdict]:
    """Verify the chains that are no session's; one that begins as a session's says that its session is gone."""
    sessions = set(store.session_ids(connection))
    verdicts = []
    linked = store.linked_workspaces(connection)
    for chain_id in sorted({*store.chain_ids(connection), *linked} - sessions):
        report = Report()
        if not is_storable(chain_id):
            report.add("event_altered", chain_id, "Rows name it as their chain; no chain can be called so.")
            verdicts.append(Verdict(shown(chain_id), None, report))
            continue
        links: list[dict[str, Any]] = []
        for event, body in ChainReader(connection, chain_id, report):
            if event.event_type == WORKSPACE_RELINKED:
                links.append({**body, "created_at": event.created_at})
        is_of_session = store.first_event_type(connection, chain_id) in (SESSION_CREATED, SESSION_IMPORTED)
        fault = removal_fault(connection, chain_id, report.checked) if is_of_session else None
        if fault is not None:
            report.add("session_missing", chain_id, fault)
        _verify_links(report, connection, chain_id, links)
        verdicts.append(Verdict(chain_id, None, report, is_removed=is_of_session and fault is None))
    known = {verdict.subject for verdict in verdicts}
    for session_id in removed_without_chain(connection, known):
        report = Report()
        report.add("events_missing", session_id, "It has a tombstone, but its chain is not there.")
        verdicts.append(Verdict(session_id, None, report))
    return verdicts


def _verify_links(report: Report, connection: Connection, workspace_id: str, links: Sequence[dict[str, Any]]) -> None:
    """Compare the relinkings of a workspace with the events that record them."""
    rows = store.link_rows(connection, workspace_id)
    recorded = [
        {name: number if name == "number" else body.get(name) for name in store.LINK_COLUMNS}
        for number, body in enumerate(links, 1)
    ]
    if rows != recorded:
        message = f"Its chain records {len(links)} relinkings; the rows of them are not these."
        report.add("workspace_altered", workspace_id, message)


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


def _verify_counter(
    report: Report, connection: Connection, session_id: str, recorded: Recorded, last_sequence: int
) -> None:
    head = store.session_head(connection, session_id)
    if head is None:
        report.add("head_missing", session_id, "The session has no head.")
        return
    # Of a session that is here in part, the numbers of what is not here stay taken.
    taken = recorded.imported.get("next_sequence")
    expected = max(last_sequence + 1, taken if isinstance(taken, int) else 0)
    if head.next_sequence != expected:
        message = f"Its next sequence is {head.next_sequence}; after its entries it is {expected}."
        report.add("head_altered", session_id, message)


def _verify_origin(report: Report, connection: Connection, session_id: str, recorded: Recorded) -> None:
    origin = recorded.forked_from
    if not isinstance(origin, dict):
        return
    entry_id = str(origin.get("entry_id"))
    stored = store.entry_hash_anywhere(connection, entry_id)
    if stored is None:
        report.add("origin_missing", entry_id, f"{session_id} was forked from it, but it is not there.")
    elif stored != origin.get("entry_hash"):
        report.add("origin_altered", entry_id, f"{session_id} was forked from it under another hash.")


def _last_body(connection: Connection, session_id: str, event_type: str) -> dict[str, Any]:
    return body_of(store.last_event_of_type(connection, session_id, event_type) or "{}")
