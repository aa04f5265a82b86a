"""What a use case tells a person besides its result: something that did not fail the work and should be known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Tell(Protocol):
    """Takes one notice: a sentence for people, a stable code and facts for programs."""

    def __call__(self, message: str, *, code: str, details: Mapping[str, Any]) -> None: ...


def log_notice(message: str, *, code: str, details: Mapping[str, Any]) -> None:
    """Log a notice, for programs that give no other place to tell it."""
    # Imported here because it costs 100 ms and notices are rare.
    import structlog

    structlog.get_logger(__name__).warning(message, action=code, **details)
