"""The decorator that makes a command of a function, and lazy loading."""

from __future__ import annotations

import enum
import json
import sys
import types
from typing import Annotated, Literal

import pytest
import typer

from bridge.cli import line as line_module
from bridge.cli.command import command, exit_statuses
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid
from bridge.cli.main import main
from bridge.cli.registry import CommandSpec, GroupSpec


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@command(progress=True, exits={1: "Not good."})
def show(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry.")],
    *,
    parents: Annotated[list[str] | None, typer.Option("--parent", help="May be repeated.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many.", min=1)] = 5,
    level: Annotated[Level, typer.Option("--level", help="How much.")] = Level.LOW,
    form: Annotated[Literal["a", "b"], typer.Option("--form", help="Which.")] = "a",
    label: Annotated[str | None, typer.Option("--label", help="Name.", envvar="BRIDGE_TEST_LABEL")] = None,
) -> int | None:
    """Show an entry

    More words.
    """
    if entry == "both":
        raise UsageInvalid("These exclude each other.")
    cli.output.progress({"type": "working"})
    value = {"entry": entry, "parents": parents, "limit": limit, "level": level.value, "form": form, "label": label}
    cli.output.emit(value, f"entry {entry}")
    return 1 if entry == "bad" else None


@pytest.fixture
def run(monkeypatch, capsys, bridge_home):
    module = types.ModuleType("bridge.cli.commands.made_up")
    module.show = show
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = CommandSpec("show", "Show an entry", "made_up:show")
    lost = CommandSpec("lost", "Not there", "no_such_module:lost")
    specs = (spec, GroupSpec("group", "A group", (spec,)), lost)
    monkeypatch.setattr(line_module, "root_command", lambda build=line_module.root_command: build(specs))

    def invoke(*words):
        status = main(list(words))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return invoke


def test_defaults(run):
    status, out, err = run("show", "9f3a.1", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "entry": "9f3a.1", "parents": None, "limit": 5, "level": "low", "form": "a", "label": None,
    }  # fmt: skip


def test_every_kind_of_value(run, monkeypatch):
    monkeypatch.setenv("BRIDGE_TEST_LABEL", "named")
    words = ("--parent", "a", "--parent", "b", "--limit", "7", "--level", "high", "--form", "b", "--json")
    _, out, _ = run("show", "x", *words)
    assert json.loads(out) == {
        "entry": "x", "parents": ["a", "b"], "limit": 7, "level": "high", "form": "b", "label": "named",
    }  # fmt: skip


def test_a_status_of_its_own(run):
    assert run("show", "bad") == (1, "entry bad\n", "")


def test_a_subcommand_of_a_group(run):
    assert run("group", "show", "x")[:2] == (0, "entry x\n")


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "x", "--limit", "no"),
        ("show", "x", "--limit", "0"),
        ("show", "x", "--level", "middle"),
        ("show", "x", "--form", "c"),
        ("show", "x", "--label"),
        ("show", "both"),
        ("group",),
        ("group", "shw"),
    ],
)
def test_usage_errors(run, words):
    # First, so that it cannot be taken for the value that an option lacks.
    status, out, err = run("--json", *words)
    assert (status, out) == (2, "")
    error = json.loads(err)["error"]
    assert error["code"] == "usage"
    assert "\n" not in error["message"]


def test_json_lines_bring_progress_and_a_json_result(run):
    _, out, err = run("show", "x", "--json-lines")
    assert json.loads(out)["entry"] == "x"
    assert json.loads(err) == {"type": "working"}


def test_help_has_the_docstring_the_variable_and_the_status(run):
    _, out, _ = run("show", "--help")
    text = " ".join(out.split())
    assert "More words." in text
    assert "BRIDGE_TEST_LABEL" in text
    assert "Exit status 1: Not good." in text


def test_the_group_lists_its_commands_without_importing_them(run):
    assert "Show an entry" in run("group", "--help")[1]
    assert "Not there" in run("--help")[1]


def test_a_missing_module_is_a_crash_and_not_a_usage_error(run):
    assert run("lost")[0] == 118


def test_a_mistyped_subcommand_is_answered_with_the_nearest(run):
    assert "Did you mean 'show'?" in run("group", "shwo")[2]


def test_exit_statuses():
    assert exit_statuses(show) == {0: "Done.", 1: "Not good."}


def test_plain_values_do_not_wake_pydantic(run, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "typer" and name.endswith("_adapters")]:
        monkeypatch.delitem(sys.modules, name)
    run("group", "--help")
    run("no-such-command")
    assert not [name for name in sys.modules if name.endswith("typer._adapters")]
