"""The adapter of pi, with a program that speaks its protocol and misbehaves on demand. The real one: make e2e."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.adapters.conversation import Limits, OpenRequest
from bridge.adapters.errors import (
    ConversationEnded,
    HarnessProtocolBroken,
    HarnessStartFailed,
    ModelNotOffered,
    NativeResumeFailed,
)
from bridge.adapters.permission import PermissionAnswer, PermissionRequest
from bridge.adapters.pi.harness import PiHarness
from bridge.process.errors import ProgramNotFound
from bridge.process.identity import Marker, marked_processes
from bridge.semantics.validation import validate

pytestmark = pytest.mark.anyio

_HEAD = """
    import json, sys, time
    def say(type, **message):
        print(json.dumps({"type": type, **message}), flush=True)
    def read():
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        return json.loads(line)
    def answer(asked, **fields):
        say("response", id=asked["id"], command=asked["type"], **{"success": True, **fields})
    MODEL = {"id": "m1", "provider": "p"}
    def state(asked, **more):
        answer(asked, data={"sessionId": SESSION, "model": MODEL, "isStreaming": False, **more})
    def assistant(text, stop="stop", **more):
        content = [{"type": "text", "text": text}] if text else []
        say("message_end", message={"role": "assistant", "content": content, "stopReason": stop, **more})
    SESSION = sys.argv[sys.argv.index("--session") + 1] if "--session" in sys.argv else "s-1"
    state(read())
