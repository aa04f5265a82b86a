"""Agents over HTTP, with the official client."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager

import anyio
import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from bridge.control.access.tokens import revoke_all
from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, append_entry
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.rpc.mcp.tools import TOOLS
from bridge.web.serving import DOOR_FILE, serve_http
from tests.conftest import settings_here
from tests.mcpclient import called, new_session, refused, token_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def controller(bridge_home):
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def session(controller, repository):
    found = new_session(controller, repository.path)
    append_entry(controller, Standpoint(), found, AppendRequest(kind="user.message", text="a parrot spoke"))
    return found


@pytest.fixture
async def url(controller):
    opened = asyncio.Event()
    task = asyncio.ensure_future(serve_http(controller, ready=lambda _url: opened.set()))
    with anyio.fail_after(60):
        await opened.wait()
    yield json.loads((controller.settings.home / "run" / DOOR_FILE).read_bytes())["url"]
    task.cancel()
    with anyio.fail_after(60):
        await asyncio.wait([task])


@asynccontextmanager
async def agent(url, token, *, mode="auto"):
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_has_its_tools(controller, session, url, mode):
    async with agent(url, token_for(controller, session), mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
        found = await called(client, "recall", query="parrot")
        assert (found["session_id"], len(found["hits"])) == (session, 1)
        assert (await refused(client, "recall", query="parrot", session="x"))["code"] == "invalid_params"
        await called(client, "note", text="over http")
        assert [one["text"] for one in (await called(client, "read_notes"))["notes"]] == ["over http"]
        revoke_all(controller, session)
        with pytest.raises(Exception):  # noqa: B017 - however the client tells of a 401
            await client.call_tool("recall", {"query": "parrot"})


HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def test_who_has_no_token_or_is_a_foreign_page_is_refused(controller, session, url):
    good = {"Authorization": f"Bearer {token_for(controller, session)}"}
    other = json.loads((controller.settings.home / "run" / DOOR_FILE).read_bytes())["operator"]
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as http:

        async def status(**headers):
            answer = await http.post(f"{url}/mcp", json=HELLO, headers={**accept, **headers})
            return answer.status_code

        assert await status() == 401
        # The operator's token opens other doors, not this one; and an agent's does not open those.
        assert await status(Authorization=f"Bearer {other}") == 401
        assert (await http.post(f"{url}/rpc", json=HELLO, headers=good)).status_code == 401
        assert await status(**good, Origin="http://evil.example") == 403
        assert await status(**good, Host="evil.example") == 421
        assert await status(**good) < 300
