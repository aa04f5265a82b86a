"""Claude Code without tools: a stream of JSON objects on both ends, and what it is started with.

``--tools=`` and ``--strict-mcp-config`` leave it no tool; it names those it has before its first answer.
``--safe-mode`` keeps out what else the user has set up for it, which would be told the question or tell the model
something: hooks (Bridge's own among them), CLAUDE.md, memory, skills, agents, output styles. Its login and its model
stay the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from bridge.adapters.models.dialogue import QUOTA_STATUSES, Reply, Talk, require_none
from bridge.adapters.models.port import MAX_OUTPUT_TOKENS, ModelTrouble, Trouble, Usage

ARGUMENTS: Final = (
    "--print",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--tools=",
    "--strict-mcp-config",
    "--safe-mode",
    "--disable-slash-commands",
    "--no-session-persistence",
    "--system-prompt",
)
#: It tries again for minutes, where nobody waits longer than seconds, and thinks before it answers.
ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MAX_OUTPUT_TOKENS),
        "MAX_THINKING_TOKENS": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
)
_HELLO: Final = "bridge-1"
#: What it calls the account's limits.
_QUOTA_ERRORS: Final = ("rate_limit", "billing_error")


class ClaudeDialogue:
    """Speaks with a Claude Code that was started with :data:`ARGUMENTS`."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._is_proven = False

    async def ready(self) -> None:
        request = {"subtype": "initialize", "hooks": None}
        await self._talk.send({"type": "control_request", "request_id": _HELLO, "request": request})
        while True:
            value = await self._talk.receive()
            if value.get("type") == "control_response":
                response = value.get("response") or {}
                if response.get("subtype") != "success":
                    raise ModelTrouble(Trouble.START_FAILED, str(response.get("error", "it is not ready"))[:200])
                return

    async def turn(self, text: str) -> Reply:
        content = [{"type": "text", "text": text}]
        await self._talk.send({"type": "user", "message": {"role": "user", "content": content}})
        is_quota = False
        while True:
            value = await self._talk.receive()
            match value.get("type"), value.get("subtype"):
                case "system", "init":
                    require_none(value.get("tools"), value.get("mcp_servers"))
                    self._is_proven = True
                case "assistant", _:
                    self._require_proven()
                    _refuse_calls(value)
                    is_quota = is_quota or value.get("error") in _QUOTA_ERRORS
                case "result", _:
                    self._require_proven()
                    return _reply(value, is_quota=is_quota)

    def _require_proven(self) -> None:
        if not self._is_proven:
            raise ModelTrouble(Trouble.NOT_TOOL_FREE, "it answered before it said that it has no tools")


def _refuse_calls(value: Mapping[str, Any]) -> None:
    content = (value.get("message") or {}).get("content")
    blocks = content if isinstance(content, list) else []
    called = [str(one.get("name"))[:40] for one in blocks if isinstance(one, dict) and one.get("type") == "tool_use"]
    if called:
        raise ModelTrouble(Trouble.BROKEN, f"its model called {', '.join(called)}, which it was not offered")


def _reply(value: Mapping[str, Any], *, is_quota: bool) -> Reply:
    used = value.get("usage")
    used = used if isinstance(used, dict) else {}
    taken = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    usage = Usage(1, sum(int(used.get(name) or 0) for name in taken), int(used.get("output_tokens") or 0))
    text = str(value.get("result", ""))
    if value.get("is_error"):
        is_quota = is_quota or value.get("api_error_status") in QUOTA_STATUSES
        trouble = ModelTrouble(Trouble.QUOTA if is_quota else Trouble.FAILED, text[:200])
        trouble.usage = usage
        raise trouble
    return Reply(text, usage)
