"""The methods about the resident controller itself, which its Unix socket alone has.

They are described with all others; ``resident.owncalls`` answers them, since they need the server, the descriptors that
came along, and the client's going away.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bridge.control.errors import ControllerBusy
from bridge.foundation.errors import BridgeError
from bridge.rpc.errors import CommandNotTaken, OtherBuild
from bridge.rpc.methods import forms, results
from bridge.rpc.methods.calls_connection import Nothing
from bridge.rpc.methods.method import Mode
from bridge.rpc.resident.residency import CommandParams, StopParams
from bridge.rpc.roles import READERS, WRITERS, Role

STATUS: Final = "controller/status"
STOP: Final = "controller/stop"
RUN: Final = "commands/run"


@dataclass(frozen=True, slots=True)
class SocketMethod:
    """A method of the Unix socket alone; the members are those of :class:`bridge.rpc.methods.method.Method`."""

    name: str
    summary: str
    params: type[Any]
    result: forms.Schema
    roles: frozenset[Role]
    errors: tuple[type[BridgeError], ...]
    mode: Mode


_TABLE: Final = (
    SocketMethod(
        STATUS,
        "Say what the resident controller is and has under way",
        Nothing,
        results.RESIDENT,
        READERS,
        (),
        Mode.ACT,
    ),
    SocketMethod(
        STOP,
        "End the resident controller, unless it has workers that may not be ended",
        StopParams,
        results.STOPPED,
        WRITERS,
        (ControllerBusy, OtherBuild),
        Mode.ACT,
    ),
    SocketMethod(
        RUN,
        "Run a command line on the descriptors sent along (SCM_RIGHTS); $/cancel ends it",
        CommandParams,
        results.RAN,
        WRITERS,
        (CommandNotTaken,),
        Mode.WAIT,
    ),
)

#: Every method of the socket alone, by name.
SOCKET_METHODS: Final = MappingProxyType({method.name: method for method in _TABLE})
