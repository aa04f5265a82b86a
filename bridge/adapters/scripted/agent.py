"""The scripted agent as a peer of the protocol: greeting, sessions, prompts, cancelling."""

from __future__ import annotations

import signal
import threading
from typing import Any, Final

from bridge.adapters.scripted.peer import Peer
from bridge.adapters.scripted.playing import LimitReached, Player, TurnFailed
from bridge.adapters.scripted.sessions import ScriptedSession, SessionFolder
from bridge.adapters.scripted.steps import Step, Turn, directives

PROTOCOL_VERSION: Final = 1
#: Models that may be chosen; they differ in nothing.
MODELS: Final = ("scripted-1", "scripted-2")
#: A request for a checkpoint is known by the fields it asks for.
_CHECKPOINT_FIELDS: Final = ("files_touched", "open_work")


class ScriptedAgent:
    """Plays turns of a script, then directives of prompts, then echoes.

    Parameters
    ----------
    turns
        The script.
    sessions
        Where sessions are kept.
    can_resume
        Whether ``session/resume`` is offered; ``session/load`` is, wherever sessions are durable.
    """

    def __init__(self, turns: tuple[Turn, ...], sessions: SessionFolder, *, can_resume: bool = True) -> None:
        self._turns = turns
        self._folder = sessions
        self._can_resume = can_resume
        self._sessions: dict[str, ScriptedSession] = {}
        self._running: dict[str, threading.Event] = {}
        self._peer = Peer(self._take)

    def run(self) -> None:
        """Serve until the input ends."""
        self._peer.run()

    def _take(self, method: str, params: dict[str, Any], identity: Any) -> None:
        if method == "session/cancel":
            event = self._running.get(str(params.get("sessionId")))
            if event is not None:
                event.set()
            return
        if identity is None:
            return
        handlers = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/set_config_option": self._configure,
            "session/prompt": self._prompt,
        }
        handler = handlers.get(method)
        if handler is None:
            self._peer.refuse(identity, -32601, "Method not found")
        else:
            handler(identity, params)

    def _initialize(self, identity: Any, _params: dict[str, Any]) -> None:
        capabilities: dict[str, Any] = {"loadSession": self._folder.is_durable}
        if self._can_resume and self._folder.is_durable:
            capabilities["sessionCapabilities"] = {"resume": {}}
        self._peer.answer(
            identity,
            {
                "protocolVersion": PROTOCOL_VERSION,
                "agentCapabilities": capabilities,
                "agentInfo": {"name": "scripted", "title": "Scripted agent", "version": "1"},
                "authMethods": [],
            },
        )

    def _new(self, identity: Any, params: dict[str, Any]) -> None:
        session = self._folder.new(str(params.get("cwd") or "."))
        self._sessions[session.id] = session
        self._peer.answer(identity, {"sessionId": session.id, **self._options(session)})

    def _load(self, identity: Any, params: dict[str, Any]) -> None:
        session = self._found(identity, params)
        if session is None:
            return
        for who, text in session.said:
            kind = "user_message_chunk" if who == "user" else "agent_message_chunk"
            update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
            self._peer.notify("session/update", {"sessionId": session.id, "update": update})
        self._peer.answer(identity, self._options(session))

    def _resume(self, identity: Any, params: dict[str, Any]) -> None:
        session = self._found(identity, params)
        if session is not None:
            self._peer.answer(identity, self._options(session))

    def _configure(self, identity: Any, params: dict[str, Any]) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None or params.get("configId") != "model" or params.get("value") not in MODELS:
            self._peer.refuse(identity, -32602, "there is no such session, option or value")
            return
        session.model = str(params["value"])
        self._peer.answer(identity, self._options(session))

    def _prompt(self, identity: Any, params: dict[str, Any]) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            self._peer.refuse(identity, -32602, "there is no such session")
            return
        blocks = [str(block.get("text", "")) for block in params.get("prompt", ()) if block.get("type") == "text"]
        steps = self._steps(session, blocks[-1] if blocks else "")
        cancelled = self._running[session.id] = threading.Event()
        if any(step.name == "stubborn" for step in steps):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            cancelled = threading.Event()  # one that nobody sets: a request to cancel may come between two steps
        arguments = (identity, session, blocks, steps, cancelled)
        threading.Thread(target=self._play, args=arguments, daemon=True).start()

    def _play(
        self,
        identity: Any,
        session: ScriptedSession,
        blocks: list[str],
        steps: tuple[Step, ...],
        cancelled: threading.Event,
    ) -> None:
        player = Player(self._peer, session, blocks, cancelled)
        error: str | None = None
        code: int = -32603
        data: dict[str, Any] | None = None
        try:
            player.play(steps)
        except LimitReached as limit:
            error, code = str(limit), 429
            data = {"type": "usage_limit_reached", "resets_in_seconds": limit.seconds}
        except TurnFailed as failure:
            error = str(failure)
        except Exception as fault:  # noqa: BLE001 - a thread that dies silently would look like a stall
            error = f"{type(fault).__name__}: {fault}"
        session.said.append(("user", blocks[-1] if blocks else ""))
        if player.words:
            session.said.append(("agent", "\n".join(player.words)))
        self._folder.save(session)
        if error is not None:
            self._peer.refuse(identity, code, error, data)
            return
        usage = {} if player.usage is None else {"usage": player.usage}
        self._peer.answer(identity, {"stopReason": player.stop_reason, **usage})

    def _steps(self, session: ScriptedSession, prompt: str) -> tuple[Step, ...]:
        for number, turn in enumerate(self._turns):
            if number not in session.played and turn.match in prompt:
                if not turn.repeat:
                    session.played.append(number)
                return turn.steps
        told = directives(prompt)
        if told:
            return told
        if all(name in prompt for name in _CHECKPOINT_FIELDS):
            return (Step("checkpoint", value=True, options={}),)
        return (Step("echo", value=True, options={}),)

    def _found(self, identity: Any, params: dict[str, Any]) -> ScriptedSession | None:
        session = self._folder.load(str(params.get("sessionId")))
        if session is None:
            self._peer.refuse(identity, -32002, "there is no such session")
            return None
        session.directory = str(params.get("cwd") or session.directory)
        self._sessions[session.id] = session
        return session

    def _options(self, session: ScriptedSession) -> dict[str, Any]:
        return {
            "configOptions": [
                {
                    "id": "model",
                    "name": "Model",
                    "category": "model",
                    "type": "select",
                    "currentValue": session.model,
                    "options": [{"value": model, "name": model} for model in MODELS],
                }
            ]
        }
