"""What can be wrong with the lineage of sessions."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class LineageCycle(BridgeError):
    """Raised when a session would descend from itself, or its ancestors already do."""

    code = "lineage_cycle"
    exit_status = 124
    summary = "A session would become its own ancestor, or its ancestors run in a circle; nothing was written."
    default_hint = "Choose another parent session, or none."
