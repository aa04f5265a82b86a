"""How a child starts this very Bridge: the same interpreter, the same files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import bridge

#: The interpreter does not look into the current directory for modules (-P): it is a repository, and could hold some.
_START: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from bridge.cli.main import main; sys.exit(main())"


def own_command(*words: str) -> tuple[str, ...]:
    """Return program and arguments that run a command line of this Bridge, wherever they are started."""
    root = Path(bridge.__file__).resolve().parent.parent
    return (sys.executable, "-P", "-c", _START, str(root), *words)
