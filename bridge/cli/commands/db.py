"""``bridge db``: the store itself: its schema, its upgrade, its backups, its soundness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.checks.upkeep import StoreCheck
    from bridge.storage.backup import Restored
    from bridge.storage.survey import Survey
    from bridge.storage.upgrading import Client, Plan, Upgraded, UpgradeProgress

#: How long these commands wait for processes that have the store open, in seconds.
WAIT_SECONDS = 15.0


@command()
def status(cli: Cli) -> int:
    """Show the schema of the store, its size, who uses it, and its backups

    Looks from outside and changes nothing, so it also answers for a store that this Bridge cannot open.
    """
    from bridge.semantics.kinds import READABLE_VERSIONS
    from bridge.storage.backend import backend_for

    backend = backend_for(cli.settings.database_url)
    found = backend.survey(readable_versions=READABLE_VERSIONS, timeout_seconds=WAIT_SECONDS)
    cli.output.emit(_survey_json(found), _survey_text(found))
    return 0


@command(progress=True)
def upgrade(
    cli: Cli,
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Run every step on a copy, on PostgreSQL in a transaction, which is dropped."),
    ] = False,
    backup_done: Annotated[
        bool, typer.Option("--backup-done", help="PostgreSQL: the store is backed up, by pg_dump or bridge db copy.")
    ] = False,
    without_backup: Annotated[
        bool, typer.Option("--without-backup", help="PostgreSQL: upgrade although there is no backup.")
    ] = False,
) -> int:
    """Bring the store to the schema of this Bridge, after a backup

    Waits until nobody else has the store open. Each step is one transaction, checked before it is committed; an
    interrupted upgrade goes on where it stopped. Programs of the old schema cannot open the store afterwards.
    The backup of a store on PostgreSQL is yours to make; say that it is made, or that you want none.
    """
    from bridge.storage.backend import backend_for

    moment = _moment(cli)
    backend = backend_for(cli.settings.database_url)
    if backup_done and without_backup:
        raise UsageInvalid("--backup-done and --without-backup exclude each other.")
    if (backup_done or without_backup) and backend.url.get_backend_name() == "sqlite":
        raise UsageInvalid(
            "--backup-done and --without-backup are for PostgreSQL: the upgrade backs up a store in a file by itself."
        )
    planned = backend.plan_upgrade(moment=moment, timeout_seconds=WAIT_SECONDS)
    for client in planned.clients:
        if planned.found != planned.target:
            cli.output.status(f"used by Bridge {client.version} on {client.host}, last at {client.last_used_at}")
    done = backend.upgrade(
        moment=moment,
        timeout_seconds=WAIT_SECONDS,
        progress=_told(cli),
        rehearse=dry_run,
        is_backed_up=backup_done or without_backup,
    )
    cli.output.emit(_upgrade_json(planned, done), _upgrade_text(planned, done))
    return 0


@command(progress=True)
def backup(
    cli: Cli,
    path: Annotated[Path | None, typer.Argument(help="The file to write. Default: beside the store.")] = None,
) -> int:
    """Write a backup of the store into one file, while it is used

    The file must not exist yet. It is checked, and complete on the disk, before it has its name.
    """
    from bridge.storage.backup import BACKUP_SUFFIX, back_up, compact

    database = _database(cli)
    target = path or database.with_name(f"{database.name}.{compact(_moment(cli))}{BACKUP_SUFFIX}")
    target = target.absolute()
    told = _told(cli)
    version = back_up(
        database,
        target,
        timeout_seconds=WAIT_SECONDS,
        progress=lambda done, total: told("backup", 0, done, total),
    )
    value = {"backup": str(target), "schema_version": version, "size_bytes": target.stat().st_size}
    cli.output.emit(value, str(target))
    return 0


@command()
def restore(
    cli: Cli,
    path: Annotated[Path, typer.Argument(metavar="BACKUP", help="The backup to go back to.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be lost.")] = False,
) -> int:
    """Put a backup in the place of the store, and say what is lost

    Entries that the backup lacks are counted. The store that is replaced stays beside it under another name. Waits
    until nobody else has the store open.
    """
    from bridge.storage.backup import restore as run

    done = run(_database(cli), path.absolute(), moment=_moment(cli), timeout_seconds=WAIT_SECONDS, dry_run=dry_run)
    cli.output.emit(_restore_json(done, dry_run=dry_run), _restore_text(done, dry_run=dry_run))
    return 0


@command(exits={1: "Something is damaged."})
def check(cli: Cli) -> int:
    """Check the database and the shape of every session

    Looks for damaged pages, rows that refer to nothing, missing guards, orphans, cycles, parents in other sessions and
    bad heads. A damaged session is set aside: it is refused by name, and all others stay usable. One that is sound
    again is released. A damaged search index is dropped, and the next search builds it anew.
    """
    from bridge.cli.standing import open_existing
    from bridge.control.checks.upkeep import check_store

    with open_existing(cli) as controller:
        found = check_store(controller)
    cli.output.emit(found.to_json(), _check_text(found))
    return 0 if found.is_sound else 1


@command(progress=True)
def reindex(cli: Cli) -> int:
    """Build the search index anew

    Throws it away and makes it of the entries again, in batches that let others write in between. Searching works
    meanwhile, and says what is missing. What is recorded is not touched.
    """
    from bridge.cli.standing import open_existing
    from bridge.control.search.indexing import reindex as build

    shown = [-1]

    def told(done: int, total: int) -> None:
        if cli.output.json_lines:
            cli.output.progress({"event": "indexed", "done": done, "total": total})
        elif cli.output.stderr_is_terminal and (share := 100 * done // max(total, 1)) // 10 != shown[0] // 10:
            shown[0] = share
            cli.output.status(f"indexed {done} of {total} entries")

    with open_existing(cli) as controller:
        done = build(controller, progress=told)
    cli.output.emit(done.to_json(), f"indexed {done.entries} entries of {done.sessions} sessions")
    return 0


@command(progress=True, exits={1: "The copy is equal, and something in both is not as it was recorded."})
def copy(
    cli: Cli,
    *,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The database to copy to; it holds no store yet.")],
) -> int:
    """Copy the store to another database, and prove that the copy is equal

    From SQLite to PostgreSQL or back, or to another file. The copy is complete or not there: all of it is one
    transaction, which is kept only if every table has the same rows and the same digest on both sides. Then every
    session and chain of the copy is verified. The search index is left out; it comes back by itself.
    """
    from bridge.cli.standing import open_existing
    from bridge.control.checks.upkeep import copy_store_to

    def told(table: str, rows: int) -> None:
        if cli.output.json_lines:
            cli.output.progress({"event": "copied", "table": table, "rows": rows})

    with open_existing(cli) as controller:
        done = copy_store_to(controller, to, progress=told)
    rows = sum(table.rows for table in done.tables)
    lines = [f"copied {rows} rows of {len(done.tables)} tables to {done.target}; both have the same digests"]
    if not done.verification.is_healthy:
        lines.append("the copy is equal, but not as it was recorded; see with: bridge verify")
    cli.output.emit(done.to_json(), "\n".join(lines))
    return 0 if done.verification.is_healthy else 1


def _database(cli: Cli) -> Path:
    from bridge.storage.backend import file_of

    return file_of(cli.settings.database_url)


def _moment(cli: Cli) -> str:
    from bridge.foundation.clock import format_timestamp

    return format_timestamp(cli.clock.now())


def _told(cli: Cli) -> UpgradeProgress:
    last: list[tuple[str, int]] = []

    def tell(what: str, step: int, done: int, total: int) -> None:
        if cli.output.json_lines:
            event = "backup" if what == "backup" else "step"
            cli.output.progress({"event": event, "schema_version": step or None, "done": done, "total": total})
        elif cli.output.stderr_is_terminal and [(what, step)] != last:
            last[:] = [(what, step)]
            cli.output.status("writing the backup" if what == "backup" else f"schema {step}")

    return tell


def _client_json(client: Client) -> dict[str, Any]:
    return {
        "host": client.host,
        "version": client.version,
        "first_used_at": client.first_used_at,
        "last_used_at": client.last_used_at,
    }


def _survey_json(found: Survey) -> dict[str, Any]:
    return {
        "path": found.place,
        "relation": found.relation,
        "found": found.found,
        "supported": found.supported,
        "size_bytes": found.size_bytes,
        "interrupted": found.is_interrupted,
        "clients": [_client_json(client) for client in found.clients],
        "backups": [str(path) for path in found.backups],
        "unreadable": [
            {"session_id": one.session_id, "reason": one.reason, "entries": one.entries} for one in found.unreadable
        ],
    }


def _survey_text(found: Survey) -> str:
    if found.relation == "absent":
        lines = [f"{found.place}: no store yet"]
    else:
        lines = [f"{found.place}: schema {found.found} ({found.relation}; this Bridge works with {found.supported})"]
        lines.append(f"{found.size_bytes} bytes")
    if found.relation == "older":
        lines.append("bring it up to date with: bridge db upgrade")
    if found.is_interrupted:
        lines.append("an upgrade was interrupted; bridge db upgrade goes on with it")
    lines += [f"used by Bridge {one.version} on {one.host}, last at {one.last_used_at}" for one in found.clients]
    lines += [f"backup {path}" for path in found.backups]
    lines += [f"unreadable: session {one.session_id} ({one.reason})" for one in found.unreadable]
    return "\n".join(lines)


def _upgrade_json(planned: Plan, done: Upgraded) -> dict[str, Any]:
    return {
        "found": done.found,
        "schema_version": done.found if done.was_rehearsal else done.target,
        "target": done.target,
        "dry_run": done.was_rehearsal,
        "steps": [{"schema_version": version, "summary": summary} for version, summary in planned.steps],
        "backup": None if done.backup is None else str(done.backup),
        "needed_bytes": None if planned.backup is None else planned.needed_bytes,
        "free_bytes": None if planned.backup is None else planned.free_bytes,
        "resumed": planned.resumes,
        "clients": [_client_json(client) for client in planned.clients],
    }


def _upgrade_text(planned: Plan, done: Upgraded) -> str:
    if done.found == done.target:
        return f"the store has schema {done.target} already"
    steps = [f"  {version}: {summary}" for version, summary in planned.steps]
    if done.was_rehearsal:
        where = "in a transaction that was undone" if planned.backup is None else "on a copy"
        head = f"schema {done.found} to {done.target}: every step ran {where}; the store is as it was"
        backup = [] if planned.backup is None else [f"its backup would be {planned.backup}"]
        return "\n".join([head, *steps, *backup])
    backup = [] if done.backup is None else [f"backup {done.backup}"]
    return "\n".join([f"upgraded from schema {done.found} to {done.target}", *steps, *backup])


def _restore_json(done: Restored, *, dry_run: bool) -> dict[str, Any]:
    return {
        "schema_version": done.version,
        "replaced": None if done.replaced is None else str(done.replaced),
        "dry_run": dry_run,
        "lost": {
            "entries": done.loss.entries,
            "sessions": done.loss.sessions,
            "entry_ids": list(done.loss.entry_ids),
        },
    }


def _restore_text(done: Restored, *, dry_run: bool) -> str:
    loss = done.loss
    if loss.entries is None:
        lost = "what the store held cannot be read, so what is lost cannot be said"
    elif loss.entries == 0 and not loss.sessions:
        lost = "nothing is lost"
    else:
        lost = f"{loss.entries} entries are not in the backup, {loss.sessions} sessions among them are wholly new"
    head = f"would go back to a store of schema {done.version}" if dry_run else f"restored, schema {done.version}"
    lines = [head, lost, *(f"  {entry_id}" for entry_id in loss.entry_ids)]
    if done.replaced is not None and not dry_run:
        lines.append(f"the store before is kept as {done.replaced}")
    return "\n".join(lines)


def _check_text(found: StoreCheck) -> str:
    if found.is_sound:
        lines = ["sound"]
    else:
        lines = [f"{problem.subject}: {problem.message} ({problem.code})" for problem in found.problems]
        lines += [f"{flaw.subject}: {flaw.message} ({flaw.code})" for flaw in found.flaws]
        lines += [f"set aside: {session_id}" for session_id in found.quarantined]
    lines += [f"released: {session_id}" for session_id in found.released]
    return "\n".join(lines)
