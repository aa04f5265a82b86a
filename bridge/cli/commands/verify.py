"""``bridge verify``, ``root`` and ``anchor``: is what is stored what was recorded, and which hashes fix it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.checks.verification import Verification
    from bridge.integrity.report import Verdict

#: What --only takes; the same as ``bridge.control.checks.verification``, which is not imported for the help.
PARTS = ("tree", "chain", "log", "states", "index")


@command(exits={1: "Something is not as it was recorded."})
def verify(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail, label or @. Default: all.")] = None,
    *,
    only: Annotated[
        list[str] | None, typer.Option("--only", help=f"Only this part: {', '.join(PARTS)}; may be repeated.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="ROOT/SIZE",
            help="Prove that the log extends this earlier one, as bridge anchor prints it.",
        ),
    ] = None,
    whole_index: Annotated[
        bool, typer.Option("--whole-index", help="Compare the search index with every entry, not with a sample.")
    ] = False,
) -> int:
    """Recompute the hashes of entries, audit chains, their log, and states

    Compares what is stored with what was recorded. tree: payloads, entries under their recomputed parents, the tree
    and its sealed roots. chain: audit chains, and the entries, heads and rows they speak of. log: the Merkle log over
    the events of all chains, with its anchors outside the database. states: the repository states that entries name.
    index: the search index, by its own check and against the words of up to 250 entries, drawn anew each time;
    bridge db reindex mends it. Each row that does not fit is named; the other sessions are still reported as healthy.
    Of one session, log and index are left out unless asked for: they are about the whole store.

    Nothing is written into the store. If everything is healthy, size and root of the log are anchored in the state
    directory, so that the next verification sees whether its end was cut off. Whoever can replace the store and every
    anchor alike by a consistent other history is not noticed.
    """
    from bridge.cli.standing import open_existing, open_if_there, standpoint_of
    from bridge.control.checks.verification import Verification
    from bridge.control.checks.verification import verify as verify_stored

    parts = _parts(only)
    if session is not None:
        with open_existing(cli) as controller:
            found = verify_stored(
                controller, standpoint_of(cli), session, only=parts, since=since, whole_index=whole_index
            )
    else:
        with open_if_there(cli) as existing:
            found = (
                Verification((), ())
                if existing is None
                else verify_stored(existing, standpoint_of(cli), None, only=parts, since=since, whole_index=whole_index)
            )
    cli.output.emit(found.to_json(), _listed(found) or None)
    if not (found.sessions or found.log or found.index):
        cli.output.status("there is nothing to verify yet")
    return 0 if found.is_healthy else 1


def _parts(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in PARTS:
            raise UsageInvalid(f"--only: {name!r} is not a part. Use one of: {', '.join(PARTS)}.")
    return names or []


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
    from bridge.control.checks.verification import read_root

    with open_existing(cli) as controller:
        found = read_root(controller, standpoint_of(cli), session)
    cli.output.emit(found.to_json(), found.session_root)
    return 0


@command()
def anchor(
    cli: Cli,
    *,
    repository: Annotated[
        bool,
        typer.Option("--repository", help="Also commit it under refs/bridge/anchors/ of the repository here."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Begin anew: give up the anchor that the log does not reach.")
    ] = False,
) -> int:
    """Keep size and root of the log of all events outside the database

    Prints ROOT/SIZE: one hash over every recorded change of the whole store, and how many there are. It is kept in
    the state directory; bridge verify says when the log no longer reaches it. Kept anywhere else, bridge verify --since
    proves later that everything until then is still there and unchanged.

    With --repository it becomes a commit without files, in Bridge's name; HEAD, index and files stay as they are, and
    a push of that ref takes it to another machine.
    """
    from bridge.cli.standing import open_existing
    from bridge.control.checks.anchoring import anchor_in_repository, anchor_log
    from bridge.git.repository import discover

    with open_existing(cli) as controller:
        location = discover(cli.directory) if repository else None
        found = anchor_log(controller, replace=replace)
        ref = None if location is None else anchor_in_repository(controller, location, found.log)
    cli.output.emit({**found.to_json(), "ref": ref}, str(found.log))
    return 0


@command()
def proof(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, short reference or label.")],
    *,
    output: Annotated[str | None, typer.Option("--output", "-o", help="File to write; - or none means stdout.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
) -> int:
    """Write what proves an entry to somebody without this store

    One JSON file: the entry with the hashes of all that it descends from, the repository state it names, of a worker's
    result its commits, and the proofs that lead to the root of its session and to the log of all events. The program
    docs/verifier/bridge_verifier.py checks it with nothing but Python. That the root was given out is recorded.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.checks.proving import prove_entry

    if output in (None, "-") and force:
        raise UsageInvalid("--force replaces a file: name one with --output.")
    with open_existing(cli) as controller:
        bundle = prove_entry(controller, standpoint_of(cli), entry)
    data = bundle.encoded()
    if output in (None, "-"):
        cli.output.write(data)
        return 0
    from bridge.cli.outputfile import whole_file

    path = cli.directory / str(output)
    with whole_file(path, force=force) as write:
        write(data)
    told = {"entry_id": bundle.entry_id, "path": path, "bytes": len(data), "log": str(bundle.log)}
    cli.output.emit(told, None)
    cli.output.status(f"wrote the proof of {bundle.entry_id} to {path}; it leads to the log {bundle.log}")
    return 0


def _listed(found: Verification) -> str:
    from bridge.cli.rendering import table
    from bridge.foundation.ids import short_session
    from bridge.integrity.report import Verdict

    rows = [[short_session(verdict.subject), *_verdict(verdict)] for verdict in found.sessions]
    rows += [[verdict.subject, *_verdict(verdict)] for verdict in found.chains]
    whole = [*found.stored, *([] if found.index is None else [found.index])]
    if found.log is not None:
        whole.insert(0, Verdict("log", None, found.log.report))
    rows += [[verdict.subject, *_verdict(verdict)] for verdict in whole]
    lines = [table(rows)]
    if found.log is not None:
        lines.append(f"log {found.log.log}")
    if found.log is not None and found.log.growth is not None and found.log.growth.is_proven:
        lines.append(f"extends {found.log.growth.earlier}, shown by {len(found.log.growth.proof)} hashes")
    for verdict in (*found.sessions, *found.chains, *whole):
        findings = verdict.report.findings
        lines += [
            f"{finding.subject}: {finding.message} ({finding.code}; breaks {finding.breaks})" for finding in findings
        ]
        if verdict.report.problems > len(findings):
            lines.append(f"{verdict.subject}: {verdict.report.problems - len(findings)} more problems")
    return "\n".join(filter(None, lines))


def _verdict(verdict: Verdict) -> list[str]:
    count = f"{verdict.report.checked} checked"
    if verdict.report.withheld:
        count += f", {verdict.report.withheld} withheld"
    if verdict.is_healthy:
        return ["removed" if verdict.is_removed else "healthy", count]
    problems = verdict.report.problems
    return ["faulty", f"{count}, {problems} {'problem' if problems == 1 else 'problems'}"]
