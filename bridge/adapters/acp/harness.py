"""A harness reached over the Agent Client Protocol: from its command to an open session.

The program is started first and the protocol's library imported while it starts; that takes half a second, which
nobody who talks to no agent should spend.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio import to_thread

import bridge
from bridge.adapters.acp.conversation import AcpConversation
from bridge.adapters.base import Capabilities, FailureClass
from bridge.adapters.conversation import Introduction, OpenRequest
from bridge.adapters.errors import (
    HarnessLoginNeeded,
    HarnessProtocolBroken,
    HarnessStartFailed,
    ModelNotOffered,
    NativeResumeFailed,
)
from bridge.process.children import spawn_piped
from bridge.process.environment import child_environment
from bridge.process.identity import Marker

#: The protocol's version that is spoken; there is no other yet.
PROTOCOL_VERSION: Final = 1
#: File in the folder of a conversation that holds what the agent writes to standard error.
STDERR_FILE: Final = "stderr.log"
#: JSON-RPC code of an agent that wants a login.
_LOGIN_NEEDED: Final = -32000


@dataclass(frozen=True, slots=True)
class AcpHarness:
    """A program that speaks the Agent Client Protocol on its standard input and output.

    Parameters
    ----------
    name
        For display.
    command
        Program and arguments.
    additions
        Variables it gets besides what it inherits.
    allowed
        Capabilities that are used if the agent has them, out of ``config.HARNESS_CAPABILITIES``; None: all but
        ``terminal``.
    tells_usage
        Whether it is known to say what tokens it uses; what it does say counts in any case.
    reads_itself
        Whether it is not offered to read files through Bridge, though it may write them so.
    """

    name: str
    command: tuple[str, ...]
    additions: Mapping[str, str] = field(default_factory=dict)
    allowed: frozenset[str] | None = None
    reads_itself: bool = False
    tells_usage: bool = False

    @property
    def capabilities(self) -> Capabilities:
        """What may be used; what the agent really has is known once it runs."""
        return Capabilities(
            resume=self._may("resume"),
            load=self._may("load"),
            mcp=self._may("mcp"),
            cancel=True,
            usage=self.tells_usage,
        )

    async def open(self, request: OpenRequest) -> AcpConversation:
        """Start the program and a session in it; see ``bridge.adapters.conversation.ConversationHarness``."""
        conversation = await self._started(request)
        try:
            await self._greet(conversation, request)
        except BaseException:
            # Also when cancelled: whatever happens, no process is left that nobody holds.
            await conversation.close()
            raise
        return conversation

    async def introduce(self, request: OpenRequest) -> Introduction:
        """Start the program, ask what it can do, and end it."""
        conversation = await self._started(request)
        try:
            offered = await self._introduced(_Steps(self.name, conversation, request))
        finally:
            await conversation.close()
        about = offered.get("agentInfo")
        version = about.get("version") if isinstance(about, Mapping) else None
        capabilities = _mapping(offered.get("agentCapabilities"))
        lacks = [] if _can_resume(capabilities) else ["resume"]
        lacks += [] if capabilities.get("loadSession") is True else ["load"]
        return Introduction(version[:80] if isinstance(version, str) and version else None, tuple(lacks))

    async def _started(self, request: OpenRequest) -> AcpConversation:
        await to_thread.run_sync(lambda: request.folder.mkdir(parents=True, exist_ok=True, mode=0o700))
        piped = await spawn_piped(
            self.command,
            cwd=request.directory,
            environment=child_environment(request.environment, {**self.additions, **request.additions}),
            stderr_path=request.folder / STDERR_FILE,
            output_limit_bytes=request.limits.stderr_bytes,
            marker=None if request.marker is None else Marker(request.marker),
            confinement=request.confinement,
        )
        conversation = AcpConversation(
            request, piped, stderr=request.folder / STDERR_FILE, offers_terminals=self._may("terminal")
        )
        try:
            if request.started is not None:
                await request.started(piped.child.identity)
            await to_thread.run_sync(importlib.import_module, "acp.connection")
            conversation.listen()
        except BaseException:
            await conversation.close()
            raise
        return conversation

    def _may(self, name: str) -> bool:
        return name in self.allowed if self.allowed is not None else name != "terminal"

    async def _greet(self, conversation: AcpConversation, request: OpenRequest) -> None:
        steps = _Steps(self.name, conversation, request)
        offered = await self._introduced(steps)
        capabilities = _mapping(offered.get("agentCapabilities"))
        steps.login_methods = _login_methods(offered)
        place = {"cwd": str(request.directory), "mcpServers": self._servers(request)}
        if request.native_session_id is None:
            session = await steps.call("session/new", place, "a new session")
            identity = session.get("sessionId")
            if not isinstance(identity, str) or not identity:
                raise HarnessProtocolBroken(f"{self.name} opened a session without an id.")
        else:
            identity = request.native_session_id
            session = await steps.resume(self._way_back(capabilities), {**place, "sessionId": identity})
        conversation.enter(identity, _current_model(session))
        if request.model is not None and request.model != conversation.model:
            await _choose_model(steps, conversation, session, request.model)

    async def _introduced(self, steps: _Steps) -> Mapping[str, Any]:
        """Greet the agent and return its answer."""
        offered = await steps.call("initialize", self._introduction(), "the greeting")
        found = offered.get("protocolVersion")
        if found != PROTOCOL_VERSION:
            raise HarnessProtocolBroken(
                f"{self.name} speaks version {str(found)[:40]} of the protocol; this Bridge speaks {PROTOCOL_VERSION}.",
                details={"found": str(found)[:40], "supported": PROTOCOL_VERSION},
            )
        return offered

    def _introduction(self) -> dict[str, Any]:
        has_files = self._may("fs")
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": has_files and not self.reads_itself, "writeTextFile": has_files},
                "terminal": self._may("terminal"),
            },
            "clientInfo": {"name": "bridge", "title": "Bridge", "version": bridge.__version__},
        }

    def _servers(self, request: OpenRequest) -> list[dict[str, Any]]:
        return [dict(server) for server in request.mcp_servers] if self._may("mcp") else []

    def _way_back(self, capabilities: Mapping[str, Any]) -> str | None:
        """Return the method by which the agent takes up a session; resuming spares it from playing all of it back."""
        if self._may("resume") and _can_resume(capabilities):
            return "session/resume"
        if self._may("load") and capabilities.get("loadSession") is True:
            return "session/load"
        return None


class _Steps:
    """The requests that come before the first prompt: each within its time, each failure with its own error."""

    def __init__(self, name: str, conversation: AcpConversation, request: OpenRequest) -> None:
        self.name = name
        self.login_methods: list[str] = []
        self._conversation = conversation
        self._seconds = request.limits.start_seconds

    async def call(self, method: str, params: Mapping[str, Any], what: str) -> Mapping[str, Any]:
        answer = await self._sent(method, params, what)
        if not isinstance(answer, Mapping):
            raise HarnessProtocolBroken(f"{self.name} answered {method} with something that is no object.")
        return answer

    async def resume(self, method: str | None, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method is None:
            raise NativeResumeFailed(
                f"{self.name} does not take up earlier sessions.", details={"reason": "not_supported"}
            )
        from acp.exceptions import RequestError

        try:
            answer = await self._sent(method, params, "its earlier session", is_raw=True)
        except RequestError as error:
            self._require_no_login(error)
            raise NativeResumeFailed(
                f"{self.name} did not take up its session {str(params['sessionId'])[:80]!r}: {str(error)[:300]}",
                details={"reason": "refused", "native_session_id": str(params["sessionId"])[:200], "code": error.code},
            ) from error
        return answer if isinstance(answer, Mapping) else {}

    async def _sent(self, method: str, params: Mapping[str, Any], what: str, *, is_raw: bool = False) -> Any:
        from acp.exceptions import RequestError

        try:
            with anyio.fail_after(self._seconds):
                return await self._conversation.request(method, params)
        except TimeoutError as error:
            raise HarnessStartFailed(
                f"{self.name} did not answer within {self._seconds:g} seconds when asked for {what}. It was ended.",
                details={"step": method, **await self._conversation.last_words()},
            ) from error
        except ConnectionError as error:
            failure, detail = await self._conversation.why_it_ended()
            details = {"step": method, "failure": str(failure), **await self._conversation.last_words()}
            if failure is FailureClass.PROTOCOL_BROKEN:
                raise HarnessProtocolBroken(f"{self.name}: {detail}", details=details) from error
            raise HarnessStartFailed(
                f"{self.name} ended before a session was open. {detail}", details=details
            ) from error
        except RequestError as error:
            if is_raw:
                raise
            self._require_no_login(error)
            raise HarnessStartFailed(
                f"{self.name} refused {what}: {str(error)[:300]}",
                details={"step": method, "code": error.code, "data": str(error.data)[:1000]},
            ) from error

    def _require_no_login(self, error: Any) -> None:
        if error.code != _LOGIN_NEEDED:
            return
        offered = ", ".join(self.login_methods)
        raise HarnessLoginNeeded(
            f"{self.name} wants a login first" + (f" (it offers: {offered})." if offered else "."),
            details={"methods": self.login_methods},
        ) from error


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _can_resume(capabilities: Mapping[str, Any]) -> bool:
    return isinstance(_mapping(capabilities.get("sessionCapabilities")).get("resume"), Mapping)


def _login_methods(offered: Mapping[str, Any]) -> list[str]:
    found = offered.get("authMethods")
    methods = found if isinstance(found, list) else []
    return [str(item.get("name") or item.get("id"))[:80] for item in methods[:20] if isinstance(item, Mapping)]


def _model_option(session: Mapping[str, Any]) -> Mapping[str, Any] | None:
    options = session.get("configOptions")
    for option in options if isinstance(options, list) else ():
        if isinstance(option, Mapping) and option.get("category") == "model" and option.get("type") == "select":
            return option
    return None


def _current_model(session: Mapping[str, Any]) -> str | None:
    option, models = _model_option(session), session.get("models")
    current = option.get("currentValue") if option is not None else None
    if current is None and isinstance(models, Mapping):
        current = models.get("currentModelId")
    return current if isinstance(current, str) and current else None


def _offered_models(session: Mapping[str, Any]) -> list[str]:
    option, models = _model_option(session), session.get("models")
    found: list[Any] = []
    if option is not None:
        for item in option.get("options") or ():
            # Options may stand in groups.
            inner = item.get("options") if isinstance(item, Mapping) else None
            found += [
                one.get("value") for one in (inner if isinstance(inner, list) else [item]) if isinstance(one, Mapping)
            ]
    elif isinstance(models, Mapping):
        found = [item.get("modelId") for item in models.get("availableModels") or () if isinstance(item, Mapping)]
    return [name for name in found if isinstance(name, str)]


async def _choose_model(steps: _Steps, conversation: AcpConversation, session: Mapping[str, Any], wanted: str) -> None:
    offered, option = _offered_models(session), _model_option(session)
    if wanted not in offered:
        raise ModelNotOffered(
            f"{steps.name} does not offer the model {wanted[:80]!r}."
            if offered
            else f"{steps.name} does not let the model be chosen.",
            hint=f"It offers: {', '.join(offered[:20])}." if offered else None,
            details={"model": wanted[:200], "offered": offered[:200]},
        )
    identity = conversation.native_session_id
    if option is not None:
        params = {"sessionId": identity, "configId": option.get("id"), "value": wanted}
        await steps.call("session/set_config_option", params, f"the model {wanted}")
    else:
        await steps.call("session/set_model", {"sessionId": identity, "modelId": wanted}, f"the model {wanted}")
    conversation.enter(identity, wanted)
