"""Agents and their tools: the official client, the real ``bridge mcp``, a controller in this process."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import jsonschema_rs
import pytest
from mcp.shared.exceptions import MCPError

from bridge.control.access.tokens import MAX_LIVE_TOKENS, bind_in, find_bearer, mint, revoke_all
from bridge.control.controller import Controller
from bridge.control.errors import AgentTokenRefused
from bridge.control.lineage.waking import wake
from bridge.control.resident import end_resident
from bridge.control.sessions import AppendRequest, append_entry
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft
from bridge.foundation.clock import FixedClock, SystemClock
from bridge.integrity.store import iterate_events
from bridge.process.identity import identity_of
from bridge.rpc.mcp import calling, tools
from bridge.rpc.mcp.tools import MAX_ARGUMENT_BYTES, TOOLS
from bridge.rpc.messages import MAX_MESSAGE_BYTES
from bridge.rpc.methods.shapes import schema_of
from bridge.rpc.methods.table import METHODS
from bridge.rpc.roles import Role
from tests.conftest import settings_here
from tests.mcpclient import agent, agents_served, called, environment_of, new_session, refused, text_of, token_for
from tests.serving import MAIN

CALLED = {
    "divergence": {},
    "recall": {"query": "parrot"},
    "read_evidence": {"reference": "nobodys"},
    "delegate": {"objective": "x", "command": ["true"]},
    "wait_delegation": {"task": "nobodys", "seconds": 0},
    "submit_result": {"result": {}},
    "wake": {},
    "note": {"text": "n"},
    "read_notes": {},
}


@pytest.fixture
def session(controller, repository):
    found = new_session(controller, repository.path)
    append_entry(controller, Standpoint(), found, AppendRequest(kind="user.message", text="a parrot spoke"))
    return found


@pytest.fixture
def door(controller):
    with agents_served(controller) as found:
        yield found
        # What agents asked for is ended on the loop that runs it.
        asyncio.run_coroutine_threadsafe(end_resident(controller), found.loop).result(60)


@pytest.fixture
def token(controller, session):
    return token_for(controller, session)


def refusals(controller, session):
    with controller.store.read() as connection:
        found = [one for one in iterate_events(connection, session) if one.event_type == "access.refused"]
    return [json.loads(one.body)["body"] for one in found]


# -- the tools as they are listed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools_are_listed_with_their_schemas(door, token, mode):
    async with agent(token, mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(listed) == set(TOOLS)
    for name, tool in listed.items():
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema_rs.Draft202012Validator(schema)
            assert not jsonschema_rs.meta.validate(schema)
            assert schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations.read_only_hint is (
            METHODS[TOOLS[name].method].mode.value == "read" or name == "wait_delegation"
        )


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_is_one_method_that_agents_may_call(name):
    tool = TOOLS[name]
    method = METHODS[tool.method]
    assert Role.AGENT in method.roles
    assert 20 <= len(tool.description) <= 120
    whole = schema_of(method.params)["properties"]
    mine = tool.input_schema()["properties"]
    assert set(tool.takes) <= set(whole)
    assert "session" not in mine or name == "read_notes"
    for param in tool.takes:
        assert all(
            "maximum" not in one or one["maximum"] <= whole[param].get("maximum", 2**63) for one in [mine[param]]
        )
    for one in mine.values():
        assert one.get("description") or one.get("enum")


# -- each of them --------------------------------------------------------------------------------------------------


async def test_recall_finds_and_is_bounded(door, controller, session, token):
    for number in range(tools.MAX_RECALL_HITS + 2):
        controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": f"owl {number}"}))
    async with agent(token) as client:
        assert [hit["sequence"] for hit in (await called(client, "recall", query="parrot"))["hits"]] == [1]
        found = await called(client, "recall", query="owl")
        assert (len(found["hits"]), found["hasMore"]) == (tools.RECALL_HITS, True)
        most = await called(client, "recall", query="owl", limit=tools.MAX_RECALL_HITS)
        assert len(most["hits"]) == tools.MAX_RECALL_HITS
        told = await refused(client, "recall", query="owl", limit=tools.MAX_RECALL_HITS + 1)
        assert told["details"]["fields"][0]["path"] == "/limit"
        assert (await refused(client, "recall", query="x" * (tools.MAX_QUERY_CHARACTERS + 1)))[
            "code"
        ] == "invalid_params"
        await called(client, "recall", query="x" * tools.MAX_QUERY_CHARACTERS)


async def test_divergence_tells_what_changed(door, repository, token):
    async with agent(token) as client:
        assert (await called(client, "divergence"))["divergence"] == "aligned"
        repository.write("new.txt")
        found = await called(client, "divergence", moment="prompt")
        assert found["divergence"] == "diverged"
        assert "new.txt" in found["text"]
        for number in range(tools.MAX_PATHS + 1):
            repository.write(f"many/{number}.txt")
        found = await called(client, "divergence")
        assert len(found["paths"]) == tools.MAX_PATHS
        assert found["paths_omitted"] >= 1


async def test_a_worker_is_asked_for_waited_for_and_read(door, session, token, monkeypatch):
    monkeypatch.setattr(calling, "PROGRESS_SECONDS", 0.1)
    seen = []

    async def progress(spent, most, status):
        seen.append((spent, most, status))

    async with agent(token) as client:
        asked = await called(
            client,
            "delegate",
            objective="write a file",
            name="writer",
            role="implementation",
            acceptance_criteria=["it is there"],
            owned_paths=["made.txt"],
            command=["sh", "-c", "sleep 1; echo made > made.txt"],
            budget={"seconds": 60, "attempts": 2},
        )
        assert asked["status"] == "queued"
        result = await client.call_tool("wait_delegation", {"task": "writer"}, progress_callback=progress)
        ended = result.structured_content
        assert (ended["status"], ended["ended"], ended["files_changed"]) == ("completed", True, 1)
        assert seen
        assert {most for _, most, _ in seen} == {float(tools.WAIT_SECONDS)}
        assert (await called(client, "wait_delegation", task=asked["id"], seconds=0))["ended"]
        whole = await called(client, "read_evidence", reference=ended["reference"])
        assert whole["hasMore"] is False
        assert json.loads(whole["content"])["files_changed"] == ["made.txt"]


async def test_waiting_ends_in_time(door, token):
    async with agent(token) as client:
        asked = await called(client, "delegate", objective="x", command=["sleep", "60"])
        found = await called(client, "wait_delegation", task=asked["id"], seconds=1)
        assert (found["ended"], found["reference"]) == (False, None)


async def test_evidence_comes_byte_for_byte_in_pages(door, controller, session, token):
    payload = {"delegation_id": "d1", "status": "completed", "summary": "Zoë 🦜 " * 40}
    entry = controller.recorder.append_now(session, EntryDraft(kind="worker.result", payload=payload))
    stored = entry.payload_text.encode()
    async with agent(token) as client:
        for encoding in ("text", "base64"):
            read, offset = b"", 0
            while offset is not None:
                page = await called(
                    client, "read_evidence", reference=entry.id, offset=offset, limit=7, encoding=encoding
                )
                content = page["content"]
                piece = content.encode() if encoding == "text" else base64.b64decode(content)
                assert len(piece) <= 7
                assert page["bytes"] == len(stored)
                read, offset = read + piece, page["next_offset"]
            assert read == stored
        inside = stored.index("🦜".encode()) + 1
        told = await refused(client, "read_evidence", reference=entry.id, offset=inside)
        assert told["details"]["fields"][0]["path"] == "/offset"
        beyond = await called(client, "read_evidence", reference=entry.id, offset=10**9)
        assert (beyond["content"], beyond["hasMore"]) == ("", False)
        told = await refused(client, "read_evidence", reference=entry.id, limit=tools.MAX_EVIDENCE_BYTES + 1)
        assert told["code"] == "invalid_params"


async def test_an_agent_wakes_reads_and_leaves_notes(door, controller, repository, session, token):
    append_entry(controller, Standpoint(), session, AppendRequest(kind="note", text="mind the parrot"))
    here = Standpoint(directory=repository.path)
    later = wake(controller, here).session.id
    assert later != session
    async with agent(token_for(controller, later)) as client:
        woken = await called(client, "wake")
        assert (woken["session_id"], woken["predecessor"], woken["new"]) == (later, session, False)
        assert woken["divergence"] == "aligned"
        left = await called(client, "note", text="seen it", type="done")
        assert (left["session_id"], left["recipient"], left["type"]) == (later, "*", "done")
        own = await called(client, "read_notes")
        assert [one["text"] for one in own["notes"]] == ["mind the parrot", "seen it"]
        assert [one["sender"] for one in own["notes"]] == ["bridge", later]
        for reference in ("previous", session):
            found = await called(client, "read_notes", session_id=reference)
            assert [one["text"] for one in found["notes"]] == ["mind the parrot"]
        both = await called(client, "read_notes", include_previous=True, limit=2)
        assert [one["session_id"] for one in both["notes"]] == [later, later]
        assert both["hasOlder"]
    # It reads back, never ahead, and never aside.
    unknown = "20200101-000000-0000"
    other = new_session(controller, repository.path)
    async with agent(token) as client:
        told = [
            text_of(await client.call_tool("read_notes", {"session_id": one})).replace(one, "X")
            for one in (later, other, unknown)
        ]
    assert len(set(told)) == 1
    assert len(refusals(controller, session)) == 3


# -- a worker hands in its result ----------------------------------------------------------------------------------

WORKER = """
import json, os, pathlib, subprocess, sys, time
task = json.loads(pathlib.Path(os.environ["BRIDGE_TASK"]).read_bytes())
server = subprocess.Popen(task["mcp"]["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(number, method, params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message).encode() + b"\\n"); server.stdin.flush()
    return json.loads(server.stdout.readline())
ask(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}})
server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\\n')
answers = []
for number, result in enumerate(json.loads(os.environ["RESULTS"]), 1):
    answer = ask(number, "tools/call", {"name": "submit_result", "arguments": {"result": result}})
    answers.append(answer["result"])
