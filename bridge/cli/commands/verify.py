"""``bridge verify`` and ``bridge root``: is what is stored what was recorded, and which hash fixes a session?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.verification import Verification
    from bridge.integrity.verify import Verdict


@command(exits={1: "Something is not as it was recorded."})
def verify(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail, label or @. Default: all.")] = None,
) -> int:
    """Recompute the hashes of entries, audit chains and states

    Compares what is stored with what was recorded: payloads, entries under their recomputed parents, the tree,
    heads, audit chains, and the repository states that entries name. Each row that does not fit is named; the
    other sessions are still reported as healthy. Nothing is written.

    It cannot tell when somebody with write access replaced entries, heads and chains alike by a consistent other
    history; a root kept elsewhere (bridge root) can.
    """
    from bridge.cli.standing import open_existing, open_if_there, standpoint_of
    from bridge.control.verification import Verification
    from bridge.control.verification import verify as verify_stored

    if session is not None:
        with open_existing(cli) as controller:
            found = verify_stored(controller, standpoint_of(cli), session)
    else:
        with open_if_there(cli) as existing:
            found = Verification((), ()) if existing is None else verify_stored(existing, standpoint_of(cli), None)
    cli.output.emit(found.to_json(), _listed(found) or None)
    if not found.sessions:
        cli.output.status("there is nothing to verify yet")
    return 0 if found.is_healthy else 1


@command()
def root(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
) -> int:
    """Print the hash that fixes a whole session

    One value over every entry of all branches and how they hang together; it does not depend on the order in which
    branches grew. That it was given out is recorded in the session's audit chain. Kept outside the database, it
    shows later whether anything before its last entry was changed.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.verification import read_root

    with open_existing(cli) as controller:
        found = read_root(controller, standpoint_of(cli), session)
    cli.output.emit(found.to_json(), found.session_root)
    return 0


def _listed(found: Verification) -> str:
    from bridge.cli.rendering import table
    from bridge.foundation.ids import short_session

    rows = [[short_session(verdict.subject), *_verdict(verdict)] for verdict in found.sessions]
    rows += [[verdict.subject, *_verdict(verdict)] for verdict in found.chains]
    lines = [table(rows)]
    for verdict in (*found.sessions, *found.chains):
        findings = verdict.report.findings
        lines += [f"{finding.subject}: {finding.message} ({finding.code})" for finding in findings]
        if verdict.report.problems > len(findings):
            lines.append(f"{verdict.subject}: {verdict.report.problems - len(findings)} more problems")
    return "\n".join(filter(None, lines))


def _verdict(verdict: Verdict) -> list[str]:
    count = f"{verdict.report.checked} checked"
    if verdict.is_healthy:
        return ["healthy", count]
    problems = verdict.report.problems
    return ["faulty", f"{count}, {problems} {'problem' if problems == 1 else 'problems'}"]