"""


@pytest.fixture
def pi(tmp_path: Path) -> Any:
    def make(source: str, *, head: str = _HEAD) -> PiHarness:
        path = tmp_path / "pi.py"
        path.write_text(textwrap.dedent(head) + textwrap.dedent(source))
        return PiHarness("pi", (sys.executable, str(path)), {"COLOUR": "blue"})

    return make


@pytest.fixture
def request_for(tmp_path: Path) -> Any:
    def make(**options: Any) -> OpenRequest:
        directory = tmp_path / "work"
        directory.mkdir(exist_ok=True)
        limits = Limits(silence_seconds=20, start_seconds=20, cancel_seconds=20, grace_seconds=0.3)
        settings: dict[str, Any] = {
            "directory": directory,
            "folder": tmp_path / "agent",
            "environment": {"PATH": os.environ["PATH"]},
            "marker": str(tmp_path),
            "limits": limits,
        }
        return OpenRequest(**(settings | options))

    return make


async def said(conversation: Any, text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    with anyio.fail_after(60):
        async for event in conversation.prompt(text, turn_id="t1"):
            validate(event.kind, dict(event.payload))
            found.append((event.kind, dict(event.payload)))
    assert found[-1][0] == "turn.completed"
    return found


async def ended(harness: PiHarness, request: OpenRequest, text: str = "x") -> dict[str, dict[str, Any]]:
    """Return the last event of each kind of one turn, after the end of the conversation."""
    conversation = await harness.open(request)
    try:
        return dict(await said(conversation, text))
    finally:
        await conversation.close()
        assert marked_processes(Marker(str(request.marker))) == []


async def test_a_turn_goes_on_over_a_retry_of_the_agents_own(pi, request_for):
    harness = pi("""
        asked = read()
        answer(asked)
        assistant("", stop="error", errorMessage="529 overloaded")
        say("agent_end", messages=[])
        say("auto_retry_start", attempt=1)
        state(read())
        say("agent_start")
        assistant("You said: " + asked["message"])
        say("agent_end", messages=[])
        state(read())
        read()
    """)
    conversation = await harness.open(request_for(context="so far"))
    assert (conversation.native_session_id, conversation.model) == ("s-1", "p/m1")
    found = await said(conversation, "hello")
    texts = [payload["text"] for kind, payload in found if kind == "assistant.message"]
    assert texts == ["You said: so far\n\nhello"]
    assert found[-1][1]["status"] == "completed"
    assert conversation.is_open
    await conversation.close()
    await conversation.close()
    with pytest.raises(ConversationEnded):
        await said(conversation, "more")


async def test_a_cancelled_turn_ends_and_the_conversation_goes_on(pi, request_for):
    harness = pi("""
        answer(read())
        say("tool_execution_start", toolCallId="c1", toolName="bash", args={"command": "sleep 60"})
        assert read()["type"] == "abort"
        assistant("", stop="aborted")
        say("agent_end", messages=[])
        state(read())
        answer(read())
        assistant("again")
        say("agent_end", messages=[])
        state(read())
        read()
    """)
    conversation = await harness.open(request_for())
    found = []
    async for event in conversation.prompt("x", turn_id="t1"):
        found.append(event)
        await conversation.cancel()
        await conversation.cancel()
    assert [event.kind for event in found] == ["tool.started", "tool.completed", "turn.completed"]
    assert [event.payload.get("status") for event in found] == [None, "cancelled", "cancelled"]
    assert [kind for kind, _ in await said(conversation, "more")] == ["assistant.message", "turn.completed"]
    await conversation.close()


async def test_what_an_extension_asks_goes_to_the_policy(pi, request_for):
    asked: list[PermissionRequest] = []

    async def permission(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request)
        return PermissionAnswer(request.options[0].id, "test")

    harness = pi("""
        prompt = read()
        answer(prompt)
        given = []
        say("extension_ui_request", id="u1", method="confirm", title="Sure?", message="really")
        given.append(read())
        say("extension_ui_request", id="u2", method="select", title="Which?", options=["Allow", "Block"])
        given.append(read())
        say("extension_ui_request", id="u3", method="input", title="Name?")
        given.append(read())
        say("extension_ui_request", id="u4", method="notify", message="hi")
        assistant(json.dumps(given))
        say("agent_end", messages=[])
        state(read())
        read()
    """)
    conversation = await harness.open(request_for(permission=permission))
    found = await said(conversation, "x")
    text = next(payload["text"] for kind, payload in found if kind == "assistant.message")
    assert '"id": "u1", "confirmed": true' in text
    assert '"id": "u2", "value": "Allow"' in text
    assert '"id": "u3", "cancelled": true' in text
    assert "u4" not in text
    assert [request.title for request in asked] == ["Sure?", "Which?"]
    assert [kind for kind, _ in found].count("approval.resolved") == 2
    await conversation.close()


@pytest.mark.parametrize(
    ("source", "limits", "code", "status"),
    [
        ("answer(read()); time.sleep(60)", {"silence_seconds": 0.5}, "stalled", "failed"),
        ("answer(read()); sys.exit(7)", {}, "crashed", "failed"),
        ("answer(read())\nwhile True: print('x')", {}, "protocol_broken", "failed"),
        ("answer(read()); print('x' * 5_000_000)", {"message_bytes": 1_000_000}, "protocol_broken", "failed"),
        ("answer(read())\nwhile True: say('queue_update')", {"turn_bytes": 100_000}, "output_limit", "failed"),
        (
            "answer(read())\nwhile True: sys.stderr.write('x' * 9999)",
            {"stderr_bytes": 50_000},
            "output_limit",
            "failed",
        ),
        ("answer(read(), success=False, error='busy'); read()", {}, "agent_error", "failed"),
        (
            "answer(read()); assistant('', stop='error', errorMessage='401'); say('agent_end'); state(read()); read()",
            {},
            "agent_error",
            "failed",
        ),
    ],
)
async def test_each_way_to_fail_is_typed_and_leaves_no_process(pi, request_for, source, limits, code, status):
    request = request_for(limits=Limits(grace_seconds=0.3, **{"silence_seconds": 30, **limits}))
    found = await ended(pi(source), request)
    assert found["error"]["code"] == code
    assert found["turn.completed"]["status"] == status
    assert found["turn.completed"]["reason"]


async def test_one_that_is_killed_ends_its_turn(pi, request_for):
    harness = pi("answer(read()); say('tool_execution_start', toolCallId='c', toolName='bash'); time.sleep(60)")
    conversation = await harness.open(request_for())
    found = []
    async for event in conversation.prompt("x", turn_id="t1"):
        found.append(event)
        if event.kind == "tool.started":
            await conversation.kill()
    assert [event.kind for event in found] == ["tool.started", "tool.completed", "turn.completed"]
    assert found[-1].payload["status"] == "cancelled"
    assert not conversation.is_open
    assert conversation.ended is not None
    await conversation.close()


async def test_a_session_is_taken_up_by_its_id_or_refused(pi, request_for):
    conversation = await pi("read()").open(request_for(native_session_id="s-7"))
    assert conversation.native_session_id == "s-7"
    await conversation.close()
    for source, head in (
        ("", "import sys; sys.exit('no such session')"),
        ("read()", _HEAD.replace("sys.argv[sys", "'x'*bool(sys")),
    ):
        with pytest.raises(NativeResumeFailed):
            await pi(source, head=head).open(request_for(native_session_id="s-7"))


async def test_a_model_is_chosen_from_those_it_offers(pi, request_for):
    source = """
        answer(read(), data={"models": [MODEL, {"id": "m2", "provider": "p"}]})
        chosen = read()
        answer(chosen, success=chosen["modelId"] == "m2")
        read()
    """
    conversation = await pi(source).open(request_for(model="p/m2"))
    assert conversation.model == "p/m2"
    await conversation.close()
    with pytest.raises(ModelNotOffered) as caught:
        await pi(source).open(request_for(model="p/m3"))
    assert caught.value.details["offered"] == ["p/m1", "p/m2"]


@pytest.mark.parametrize(
    ("head", "error"),
    [
        ("import time; time.sleep(60)", HarnessStartFailed),
        ("import sys; sys.exit('no key')", HarnessStartFailed),
        ("while True: print('x')", HarnessProtocolBroken),
        (
            "import json; input(); print(json.dumps({'type': 'response', 'id': 'bridge-1', 'data': {}}))",
            HarnessProtocolBroken,
        ),
    ],
)
async def test_a_program_that_comes_to_no_session_is_an_error(pi, request_for, head, error):
    request = request_for(limits=Limits(start_seconds=2, grace_seconds=0.3))
    with pytest.raises(error):
        await pi("", head=head).open(request)
    assert marked_processes(Marker(str(request.marker))) == []


async def test_a_program_that_is_not_there(request_for):
    with pytest.raises(ProgramNotFound):
        await PiHarness("pi", ("no-such-pi",)).open(request_for())


async def test_it_is_given_tools_by_an_extension_and_no_token_by_its_environment(pi, request_for):
    source = """
        import os
        at = sys.argv.index("--extension")
        path = os.environ["BRIDGE_PI_SERVERS"]
        told = [os.path.basename(sys.argv[at + 1]), json.load(open(path)), oct(os.stat(path).st_mode & 0o777)]
        told.append("secret" in " ".join([*sys.argv, *os.environ.values()]))
        state(read())
        asked = read()
        answer(asked)
        assistant(json.dumps([*told, os.path.exists(path)]))
        say("agent_end", messages=[])
        state(read())
    """
    harness = pi(source, head=_HEAD.replace("    state(read())\n", ""))
    server = {"name": "bridge", "command": "bridge", "args": ["mcp"], "env": [{"name": "T", "value": "secret"}]}
    assert harness.capabilities.mcp
    found = await ended(harness, request_for(mcp_servers=[server]))
    assert json.loads(found["assistant.message"]["text"]) == ["tools.ts", [server], "0o600", False, False]


async def test_without_tools_it_is_started_as_ever(pi, request_for):
    source = """
        asked = read()
        answer(asked)
        assistant(str("--extension" in sys.argv))
        say("agent_end", messages=[])
        state(read())
    """
    bare = replace(pi(source), has_tools=False)
    assert not bare.capabilities.mcp
    found = await ended(bare, request_for(mcp_servers=[{"name": "bridge", "command": "x", "args": [], "env": []}]))
    assert found["assistant.message"]["text"] == "False"


async def test_what_its_messages_used_is_told_while_the_turn_runs(pi, request_for):
    harness = pi("""
        asked = read()
        answer(asked)
        assistant("", stop="toolUse", usage={"input": 5, "output": 2, "totalTokens": 7})
        assistant("done", usage={"input": 9, "output": 1, "totalTokens": 10})
        say("agent_end", messages=[])
        state(read())
    """)
    told: list[int] = []
    await ended(harness, request_for(spending=told.append))
    assert told == [7, 17]