pathlib.Path(os.environ["ANSWERS"]).write_text(json.dumps(answers))
server.stdin.close(); server.wait()
sys.exit(int(os.environ.get("STATUS", "0")))
"""
SCHEMA = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}
GOOD = {"status": "completed", "summary": "counted", "data": {"count": 3}}
BAD = {"status": "completed", "summary": "counted", "data": {"count": "three"}}


async def handed_in(token, tmp_path, results, *, attempts=1, status=0):
    """Have a worker hand in results; return how its task ended and what it was told."""
    answers = tmp_path / "answers.json"
    settings = {"RESULTS": json.dumps(results), "ANSWERS": str(answers), "STATUS": str(status)}
    command = ["env", *(f"{name}={value}" for name, value in settings.items()), sys.executable, "-c", WORKER]
    async with agent(token) as client:
        asked = await called(
            client,
            "delegate",
            objective="count",
            command=command,
            output_schema=SCHEMA,
            budget={"seconds": 90, "attempts": attempts},
        )
        ended = await called(client, "wait_delegation", task=asked["id"], seconds=90)
        evidence = None
        if ended["status"] == "completed":
            evidence = json.loads((await called(client, "read_evidence", reference=ended["reference"]))["content"])
    told = json.loads(answers.read_text()) if answers.exists() else []
    return ended, told, evidence


async def test_what_is_wrong_is_told_and_mended(door, controller, token, tmp_path):
    # The exit status says nothing any more once a result was taken.
    ended, told, evidence = await handed_in(token, tmp_path, [BAD, GOOD, GOOD], status=3)
    first, second, third = told
    assert first["structuredContent"]["errors"][0]["path"] == "/data/count"
    assert (first["structuredContent"]["accepted"], first["structuredContent"]["tries_left"]) == (False, 2)
    assert second["structuredContent"]["accepted"]
    assert json.loads(third["content"][0]["text"])["error"]["code"] == "result_already_submitted"
    assert ended["status"] == "completed"
    assert evidence["data"] == {"count": 3}
    assert evidence["source"] == "structured_output"
    # Its token ended with it.
    rows = sqlite3.connect(os.environ["BRIDGE_HOME"] + "/bridge.db").execute(
        "SELECT revoked_at FROM agent_tokens WHERE delegation_id IS NOT NULL"
    )
    assert all(revoked for (revoked,) in rows)


async def test_rubbish_to_the_end_is_an_invalid_result(door, token, tmp_path):
    ended, told, _ = await handed_in(token, tmp_path, [BAD, {}, BAD, GOOD])
    assert [one.get("structuredContent", {}).get("tries_left") for one in told] == [2, 1, 0, None]
    assert (ended["status"], ended["failure_class"]) == ("invalid", "invalid_result")


async def test_the_last_permitted_attempt_is_marked(door, token, tmp_path):
    # The first attempt uses up its tries; the second, which does the same, is the last.
    ended, told, _ = await handed_in(token, tmp_path, [BAD, BAD, BAD], attempts=2)
    assert {one["structuredContent"]["is_last_permitted_attempt"] for one in told} == {True}
    assert {one["structuredContent"]["attempt"] for one in told} == {2}
    assert ended["status"] == "invalid"


async def test_who_is_no_worker_has_nothing_to_hand_in(door, token):
    async with agent(token) as client:
        assert (await refused(client, "submit_result", result=GOOD))["code"] == "no_open_delegation"


# -- tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token", ["", "x", "bridge_agent_0123456789abcdef_" + "A" * 43, None], ids=["empty", "rubbish", "unknown", "none"]
)
async def test_without_a_valid_token_there_are_no_tools(door, session, token):
    with pytest.raises(MCPError) as told:
        async with agent(token, mode="legacy"):
            pass
    assert told.value.error.data["code"] == "agent_token_refused"


def test_a_token_is_refused_in_the_same_words_whatever_is_wrong(controller, session):
    good = token_for(controller, session)
    other = token_for(controller, session)
    wrong = good[:-1] + ("A" if good[-1] != "A" else "B")
    mixed = other[:30] + good[30:]
    revoked = token_for(controller, session)
    told = set()
    assert find_bearer(controller, good).session_id == session
    for token in (wrong, mixed, "", None, good + "x", good.upper()):
        with pytest.raises(AgentTokenRefused) as error:
            find_bearer(controller, token)
        told.add(str(error.value.to_json()))
    assert len(revoke_all(controller, session)) == 3
    with pytest.raises(AgentTokenRefused) as error:
        find_bearer(controller, revoked)
    assert told == {str(error.value.to_json())}


def test_a_token_expires_with_its_time_and_with_its_process(bridge_home, repository):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with Controller(settings_here(), clock=FixedClock(start, 0), environment=os.environ) as controller:
        session = new_session(controller, repository.path)
        token = mint(controller, session, purpose="test", lifetime_seconds=10)
        assert find_bearer(controller, token.token).session_id == session
        assert token.expires_at == "2026-01-01T00:00:10.000000Z"
    for seconds, is_valid in ((9, True), (10, False)):
        later = FixedClock(start + timedelta(seconds=seconds), 0)
        with Controller(settings_here(), clock=later, environment=os.environ) as controller:
            if is_valid:
                find_bearer(controller, token.token)
            else:
                with pytest.raises(AgentTokenRefused):
                    find_bearer(controller, token.token)
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as controller:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        bound = mint(controller, session, purpose="test")
        identity = identity_of(process.pid)
        controller.recorder.transact(lambda recording: bind_in(recording, bound.id, identity))
        find_bearer(controller, bound.token)
        process.communicate(b"\n")
        with pytest.raises(AgentTokenRefused):
            find_bearer(controller, bound.token)


def test_a_session_has_so_many_tokens_and_those_of_killed_processes_make_room(controller, session):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identity_of(process.pid)
    made = [mint(controller, session, purpose="test") for _ in range(MAX_LIVE_TOKENS)]
    controller.recorder.transact(lambda recording: bind_in(recording, made[0].id, identity))
    with pytest.raises(AgentTokenRefused) as told:
        mint(controller, session, purpose="test")
    assert told.value.details == {"reason": "too_many", "limit": MAX_LIVE_TOKENS}
    process.communicate(b"\n")
    mint(controller, session, purpose="test")
    with pytest.raises(AgentTokenRefused):
        mint(controller, session, purpose="test")


def test_the_secret_is_kept_nowhere(controller, session, bridge_home):
    minted = mint(controller, session, purpose="test")
    secret = minted.token.rpartition("_")[2] if minted.token.count("_") == 3 else minted.token[30:]
    controller.recorder.append_now(session, EntryDraft(kind="note", payload={"text": f"my token is {minted.token}"}))
    held = b"".join(path.read_bytes() for path in bridge_home.rglob("*") if path.is_file())
    assert secret.encode() not in held
    assert b"[redacted:bridge-agent-token]" in held


async def test_a_token_taken_back_ends_an_agent_that_runs(door, controller, session, token):
    async with agent(token) as client:
        await called(client, "recall", query="parrot")
        revoke_all(controller, session)
        assert (await refused(client, "recall", query="parrot"))["code"] == "agent_token_refused"


@pytest.mark.parametrize(("mode", "is_taken"), [(0o600, True), (0o400, True), (0o640, False), (0o604, False)])
async def test_a_token_in_a_file_is_taken_if_nobody_else_reads_it(door, token, tmp_path, mode, is_taken):
    path = tmp_path / "token"
    path.write_text(token + "\n")
    path.chmod(mode)
    environment = environment_of(None, BRIDGE_AGENT_TOKEN_FILE=str(path))
    if is_taken:
        async with agent(None, environment=environment) as client:
            await called(client, "recall", query="parrot")
        return
    with pytest.raises(MCPError) as told:
        async with agent(None, mode="legacy", environment=environment):
            pass
    assert told.value.error.data["code"] == "agent_token_refused"


# -- its own session and nothing else ------------------------------------------------------------------------------


async def test_two_agents_see_each_their_own(door, controller, repository, session, token):
    other = new_session(controller, repository.path)
    append_entry(controller, Standpoint(), other, AppendRequest(kind="user.message", text="an owl hooted"))
    async with agent(token) as one, agent(token_for(controller, other)) as two:
        for client, mine, theirs in ((one, "parrot", "owl"), (two, "owl", "parrot")):
            assert (await called(client, "recall", query=mine))["hits"]
            assert not (await called(client, "recall", query=theirs))["hits"]


async def test_what_is_foreign_is_answered_like_what_nobody_has(door, controller, repository, session, token):
    other = new_session(controller, repository.path)
    payload = {"delegation_id": "d1", "status": "completed", "summary": "secret"}
    foreign = controller.recorder.append_now(other, EntryDraft(kind="worker.result", payload=payload)).id
    controller.recorder.label(other, foreign, "treasure")
    unknown = "20200101-000000-0000-000001"
    async with agent(token) as client, agent(token_for(controller, other)) as owner:
        theirs = await called(owner, "delegate", objective="x", name="theirs", command=["true"])
        assert await called(owner, "read_evidence", reference="treasure")
        cases = [
            ("read_evidence", "reference", foreign, unknown),
            ("read_evidence", "reference", "treasure", "nosuchxx"),
            ("wait_delegation", "task", theirs["id"], "d00000000000"),
            ("wait_delegation", "task", "theirs", "nobody"),
        ]
        for name, argument, foreign_one, unknown_one in cases:
            more = {"seconds": 0} if name == "wait_delegation" else {}
            told = []
            for reference in (foreign_one, unknown_one):
                result = await client.call_tool(name, {argument: reference, **more})
                assert result.is_error
                told.append(result.content[0].text.replace(reference, "X"))
            assert told[0] == told[1]
            for word in ("treasure", "theirs", other):
                assert word not in told[0]
        cited = [
            (await refused(client, "delegate", objective="x", command=["true"], evidence=[one]))["message"]
            for one in (foreign, unknown)
        ]
        assert cited[0].replace(foreign, "X") == cited[1].replace(unknown, "X")
    assert len(refusals(controller, session)) == 2 * len(cases) + 2


#: ``read_notes`` takes one, and is held to its own line by a test of its own.
NO_SESSION = [
    (name, word)
    for name in sorted(CALLED)
    for word in ("session", "session_id", "parent_session_id")
    if (name, word) != ("read_notes", "session_id")
]


@pytest.mark.parametrize(("name", "word"), NO_SESSION)
async def test_no_tool_takes_a_session(door, controller, repository, session, token, name, word):
    other = new_session(controller, repository.path)
    async with agent(token) as client:
        told = await refused(client, name, **CALLED[name], **{word: other})
    assert told["code"] == "invalid_params"
    assert [one["method"] for one in refusals(controller, session)] == [name]
    assert refusals(controller, other) == []


async def test_what_is_no_tool_is_an_error_and_recorded(door, controller, session, token):
    async with agent(token) as client:
        for name in ("sessions/list", "list_sessions", "admin/status", "sessions/append", "commands/run", "nobodys"):
            with pytest.raises(MCPError) as told:
                await client.call_tool(name, {})
            assert told.value.error.data["code"] == "method_not_found"
            assert told.value.error.message.replace(name, "X") == "There is no tool 'X'. Nothing was called."
    assert len(refusals(controller, session)) == 6


async def test_what_the_greeting_claims_counts_for_nothing(door, controller, repository, session, token):
    """A client of the socket may say what it likes: only its token speaks for it."""
    from bridge.rpc.resident.client import Client as Socket

    other = new_session(controller, repository.path)
    with Socket.connect(door.endpoint, role="mcp", token=token, session=other, directory="/") as peer:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        await anyio.to_thread.run_sync(partial(peer.call, "initialize", hello))
        call = {"name": "recall", "arguments": {"query": "parrot"}}
        found = await anyio.to_thread.run_sync(partial(peer.call, "tools/call", call))
    assert found["structuredContent"]["session_id"] == session


# -- many at once, and too much ------------------------------------------------------------------------------------


async def test_many_calls_at_once(door, token):
    async with agent(token) as client:
        found = []

        async def one(number):
            found.append((number, await called(client, "recall", query="parrot", offset=number % 2)))

        async with anyio.create_task_group() as group:
            for number in range(64):
                group.start_soon(one, number)
    assert len(found) == 64
    assert all(len(result["hits"]) == 1 - number % 2 for number, result in found)


async def test_arguments_have_a_limit_at_its_edge(door, token):
    async with agent(token) as client:
        frame = len(json.dumps({"result": {"x": ""}}, separators=(",", ":")))
        most = {"x": "y" * (MAX_ARGUMENT_BYTES - frame)}
        assert (await refused(client, "submit_result", result=most))["code"] == "no_open_delegation"
        told = await refused(client, "submit_result", result={"x": most["x"] + "y"})
        assert told["code"] == "invalid_params"
        assert str(MAX_ARGUMENT_BYTES) in told["message"]


async def test_a_message_that_is_too_long_is_answered_and_the_next_one_works(door, token):
    async with agent(token) as client:
        with pytest.raises(MCPError) as told:
            await client.call_tool("submit_result", {"result": {"x": "y" * MAX_MESSAGE_BYTES}})
        assert told.value.error.data["details"]["reason"] == "too_large"
        await called(client, "recall", query="parrot")


async def test_a_call_that_is_given_up_keeps_nothing_busy(door, controller, token):
    async with agent(token) as client:
        asked = await called(client, "delegate", objective="x", command=["sleep", "60"])
        with anyio.move_on_after(0.5):
            await client.call_tool("wait_delegation", {"task": asked["id"], "seconds": 60})
        await called(client, "recall", query="parrot")


def test_the_end_of_the_agent_is_the_end_of_its_server(door, token):
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", MAIN, "mcp"],
        env={**os.environ, **environment_of(token)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    # No line feed at the end, and nothing kept open for the answer.
    out, err = process.communicate(json.dumps(message).encode(), timeout=60)
    assert json.loads(out)["result"]["serverInfo"]["name"] == "bridge"
    assert (process.returncode, err) == (0, b"")
