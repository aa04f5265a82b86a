"""What can be wrong with hashes that are to be computed, rather than with what they are compared to."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class TreeUnsound(BridgeError):
    """Raised when the entries of a session do not form a tree that has a root hash."""

    code = "tree_unsound"
    exit_status = 122
    summary = "The entries of a session do not form one tree, so it has no root hash: its rows are damaged."
    default_hint = "See what is wrong with it: bridge verify SESSION"


class LogUnsound(BridgeError):
    """Raised when the log of all events cannot be told, since events or its own hashes are missing."""

    code = "log_unsound"
    exit_status = 123
    summary = (
        "The log of all audit events cannot be told: events that it is made of, or hashes stored of it, are missing."
    )
    default_hint = "See what is wrong: bridge verify --only log"


class InvalidLogRoot(BridgeError):
    """Raised when what should name an earlier state of the log does not."""

    code = "invalid_log_root"
    exit_status = 238
    summary = "What was given as an earlier root of the log is not ROOT/SIZE."
    default_hint = "ROOT/SIZE is what bridge anchor prints: 64 hexadecimal digits, a slash, a number."


class AnchorNotReached(BridgeError):
    """Raised when the log is to be anchored, but does not extend what was anchored before."""

    code = "anchor_not_reached"
    exit_status = 239
    summary = (
        "The log of all events does not reach its last anchor: events were cut off or altered, or a backup restored."
    )
    default_hint = (
        "See what is wrong: bridge verify. After a backup was restored on purpose, bridge anchor --replace begins anew."
    )


class AnchorDamaged(BridgeError):
    """Raised when the file that keeps an anchor cannot be read as one."""

    code = "anchor_damaged"
    exit_status = 240
    summary = "The file that keeps the last size and root of the log is not what was written."
    default_hint = "Look at it; bridge anchor --replace writes it anew, and gives up what it said."
