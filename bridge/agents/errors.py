"""What can be wrong with what an agent asks for. A refused delegation is a decision (see ``policy``), not an error."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class InvalidOwnedPath(BridgeError):
    """Raised when a path that a worker is to own does not name a place inside the repository."""

    code = "invalid_owned_path"
    exit_status = 76
    summary = "A path that a worker is to own is absolute, leads outside the repository, or is a pattern."
    default_hint = "Owned paths are prefixes relative to the repository root, such as src/web; . means all of it."


class InvalidPolicyInput(BridgeError):
    """Raised when a stored policy input cannot be read back."""

    code = "invalid_policy_input"
    exit_status = 77
    summary = "The stored input of a policy decision cannot be read, so the decision cannot be replayed."
    default_hint = "It was written by another version of Bridge, or damaged; bridge verify tells which."
