"""The whole command line: groups, commands and how one is run.

Knows the commands by name only (:mod:`bridge.cli.registry`): ``--version``, ``--help`` and mistyped commands
do not import the database library.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from bridge import __version__
from bridge.cli.command import CommandFunction, Json, build
from bridge.cli.context import Surroundings
from bridge.cli.edge import exit_status_for
from bridge.cli.parameters import Group
from bridge.cli.registry import COMMANDS, RESIDENT, CommandSpec, GroupSpec

_HELP_OPTIONS = {"help_option_names": ["--help", "-h"]}


class LazyCommand(TyperCommand):
    """Stands for a command in the list of commands; becomes the real one when it is used."""

    def __init__(self, spec: CommandSpec) -> None:
        super().__init__(spec.name, help=spec.help, short_help=spec.help, rich_markup_mode=None)
        self.spec = spec

    @cached_property
    def command(self) -> TyperCommand:
        """The real command; its module is imported for that."""
        return build(self.spec.name, load_function(self.spec))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        # The group asks the returned context for its command, so from here on the real one is in charge.
        return self.command.make_context(info_name, args, parent=parent, **extra)


def load_function(spec: CommandSpec) -> CommandFunction:
    """Import and return the function behind a command."""
    module_name, _, function_name = spec.target.partition(":")
    module = importlib.import_module(f"bridge.cli.commands.{module_name}")
    return cast("CommandFunction", getattr(module, function_name))


def _print_version(context: typer.Context, *, wanted: bool) -> None:
    if wanted:
        cast("Surroundings", context.obj).output.emit({"version": __version__}, f"bridge {__version__}")
        raise typer.Exit


def _root(
    *,
    as_json: Json = False,  # already seen by wants(); accepted before the command, too
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda context, value: _print_version(context, wanted=value),
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Record, stamp and delegate: conversations with coding agents, tied to the exact state of the files"""


def _group(name: str | None, help_text: str | None, commands: Iterable[CommandSpec | GroupSpec]) -> TyperGroup:
    app = typer.Typer(
        name=name,
        cls=Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=False,
        context_settings=dict(_HELP_OPTIONS),
    )
    if name is None:
        app.callback()(_root)
    else:
        app.callback(help=help_text)(lambda: None)
    group = cast("TyperGroup", get_command(app))
    group.short_help = help_text
    for spec in commands:
        if isinstance(spec, GroupSpec):
            group.add_command(_group(spec.name, spec.help, spec.commands), spec.name)
        else:
            group.add_command(LazyCommand(spec), spec.name)
    return group


@cache
def root_command(commands: tuple[CommandSpec | GroupSpec, ...] = COMMANDS) -> TyperGroup:
    """Return the whole command line; nothing behind it is imported yet."""
    return _group(None, None, commands)


def run_line(words: Sequence[str], surroundings: Surroundings) -> int:
    """Run a command line to its end and return its exit status; whatever goes wrong is told on its stderr."""
    return exit_status_for(
        lambda: _run(list(words), surroundings),
        output=surroundings.output,
        words=words,
        environment=surroundings.environment,
    )


def _run(words: list[str], surroundings: Surroundings) -> int:
    group = root_command()
    program = surroundings.program
    if surroundings.environment.get(f"_{program.upper()}_COMPLETE"):
        # A shell asks for completions: typer answers on stdout and exits.
        from typer.completion import get_completion_inspect_parameters

        # Called for what it does on the way: it registers the shells that typer can answer.
        get_completion_inspect_parameters()
        group.main(words, prog_name=program)
    if not words:
        words = ["--help"]
    with group.make_context(program, words, obj=surroundings) as context:
        status = group.invoke(context)
    return int(status or 0)


def preload() -> None:
    """Import and build the commands that a resident controller runs, so that no client waits for it."""
    group = root_command()
    for name in sorted(RESIDENT):
        command: Any = group
        for word in name.split():
            command = command.commands[word]
        _ = cast("LazyCommand", command).command
