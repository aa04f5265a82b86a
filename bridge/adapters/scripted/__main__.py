"""``python -m bridge.adapters.scripted``: see docs/scripted-agent.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bridge.adapters.errors import ScriptInvalid
from bridge.adapters.scripted.agent import ScriptedAgent
from bridge.adapters.scripted.sessions import SessionFolder
from bridge.adapters.scripted.steps import read_script


def main() -> int:
    """Serve the protocol on standard input and output until the input ends."""
    parser = argparse.ArgumentParser(prog="scripted", description="An agent without a model, for trying Bridge out.")
    parser.add_argument("--script", type=Path, help="TOML or JSON file with the turns to play")
    parser.add_argument("--state", type=Path, help="folder in which sessions are kept; without it they are not")
    parser.add_argument("--no-resume", action="store_true", help="offer session/load alone, not session/resume")
    arguments = parser.parse_args()
    try:
        turns = () if arguments.script is None else read_script(arguments.script)
    except ScriptInvalid as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        return error.exit_status
    ScriptedAgent(turns, SessionFolder(arguments.state), can_resume=not arguments.no_resume).run()
    # Not by returning: a turn that stalls on purpose has a thread that never ends.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
