"""What is printed where, and in which form."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.table import Table

from bridge.cli.errors import OutputFailed
from bridge.cli.output import Output, ReaderGone, json_bytes, printable
from bridge.foundation.canonical import parse_json


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Failing(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.failure = error

    def write(self, text: str) -> int:
        raise self.failure


def output(stdout=None, stderr=None, **options) -> Output:
    return Output(stdout or io.StringIO(), stderr or io.StringIO(), **options)


def test_json_is_one_line_in_a_pipe():
    out = output(as_json=True)
    out.emit({"b": 1, "a": [2]}, "for people")
    assert out.stdout.getvalue() == '{"b":1,"a":[2]}\n'


def test_json_is_indented_on_a_terminal():
    out = output(Terminal(), as_json=True)
    out.emit({"a": 1})
    assert out.stdout.getvalue() == '{\n  "a": 1\n}\n'


def test_json_lines_stay_lines_on_a_terminal():
    out = output(Terminal(), json_lines=True)
    out.emit({"a": 1})
    assert out.stdout.getvalue() == '{"a":1}\n'


def test_json_knows_times_paths_dataclasses_and_numbers_as_written():
    @dataclass
    class Point:
        at: datetime

    value = [Point(datetime(2026, 1, 2, tzinfo=UTC)), Path("/x"), parse_json("[1.00, 1e3]")]
    assert json_bytes(value) == b'[{"at":"2026-01-02T00:00:00.000000Z"},"/x",[1.00,1e3]]'


def test_json_escapes_what_utf8_cannot_hold():
    encoded = json_bytes({"name": "a\udcff", "when": datetime(2026, 1, 2, tzinfo=UTC)})
    assert json.loads(encoded)["name"] == "a\udcff"
    encoded.decode("ascii")


def test_json_of_a_wide_integer():
    assert json_bytes(2**70) == str(2**70).encode()


def test_a_type_without_json_is_a_fault():
    with pytest.raises(TypeError):
        json_bytes({"x": object()})


def test_text_for_people_cannot_drive_the_terminal():
    out = output(Terminal())
    out.emit(None, "red \x1b[31m bell \x07 override \u202e end\ttab\nline")
    assert out.stdout.getvalue() == "red \\x1b[31m bell \\x07 override \\u202e end\ttab\nline\n"


def test_printable_keeps_ordinary_text():
    text = "Zürich – 東京 🚀 a\tb\nc"
    assert printable(text) == text


@pytest.mark.parametrize("character", ["\r", "\x00", "\x7f", "\x9b", "\u2066", "\ud800"])
def test_printable_escapes(character):
    assert "\\" in printable(character)


def test_a_renderable_is_not_folded_in_a_pipe():
    table = Table("name", box=None, show_header=False)
    table.add_row("x" * 300)
    out = output()
    out.emit(None, table)
    assert out.stdout.getvalue().strip() == "x" * 300


def test_a_renderable_has_colour_on_a_terminal_only(monkeypatch):
    def show(console):
        console.print("word", style="red")

    for stream, environment, coloured in (
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ):
        out = output(stream, environment=environment)
        out.emit(None, show)
        assert ("\x1b[" in stream.getvalue()) is coloured
        assert "word" in stream.getvalue()


def test_nothing_for_people_prints_nothing():
    out = output()
    out.emit({"a": 1})
    assert out.stdout.getvalue() == ""


def test_status_is_silent_when_quiet_or_json():
    loud, quiet, as_json = output(), output(quiet=True), output(as_json=True)
    for out in (loud, quiet, as_json):
        out.status("working")
    assert [out.stderr.getvalue() for out in (loud, quiet, as_json)] == ["working\n", "", ""]


def test_a_warning_is_shown_even_when_quiet():
    out = output(quiet=True)
    out.warn("look\x1b out")
    assert out.stderr.getvalue() == "warning: look\\x1b out\n"


def test_json_warnings_wait_for_the_end():
    out = output(as_json=True)
    out.warn("careful", code="low_space", details={"free": 1})
    assert out.stderr.getvalue() == ""
    out.finish()
    assert json.loads(out.stderr.getvalue()) == {
        "warning": {"code": "low_space", "message": "careful", "details": {"free": 1}}
    }


def test_json_warnings_travel_inside_an_error():
    out = output(as_json=True)
    out.warn("careful")
    out.error(OutputFailed("no", details={"n": 1}).to_json())
    record = json.loads(out.stderr.getvalue())["error"]
    assert record["details"]["n"] == 1
    assert record["details"]["warnings"][0]["message"] == "careful"


def test_progress_is_for_json_lines_only():
    plain, lines = output(as_json=True), output(json_lines=True)
    for out in (plain, lines):
        out.progress({"type": "task_started", "task": "web"})
        out.warn("careful")
    assert plain.stderr.getvalue() == ""
    records = [json.loads(line) for line in lines.stderr.getvalue().splitlines()]
    assert [next(iter(record)) for record in records] == ["type", "warning"]


def test_an_error_for_people():
    out = output(quiet=True)
    out.error(OutputFailed("It is \x1b full.", hint="Empty it.").to_json())
    assert out.stderr.getvalue() == "error: It is \\x1b full.\nhint: Empty it.\n"


def test_a_reader_that_went_away_is_not_an_error():
    with pytest.raises(ReaderGone):
        output(Failing(BrokenPipeError())).emit(None, "text")
    with pytest.raises(ReaderGone):
        output(Failing(BrokenPipeError()), as_json=True).emit({})


def test_a_full_disk_is():
    with pytest.raises(OutputFailed, match="No space"):
        output(Failing(OSError(28, "No space left on device"))).emit(None, "text")


def test_closed_stdout():
    with pytest.raises(OutputFailed):
        Output(None, None).emit(None, "text")


def test_an_unwritable_stderr_is_survived():
    out = output(stderr=Failing(BrokenPipeError()))
    out.status("one")
    out.status("two")


def test_exact_bytes(capfdbinary):
    with open(1, "w", encoding="ascii", closefd=False) as stream:
        out = Output(stream, None)
        out.write(b"\x00\xff\n")
    assert capfdbinary.readouterr().out == b"\x00\xff\n"
