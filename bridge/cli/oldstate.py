"""Folders of old state on the command line: taken in for good, or only looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.exchange.oldstate import TakenIn

#: What ``bridge import --format`` calls it; as ``bridge.control.exchange.oldstate`` does.
FORMAT = "yaml-sessions"
_SHOWN = 20


def import_folder(cli: Cli, folder: Path, *, dry_run: bool) -> int:
    """Take in a folder; return 1 if something of it could not be."""
    from bridge.cli.composition import open_controller
    from bridge.control.exchange.oldstate import take_in_old_state

    with open_controller(cli) as controller:
        done = take_in_old_state(controller, folder, dry_run=dry_run)
    cli.output.emit(done.to_json(), _text(done))
    return 1 if done.problems else 0


def show_notes(cli: Cli, folder: Path, session: str | None, *, limit: int) -> int:
    """Print the notes of a folder, of all its sessions or of one, without taking them in."""
    from bridge.cli.output import printable
    from bridge.control.exchange.oldstate import require_old_state
    from bridge.conversations.errors import SessionNotFound
    from bridge.foundation.ids import require_safe_id

    wanted = None if session is None else require_safe_id(session)
    state = require_old_state(folder)
    chosen = [one for one in state.sessions if wanted in {None, one.id}]
    if wanted is not None and not chosen:
        raise SessionNotFound(f"{str(folder)!r} has no session {wanted}.", details={"session_id": wanted})
    signals = [signal for one in chosen for signal in one.signals]
    kept = signals[-limit:]
    for problem in state.problems[:_SHOWN]:
        cli.output.warn(f"{printable(problem.path)}: {printable(problem.message)}", code=problem.code)
    lines = [
        f"{one.session_id}  {one.created_at or '-'}  {printable(one.sender or '-')}: {printable(one.text)}"
        for one in kept
    ]
    cli.output.emit(
        {
            "notes": [signal.to_json() for signal in kept],
            "hasOlder": len(kept) < len(signals),
            "problems": [problem.to_json() for problem in state.problems],
            "tables": {name: str(table) for name, table in state.tables.items()},
        },
        "\n".join(lines),
    )
    return 0


def _text(done: TakenIn) -> str:
    from bridge.cli.output import printable

    would = "would be " if done.is_dry_run else ""
    counted = {word: sum(one.status == word for one in done.sessions) for word in ("created", "continued", "unchanged")}
    told = ", ".join(
        f"{counted[word]} {would if word != 'unchanged' else ''}{said}"
        for word, said in (("created", "taken in"), ("continued", "continued"), ("unchanged", "unchanged"))
    )
    lines = [f"{len(done.sessions)} session(s): {told}; {done.added} entries {would}added"]
    if done.state.has_index_failed:
        lines.append("the index could not be loaded; the sessions' own files were read, and the index stays as it is")
    lines += [f"{printable(one.path)}: {printable(one.message)} ({one.code})" for one in done.problems[:_SHOWN]]
    if len(done.problems) > _SHOWN:
        lines.append(f"and {len(done.problems) - _SHOWN} more; --json has all")
    return "\n".join(lines)
