"""structlog on stderr. A module of its own because importing structlog is slow and most commands log nothing."""

from __future__ import annotations

import logging
from typing import Any, TextIO

import structlog

from bridge.cli.output import Output, json_bytes


def configure(level: str, output: Output) -> None:
    """Send log lines of at least ``level`` to the output's stderr.

    Every line carries level, time (UTC) and the event; ``action`` is the stable name that programs look for.
    """
    renderer: Any = structlog.processors.JSONRenderer(serializer=_serialise)
    if not output.as_json:
        renderer = structlog.dev.ConsoleRenderer(
            colors=output.stderr_is_terminal and not output.without_colour,
            exception_formatter=structlog.dev.plain_traceback,
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if output.as_json else _unchanged,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=_StderrLoggerFactory(output.stderr),
        cache_logger_on_first_use=False,
    )


def _serialise(record: Any, **_options: Any) -> str:
    return json_bytes({key: value if _is_plain(value) else repr(value) for key, value in record.items()}).decode()


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, dict))


def _unchanged(_logger: Any, _method: str, record: Any) -> Any:
    return record


class _StderrLoggerFactory:
    """Makes loggers that write to a given stderr, or nowhere when it is closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def __call__(self, *_arguments: Any) -> Any:
        if self._stream is None:
            return structlog.ReturnLogger()
        return structlog.PrintLogger(self._stream)
