"""Loggers that cost nothing until they log."""

from __future__ import annotations

import subprocess
import sys

import structlog
from structlog.testing import capture_logs

from bridge.foundation.logs import configure_on_first_use, get_logger, make_ready


def test_a_logger_is_there_without_structlog():
    code = (
        "import sys; from bridge.foundation.logs import get_logger; get_logger('x'); print('structlog' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_first_line_has_it_configured_and_no_other():
    configured = []

    def configure():
        configured.append(1)
        structlog.configure(cache_logger_on_first_use=False)

    configure_on_first_use(configure)
    logger = get_logger("x")
    assert not configured
    make_ready()
    make_ready()
    with capture_logs() as lines:
        for level in ("debug", "info", "warning", "error"):
            getattr(logger, level)("said", action="a", number=1)
        try:
            raise ValueError
        except ValueError:
            logger.exception("failed")
    assert configured == [1]
    assert [line["log_level"] for line in lines] == ["debug", "info", "warning", "error", "error"]
    assert (lines[0]["action"], lines[0]["number"], lines[-1]["exc_info"]) == ("a", 1, True)
