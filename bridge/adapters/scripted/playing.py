"""Plays the steps of one turn: with real effects on files, and with the faults that real agents have."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bridge.adapters.scripted.peer import Peer, PeerError
from bridge.adapters.scripted.programs import leave_behind, run_program
from bridge.adapters.scripted.sessions import ScriptedSession
from bridge.adapters.scripted.steps import Step

#: Characters of one piece of a message, unless a step says otherwise.
PIECE_CHARACTERS: Final = 16
#: Characters of a file that a reading shows.
SHOWN_CHARACTERS: Final = 10_000


class TurnFailed(Exception):
    """A step asked for an error instead of an answer."""


class LimitReached(Exception):
    """A step asked for the error of a usage limit; ``seconds`` until its reset."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the usage limit is reached for {seconds:g} seconds")
        self.seconds = seconds


class Player:
    """One turn.

    Parameters
    ----------
    blocks
        The texts of the prompt; the last is the message, what stands before it is what the client told besides.
    cancelled
        Set when the client wants the turn to end.
    """

    def __init__(self, peer: Peer, session: ScriptedSession, blocks: list[str], cancelled: threading.Event) -> None:
        self._peer = peer
        self._session = session
        self._blocks = blocks
        self._prompt = blocks[-1] if blocks else ""
        self._cancelled = cancelled
        self._calls = 0
        self.words: list[str] = []
        self.usage: dict[str, int] | None = None
        self.stop_reason = "end_turn"

    def play(self, steps: tuple[Step, ...]) -> None:
        """Play steps until they are done, one stops the turn, or it is cancelled."""
        for step in steps:
            if self._cancelled.is_set():
                self.stop_reason = "cancelled"
                return
            if self._play(step) is False:
                return
        if self._cancelled.is_set():
            self.stop_reason = "cancelled"

    def _play(self, step: Step) -> bool | None:
        handler: Callable[[Step], bool | None] = getattr(self, f"_do_{step.name}")
        return handler(step)

    # -- words -------------------------------------------------------------------------------------------------

    def _do_say(self, step: Step) -> None:
        self._say(self._filled(step.value), step.options.get("pieces"))

    def _do_echo(self, step: Step) -> None:
        self._say(f"You said: {step.value if isinstance(step.value, str) else self._prompt}")

    def _do_think(self, step: Step) -> None:
        for piece in _pieces(self._filled(step.value), step.options.get("pieces")):
            self._update("agent_thought_chunk", content={"type": "text", "text": piece})

    def _do_context(self, _step: Step) -> None:
        told = self._blocks[:-1]
        self._say("\n---\n".join(told) if told else "I was told nothing.")

    def _do_checkpoint(self, step: Step) -> None:
        checkpoint = step.value if isinstance(step.value, dict) else self._checkpoint()
        self._say_block(checkpoint)

    def _do_result(self, step: Step) -> None:
        self._say_block(step.value)

    def _say_block(self, value: Any) -> None:
        # A block begins a line, also where something was said before it in the same message.
        self._say(("\n" if self.words else "") + f"```json\n{json.dumps(value, indent=1)}\n```")

    def _do_plan(self, step: Step) -> None:
        steps = [{"content": str(item), "priority": "medium", "status": "pending"} for item in step.value]
        self._update("plan", entries=steps)

    def _do_usage(self, step: Step) -> None:
        counts = {"input": 0, "output": 0, **step.value}
        self.usage = {
            "inputTokens": int(counts["input"]),
            "outputTokens": int(counts["output"]),
            "totalTokens": int(counts["input"]) + int(counts["output"]),
        }
        self._update("usage_update", used=int(counts["input"]), size=200_000)

    def _do_update(self, step: Step) -> None:
        self._peer.notify("session/update", {"sessionId": self._session.id, "update": step.value})

    # -- tools -------------------------------------------------------------------------------------------------

    def _do_read(self, step: Step) -> None:
        self._tool("read", step, step.value, {"path": step.value}, lambda: self._read(step)[:SHOWN_CHARACTERS])

    def _do_write(self, step: Step) -> None:
        def work() -> str:
            self._write(step, self._filled(step.value["text"]))
            return "written"

        self._tool("edit", step, step.value["path"], {"path": step.value["path"]}, work)

    def _do_edit(self, step: Step) -> None:
        def work() -> str:
            text = self._read(step)
            if step.value["old"] not in text:
                raise OSError(f"{step.value['old']!r} is not in {step.value['path']}")
            self._write(step, text.replace(step.value["old"], step.value["new"], 1))
            return "edited"

        self._tool("edit", step, step.value["path"], dict(step.value), work)

    def _do_run(self, step: Step) -> None:
        argv = step.value if isinstance(step.value, list) else ["/bin/sh", "-c", step.value]
        argv = [str(word) for word in argv]
        via_client = step.options.get("via") == "client"
        work = (lambda: self._run_by_client(argv)) if via_client else (lambda: self._run(argv))
        self._tool("execute", step, None, {"command": argv}, work)

    def _do_ask(self, step: Step) -> bool | None:
        identity = self._next_call()
        kind, path = step.options.get("kind", "execute"), step.options.get("path")
        call = {"toolCallId": identity, "title": step.value, "kind": kind, "status": "pending"}
        if path is not None:
            call["locations"] = [{"path": str(self._path(path))}]
        self._update("tool_call", **call)
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Refuse", "kind": "reject_once"},
        ]
        params = {"sessionId": self._session.id, "toolCall": call, "options": options}
        answer = self._peer.ask("session/request_permission", params)
        outcome = (answer or {}).get("outcome") or {}
        is_allowed = outcome.get("optionId") == "yes"
        self._update("tool_call_update", toolCallId=identity, status="completed" if is_allowed else "failed")
        if outcome.get("outcome") == "cancelled" and self._cancelled.is_set():
            self.stop_reason = "cancelled"
            return False
        self._say("It was allowed." if is_allowed else "It was not allowed.")
        return None if is_allowed else False

    def _tool(self, kind: str, step: Step, path: str | None, given: Mapping[str, Any], work: Callable[[], str]) -> None:
        identity = self._next_call()
        title = step.options.get("title") or f"{step.name} {path or ' '.join(map(str, given.get('command', ())))}"
        place = {} if path is None else {"locations": [{"path": str(self._path(path))}]}
        self._update(
            "tool_call",
            toolCallId=identity,
            title=title,
            kind=kind,
            status="in_progress",
            rawInput=dict(given),
            **place,
        )
        try:
            text, status = work(), "completed"
        except (OSError, UnicodeDecodeError, PeerError) as error:
            text, status = str(error), "failed"
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        self._update("tool_call_update", toolCallId=identity, status=status, content=content)

    def _next_call(self) -> str:
        self._calls += 1
        return f"call-{len(self._session.said)}-{self._calls}"

    def _path(self, path: str) -> Path:
        return Path(self._session.directory) / path

    def _read(self, step: Step) -> str:
        path = self._path(step.value if isinstance(step.value, str) else step.value["path"])
        if step.options.get("via") == "client":
            params = {"sessionId": self._session.id, "path": str(path)}
            return str(self._peer.ask("fs/read_text_file", params)["content"])
        return path.read_text(encoding="utf-8")

    def _write(self, step: Step, text: str) -> None:
        path = self._path(step.value["path"])
        if step.options.get("via") == "client":
            params = {"sessionId": self._session.id, "path": str(path), "content": text}
            self._peer.ask("fs/write_text_file", params)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _run(self, argv: list[str]) -> str:
        return run_program(argv, self._session.directory, self._cancelled)

    def _run_by_client(self, argv: list[str]) -> str:
        about = {"sessionId": self._session.id}
        made = self._peer.ask("terminal/create", {**about, "command": argv[0], "args": argv[1:]})
        terminal = {**about, "terminalId": made["terminalId"]}
        ended = self._peer.ask("terminal/wait_for_exit", terminal)
        output = self._peer.ask("terminal/output", terminal)["output"]
        self._peer.ask("terminal/release", terminal)
        return f"{output}exit status {ended.get('exitCode')}"

    # -- time and faults ---------------------------------------------------------------------------------------

    def _do_sleep(self, step: Step) -> None:
        self._cancelled.wait(step.value)

    def _do_stall(self, _step: Step) -> None:
        threading.Event().wait()  # not even cancelling ends it

    def _do_stubborn(self, _step: Step) -> None:
        return None  # heeded before the turn, in the main thread, which alone may set signal handlers

    def _do_leave(self, step: Step) -> None:
        leave_behind(step.value)

    def _do_stop(self, step: Step) -> bool:
        self.stop_reason = step.value
        return False

    def _do_fail(self, step: Step) -> None:
        raise TurnFailed(step.value)

    def _do_limit(self, step: Step) -> None:
        raise LimitReached(step.value)

    def _do_crash(self, step: Step) -> None:
        if isinstance(step.value, str):
            os.kill(os.getpid(), signal.Signals[step.value])
            threading.Event().wait()
        os._exit(step.value)

    def _do_rubbish(self, step: Step) -> None:
        self._peer.write(step.value.encode() + b"\n")

    def _do_huge(self, step: Step) -> None:
        self._say("x" * step.value, step.value)

    # -- helpers -----------------------------------------------------------------------------------------------

    def _say(self, text: str, pieces: int | None = None) -> None:
        self.words.append(text)
        for piece in _pieces(text, pieces):
            self._update("agent_message_chunk", content={"type": "text", "text": piece})

    def _update(self, update: str, /, **fields: Any) -> None:
        message = {"sessionUpdate": update, **fields}
        self._peer.notify("session/update", {"sessionId": self._session.id, "update": message})

    def _filled(self, text: str) -> str:
        turn = sum(who == "user" for who, _ in self._session.said) + 1
        return text.replace("{prompt}", self._prompt).replace("{turn}", str(turn))

    def _checkpoint(self) -> dict[str, Any]:
        said = [text for who, text in self._session.said if who == "user"]
        return {
            "summary": f"{len(said)} messages so far" + (f", the last one: {said[-1][:200]}" if said else ""),
            "decisions": [],
            "files_touched": [],
            "open_work": [],
        }


def _pieces(text: str, size: int | None) -> list[str]:
    step = max(1, size or PIECE_CHARACTERS)
    return [text[at : at + step] for at in range(0, len(text), step)] or [""]
