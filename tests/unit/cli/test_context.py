"""What a command is given."""

from __future__ import annotations

import io
import json

import pytest

from bridge.cli.context import Cli
from bridge.cli.errors import CurrentDirectoryGone
from bridge.cli.output import Output
from bridge.foundation.clock import SystemClock
from bridge.foundation.errors import InvalidConfiguration


def cli(environment=None, *, verbose=False, **options) -> Cli:
    output = Output(io.StringIO(), io.StringIO(), **options)
    return Cli(output=output, environment=environment or {}, clock=SystemClock(), verbose=verbose)


def test_settings_come_from_the_given_environment(tmp_path):
    assert cli({"BRIDGE_HOME": str(tmp_path)}).settings.home == tmp_path


def test_a_directory_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(CurrentDirectoryGone):
        _ = cli().directory
    monkeypatch.chdir(tmp_path)
    assert cli().directory == tmp_path


def test_log_level():
    assert cli().log_level == "warning"
    assert cli({"BRIDGE_LOG": "INFO"}).log_level == "info"
    assert cli({"BRIDGE_LOG": "error"}, verbose=True).log_level == "debug"
    with pytest.raises(InvalidConfiguration):
        _ = cli({"BRIDGE_LOG": "loud"}).log_level


@pytest.fixture
def structlog():
    import structlog

    yield structlog
    structlog.reset_defaults()


def test_logs_go_to_stderr(structlog):
    context = cli({"BRIDGE_LOG": "info"})
    context.start_logging()
    structlog.get_logger().debug("hidden")
    structlog.get_logger().info("shown", action="store_opened", count=3)
    assert context.output.stdout.getvalue() == ""
    assert "hidden" not in context.output.stderr.getvalue()
    assert "shown" in context.output.stderr.getvalue()
    assert "action=store_opened" in context.output.stderr.getvalue()


def test_logs_are_json_lines_with_json(structlog):
    context = cli({"BRIDGE_LOG": "info"}, as_json=True)
    context.start_logging()
    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger().exception("failed", action="store_failed", path=object())
    record = json.loads(context.output.stderr.getvalue())
    assert record["level"] == "error"
    assert record["action"] == "store_failed"
    assert "ValueError: why" in record["exception"]
    assert record["timestamp"].endswith("Z")


def test_logs_are_dropped_when_stderr_is_closed(structlog):
    context = cli()
    context.output.stderr = None
    context.start_logging()
    structlog.get_logger().warning("nobody hears")
