"""What a use case tells a person besides its result: something that did not fail the work and should be known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bridge.foundation.logs import get_logger

_log = get_logger(__name__)


class Tell(Protocol):
    """Takes one notice: a sentence for people, a stable code and facts for programs."""

    def __call__(self, message: str, *, code: str, details: Mapping[str, Any]) -> None: ...


def log_notice(message: str, *, code: str, details: Mapping[str, Any]) -> None:
    """Log a notice, for programs that give no other place to tell it."""
    _log.warning(message, action=code, **details)
