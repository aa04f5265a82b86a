"""``bridge mcp`` beside controllers that come and go."""

from __future__ import annotations

import os
import signal

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, append_entry
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.rpc.resident.endpoint import Endpoint
from tests.conftest import settings_here
from tests.mcpclient import agent, called, environment_of, new_session, token_for
from tests.serving import end_by_pid, resident


@pytest.fixture
def token(bridge_home, repository):
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as controller:
        session = new_session(controller, repository.path)
        append_entry(controller, Standpoint(), session, AppendRequest(kind="user.message", text="a parrot spoke"))
        return token_for(controller, session)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_controller_is_started_and_after_a_kill_the_next_call_starts_another(token, bridge_home, mode):
    endpoint = Endpoint(str(bridge_home))
    try:
        async with agent(token, mode=mode, environment={**os.environ, **environment_of(token)}) as client:
            await called(client, "recall", query="parrot")
            first = endpoint.read_info()["pid"]
            asked = await called(client, "delegate", objective="x", command=["sleep", "60"])
            lost = []

            async def wait():
                try:
                    await client.call_tool("wait_delegation", {"task": asked["id"], "seconds": 60})
                except MCPError as error:
                    lost.append(error.error)

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.sleep(1)
                os.kill(first, signal.SIGKILL)
            # What was under way is answered at once, and said not to be known.
            assert [error.data["code"] for error in lost] == ["controller_lost"]
            assert (await called(client, "recall", query="parrot"))["hits"]
            assert endpoint.read_info()["pid"] != first
            with anyio.fail_after(60):
                ended = await called(client, "wait_delegation", task=asked["id"], seconds=50)
            assert (ended["ended"], ended["failure_class"]) == (True, "controller_lost")
    finally:
        end_by_pid(endpoint)


async def test_a_controller_that_is_stopped_is_followed_by_the_next_one(token, bridge_home):
    environment = {**os.environ, **environment_of(token)}
    with resident(environment) as first:
        async with agent(token, environment=environment) as client:
            await called(client, "recall", query="parrot")
            first.signal(signal.SIGTERM)
            await anyio.to_thread.run_sync(first.wait)
            with resident(environment) as second:
                found = [await called(client, "recall", query="parrot") for _ in range(3)]
                assert all(one["hits"] for one in found)
                second.signal(signal.SIGTERM)
                await anyio.to_thread.run_sync(second.wait)


async def test_where_no_controller_can_be_started_each_call_says_so(token, bridge_home):
    environment = {**os.environ, **environment_of(token)}
    with resident(environment) as first:
        async with agent(token, environment=environment) as client:
            await called(client, "recall", query="parrot")
            first.signal(signal.SIGTERM)
            await anyio.to_thread.run_sync(first.wait)
            (bridge_home / "config.toml").write_text("rubbish = [")
            for _ in range(2):
                with pytest.raises(MCPError) as told:
                    await client.call_tool("recall", {"query": "parrot"})
                assert told.value.error.data["code"] == "controller_unavailable"
            (bridge_home / "config.toml").unlink()
            try:
                await called(client, "recall", query="parrot")
            finally:
                await anyio.to_thread.run_sync(end_by_pid, Endpoint(str(bridge_home)))
