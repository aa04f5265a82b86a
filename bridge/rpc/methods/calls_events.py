"""Calls that begin and end subscriptions to events."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from anyio import to_thread

from bridge.control.feed import Interest, feed_of
from bridge.control.standpoint import find_session, find_workspace_named
from bridge.rpc.errors import SubscriptionNotFound, TooManyCalls
from bridge.rpc.methods.calls import REFERENCE, Call
from bridge.rpc.methods.shapes import Names, param
from bridge.rpc.roles import READERS

#: Types of events that one subscription may name.
MAX_TYPES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeParams:
    session: str | None = param("Only events of one session.", default=None, names=Names.SESSION, **REFERENCE)
    workspace: str | None = param(
        "Only events of one workspace and its sessions, as id or as a path in it.",
        default=None,
        roles=READERS,
        minLength=1,
        maxLength=4096,
    )
    types: tuple[str, ...] = param(
        "Only these types of events; empty means all.",
        default=(),
        items={"type": "string", "minLength": 1, "maxLength": 100},
        maxItems=MAX_TYPES,
    )
    cursor: str | None = param("Go on behind this cursor. Default: from now on.", default=None, maxLength=40)


async def events_subscribe(call: Call, params: SubscribeParams) -> dict[str, Any]:
    if call.peer is None:
        raise TooManyCalls("Events cannot be sent over this connection. Nothing was subscribed to.")
    interest, place = await to_thread.run_sync(partial(_begin, call, params))
    return {"subscription": call.peer.subscribe(interest, place), "cursor": place[1]}


def _begin(call: Call, params: SubscribeParams) -> tuple[Interest, tuple[int, str]]:
    session_id = workspace_id = None
    with call.controller.store.read() as connection:
        if params.session is not None:
            session_id = find_session(connection, call.standpoint, params.session)
        if params.workspace is not None:
            workspace_id = find_workspace_named(connection, params.workspace, call.standpoint.directory).id
    return Interest(session_id, workspace_id, params.types), feed_of(call.controller).place_of(params.cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsubscribeParams:
    subscription: str = param("The subscription's id.", **REFERENCE)


def events_unsubscribe(call: Call, params: UnsubscribeParams) -> dict[str, Any]:
    cursor = None if call.peer is None else call.peer.unsubscribe(params.subscription)
    if cursor is None:
        raise SubscriptionNotFound(
            f"This connection has no subscription {params.subscription[:40]!r}.",
            details={"subscription": params.subscription},
        )
    return {"subscription": params.subscription, "cursor": cursor}
