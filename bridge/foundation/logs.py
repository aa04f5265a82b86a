"""Loggers that import structlog when something is logged for the first time, since that takes long.

It brings rich with it. Most commands log nothing, and a controller is to answer before it has a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_prepare: Callable[[], None] | None = None


def configure_on_first_use(configure: Callable[[], None] | None) -> None:
    """Have structlog configured so before the first line, unless it is configured by then; None for as it is."""
    global _prepare  # noqa: PLW0603 - there is one log in a process
    _prepare = configure


def make_ready() -> None:
    """Import and configure structlog now. Safe to call from several threads, and again."""
    import structlog

    if _prepare is not None and not structlog.is_configured():
        _prepare()


class Logger:
    """What structlog's loggers are, as far as Bridge uses them: an event in words and its facts by name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **facts: Any) -> None:
        self._bound().debug(event, **facts)

    def info(self, event: str, **facts: Any) -> None:
        self._bound().info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        self._bound().warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        self._bound().error(event, **facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Log an error with the exception that is being handled."""
        self._bound().exception(event, **facts)

    def _bound(self) -> Any:
        make_ready()
        import structlog

        return structlog.get_logger(self._name)


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(name)
