"""Calls about the connection itself: is anybody there, and giving up another call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import bridge
from bridge.rpc.messages import MAX_ID_CHARACTERS
from bridge.rpc.methods.calls import Call
from bridge.rpc.methods.shapes import param


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Params of methods that take none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelParams:
    id: str | int = param("The id of the call to give up.", maxLength=MAX_ID_CHARACTERS)


def ping(_call: Call, _params: Nothing) -> dict[str, Any]:
    return {"version": bridge.__version__, "pid": os.getpid()}


def cancel(call: Call, params: CancelParams) -> dict[str, Any]:
    state = "unknown" if call.peer is None else call.peer.cancel(params.id)
    return {"id": params.id, "state": state}
