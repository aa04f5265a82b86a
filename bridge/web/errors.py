"""What can go wrong with the door over HTTP."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class DoorNotOpened(BridgeError):
    """Raised when the door over HTTP cannot be opened where it was asked for."""

    code = "http_not_opened"
    exit_status = 212
    summary = "The door over HTTP cannot be opened at that address; nothing listens."
    default_hint = "Choose another port, or 0 for a free one; beyond loopback it must be allowed by name."
