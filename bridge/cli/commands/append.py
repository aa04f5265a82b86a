"""``bridge append``: record an entry; plumbing for scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

#: Largest payload file that is read, in bytes; what an entry holds of it is less and checked when it is recorded.
MAX_PAYLOAD_FILE_BYTES = 16 * 1024 * 1024
#: Stands for standard input.
STANDARD_INPUT = "-"


@command()
def append(
    cli: Cli,
    session: Annotated[str, typer.Argument(help="Session, as id, tail or label; @ for the current one.")],
    *,
    kind: Annotated[str, typer.Option("--kind", help="Kind of entry, such as user.message or note.")],
    text: Annotated[str | None, typer.Option("--text", help="The text, for kinds that are made of one.")] = None,
    payload: Annotated[
        str | None, typer.Option("--payload", help="File with the payload as JSON; - for standard input.")
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", help="Entry to append under. Default: the head of the session.")
    ] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Append at the cursor of this owner instead.")] = None,
    expect_head: Annotated[
        str | None, typer.Option("--expect-head", help="Only if the head is this entry; else nothing is written.")
    ] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Keep it out of restored context.")] = False,
    external_id: Annotated[
        str | None, typer.Option("--external-id", help="Id in the source; the same one is recorded once.")
    ] = None,
    external_source: Annotated[
        str, typer.Option("--external-source", help="Name of the source of --external-id.")
    ] = "",
) -> int:
    """Append an entry to a session

    The entry is stamped with the state of the session's worktree. Under the head it becomes the head; under an
    older entry it makes or extends a branch, and the head stays.
    """
    from bridge.cli.rendering import local_time
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading.sessions import entry_of
    from bridge.control.sessions import AppendRequest, append_entry
    from bridge.foundation.ids import short_entry

    if (text is None) == (payload is None):
        raise UsageInvalid("Give the payload with either --text or --payload.")
    if parent is not None and cursor is not None:
        raise UsageInvalid("--parent and --cursor exclude each other.")
    request = AppendRequest(
        kind=kind,
        text=text,
        payload_text=None if payload is None else read_payload(cli, payload),
        parent=parent,
        cursor=cursor,
        expected_head=expect_head,
        is_hidden=hidden,
        external_id=external_id,
        external_source=external_source,
    )
    with open_existing(cli) as controller:
        appended = append_entry(controller, standpoint_of(cli), session, request)
        details = entry_of(controller, appended.entry.id)
    value = {**details.to_json(), "active_entry_id": appended.head_entry_id, "recorded": appended.is_new}
    entry = appended.entry
    cli.output.emit(value, f"{short_entry(entry.id)}  {local_time(entry.created_at)}  {entry.kind}")
    if not appended.is_new:
        cli.output.status("recorded before under this external id; nothing was written")
    elif not appended.is_head:
        cli.output.status(f"the head stays at {short_entry(appended.head_entry_id)}")
    return 0


def read_payload(cli: Cli, name: str) -> bytes:
    """Return the content of a payload file, or of standard input.

    Raises
    ------
    UsageInvalid
        If it cannot be read, or is larger than :data:`MAX_PAYLOAD_FILE_BYTES`.
    """
    try:
        if name == STANDARD_INPUT:
            if cli.stdin is None:
                raise UsageInvalid("--payload -: standard input is closed. Nothing was written.")
            content = cli.stdin.read(MAX_PAYLOAD_FILE_BYTES + 1)
        else:
            with (cli.directory / Path(name)).open("rb") as file:
                content = file.read(MAX_PAYLOAD_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageInvalid(f"--payload: {name!r} cannot be read: {error}. Nothing was written.") from error
    if len(content) > MAX_PAYLOAD_FILE_BYTES:
        raise UsageInvalid(f"--payload: more than {MAX_PAYLOAD_FILE_BYTES} bytes. Nothing was written.")
    return content
