"""``bridge diff``: which paths differ between an entry and now."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli


@command()
def diff(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, tail (9f3a.31), number, label; @ for the head.")],
) -> int:
    """Show which paths differ between an entry's stamp and now

    The files are those of the entry's own session. bridge status compares with the last entry instead.
    """
    from bridge.cli.divergenceview import detailed
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.comparing import difference_to

    with open_existing(cli) as controller:
        found = difference_to(controller, standpoint_of(cli), entry)
    cli.output.emit(found.to_json(), detailed(found, is_leaf=False))
    return 0
