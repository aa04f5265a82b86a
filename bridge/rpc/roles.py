"""Who calls, and which roles there are."""

from __future__ import annotations

from bridge.rpc.dispatch import Caller
from bridge.rpc.methods import Role

__all__ = ["Caller", "Role"]
