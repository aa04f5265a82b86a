"""What tests of the methods need: one message over a connection of its own, and its answer."""

from __future__ import annotations

import json
from typing import Any

from bridge.control.controller import Controller
from bridge.rpc.connection import Connection
from bridge.rpc.roles import Caller


async def exchange(controller: Controller, caller: Caller, message: bytes) -> Any:
    """Send one message; return the parsed answer, None if there is none."""
    answers: list[Any] = []

    async def keep(answer: bytes) -> None:
        answers.append(json.loads(answer))

    connection = Connection(controller, caller, keep)
    try:
        await connection.receive(message)
        await connection.drain()
    finally:
        await connection.aclose()
    assert len(answers) < 2
    return answers[0] if answers else None
