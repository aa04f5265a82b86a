"""Values of the agent tree."""

from __future__ import annotations

from dataclasses import dataclass

ORCHESTRATOR_ROLE = "orchestrator"


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: an orchestrator at depth 0, or a worker below its parent.

    ``session_id`` is a value, not a key. ``status`` is ``active`` or ``ended``. Times are timestamps as text.
    """

    id: str
    parent_agent_id: str | None
    session_id: str | None
    role: str
    depth: int
    harness: str | None
    status: str
    created_at: str
    updated_at: str
