"""``bridge recall``: find again what was said in one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.cli.output import Output
    from bridge.control.search.recalling import Recalled


@command(takes_words=True)
def recall(
    cli: Cli,
    words: Annotated[
        list[str], typer.Argument(metavar="QUERY...", help="Words to look for. Nothing in it is an operator.")
    ],
    *,
    session: Annotated[str | None, typer.Option("--session", help="Session, as id, tail or label. Default: @.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many entries, up to 200.", min=1, max=200)] = 20,
    offset: Annotated[int, typer.Option("--offset", help="Leave out so many of the best.", min=0)] = 0,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also look into what workers said whose results count here.")
    ] = False,
) -> int:
    """Find again what was said in a session

    Looks through messages, results and summaries of that one session, over all its branches, the best match first.
    Entries off the active path are marked with ~, those of a worker's session with +. Upper and lower case and accents
    make no difference; what stands between blanks must be there as it is written. If no entry has every word, those
    that have some are listed.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.search.recalling import recall as find_again

    query = " ".join(words)
    with open_existing(cli) as controller:
        found = find_again(controller, standpoint_of(cli), session, query, limit=limit, offset=offset, deep=deep)
    cli.output.emit(found.to_json(), "\n".join(_lines(found, cli.output)) or None)
    if found.is_empty_query:
        cli.output.status("there is no word to look for; give letters or digits")
    elif not found.hits:
        cli.output.status("nothing was found")
    elif found.is_relaxed:
        cli.output.status("no entry has every word; these have some of them")
    if not found.is_complete:
        cli.output.status("not everything was looked through: much is new; ask again, or run: bridge db reindex")
    if found.ignored:
        cli.output.status(f"{found.ignored} of the words were left out: there were too many")
    if found.has_more:
        cli.output.status(f"there are more: --offset {offset + len(found.hits)}")
    return 0


def _lines(found: Recalled, output: Output) -> list[str]:
    from bridge.cli.rendering import MIN_TEXT_WIDTH, cut, line_width, local_time
    from bridge.foundation.ids import short_entry

    lines = []
    for hit in found.hits:
        mark = "+" if hit.is_source else " " if hit.is_active else "~"
        start = f"{mark} {short_entry(hit.entry.id)}  {local_time(hit.entry.created_at)}  {hit.entry.kind}  "
        lines.append(start + cut(hit.excerpt, max(line_width(output) - len(start), MIN_TEXT_WIDTH)))
    return lines
