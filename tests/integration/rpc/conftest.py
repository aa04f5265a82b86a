"""A dispatcher over a real store, and a function that calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.rpc.roles import Caller, Role
from tests.conftest import settings_here
from tests.rpcclient import exchange


@pytest.fixture
def controller(bridge_home: Any) -> Iterator[Controller]:
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as opened:
        yield opened


Send = Callable[..., Any]


@pytest.fixture
def send(controller: Controller, repository: Any) -> Send:
    """Return a function that sends bytes, as a caller of some role, and gives back the parsed answer."""

    def go(message: bytes, *, role: Role = Role.OPERATOR, session: str | None = None) -> Any:
        standpoint = Standpoint(directory=repository.path, session=session)
        return anyio.run(exchange, controller, Caller(role, standpoint, session), message)

    return go


@pytest.fixture
def call(send: Send) -> Send:
    """Return a function that calls a method and gives back its result, or its error with ``fails=True``."""

    def go(
        method: str, *, fails: bool = False, role: Role = Role.OPERATOR, own: str | None = None, **params: Any
    ) -> Any:
        request = {"jsonrpc": "2.0", "id": "x", "method": method, "params": params}
        answer = send(json.dumps(request).encode(), role=role, session=own)
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] == "x"
        assert ("error" in answer) == fails, answer
        return answer["error"] if fails else answer["result"]

    return go
