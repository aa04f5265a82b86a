"""The pi coding agent, from its command to an open session."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters.base import Capabilities, FailureClass
from bridge.adapters.conversation import Introduction, OpenRequest
from bridge.adapters.errors import HarnessProtocolBroken, HarnessStartFailed, ModelNotOffered, NativeResumeFailed
from bridge.adapters.pi.conversation import Gone, PiConversation
from bridge.process.children import spawn, spawn_piped
from bridge.process.environment import child_environment
from bridge.process.identity import Marker

#: File in the folder of a conversation that holds what the agent writes to standard error.
STDERR_FILE: Final = "stderr.log"
#: The extension that gives it tools, and the variable that names it a file with the servers it may use.
EXTENSION: Final = Path(__file__).with_name("tools.ts")
SERVERS_VARIABLE: Final = "BRIDGE_PI_SERVERS"
#: That file, in the folder of a conversation, from the start of the program until it answers: tokens are in it.
SERVERS_FILE: Final = "servers.json"


@dataclass(frozen=True, slots=True)
class PiHarness:
    """The pi coding agent in its RPC mode.

    It asks for no permission, and reads and writes files by itself. It knows no MCP: an extension that comes with
    Bridge gives it the tools of the servers it may use (``tools.ts``).

    Parameters
    ----------
    name
        For display.
    command
        Program and arguments, ``--mode rpc`` among them.
    additions
        Variables it gets besides what it inherits.
    has_tools
        Whether it is given tools at all.
    """

    name: str
    command: tuple[str, ...]
    additions: Mapping[str, str] = field(default_factory=dict)
    has_tools: bool = True

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(resume=True, cancel=True, mcp=self.has_tools, usage=True)

    async def introduce(self, request: OpenRequest) -> Introduction:
        """Start the program, see that it answers, and ask for its version; it says nothing else of itself."""
        conversation = await self.open(request)
        await conversation.close()
        return Introduction(await self._version(request), ("fs", "load", "terminal"))

    async def _version(self, request: OpenRequest) -> str | None:
        told = request.folder / "version.txt"
        child = await spawn(
            (self.command[0], "--version"),
            cwd=request.directory,
            environment=child_environment(request.environment, {**self.additions, **request.additions}),
            stdout_path=told,
            # Where pi says it.
            stderr_path=request.folder / "version-errors.txt",
        )
        await child.wait(request.limits.start_seconds)
        for path in (told, request.folder / "version-errors.txt"):
            text = await to_thread.run_sync(_read, path)
            if text.strip():
                return text.split()[-1][:80]
        return None

    async def open(self, request: OpenRequest) -> PiConversation:
        """Start the program and a session in it; see ``bridge.adapters.conversation.ConversationHarness``."""
        await to_thread.run_sync(lambda: request.folder.mkdir(parents=True, exist_ok=True, mode=0o700))
        resumed = () if request.native_session_id is None else ("--session", request.native_session_id)
        extension, servers = await to_thread.run_sync(self._tools, request)
        try:
            return await self._opened(request, (*self.command, *extension, *resumed), servers)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(lambda: (request.folder / SERVERS_FILE).unlink(missing_ok=True))

    async def _opened(
        self, request: OpenRequest, command: tuple[str, ...], servers: Mapping[str, str]
    ) -> PiConversation:
        piped = await spawn_piped(
            command,
            cwd=request.directory,
            environment=child_environment(request.environment, {**self.additions, **request.additions, **servers}),
            stderr_path=request.folder / STDERR_FILE,
            output_limit_bytes=request.limits.stderr_bytes,
            marker=None if request.marker is None else Marker(request.marker),
            confinement=request.confinement,
        )
        conversation = PiConversation(request, piped, stderr=request.folder / STDERR_FILE)
        try:
            if request.started is not None:
                await request.started(piped.child.identity)
            await self._greet(conversation, request)
        except BaseException:
            # Also when cancelled: whatever happens, no process is left that nobody holds.
            await conversation.close()
            raise
        return conversation

    def _tools(self, request: OpenRequest) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the arguments and the variables by which it gets the tools of the servers it may use."""
        if not self.has_tools or not request.mcp_servers:
            return (), {}
        path = request.folder / SERVERS_FILE
        path.unlink(missing_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            json.dump([dict(server) for server in request.mcp_servers], stream)
        return ("--extension", str(EXTENSION)), {SERVERS_VARIABLE: str(path)}

    async def _greet(self, conversation: PiConversation, request: OpenRequest) -> None:
        wanted = request.native_session_id
        try:
            state = _data(await self._asked(conversation, request, "get_state"))
        except HarnessStartFailed as error:
            if wanted is None:
                raise
            raise NativeResumeFailed(
                f"{self.name} did not take up its session {wanted[:80]!r}: {error.message}",
                details={"reason": "refused", "native_session_id": wanted[:200]},
            ) from error
        identity = state.get("sessionId")
        if not isinstance(identity, str) or not identity:
            raise HarnessProtocolBroken(f"{self.name} opened a session without an id.")
        if wanted is not None and identity != wanted:
            raise NativeResumeFailed(
                f"{self.name} opened another session than {wanted[:80]!r}.",
                details={"reason": "refused", "native_session_id": wanted[:200]},
            )
        conversation.enter(identity, _model_name(state.get("model")))
        if request.model is not None and request.model != conversation.model:
            await self._choose_model(conversation, request, request.model)

    async def _choose_model(self, conversation: PiConversation, request: OpenRequest, wanted: str) -> None:
        found = _data(await self._asked(conversation, request, "get_available_models")).get("models")
        offered = {_model_name(item): item for item in found or () if isinstance(item, Mapping)}
        model = offered.get(wanted)
        if model is None:
            names = sorted(name for name in offered if name is not None)
            raise ModelNotOffered(
                f"{self.name} does not offer the model {wanted[:80]!r}.",
                hint=f"It offers: {', '.join(names[:20])}." if names else None,
                details={"model": wanted[:200], "offered": names[:200]},
            )
        fields = {"provider": model.get("provider"), "modelId": model.get("id")}
        answer = await self._asked(conversation, request, "set_model", **fields)
        if answer.get("success") is not True:
            raise HarnessStartFailed(f"{self.name} refused the model {wanted}: {str(answer.get('error'))[:300]}")
        conversation.enter(conversation.native_session_id, wanted)

    async def _asked(
        self, conversation: PiConversation, request: OpenRequest, kind: str, **fields: Any
    ) -> Mapping[str, Any]:
        seconds = request.limits.start_seconds
        try:
            with anyio.fail_after(seconds):
                return await conversation.command(kind, **fields)
        except TimeoutError as error:
            raise HarnessStartFailed(
                f"{self.name} did not answer {kind} within {seconds:g} seconds. It was ended.",
                details={"step": kind, "stderr": await conversation.last_words()},
            ) from error
        except Gone as gone:
            why = await conversation.why_it_ended(gone)
            details = {"step": kind, "failure": str(why.failure), "stderr": await conversation.last_words()}
            if why.failure is FailureClass.PROTOCOL_BROKEN:
                raise HarnessProtocolBroken(f"{self.name}: {why.detail}", details=details) from gone
            raise HarnessStartFailed(
                f"{self.name} ended before a session was open. {why.detail}", details=details
            ) from gone


def _read(path: Path) -> str:
    return path.read_bytes()[:1000].decode("utf-8", "replace")


def _data(response: Mapping[str, Any]) -> Mapping[str, Any]:
    data = response.get("data")
    return data if isinstance(data, Mapping) else {}


def _model_name(model: Any) -> str | None:
    """Return a model's name with its provider's, as pi takes it on its command line."""
    if not isinstance(model, Mapping) or not model.get("id"):
        return None
    return f"{model['provider']}/{model['id']}" if model.get("provider") else str(model["id"])
