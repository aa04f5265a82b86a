"""What can end a chat before its time."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class ChatStopped(BridgeError):
    """Raised when a signal ended a chat."""

    code = "chat_stopped"
    exit_status = 235
    summary = "SIGTERM or SIGHUP ended a chat; a running turn was recorded as cancelled, the agent was ended."
    default_hint = "Go on later: bridge chat SESSION"
