"""``bridge erase`` and ``bridge session prune``: what was recorded is taken away for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.removal.pruning import Pruned


@command()
def erase(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, 9f3a.31, number or label.")],
    *,
    pattern: Annotated[
        str | None, typer.Option("--pattern", help="Regular expression; mask what it matches, leave the rest.")
    ] = None,
) -> int:
    """Erase what an entry says, for good; its hash stays

    The payload is replaced: in its row, in the search index, in the raw texts of tasks; the kept contents of files
    behind the entry's stamp go as well. Ids, times and hashes stay, so bridge verify stays green and says "withheld".
    What else holds the text is named: other entries, and backups beside the store. Copies made elsewhere (exports,
    the agent's own transcript, clones of the disk) are not Bridge's to reach.

    The database file is written anew, so that the bytes are gone from it; that takes as long as copying it.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.removal.erasing import erase as erase_entry
    from bridge.foundation.ids import short_entry

    with open_existing(cli) as controller:
        done = erase_entry(controller, standpoint_of(cli), entry, pattern=pattern)
    what = "all of it" if done.matches is None else f"{done.matches} {'match' if done.matches == 1 else 'matches'}"
    cli.output.emit(done.to_json(), f"erased {short_entry(done.entry_id)}: {what}")
    for other in done.also_in:
        cli.output.warn(f"{short_entry(other)} holds the same text: bridge erase {other}", code="text_elsewhere")
    for path in done.left:
        cli.output.warn(f"{path!r} is too large to be rewritten and may hold it", code="text_elsewhere")
    _tell_left(cli, done.backups, done.not_scrubbed)
    return 0


@command()
def prune(
    cli: Cli,
    *,
    keep: Annotated[int, typer.Option("--keep", min=0, help="How many chats stay, those touched last.")] = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")] = False,
) -> int:
    """Remove all but the chats touched last

    With a chat go the sessions of its workers, its tasks, its place in the search index, and contents of files that
    were kept for it alone. A session stays in which something goes on, that another was forked from, whose result
    another cites, or that does not verify. Its audit events stay and its id is never used again; bridge verify says
    "removed", and a session that continues it shows that its parent is not there any more.
    """
    from bridge.cli.standing import open_if_there
    from bridge.control.removal.pruning import Pruned
    from bridge.control.removal.pruning import prune as prune_sessions

    with open_if_there(cli) as controller:
        done = (
            Pruned(dry_run, (), 0, ()) if controller is None else prune_sessions(controller, keep=keep, dry_run=dry_run)
        )
    cli.output.emit(done.to_json(), _listed(done) or None)
    if not done.removed:
        cli.output.status("nothing to remove")
    _tell_left(cli, done.backups, done.not_scrubbed)
    return 0


def _listed(done: Pruned) -> str:
    word = "would be removed" if done.is_dry_run else "removed"
    lines = [f"{session_id}  {word}" for session_id in done.removed]
    lines += [f"{one.session_id}  kept ({one.reason}): {one.message}" for one in done.kept]
    return "\n".join(lines)


def _tell_left(cli: Cli, backups: tuple[str, ...], not_scrubbed: str | None) -> None:
    for path in backups:
        cli.output.warn(f"the backup {path!r} still holds it; remove it once you need it no more", code="backup_holds")
    if not_scrubbed is not None:
        cli.output.warn(
            f"the database's own files may still hold what was deleted from them: {not_scrubbed}", code="not_scrubbed"
        )
