"""What was raised becomes words and an exit status."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
import typer

from bridge.cli import crash
from bridge.cli.edge import exit_status_for
from bridge.cli.errors import UsageInvalid
from bridge.cli.output import Output, ReaderGone
from bridge.foundation.errors import InvalidId


def run(raised: BaseException | None, *, as_json: bool = False, words=()) -> tuple[int, str]:
    stderr = io.StringIO()
    output = Output(io.StringIO(), stderr, as_json=as_json)

    def command() -> int:
        if raised is not None:
            raise raised
        return 1

    return exit_status_for(command, output=output, words=words, environment=os.environ), stderr.getvalue()


def test_the_commands_own_status_is_kept():
    assert run(None) == (1, "")


def test_a_typer_exit_is_no_error():
    assert run(typer.Exit(0)) == (0, "")


def test_a_named_condition():
    status, told = run(InvalidId("'x' is not an id."))
    assert status == 4
    assert told == (
        "error: 'x' is not an id.\n"
        "hint: Ids look like 20260102-030405-9f3a (session) and 20260102-030405-9f3a-000031 (entry).\n"
    )


def test_a_named_condition_as_json():
    status, told = run(InvalidId("no", details={"id": "x"}), as_json=True)
    assert status == 4
    assert json.loads(told) == InvalidId("no", details={"id": "x"}).to_json()


def test_a_usage_error_of_a_command():
    assert run(UsageInvalid("--text and --payload exclude each other.", hint=""))[0] == 2


def test_ctrl_c():
    assert run(KeyboardInterrupt()) == (130, "error: Interrupted.\n")
    status, told = run(KeyboardInterrupt(), as_json=True)
    assert (status, json.loads(told)["error"]["code"]) == (130, "interrupted")


def test_a_reader_that_went_away():
    assert run(ReaderGone()) == (141, "")


def test_system_exit_is_left_alone():
    with pytest.raises(SystemExit):
        run(SystemExit(7))


def test_the_unforeseen_becomes_a_crash_report(bridge_home: Path):
    status, told = run(ZeroDivisionError("by zero"), words=["append", "9f3a", "--text", "my secret", "--kind=note"])
    (report,) = (bridge_home / crash.DIRECTORY).iterdir()
    assert status == 118
    assert str(report) in told
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert "ZeroDivisionError: by zero" in text
    assert "command:   bridge append <value> --text <value> --kind=<value>" in text
    assert "my secret" not in text
    assert "python:" in text


def test_a_broken_pipe_inside_a_command_is_a_crash(bridge_home: Path):
    assert run(BrokenPipeError())[0] == 118


@pytest.mark.parametrize("home", ["a file", "below a file", "relative"])
def test_an_unusable_state_directory_does_not_break_the_report(monkeypatch, tmp_path, home):
    (tmp_path / "file").write_text("")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    choices = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "x", "relative": "x"}
    monkeypatch.setenv("BRIDGE_HOME", str(choices[home]))
    status, told = run(ZeroDivisionError(), as_json=True)
    report = Path(json.loads(told)["error"]["details"]["report"])
    assert status == 118
    assert report.parent == tmp_path / "tmp"
    assert "ZeroDivisionError" in report.read_text()


def test_with_nowhere_to_write_the_report_is_shown(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    monkeypatch.setenv("BRIDGE_HOME", str(tmp_path / "file"))
    status, told = run(ZeroDivisionError())
    assert status == 118
    assert "Bridge crash report" in told
    assert "hint: Please report it with the text above" in told
    details = json.loads(run(ZeroDivisionError(), as_json=True)[1])["error"]["details"]
    assert details["report"] is None
    assert "ZeroDivisionError" in details["report_text"]


def test_old_reports_are_removed(bridge_home: Path):
    directory = bridge_home / crash.DIRECTORY
    directory.mkdir(parents=True)
    for number in range(crash.MAX_REPORTS):
        (directory / f"2020{number:02}.txt").write_text("old")
    run(ZeroDivisionError())
    left = sorted(path.name for path in directory.iterdir())
    assert len(left) == crash.MAX_REPORTS
    assert "202000.txt" not in left
    assert "202001.txt" in left


def test_a_report_is_bounded(bridge_home: Path):
    run(ValueError("x" * (2 * crash.MAX_REPORT_CHARACTERS)))
    (report,) = (bridge_home / crash.DIRECTORY).iterdir()
    assert len(report.read_text()) < crash.MAX_REPORT_CHARACTERS + 100


def test_values_are_left_out_of_the_command_line():
    words = ["task", "log", "web", "-q", "--text=hello", "--", "-", "Secret"]
    assert crash.without_values(words) == [
        "task", "log", "<value>", "-q", "--text=<value>", "--", "<value>", "<value>",
    ]  # fmt: skip
