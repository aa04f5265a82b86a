"""How programs without tools are spoken with: what they must have said before an answer of theirs is believed."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from bridge.adapters.models.claude import ClaudeDialogue
from bridge.adapters.models.dialogue import Talk
from bridge.adapters.models.pi import EXTENSION, PiDialogue
from bridge.adapters.models.port import ModelTrouble, Trouble, Usage


class Script:
    """Lines that a program says, whatever it is told."""

    def __init__(self, *said: dict[str, Any] | bytes) -> None:
        self.said = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in said]
        self.told: list[dict[str, Any]] = []

    async def receive(self) -> bytes | None:
        return self.said.pop(0) if self.said else None

    async def send(self, line: bytes) -> None:
        self.told.append(json.loads(line))


def announced(key: str, value: Any) -> dict[str, Any]:
    """What the extension in pi says."""
    text = json.dumps({"value": value})
    return {"type": "extension_ui_request", "method": "setStatus", "statusKey": key, "statusText": text}


def ended(text: str = "it is c1", **more: Any) -> list[dict[str, Any]]:
    usage = {"input": 7, "output": 3, "cacheRead": 2}
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "usage": usage, "stopReason": "stop"}
    return [{"type": "message_end", "message": {**message, **more}}, {"type": "agent_end"}]


def trouble_of(script: Script, dialogue: type, step: str) -> Trouble:
    speaking = dialogue(Talk(script))
    with pytest.raises(ModelTrouble) as caught:
        anyio.run(speaking.ready) if step == "ready" else anyio.run(speaking.turn, "which?")
    return caught.value.reason


HELLO = {"type": "response", "id": "bridge-hello", "success": True}
NONE = announced("bridge-request", [])


def test_pi_is_ready_when_it_has_said_that_it_has_no_tools() -> None:
    script = Script(b"a word beside the protocol", announced("bridge-tools", []), HELLO)
    anyio.run(PiDialogue(Talk(script)).ready)
    assert script.told == [{"type": "get_state", "id": "bridge-hello"}]


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ([announced("bridge-tools", ["bash"]), HELLO], Trouble.NOT_TOOL_FREE),
        ([HELLO], Trouble.NOT_TOOL_FREE),
        ([announced("bridge-tools", {"none": True}), HELLO], Trouble.NOT_TOOL_FREE),
        ([], Trouble.FAILED),
    ],
    ids=["tools", "silent", "nonsense", "ends"],
)
def test_pi_is_not_ready_otherwise(said: list[Any], trouble: Trouble) -> None:
    assert trouble_of(Script(*said), PiDialogue, "ready") is trouble


def test_pi_answers() -> None:
    script = Script({"type": "response", "id": "bridge-prompt", "success": True}, NONE, *ended())
    reply = anyio.run(PiDialogue(Talk(script)).turn, "which?")
    assert (reply.text, reply.usage) == ("it is c1", Usage(1, 9, 3))
    assert script.told[0]["message"] == "which?"


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (ended(), Trouble.NOT_TOOL_FREE),
        ([announced("bridge-request", ["bash"]), *ended()], Trouble.NOT_TOOL_FREE),
        ([NONE, *ended(content=[{"type": "toolCall", "name": "bash"}], stopReason="toolUse")], Trouble.BROKEN),
        ([NONE, *ended(stopReason="error", errorMessage="429 come back later")], Trouble.QUOTA),
        ([NONE, *ended(stopReason="error", errorMessage="there is a limit of 429")], Trouble.FAILED),
        ([NONE, *ended(stopReason="aborted")], Trouble.FAILED),
        ([{"type": "response", "id": "bridge-prompt", "success": False, "error": "no key"}], Trouble.FAILED),
        ([NONE], Trouble.FAILED),
    ],
    ids=["silent", "tools", "call", "quota", "words-of-quota", "aborted", "refused", "ends"],
)
def test_pi_is_not_believed_otherwise(said: list[Any], trouble: Trouble) -> None:
    assert trouble_of(Script(*said), PiDialogue, "turn") is trouble


def test_the_extension_comes_with_bridge() -> None:
    text = EXTENSION.read_text()
    assert all(key in text for key in ("bridge-tools", "bridge-request"))


BARE = {"type": "system", "subtype": "init", "tools": [], "mcp_servers": []}
SAID = {"type": "assistant", "message": {"content": [{"type": "text", "text": "it is c1"}]}}


def result(**more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 3}
    return {"type": "result", "result": "it is c1", "usage": usage, **more}


def test_claude_answers() -> None:
    script = Script(BARE, SAID, result())
    reply = anyio.run(ClaudeDialogue(Talk(script)).turn, "which?")
    assert (reply.text, reply.usage) == ("it is c1", Usage(1, 11, 3))


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ([SAID, result()], Trouble.NOT_TOOL_FREE),
        ([result()], Trouble.NOT_TOOL_FREE),
        ([{**BARE, "tools": ["Bash"]}, SAID], Trouble.NOT_TOOL_FREE),
        ([{**BARE, "tools": None}, SAID], Trouble.NOT_TOOL_FREE),
        ([{**BARE, "mcp_servers": [{"name": "x"}]}, SAID], Trouble.NOT_TOOL_FREE),
        ([BARE, {**SAID, "error": "rate_limit"}, result(is_error=True)], Trouble.QUOTA),
        ([BARE, result(is_error=True, api_error_status=402)], Trouble.QUOTA),
        ([BARE, result(is_error=True, api_error_status=500, result="a limit")], Trouble.FAILED),
        ([BARE, {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Bash"}]}}], Trouble.BROKEN),
    ],
    ids=["late", "silent", "tools", "no-list", "servers", "account", "status", "failed", "call"],
)
def test_claude_is_not_believed_otherwise(said: list[Any], trouble: Trouble) -> None:
    assert trouble_of(Script(*said), ClaudeDialogue, "turn") is trouble
