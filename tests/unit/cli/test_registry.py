"""The list of commands and what the commands themselves say must agree."""

from __future__ import annotations

import inspect
import pkgutil
from pathlib import Path

import pytest

import bridge.cli.commands
from bridge.cli import remote
from bridge.cli.line import LazyCommand, load_function
from bridge.cli.registry import COMMANDS, RESIDENT, GroupSpec


def commands_of(specs=COMMANDS, path=()):
    for spec in specs:
        if isinstance(spec, GroupSpec):
            yield from commands_of(spec.commands, (*path, spec.name))
        else:
            yield (*path, spec.name), spec


EVERY = [pytest.param(words, spec, id=" ".join(words)) for words, spec in commands_of()]


def lines_of(specs=COMMANDS):
    for spec in specs:
        yield spec.help
        if isinstance(spec, GroupSpec):
            yield from lines_of(spec.commands)


def test_names_are_unique():
    words = [words for words, _ in commands_of()]
    assert len(words) == len(set(words))


def test_no_module_is_forgotten():
    listed = {spec.target.partition(":")[0].partition(".")[0] for _, spec in commands_of()}
    present = {module.name for module in pkgutil.iter_modules(bridge.cli.commands.__path__)}
    assert listed == present


@pytest.mark.parametrize("line", list(lines_of()))
def test_the_line_is_imperative_and_short(line):
    assert line
    assert not line.endswith(".")
    assert line[0].isupper()
    assert len(line) <= 80


@pytest.mark.parametrize(("words", "spec"), EVERY)
def test_the_line_is_the_docstrings_first(words, spec):
    assert (inspect.getdoc(load_function(spec)) or "").partition("\n")[0] == spec.help


@pytest.mark.parametrize(("words", "spec"), EVERY)
def test_every_option_is_explained(words, spec):
    command = LazyCommand(spec).command
    for parameter in command.params:
        assert parameter.help, f"{' '.join(words)}: {parameter.name} has no help"
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--quiet", "--verbose"} <= options


def test_a_command_for_the_controller_goes_by_nothing_of_the_process():
    """Many run in one process there, each with the streams, the folder and the variables of its client."""
    modules = {spec.target.partition(":")[0] for path, spec in commands_of() if " ".join(path) in RESIDENT}
    for name in modules:
        text = Path(bridge.cli.commands.__path__[0], f"{name}.py").read_text(encoding="utf-8")
        for word in ("sys.stdin", "sys.stdout", "sys.stderr", "os.environ", "Path.cwd", "os.getcwd", "print("):
            assert word not in text, f"{name} uses {word}"


def test_a_model_is_asked_by_the_process_of_whoever_asks():
    assert remote.is_fit(("find", "words"), {})
    assert remote.is_fit(("recall", "words", "--deep"), {})
    for words in (("find", "words", "--deep"), ("--json", "find", "--deep", "words")):
        assert not remote.is_fit(words, {})
