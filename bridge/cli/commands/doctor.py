"""``bridge doctor``: is this machine fit, is this installation whole, can state be kept?"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Annotated

import typer

from bridge import __version__
from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.health import Check, Status, run_checks

_MARKS: dict[Status, str] = {"ok": "ok     ", "warning": "warning", "failed": "failed "}
_ORDER: tuple[Status, ...] = ("ok", "warning", "failed")


@command(exits={1: "A check failed."})
def doctor(
    cli: Cli,
    *,
    harnesses: Annotated[
        bool,
        typer.Option(
            "--harnesses", help="Start each agent program that is installed, and ask its version and what it can do."
        ),
    ] = False,
) -> int:
    """Check this machine, this installation and the state directory

    Looks at Python, git, SQLite, the search path, the encoding, the configuration and the state directory, and
    changes nothing. A warning is something that works with a catch; it does not change the exit status.
    """
    checks = run_checks(cli, is_asking=harnesses)
    worst = max((check.status for check in checks), key=_ORDER.index)
    report = {
        "status": worst,
        "version": __version__,
        "platform": platform.platform(),
        "checks": [check.to_json() for check in checks],
    }
    cli.output.emit(report, _as_text(checks))
    return 1 if worst == "failed" else 0


def _as_text(checks: Sequence[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines = [f"bridge {__version__} on {platform.platform()}", ""]
    for check in checks:
        lines.append(f"{_MARKS[check.status]}  {check.name:<{width}}  {check.detail}")
        if check.hint:
            lines.append(f"{'':7}  {'':<{width}}  hint: {check.hint}")
    return "\n".join(lines)
