"""The first thing that stands in a worker's session: its delegation, its evidence and, where configured, the spark.

What the worker's program is handed at its start says the same (``adapters``). This is for whoever reads the session, or
goes on with it: ``bridge context`` of a worker begins with it.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bridge.adapters.base import Evidence
from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.placesettings import worker_settings
from bridge.control.lineage.words import last_word
from bridge.conversations.forest import require_session
from bridge.foundation.ids import short_entry

#: Bytes of evidence that stand in the brief in full, all results together; of more there is the reference and digest.
MAX_EVIDENCE_BYTES: Final = 64 * 1024


def brief_of(
    delegation: Delegation, evidence: Sequence[Evidence], *, worker_session_id: str, spark: str = ""
) -> dict[str, Any]:
    """Return the payload of the brief that a worker's session begins with."""
    return {
        "text": "\n\n".join(_sections(delegation, evidence, spark)),
        "from_session_id": delegation.parent_session_id,
        "to_session_id": worker_session_id,
    }


def spark_for(controller: Controller, delegation: Delegation, checkout: Path) -> str:
    """Return the last word of the session that delegates; empty where workers are not given it, or there is none.

    Raises
    ------
    InvalidConfiguration
        If the checkout's ``bridge.toml`` is of no use.
    """
    told = worker_settings(checkout).spark
    if not (controller.settings.worker.spark if told is None else told):
        return ""
    with controller.store.read() as connection:
        return last_word(connection, require_session(connection, delegation.parent_session_id)) or ""


def _sections(delegation: Delegation, evidence: Sequence[Evidence], spark: str) -> list[str]:
    request = delegation.request
    sections = [request.objective, f"Role: {request.role}. {_place(request.write_mode, request.owned_paths)}"]
    if request.acceptance_criteria:
        sections.append("It is done when:\n" + "\n".join(f"- {one}" for one in request.acceptance_criteria))
    left = MAX_EVIDENCE_BYTES
    for item in evidence:
        head = f"Evidence {short_entry(item.reference)} (sha256 {item.digest}, {len(item.payload)} bytes)"
        if len(item.payload) <= left:
            left -= len(item.payload)
            sections.append(f"{head}:\n{item.payload.decode()}")
        else:
            sections.append(f"{head}; in full under its reference {item.reference}.")
    if spark:
        sections.append(f"Last word of the session that asks: {spark}")
    return sections


def _place(write_mode: str, owned_paths: Sequence[str]) -> str:
    if write_mode == WriteMode.READ_ONLY:
        return "It may write nothing."
    if owned_paths:
        return f"It may write: {', '.join(owned_paths)}."
    return "It may write anything in its worktree." if write_mode == WriteMode.ISOLATED else "It works in the checkout."
