"""The call that finds chats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.control.search.finding import DEFAULT_LIMIT, MAX_LIMIT, find_chats, zone_named
from bridge.rpc.methods.calls import Call
from bridge.rpc.methods.shapes import param


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchChatsParams:
    query: str = param("Words, and perhaps when it was; nothing in it is an operator.", maxLength=100_000)
    all_workspaces: bool = param("Chats of every workspace, and of none.", default=False)
    workers: bool = param("Sessions of workers as well.", default=False)
    typing: bool = param("Whether the last word may be unfinished: for a search while somebody types.", default=False)
    time_zone: str | None = param(
        "Name of the time zone in which days are meant. Default: the machine's.", default=None, maxLength=100
    )
    limit: int = param("At most so many.", default=DEFAULT_LIMIT, minimum=1, maximum=MAX_LIMIT)
    offset: int = param("Leave out so many of the best.", default=0, minimum=0, maximum=2**53)


def search_chats(call: Call, params: SearchChatsParams) -> dict[str, Any]:
    return find_chats(
        call.controller,
        call.standpoint,
        params.query,
        all_workspaces=params.all_workspaces,
        include_workers=params.workers,
        limit=params.limit,
        offset=params.offset,
        zone=None if params.time_zone is None else zone_named(params.time_zone),
        is_typing=params.typing,
    ).to_json()
