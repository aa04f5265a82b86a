"""``bridge files``: the files behind an entry's stamp, as a new worktree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.contents.restoring import Restored

#: Unknown paths that are listed one by one; ``--json`` has more.
MAX_SHOWN_MISSING = 200


@command(exits={1: "Something is not as it was: what is not known is listed."})
def files(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, tail (9f3a.31), number, label; @ for the head.")],
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="PATH", help="Where to: a path that does not exist, or an empty folder.")
    ],
) -> int:
    """Put the files behind an entry's stamp into a new worktree

    It is detached at the stamped commit, and what differed from it then is applied: changes, deletions, modes,
    symlinks, untracked files, and what was staged. The checkout itself, its index, branch and refs stay as they
    are. Contents that differed from the commit are known if they were kept (snapshots = "dirty" in config.toml),
    or if the repository or the checkout still has them. A path whose content is not known is left out and listed.
    Ignored files are in no stamp. Remove the worktree with: git worktree remove PATH
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.contents.restoring import restore_files

    with open_existing(cli) as controller:
        done = restore_files(controller, standpoint_of(cli), entry, cli.directory / Path(into))
    cli.output.emit(done.to_json(), _shown(done))
    if not done.made.is_worktree:
        cli.output.warn("there is no commit to make a worktree at, so this is a plain folder", code="plain_folder")
    if done.behind.state.operation is not None:
        cli.output.status(f"a {done.behind.state.operation} was in progress then; it is not in progress there")
    return 1 if done.made.missing else 0


def _shown(done: Restored) -> str:
    from bridge.cli.rendering import facts, state_words, table
    from bridge.foundation.ids import short_entry
    from bridge.git.paths import display_path, plain_path

    made = done.made
    sources = ", ".join(f"{count} from {_PLACES[place]}" for place, count in made.sources.items() if count)
    lines = [
        facts(
            [
                ("files of", short_entry(done.entry.id)),
                ("in", plain_path(bytes(made.path))),
                ("state", state_words(done.behind.state)),
                ("applied", f"{made.applied} paths" + (f" (contents: {sources})" if sources else "")),
                ("not as it was", f"{len(made.missing)}" if made.missing else None),
            ]
        )
    ]
    shown = made.missing[:MAX_SHOWN_MISSING]
    rows = [["" if item.path is None else display_path(item.path), _words(item.reason, item.detail)] for item in shown]
    lines += ["  " + line for line in table(rows).splitlines()]
    if len(made.missing) > len(shown):
        lines.append(f"  and {len(made.missing) - len(shown)} more; --json lists them")
    return "\n".join(lines)


_PLACES = {"kept": "what was kept", "disk": "the checkout", "objects": "the repository"}
_REASONS = {
    "not_kept": "its content was not kept and is nowhere to be found",
    "over_limit": "its content was left out: more than is kept for one stamp",
    "changed": "its content changed before it could be kept",
    "damaged": "its content was kept and is gone or damaged",
    "repository": "a repository of its own; its files are not part of the stamp",
    "commit_missing": "the commit is gone, and with it every file that was as committed",
    "staged_missing": "the file is there; what was staged of it is gone",
    "blocked": "it cannot be written there",
    "differs": "git sees it otherwise now; settings or filters may be others",
}


def _words(reason: str, detail: str) -> str:
    from bridge.cli.rendering import one_line

    told = _REASONS[reason]
    return f"{told} ({one_line(detail)})" if detail else told
