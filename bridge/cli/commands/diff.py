"""``bridge diff``: which paths differ between an entry and now."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid


@command()
def diff(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, tail (9f3a.31), number, label; @ for the head.")],
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="With --patch: only these files, and what is in these folders."),
    ] = None,
    *,
    patch: Annotated[bool, typer.Option("--patch", help="Show the text that differs, where it is known.")] = False,
) -> int:
    """Show which paths differ between an entry's stamp and now

    The files are those of the entry's own session. bridge status compares with the last entry instead.

    With --patch the text is compared as well: up to 1 MiB a file, 300 files and 4 MiB of text. What was as committed
    then comes from the commit, what was not from what was kept (snapshots = "dirty" in config.toml) or from where
    it still is; a content that is not known is said to be unknown.
    """
    from bridge.cli.divergenceview import detailed
    from bridge.cli.patchview import patched_text
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.comparing import difference_to, text_difference_to

    if paths and not patch:
        raise UsageInvalid("A path goes with --patch.")
    with open_existing(cli) as controller:
        if not patch:
            found = difference_to(controller, standpoint_of(cli), entry)
            cli.output.emit(found.to_json(), detailed(found, is_leaf=False))
            return 0
        patched = text_difference_to(controller, standpoint_of(cli), entry, paths or ())
    cli.output.emit(patched.to_json(), patched_text(patched))
    return 0
