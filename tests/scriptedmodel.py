"""A model server that plays a script: OpenAI's chat completions on the loopback address, whole answers.

Each request is answered by the next step: a function of the request's body that returns a message, an HTTP status, or a
number of seconds to keep silent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What a step gives: a message, an HTTP status, or seconds of silence.
Played = dict[str, Any] | int | float
Step = Callable[[dict[str, Any]], Played]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a message that calls one tool."""
    return calls((name, arguments))


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a message that calls several tools at once."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for number, (name, arguments) in enumerate(wanted)
        ],
    }


def say(text: str) -> dict[str, Any]:
    """Return a message of words."""
    return {"role": "assistant", "content": text}


def answer(*marks: str, why: str = "it fits") -> dict[str, Any]:
    """Return a message that ends a deep search."""
    return call("final_result", response=[{"mark": mark, "why": why} for mark in marks])


class ModelServer:
    """Serves while the block runs; ``bodies`` holds the requests it got, each said to have cost ``output_tokens``."""

    def __init__(self, *steps: Step | Played, output_tokens: int = 10) -> None:
        self._steps: Sequence[Step | Played] = steps
        self.bodies: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                played = owner._play(body)
                if isinstance(played, float):
                    owner._ended.wait(played)
                    return
                is_error = isinstance(played, int)
                content = json.dumps(
                    {"error": {"message": "scripted"}} if is_error else _completion(played, output_tokens)
                ).encode()
                self.send_response(played if is_error else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def _play(self, body: dict[str, Any]) -> Played:
        with self._lock:
            number = len(self.bodies)
            self.bodies.append(body)
        step = self._steps[min(number, len(self._steps) - 1)]
        return step(body) if callable(step) else step


def _completion(message: dict[str, Any], output_tokens: int) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": output_tokens,
            "total_tokens": 100 + output_tokens,
        },
    }
