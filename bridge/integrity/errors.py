"""What can be wrong with hashes that are to be computed, rather than with what they are compared to."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class TreeUnsound(BridgeError):
    """Raised when the entries of a session do not form a tree that has a root hash."""

    code = "tree_unsound"
    exit_status = 122
    summary = "The entries of a session do not form one tree, so it has no root hash: its rows are damaged."
    default_hint = "See what is wrong with it: bridge verify SESSION"
