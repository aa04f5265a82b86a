"""``bridge status``: have conversation and files come apart?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.control.divergence import SessionDivergence

#: Sessions that are listed for people, the last touched first.
MAX_SHOWN_SESSIONS: Final = 50


@command(exits={1: "With --check: a session is not aligned with the files."})
def status(
    cli: Cli,
    session: Annotated[
        str | None,
        typer.Argument(help="Session, as id, tail, label or @. Default: every open session of this checkout."),
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless all of them are aligned.")] = False,
    agent: Annotated[
        bool, typer.Option("--agent", help="What an agent would be told about one session; by default @.")
    ] = False,
) -> int:
    """Compare the files with the last entry of each session

    aligned: the files are as they were. diverged: they are not; for one session it is said in what, by path.
    unknown: it cannot be told, with the reason. With --json: an object for one session, else an array.
    """
    from bridge.cli.divergenceview import detailed
    from bridge.cli.relinkhint import RELINK_OFFERED, offer
    from bridge.cli.standing import open_existing, open_if_there, standpoint_of
    from bridge.control.comparing import require_checkout, status_here, status_of
    from bridge.control.relinking import relink_candidates
    from bridge.workspaces.wording import agent_text

    if session is None and not agent:
        require_checkout(cli.directory)
        with open_if_there(cli) as controller:
            sessions = () if controller is None else status_here(controller, cli.directory).sessions
            lost = [] if controller is None or sessions else relink_candidates(controller, cli.directory)
        cli.output.emit([found.to_json() for found in sessions], _listed(sessions) or None)
        for candidate in lost:
            cli.output.warn(offer(candidate), code=RELINK_OFFERED)
        if not sessions:
            cli.output.status("no open session is about this checkout; start one: bridge session new")
        is_aligned = all(found.report.is_aligned for found in sessions)
    else:
        with open_existing(cli) as controller:
            found = status_of(controller, standpoint_of(cli), session)
        told = agent_text(found.report) if agent else ""
        value = {**found.to_json(), "agent_text": told} if agent else found.to_json()
        cli.output.emit(value, (told or None) if agent else detailed(found))
        is_aligned = found.report.is_aligned
    return 1 if check and not is_aligned else 0


def _listed(sessions: Sequence[SessionDivergence]) -> str:
    from bridge.cli.rendering import one_line, table
    from bridge.foundation.ids import short_session
    from bridge.workspaces.wording import one_line as divergence_line

    rows = []
    for found in sessions[:MAX_SHOWN_SESSIONS]:
        reference = short_session(found.session.id)
        line = divergence_line(found.report, reference=reference)
        rows.append([reference, str(found.report.divergence), one_line(found.session.label or "-"), line])
    more = len(sessions) - len(rows)
    counts = Counter(str(found.report.divergence) for found in sessions[MAX_SHOWN_SESSIONS:])
    told = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    return table(rows) + (f"\nand {more} more ({told}); --json lists them" if more > 0 else "")
