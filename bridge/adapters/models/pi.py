"""Pi without tools: its RPC, what it is started with, and an extension of ours in it that says what it offers.

Pi itself does not say which tools it has. The extension (``pi_announces.mjs``) does: when a session begins, and of
every request as it goes out. Nothing else that the user has set up for pi is loaded; its login and its model stay the
user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from bridge.adapters.models.dialogue import QUOTA_STATUSES, Reply, Talk, parsed, require_none
from bridge.adapters.models.port import ModelTrouble, Trouble, Usage

#: The extension; a file of the package.
EXTENSION: Final = Path(__file__).with_name("pi_announces.mjs")
ARGUMENTS: Final = (
    "--mode",
    "rpc",
    "--no-tools",
    "--no-extensions",
    "--no-skills",
    "--no-prompt-templates",
    "--no-themes",
    "--no-context-files",
    "--no-session",
    "--offline",
    "--thinking",
    "off",
    "--extension",
    str(EXTENSION),
    # Or it appends a file of the user's.
    "--append-system-prompt",
    "",
    "--system-prompt",
)
ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({"PI_OFFLINE": "1"})
_HELLO: Final = "bridge-hello"
_PROMPT: Final = "bridge-prompt"


class PiDialogue:
    """Speaks with a pi that was started with :data:`ARGUMENTS`."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    async def ready(self) -> None:
        await self._talk.send({"type": "get_state", "id": _HELLO})
        is_proven = False
        while True:
            value = await self._talk.receive()
            if (tools := _announced(value, "bridge-tools")) is not None:
                require_none(tools)
                is_proven = True
            elif value.get("type") == "response" and value.get("id") == _HELLO:
                if not is_proven:
                    raise ModelTrouble(Trouble.NOT_TOOL_FREE, "it did not say which tools it has")
                return

    async def turn(self, text: str) -> Reply:
        await self._talk.send({"type": "prompt", "message": text, "id": _PROMPT})
        is_proven, message = False, dict[str, Any]()
        while True:
            value = await self._talk.receive()
            if (tools := _announced(value, "bridge-request")) is not None:
                require_none(tools)
                is_proven = True
            elif value.get("type") == "response" and value.get("id") == _PROMPT and not value.get("success"):
                raise ModelTrouble(Trouble.FAILED, str(value.get("error", "it refused the question"))[:200])
            elif value.get("type") == "message_end" and (value.get("message") or {}).get("role") == "assistant":
                message = value["message"]
                # At once: it would try again, or run on.
                _refuse_calls(message)
                _refuse_errors(message)
            elif value.get("type") == "agent_end":
                if not is_proven:
                    raise ModelTrouble(Trouble.NOT_TOOL_FREE, "it did not say which tools it offered")
                return _reply(message)


def _announced(value: Mapping[str, Any], key: str) -> Any:
    """Return what the extension announces under a key; None if this is something else."""
    if value.get("type") != "extension_ui_request" or value.get("statusKey") != key:
        return None
    return parsed(str(value.get("statusText")).encode()).get("value")


def _refuse_calls(message: Mapping[str, Any]) -> None:
    called = [str(one.get("name"))[:40] for one in _blocks(message) if one.get("type") == "toolCall"]
    if called:
        raise ModelTrouble(Trouble.BROKEN, f"its model called {', '.join(called)}, which it was not offered")


def _reply(message: Mapping[str, Any]) -> Reply:
    return Reply(
        "".join(str(one.get("text", "")) for one in _blocks(message) if one.get("type") == "text"), _usage(message)
    )


def _refuse_errors(message: Mapping[str, Any]) -> None:
    if message.get("stopReason") in ("stop", "length"):
        return
    said = str(message.get("errorMessage", "it gave up"))
    # It gives no status by itself; vendors' libraries put it first.
    is_quota = said[:3].isdecimal() and int(said[:3]) in QUOTA_STATUSES
    trouble = ModelTrouble(Trouble.QUOTA if is_quota else Trouble.FAILED, said[:200])
    trouble.usage = _usage(message)
    raise trouble


def _usage(message: Mapping[str, Any]) -> Usage:
    used = message.get("usage")
    used = used if isinstance(used, dict) else {}
    taken = sum(int(used.get(name) or 0) for name in ("input", "cacheRead", "cacheWrite"))
    return Usage(1, taken, int(used.get("output") or 0))


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
