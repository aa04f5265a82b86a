"""``bridge session``: start, list and look at sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.reading.sessions import SessionDetails
    from bridge.conversations.models import Session

#: Kinds of sessions that can be asked for.
KINDS = ("chat", "worker", "hidden")


@command()
def new(
    cli: Cli,
    *,
    label: Annotated[str | None, typer.Option("--label", help="A name for people; free text.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="The session that this one continues.")] = None,
    from_entry: Annotated[str | None, typer.Option("--from", help="Fork: the entry to go on from.")] = None,
    workspace: Annotated[str | None, typer.Option("--workspace", help="Workspace, as id or as a path in it.")] = None,
    no_workspace: Annotated[bool, typer.Option("--no-workspace", help="Without a workspace, also here.")] = False,
    harness: Annotated[str | None, typer.Option("--harness", help="The agent program; only shown.")] = None,
) -> int:
    """Start a session

    In a repository it belongs to that checkout's workspace, which is registered if it is not yet; elsewhere it
    has none. A fork goes on from an entry of another session, shares what lies before, and belongs to the same
    workspace as that session.
    """
    from bridge.cli.composition import open_controller
    from bridge.cli.rendering import session_title
    from bridge.cli.standing import standpoint_of
    from bridge.control.reading.views import session_view
    from bridge.control.sessions import SessionRequest, start_session

    if parent is not None and from_entry is not None:
        raise UsageInvalid("--parent and --from exclude each other: a session continues another or is forked from it.")
    if workspace is not None and no_workspace:
        raise UsageInvalid("--workspace and --no-workspace exclude each other.")
    request = SessionRequest(
        label=label,
        harness=harness,
        parent=parent,
        from_entry=from_entry,
        workspace=workspace,
        without_workspace=no_workspace,
    )
    with open_controller(cli) as controller:
        started = start_session(controller, standpoint_of(cli), request)
    if started.workspace is not None and started.has_registered:
        cli.output.status(f"registered {started.workspace.path} as workspace {started.workspace.id}")
    value = {
        **session_view(started.session),
        "workspace": None if started.workspace is None else started.workspace.to_json(),
        "registered": started.has_registered,
    }
    cli.output.emit(value, started.session.id)
    place = "" if started.workspace is None else f" in {started.workspace.path}"
    cli.output.status(f"started {session_title(started.session)}{place}")
    return 0


@command()
def list_(
    cli: Cli,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Everywhere and of every kind, not only this workspace.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help=f"Only this kind: {', '.join(KINDS)}; may be repeated. Default: chat."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Only so many.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Only sessions touched before this one; with --limit, the next page.")
    ] = None,
) -> int:
    """List the sessions of this workspace

    The one touched last comes first. Outside any workspace these are the sessions without one. Workers' sessions
    are left out unless --kind worker or --all asks for them. Sessions that are damaged, or hold entries that this
    Bridge does not read, are marked with the reason.
    """
    from bridge.cli.rendering import line_width
    from bridge.cli.standing import open_if_there, standpoint_of
    from bridge.control.reading.sessions import SessionPage, session_details, session_page, unreadable_sessions
    from bridge.control.reading.views import session_view
    from bridge.foundation.ids import short_session

    for name in kind or ():
        if name not in KINDS:
            raise UsageInvalid(f"--kind: {name!r} is not a kind of session. Use one of: {', '.join(KINDS)}.")
    kinds = tuple(kind) if kind else (() if all_ else ("chat",))
    with open_if_there(cli) as controller:
        page = SessionPage((), has_more=False)
        unreadable: dict[str, dict[str, Any]] = {}
        if controller is not None:
            here = standpoint_of(cli)
            last = None if before is None else session_details(controller, here, before).session
            key = None if last is None else (last.updated_at, last.id)
            page = session_page(controller, here, everywhere=all_, kinds=kinds, limit=limit, before=key)
            unreadable = unreadable_sessions(controller)
    found = list(page.sessions)
    views = [
        {**session_view(one), "readable": one.id not in unreadable, "unreadable": unreadable.get(one.id)}
        for one in found
    ]
    cli.output.emit(views, _listed(found, unreadable, everywhere=all_, width=line_width(cli.output)) if found else None)
    if page.has_more:
        cli.output.status(f"there are more: --before {short_session(found[-1].id)}")
    if not found and before is None:
        cli.output.status("no sessions here; start one: bridge session new")
    return 0


@command()
def show(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
) -> int:
    """Show a session with its workspace, labels and cursors

    The entries are shown by bridge log and bridge tree.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading.sessions import session_details

    with open_existing(cli) as controller:
        details = session_details(controller, standpoint_of(cli), session)
    cli.output.emit(details.to_json(), _shown(details))
    return 0


def _listed(sessions: list[Session], unreadable: dict[str, dict[str, Any]], *, everywhere: bool, width: int) -> str:
    from bridge.cli.rendering import MIN_TEXT_WIDTH, NARROW, cut, local_time, one_line, table, text_width
    from bridge.foundation.ids import short_entry, short_session

    rows = []
    for session in sessions:
        row = [
            short_session(session.id),
            local_time(session.updated_at)[0 if width >= NARROW else 11 :],
            session.status,
        ]
        if everywhere:
            row += [session.kind, session.workspace_id or "-"]
        rows.append([*row, f"at {short_entry(session.active_entry_id)}"])
    starts = table(rows).split("\n")
    room = max(width - max(map(text_width, starts)) - 2, MIN_TEXT_WIDTH)
    words = [
        cut(" ".join(filter(None, (_why_unreadable(unreadable.get(session.id)), one_line(session.label or "")))), room)
        for session in sessions
    ]
    return table(list(zip(starts, words, strict=True)))


def _why_unreadable(why: dict[str, Any] | None) -> str:
    if why is None:
        return ""
    if "reason" in why:
        return f"[set aside: {why['reason']}]"
    return f"[unreadable: semantic schema {', '.join(map(str, why['found']))}]"


def _shown(details: SessionDetails) -> str:
    from bridge.cli.rendering import facts, local_time, one_line
    from bridge.foundation.ids import short_entry, short_session

    session, workspace, origin = details.session, details.workspace, details.origin
    parent = session.parent_session_id
    return facts(
        [
            ("session", session.id),
            ("label", None if session.label is None else one_line(session.label)),
            ("kind", session.kind),
            ("status", session.status),
            ("harness", None if session.harness is None else one_line(session.harness)),
            ("workspace", None if workspace is None else f"{workspace.id}  {workspace.path}"),
            ("parent", None if parent is None else f"{short_session(parent)} ({session.parent_relation})"),
            ("forked from", None if origin is None else short_entry(origin.entry_id)),
            ("entries", str(session.next_sequence - 1)),
            ("at", short_entry(session.active_entry_id)),
            ("created", local_time(session.created_at)),
            ("last touched", local_time(session.updated_at)),
            *(("label of entry", f"{label.name}  {short_entry(label.entry_id)}") for label in details.labels),
            *(
                ("cursor", f"{one_line(cursor.owner)}  {short_entry(cursor.leaf_entry_id)}")
                for cursor in details.cursors
            ),
        ]
    )
