"""Turns a plain function into a command that keeps the conventions of this command line.

The decorator adds ``--json``, ``--quiet`` and ``--verbose`` (and ``--json-lines`` where there is progress), so
that no command can forget one, and hands the function a :class:`~bridge.cli.context.Cli`::

    @command(exits={1: "A check failed."})
    def doctor(cli: Cli, *, strict: Annotated[bool, typer.Option("--strict", help="Count warnings.")] = False) -> int:
        \"\"\"Check this machine and this installation\"\"\"
        cli.output.emit(report, human=table)
        return 0

The returned number is the exit status; ``None`` is 0. Failures are raised as ``BridgeError``. The first line of
the docstring is the help in the list of commands, the rest follows in ``--help``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand
from typer.main import get_command

from bridge.cli.context import LOG_VARIABLE, Surroundings, context_of
from bridge.cli.parameters import Command

#: What a command function returns: an exit status, or ``None`` for 0.
CommandFunction = Callable[..., int | None]

Json = Annotated[bool, typer.Option("--json", help="Print the result, and an error on stderr, as JSON.")]
JsonLines = Annotated[
    bool,
    typer.Option("--json-lines", help="Like --json, and write progress to stderr as typed JSON lines."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Leave out status and progress; warnings stay.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help=f"Log in detail on stderr. [env var: {LOG_VARIABLE}, the level to log]"),
]

_CONTEXT_NAME = "typer_context"
_EXITS_ATTRIBUTE = "__bridge_exits__"
_WORDS_ATTRIBUTE = "__bridge_words__"


def command(
    *, progress: bool = False, exits: Mapping[int, str] | None = None, takes_words: bool = False
) -> Callable[[CommandFunction], CommandFunction]:
    """Return a decorator for a command function whose first parameter is ``cli``.

    Parameters
    ----------
    progress
        Whether the command shows progress and so takes ``--json-lines``.
    exits
        What exit status 1 (or another that no error class has) means here; shown in the help and the reference.
    takes_words
        Whether what looks like an option and is none is a word like others: ``bridge find --no-cache``.
    """

    def decorate(function: CommandFunction) -> CommandFunction:
        # Annotations are resolved here, once: typer looks at the wrapper, whose globals are this module's.
        own = inspect.signature(function, eval_str=True)
        parameters = [*own.parameters.values()][1:]

        @functools.wraps(function)
        def run(**values: Any) -> int | None:
            context: typer.Context = values.pop(_CONTEXT_NAME)
            surroundings = cast("Surroundings", context.obj)
            output = surroundings.output
            output.as_json = values.pop("as_json") or output.as_json
            output.json_lines = values.pop("json_lines", False)
            output.quiet = values.pop("quiet")
            cli = context_of(surroundings, verbose=values.pop("verbose"))
            cli.prepare_logging()
            return function(cli, **values)

        common: list[tuple[str, Any]] = [("as_json", Json), ("quiet", Quiet), ("verbose", Verbose)]
        if progress:
            common.insert(1, ("json_lines", JsonLines))
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, keyword, default=False, annotation=kind) for name, kind in common]
        context = inspect.Parameter(_CONTEXT_NAME, keyword, annotation=typer.Context)
        visible = [parameter.replace(kind=keyword) for parameter in parameters]
        run.__signature__ = inspect.Signature([*visible, *added, context])  # type: ignore[attr-defined]  # PEP 362
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*visible, *added, context]}
        setattr(run, _EXITS_ATTRIBUTE, {0: "Done.", **(exits or {})})
        setattr(run, _WORDS_ATTRIBUTE, takes_words)
        return run

    return decorate


def exit_statuses(function: CommandFunction) -> dict[int, str]:
    """Return what the exit statuses of a command mean, beside those of usage (2) and of error classes."""
    return dict(getattr(function, _EXITS_ATTRIBUTE))


def build(name: str, function: CommandFunction) -> TyperCommand:
    """Return the typer command for a function made by :func:`command`."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    others = {status: text for status, text in exit_statuses(function).items() if status != 0}
    epilog = "; ".join(f"Exit status {status}: {text}" for status, text in sorted(others.items())) or None
    settings: dict[str, Any] = {"help_option_names": ["--help", "-h"]}
    if getattr(function, _WORDS_ATTRIBUTE):
        settings["ignore_unknown_options"] = True
    app.command(name, cls=Command, epilog=epilog, context_settings=settings)(function)
    return cast("TyperCommand", get_command(app))
