"""``bridge hooks``: record the conversations with coding agents that people start by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.hooks.hosts import HostSettings
    from bridge.hooks.installing import Change
    from bridge.hooks.status import HostStatus

_HOST = typer.Argument(metavar="HOST", help="claude-code, codex or gemini.")
_SCOPE = typer.Option(
    "--scope", metavar="SCOPE", help="user: your own settings of that agent. project: those of the checkout you are in."
)
_DRY_RUN = typer.Option("--dry-run", help="Show what would change, and change nothing.")


@command()
def install(
    cli: Cli,
    host: Annotated[str, _HOST],
    *,
    scope: Annotated[str, _SCOPE] = "user",
    dry_run: Annotated[bool, _DRY_RUN] = False,
) -> int:
    """Write Bridge's hooks into a coding agent's settings

    From then on what is said and done in registered checkouts (bridge init) is recorded, and the agent is told when
    files changed since its last turn. Everything else in the settings stays as it is, and a copy of them is kept.
    Doing it again changes nothing. See docs/hooks.md.
    """
    from bridge.hooks.installing import install as write
    from bridge.hooks.installing import plan_install

    found, path = _settings_file(cli, host, scope)
    change = plan_install(cli.settings, found, path)
    if not dry_run:
        from bridge.cli.composition import open_controller
        from bridge.control.capture.places import note_places
        from bridge.hooks.placing import place_client

        place_client(cli.settings, cli.environment)
        with open_controller(cli) as controller:
            note_places(controller)
        write(cli.settings, change)
    lines = [_said(change, "would be installed in" if dry_run else "hooks installed in", "hooks are in", dry_run)]
    if found.needs_trust and change.is_change and not dry_run:
        lines.append(
            f"{host} runs no hook before you trust it: open it, run /hooks, trust {len(found.events)} entries."
        )
    _emit(cli, host, change, lines, is_dry_run=dry_run)
    return 0


@command()
def uninstall(
    cli: Cli,
    host: Annotated[str, _HOST],
    *,
    scope: Annotated[str, _SCOPE] = "user",
    dry_run: Annotated[bool, _DRY_RUN] = False,
) -> int:
    """Take Bridge's hooks out of a coding agent's settings

    If nobody changed the settings since, they are what they were before, byte for byte; else only what is Bridge's is
    taken out. What was recorded stays.
    """
    from bridge.hooks.installing import plan_uninstall
    from bridge.hooks.installing import uninstall as write

    found, path = _settings_file(cli, host, scope)
    change = plan_uninstall(cli.settings, found, path)
    if not dry_run:
        write(cli.settings, change)
    said = _said(change, "would be taken out of" if dry_run else "hooks taken out of", "no hooks are in", dry_run)
    if change.is_change and not change.is_exact:
        said += "; it was changed since, so only Bridge's hooks are gone"
    _emit(cli, host, change, [said], is_dry_run=dry_run)
    return 0


@command(exits={1: "Hooks are installed and do not do their work."})
def status(
    cli: Cli,
    host: Annotated[str | None, typer.Argument(metavar="[HOST]", help="Default: all.")] = None,
) -> int:
    """Say of each coding agent whether its hooks are installed, trusted, and record

    Per host: the settings files, trust where that host asks for it, the last event, events that were late, taken in
    later, or lost, the version seen, and whether its transcript can be read.
    """
    from bridge.cli.composition import open_controller
    from bridge.control.standpoint import checkout_at
    from bridge.hooks.hosts import HOST_SETTINGS
    from bridge.hooks.status import status_of

    chosen = list(HOST_SETTINGS.values()) if host is None else [_host(host)]
    here = checkout_at(cli.directory)
    directories = [] if here is None else [here.root]
    with open_controller(cli) as controller:
        found = [status_of(controller, one, cli.environment, directories) for one in chosen]
    lines = [line for one in found for line in _lines(one)]
    cli.output.emit(found[0].to_json() if host is not None else [one.to_json() for one in found], "\n".join(lines))
    return 1 if any(one.problems for one in found) else 0


def _host(name: str) -> HostSettings:
    from bridge.hooks.hosts import HOST_SETTINGS

    found = HOST_SETTINGS.get(name)
    if found is None:
        raise UsageInvalid(f"There are no hooks for {name!r}; there are for {', '.join(HOST_SETTINGS)}.")
    return found


def _settings_file(cli: Cli, name: str, scope: str) -> tuple[HostSettings, Path]:
    from bridge.control.standpoint import checkout_at
    from bridge.hooks.hosts import Scope

    found = _host(name)
    if scope not in set(Scope):
        raise UsageInvalid(f"--scope is user or project, not {scope!r}.")
    directory = Path("/")
    if scope == Scope.PROJECT:
        here = checkout_at(cli.directory)
        if here is None:
            raise UsageInvalid("--scope project needs a git checkout, and there is none here.")
        directory = here.root
    return found, found.path(cli.environment, Scope(scope), directory)


def _said(change: Change, done: str, same: str, is_dry_run: bool) -> str:
    from bridge.cli.output import printable

    if change.is_change:
        return f"{done} {printable(str(change.path))}"
    return f"{same} {printable(str(change.path))}{'' if is_dry_run else ' already' if same.startswith('hooks') else ''}"


def _emit(cli: Cli, host: str, change: Change, lines: list[str], *, is_dry_run: bool) -> None:
    record: dict[str, Any] = {
        "host": host,
        "path": str(change.path),
        "changed": change.is_change,
        "exact": change.is_exact,
        "dry_run": is_dry_run,
        "diff": change.diff(),
    }
    if is_dry_run and change.is_change:
        from bridge.cli.output import printable

        lines = [*(printable(line) for line in change.diff().splitlines()), *lines]
    cli.output.emit(record, "\n".join(lines))


def _lines(found: HostStatus) -> list[str]:
    from bridge.cli.output import printable

    if not found.installed and not found.problems:
        return [f"{found.host}: not installed"]
    health, record = found.health, found.health.record
    facts = ["installed" if found.installed else "not installed"]
    if found.trust is not None:
        facts.append(f"{found.trust.trusted} of {found.trust.total} trusted")
    if record is None:
        facts.append("nothing recorded")
    else:
        facts.append(f"{record.events} events, last {record.last_event} at {record.last_event_at}")
        facts += [
            f"{count} {word}" for count, word in ((record.late, "late"), (record.spooled, "taken in later")) if count
        ]
        facts += [f"{record.refused} refused"] if record.refused else []
        facts += [f"version {record.version}"] if record.version else []
    facts += [f"{health.waiting} waiting"] if health.waiting else []
    facts += [f"{health.lost} lost"] if health.lost else []
    lines = [f"{found.host}: {', '.join(facts)}"]
    lines += [f"  {printable(str(one.path))}" for one in found.installed]
    for problem in found.problems:
        lines += [f"  problem: {printable(problem.message)}", f"    {printable(problem.hint)}"]
    return lines
