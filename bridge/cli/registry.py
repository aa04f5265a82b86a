"""The commands by name: one line of help each, and where the function lives.

This module is data. It is read on every start, so it imports no command: a command's module is imported when
the command is used. Adding a command means writing its function and adding one line here; tests check that each
target exists, that no module in ``commands/`` is forgotten and that the help here is the docstring's first line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command that is imported when it is used.

    Parameters
    ----------
    name
        What people type.
    help
        One line, imperative, no full stop; the first line of the function's docstring.
    target
        ``module:function`` below ``bridge.cli.commands``.
    """

    name: str
    help: str
    target: str


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A command with subcommands, such as ``bridge session``."""

    name: str
    help: str
    commands: tuple[CommandSpec, ...]


COMMANDS: tuple[CommandSpec | GroupSpec, ...] = (
    CommandSpec("doctor", "Check this machine, this installation and the state directory", "doctor:doctor"),
)
