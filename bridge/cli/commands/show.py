"""``bridge show``: one entry with everything that is recorded about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.exchange.foreign.store import LinkRow
    from bridge.control.reading.sessions import EntryDetails


@command()
def show(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, tail (9f3a.31), number, label; @ for the head.")],
    *,
    raw: Annotated[bool, typer.Option("--raw", help="Print the exact stored payload, nothing else.")] = False,
) -> int:
    """Show an entry with its payload, stamp and hashes

    An entry written under a semantic schema version that this Bridge does not read is shown as unreadable, with
    its stored text.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading.sessions import read_entry

    with open_existing(cli) as controller:
        details = read_entry(controller, standpoint_of(cli), entry)
    if raw:
        cli.output.write(details.entry.payload_text.encode())
        return 0
    cli.output.emit(details.to_json(), _as_text(details))
    return 0


def _as_text(details: EntryDetails) -> str:
    from bridge.cli.rendering import facts, local_time, one_line, stamp_words
    from bridge.control.reading.views import unreadable
    from bridge.foundation.ids import short_entry

    entry = details.entry
    problem = unreadable(entry)
    external = None if entry.external_id is None else f"{entry.external_source}:{entry.external_id}".lstrip(":")
    head = facts(
        [
            ("entry", entry.id),
            ("kind", one_line(entry.kind)),
            ("parent", None if entry.parent_entry_id is None else short_entry(entry.parent_entry_id)),
            ("children", ", ".join(short_entry(child) for child in details.children) or None),
            ("labels", ", ".join(details.labels) or None),
            ("names", "; ".join(map(_link_words, details.links)) or None),
            ("recorded", local_time(entry.created_at)),
            ("on active path", "yes" if details.is_active else "no"),
            ("turn", None if details.annotation.turn is None else short_entry(details.annotation.turn)),
            ("problem", details.annotation.problem),
            ("visibility", entry.context_visibility),
            ("stamp", stamp_words(entry, details.state)),
            ("external id", None if external is None else one_line(external)),
            ("version", str(entry.semantic_schema_version)),
            ("payload hash", entry.payload_hash),
            ("entry hash", entry.entry_hash),
            ("unreadable", None if problem is None else problem.message),
        ]
    )
    return f"{head}\n\n{_payload_text(details)}"


def _link_words(link: LinkRow) -> str:
    from bridge.cli.rendering import one_line
    from bridge.foundation.ids import short_entry

    where = "which is not here" if link.target_entry_id is None else f"which is {short_entry(link.target_entry_id)}"
    return f"{link.relation.replace('_', ' ')} {one_line(link.target_key)}, {where}"


def _payload_text(details: EntryDetails) -> str:
    from bridge.cli.output import json_bytes
    from bridge.control.reading.views import unreadable

    entry = details.entry
    if unreadable(entry) is not None:
        return entry.payload_text
    return json_bytes(entry.payload, indent=True).decode()
