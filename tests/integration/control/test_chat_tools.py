"""The agent of a chat gets the tools of its session, and loses them with the chat."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bridge.adapters.base import Capabilities
from bridge.adapters.errors import HarnessStartFailed
from bridge.control.access.tokens import TOKEN_VARIABLE, find_bearer
from bridge.control.conversing.chatting import Chat, ChatOptions
from bridge.control.errors import AgentTokenRefused
from bridge.control.sessions import SessionRequest, start_session
from bridge.control.standpoint import Standpoint
from bridge.process.identity import identity_of


class Harness:
    """Looks at what it is opened with, and does not start."""

    name = "looker"

    def __init__(self, controller, *, mcp):
        self.controller = controller
        self.capabilities = Capabilities(mcp=mcp)
        self.seen = []

    async def open(self, request):
        self.seen.append(request)
        await request.started(identity_of(os.getpid()))
        for server in request.mcp_servers:
            self.bearer = find_bearer(self.controller, self.token(server))
        raise HarnessStartFailed("It does not start.")

    @staticmethod
    def token(server):
        (found,) = [one["value"] for one in server["env"] if one["name"] == TOKEN_VARIABLE]
        return found


@pytest.mark.parametrize("can", [True, False])
async def test_an_agent_that_can_is_given_its_tools_as_long_as_it_lives(controller, repository, can):
    session = start_session(controller, Standpoint(directory=repository.path), SessionRequest()).session.id
    harness = Harness(controller, mcp=can)
    chat = Chat(controller, session, harness, ChatOptions(directory=Path(repository.path)))
    with pytest.raises(HarnessStartFailed):
        async for _ in chat.send("hello"):
            pass
    (request,) = harness.seen
    if not can:
        assert request.mcp_servers == ()
        return
    (server,) = request.mcp_servers
    token = harness.token(server)
    assert harness.bearer.session_id == session
    # Nothing that other users see of a process tells the token.
    assert token not in json.dumps([server["command"], *server["args"]])
    assert server["args"][-1] == "mcp"
    with pytest.raises(AgentTokenRefused):
        find_bearer(controller, token)
