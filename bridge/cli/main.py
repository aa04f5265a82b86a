"""Entry point of ``bridge`` and ``brg``.

A command that a resident controller can run for us is handed to it before anything but the standard library is
imported (:mod:`bridge.cli.remote`). Everything else runs in this process.
"""

from __future__ import annotations

import os
import sys

from bridge.cli import remote

# typing is not imported for these: it would cost a command more than all of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run a command line and return its exit status.

    Parameters
    ----------
    arguments
        The words after the program's name; those of this process by default.
    environment
        Variables that commands read; those of this process by default.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    variables = os.environ if environment is None else environment
    told = remote.attempt(words, variables)
    if isinstance(told, int):
        return told
    # Importing the command line takes longer than most answers of a controller.
    from bridge.cli.inprocess import run_here

    return run_here(words, variables, told)
