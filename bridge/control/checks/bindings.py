"""Whether what others may cite as a worker's result is bound to its task as it was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.control.checks.store import (
    DelegationBinding,
    StoredResult,
    delegation_bindings,
    stored_entry,
    worker_result,
)
from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.foundation.ids import split_entry_id
from bridge.integrity.report import Report
from bridge.storage.transaction import Connection

_REQUESTED: Final = "delegation.requested"
_RESULT: Final = "worker.result"


def verify_bindings(
    report: Report, connection: Connection, session_id: str, recorded: Mapping[str, Mapping[str, Any]]
) -> None:
    """Compare the tasks of a session with their events, requests and results.

    Parameters
    ----------
    recorded
        What the session's chain says of each task, by its id.
    """
    rows = {binding.id: binding for binding in delegation_bindings(connection, session_id)}
    for identity, facts in recorded.items():
        binding = rows.get(identity)
        if binding is None:
            report.add("evidence_missing", identity, "Its events are there, the task is not.")
            continue
        for name, value in facts.items():
            if getattr(binding, name) != value:
                report.add("evidence_altered", identity, f"Its {name} is not the one that was recorded.")
    for binding in rows.values():
        report.checked += 1
        _verify_request(report, connection, binding)
        if binding.result_entry_id is not None:
            _verify_result(report, connection, binding)


def _verify_request(report: Report, connection: Connection, binding: DelegationBinding) -> None:
    if binding.request_entry_id is None:
        return
    entry = stored_entry(connection, binding.parent_session_id, binding.request_entry_id)
    payload = _payload(entry)
    if entry is None:
        report.add("evidence_missing", binding.id, f"Its request {binding.request_entry_id} is not there.")
    elif entry.kind != _REQUESTED or payload.get("delegation_id") != binding.id:
        report.add("evidence_altered", binding.id, f"{binding.request_entry_id} is not its request.")
    request = payload.get("request")
    cited = request.get("evidence") if isinstance(request, dict) else None
    for reference in cited if isinstance(cited, list) and binding.base_commit is not None else ():
        _verify_citation(report, connection, binding, str(reference))


def _verify_citation(report: Report, connection: Connection, binding: DelegationBinding, reference: str) -> None:
    try:
        session_id, _ = split_entry_id(reference)
    except BridgeError:
        return  # a request that was refused keeps what was written; nothing was handed on
    entry = stored_entry(connection, session_id, reference)
    if entry is None:
        report.add("evidence_missing", reference, f"Task {binding.id} cites it, but it is not there.")
    elif entry.kind != _RESULT:
        report.add("evidence_altered", reference, f"Task {binding.id} cites it, but it is no result.")


def _verify_result(report: Report, connection: Connection, binding: DelegationBinding) -> None:
    identity = str(binding.result_entry_id)
    entry = stored_entry(connection, binding.parent_session_id, identity)
    if entry is None:
        report.add("evidence_missing", identity, f"Task {binding.id} names it as its result, but it is not there.")
        return
    payload = _payload(entry)
    told = {"delegation_id": binding.id, "status": binding.status, "base_commit": binding.base_commit}
    if entry.kind != _RESULT or any(payload.get(name) != value for name, value in told.items() if value is not None):
        report.add("evidence_altered", identity, f"It is not what task {binding.id} came to.")
    if binding.worker_session_id is None:
        return
    own = worker_result(connection, binding.worker_session_id)
    if own is None:
        message = f"The worker's own session {binding.worker_session_id} does not hold this result."
        report.add("evidence_missing", identity, message)
    elif own.payload_hash != entry.payload_hash:
        report.add("evidence_altered", identity, "The worker's own session holds another result.")


def _payload(entry: StoredResult | None) -> dict[str, Any]:
    """Return an entry's payload; nothing if it is damaged, which the entry's own hash tells."""
    if entry is None or entry.payload is None:
        return {}
    try:
        payload = parse_json(entry.payload)
    except NotCanonical:
        return {}
    return payload if isinstance(payload, dict) else {}
