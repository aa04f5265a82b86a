"""A model server that plays scripts, so that real coding agents complete real turns without a model.

It speaks what the agents speak: Anthropic messages, OpenAI responses, OpenAI chat completions and Gemini
streamGenerateContent, streamed or whole. What it answers follows from the request alone: the scenario whose marker
stands last in what the user said, and in it the step that has as many tool results before it. So any number of agents
can use one server at the same time, and an agent that repeats a request gets the same answer.

Used from Python (``with ModelServer([Scenario("MARK", [...])]) as server``), where a step may be a function of the
request, or by itself: ``python tests/e2e/modelserver.py --script script.json --log requests.jsonl`` prints its port.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO

#: Seconds of a stalled answer after which even a stall ends, so that no test run hangs on one.
MAX_STALL_SECONDS = 300.0
#: What an agent is given that asks for something no scenario knows (a title of the conversation, say).
NO_SCENARIO = "ok"
#: What a scenario answers after its last step.
AFTER_LAST = "That is all."


@dataclass(frozen=True, slots=True)
class Say:
    """The model says something, which ends its turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool.

    Parameters
    ----------
    tool
        The tool's name, or the end of it: agents put the MCP server's name before a tool of it, each in its own way.
    arguments
        Its input.
    is_freeform
        Whether the tool takes one text instead of an object (``arguments["input"]``).
    """

    tool: str
    arguments: Mapping[str, Any]
    is_freeform: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """The model calls several tools at once."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """The model keeps silent, with the connection open."""

    seconds: float = MAX_STALL_SECONDS


@dataclass(frozen=True, slots=True)
class Refuse:
    """The server answers with an HTTP error."""

    status: int
    message: str = "scripted error"


Step = Say | Call | Calls | Stall | Refuse


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as every wire format has it.

    Parameters
    ----------
    wire
        ``anthropic``, ``responses``, ``chat`` or ``gemini``.
    system
        Instructions of the agent.
    prompts
        What the user said, whole conversation, oldest first.
    results
        What tools answered since the user spoke last, oldest first.
    tools
        Names of the tools the model may call.
    body
        The request as it came.
    """

    wire: str
    system: str
    prompts: tuple[str, ...]
    results: tuple[str, ...]
    tools: tuple[str, ...]
    body: Mapping[str, Any] = field(repr=False)

    @property
    def text(self) -> str:
        """Everything the model sees but its own words, decoded."""
        return "\n".join((self.system, *self.prompts, *self.results))

    def tool(self, name: str) -> str | None:
        """Return the offered tool of that name, or the one whose name ends with it."""
        if name in self.tools:
            return name
        ending = [tool for tool in self.tools if tool.endswith((f"_{name}", f"-{name}", f".{name}", f"/{name}"))]
        return min(ending, key=len, default=None)


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the model does when the marker stands in what the user said.

    A step may be a function of the request, and so may all of them together: then it is asked for each.

    Parameters
    ----------
    is_tool_free
        Whether it is for requests that offer the model no tool; those of an agent's own (a title, a summary) come so.
    """

    marker: str
    steps: Sequence[Step | Callable[[Asked], Step]] | Callable[[Asked], Step]
    is_tool_free: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """One request the server got, and what it answered."""

    at: float
    path: str
    asked: Asked
    scenario: str | None
    step: Step


class ModelServer:
    """Answers on the loopback address, one thread a connection, until it is left.

    Parameters
    ----------
    scenarios
        May be extended while it runs, with :meth:`add`.
    log
        Gets one JSON object a request, if given.
    """

    def __init__(self, scenarios: Sequence[Scenario] = (), *, port: int = 0, log: Path | None = None) -> None:
        self.seen: list[Seen] = []
        self._scenarios = list(scenarios)
        self._lock = threading.Lock()
        self._log: TextIO | None = None if log is None else log.open("a", encoding="utf-8")
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._log is not None:
            self._log.close()

    def add(self, *scenarios: Scenario) -> None:
        """Add scenarios; of two with one marker the later one counts."""
        with self._lock:
            self._scenarios.extend(scenarios)

    def requests(self, marker: str) -> list[Seen]:
        """Return what was asked under a marker, oldest first."""
        with self._lock:
            return [seen for seen in self.seen if seen.scenario == marker]

    def answer(self, path: str, asked: Asked) -> Step:
        """Return the step for a request and take note of both."""
        scenario = self._scenario(asked)
        step = _step(scenario, asked)
        with self._lock:
            self.seen.append(Seen(time.time(), path, asked, scenario.marker if scenario else None, step))
            if self._log is not None:
                json.dump({"path": path, "marker": scenario and scenario.marker, "body": asked.body}, self._log)
                self._log.write("\n")
                self._log.flush()
        return step

    def _scenario(self, asked: Asked) -> Scenario | None:
        with self._lock:
            scenarios = [one for one in self._scenarios if one.is_tool_free == (not asked.tools)]
        # The latest prompt that has a marker decides, in it the marker that stands last.
        for prompt in reversed(asked.prompts):
            places = [(prompt.rfind(item.marker), number) for number, item in enumerate(scenarios)]
            place, number = max(places, default=(-1, 0))
            if place >= 0:
                return scenarios[number]
        return None


def _step(scenario: Scenario | None, asked: Asked) -> Step:
    if scenario is None:
        return Say(NO_SCENARIO)
    if callable(scenario.steps):
        return scenario.steps(asked)
    done = len(asked.results)
    # Several calls of one step bring several results.
    for step in scenario.steps:
        if done <= 0:
            return step(asked) if callable(step) else step
        done -= len(step.calls) if isinstance(step, Calls) else 1
    return Say(AFTER_LAST)


# What came, in each wire format.


def _texts(content: Any) -> str:
    """Return the text in a content field: a string, a block, or a list of either."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        return _texts(content.get("content") or content.get("output") or "")
    if isinstance(content, Sequence):
        return "\n".join(filter(None, map(_texts, content)))
    return ""


class _Reading:
    """Collects prompts and the results since the last of them."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.results: list[str] = []

    def prompt(self, text: str) -> None:
        if text.strip():
            self.prompts.append(text)
            self.results.clear()

    def asked(self, wire: str, system: str, tools: Sequence[str], body: Mapping[str, Any]) -> Asked:
        return Asked(wire, system, tuple(self.prompts), tuple(self.results), tuple(tools), body)


def read_anthropic(body: Mapping[str, Any]) -> Asked:
    """Read a request to ``/v1/messages``."""
    reading = _Reading()
    for message in body.get("messages", ()):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if not results:
            reading.prompt(_texts(blocks))
        reading.results.extend(_texts(block.get("content") or "") for block in results)
    tools = [tool["name"] for tool in body.get("tools") or ()]
    return reading.asked("anthropic", _texts(body.get("system") or ""), tools, body)


def read_chat(body: Mapping[str, Any]) -> Asked:
    """Read a request to ``/v1/chat/completions``."""
    reading, system = _Reading(), []
    for message in body.get("messages", ()):
        text = _texts(message.get("content") or "")
        match message.get("role"):
            case "system" | "developer":
                system.append(text)
            case "user":
                reading.prompt(text)
            case "tool":
                reading.results.append(text)
    tools = [tool["function"]["name"] for tool in body.get("tools") or () if "function" in tool]
    return reading.asked("chat", "\n".join(system), tools, body)


def read_responses(body: Mapping[str, Any]) -> Asked:
    """Read a request to ``/v1/responses``."""
    reading, system = _Reading(), [str(body.get("instructions") or "")]
    found = body.get("input")
    items = [{"role": "user", "content": found}] if isinstance(found, str) else found or []
    for item in items:
        if item.get("type") in ("function_call_output", "custom_tool_call_output"):
            reading.results.append(_texts(item.get("output") or ""))
        elif item.get("role") in ("system", "developer"):
            system.append(_texts(item.get("content") or ""))
        elif item.get("role") == "user":
            reading.prompt(_texts(item.get("content") or ""))
    return reading.asked("responses", "\n".join(system), list(_responses_tools(body)), body)


def _responses_tools(body: Mapping[str, Any]) -> dict[str, tuple[str | None, str]]:
    """Return the tools by their full name, with the namespace each lies in and its name there."""
    tools: dict[str, tuple[str | None, str]] = {}
    for tool in body.get("tools") or ():
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or ():
                tools[f"{tool['name']}.{inner['name']}"] = (tool["name"], inner["name"])
        else:
            name = tool.get("name") or tool.get("type") or ""
            tools[name] = (None, name)
    return tools


def read_gemini(body: Mapping[str, Any]) -> Asked:
    """Read a request to ``…:generateContent`` or ``…:streamGenerateContent``."""
    reading = _Reading()
    for message in body.get("contents", ()):
        if message.get("role") not in ("user", "function", None):
            continue
        parts = message.get("parts") or ()
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if not results:
            reading.prompt(_texts(parts))
        reading.results.extend(_gemini_result(result.get("response") or {}) for result in results)
    declared = (tool.get("functionDeclarations") or () for tool in body.get("tools") or ())
    tools = [one["name"] for one in itertools.chain.from_iterable(declared)]
    system = body.get("systemInstruction") or body.get("system_instruction") or {}
    return reading.asked("gemini", _texts(system.get("parts") or ""), tools, body)


def _gemini_result(response: Mapping[str, Any]) -> str:
    return _texts(response.get("output") or response.get("content") or "") or json.dumps(response)


# What goes back, in each wire format.

_NUMBERS = itertools.count(1)


def _identity(prefix: str) -> str:
    return f"{prefix}_scripted{next(_NUMBERS):08d}"


def _calls(step: Step) -> tuple[Call, ...]:
    match step:
        case Call():
            return (step,)
        case Calls():
            return step.calls
        case _:
            return ()


def _text(step: Step) -> str:
    return step.text if isinstance(step, Say) else ""


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        model = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ModelServer

    def log_message(self, *_: Any) -> None:
        """Say nothing: the requests are kept."""

    def do_HEAD(self) -> None:
        self._whole({})

    def do_GET(self) -> None:
        if "/models" in self.path:
            one = {"id": "scripted", "object": "model", "type": "model", "display_name": "scripted", "created": 0}
            self._whole({"object": "list", "data": [one], "models": [], "has_more": False})
        else:
            self._whole({})

    def do_POST(self) -> None:
        try:
            body = json.loads(self._body() or b"{}")
            self._answer(self.path.split("?")[0], body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the agent was ended, or gave up

    def _answer(self, path: str, body: Mapping[str, Any]) -> None:
        if path.endswith("/count_tokens"):
            self._whole({"input_tokens": 10})
            return
        if path.endswith(":countTokens"):
            self._whole({"totalTokens": 10})
            return
        for ending, read, write in (
            ("/chat/completions", read_chat, self._chat),
            ("/responses", read_responses, self._responses),
            ("/messages", read_anthropic, self._anthropic),
            ("enerateContent", read_gemini, self._gemini),
        ):
            if path.endswith(ending):
                asked = read(body)
                step = self.model.answer(path, asked)
                if isinstance(step, Refuse):
                    error = {"type": "api_error", "message": step.message, "code": step.status}
                    self._whole({"type": "error", "error": error}, status=step.status)
                    return
                if isinstance(step, Stall):
                    self.model.closing.wait(min(step.seconds, MAX_STALL_SECONDS))
                    step = Say(AFTER_LAST)
                write(asked, step)
                return
        self._whole({})

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw

    def _whole(self, value: Any, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def _event(self, data: Any, name: str | None = None) -> None:
        text = data if isinstance(data, str) else json.dumps(data)
        self.wfile.write(f"event: {name}\ndata: {text}\n\n".encode() if name else f"data: {text}\n\n".encode())
        self.wfile.flush()

    def _chat(self, asked: Asked, step: Step) -> None:
        calls = [
            {
                "index": number,
                "id": _identity("call"),
                "type": "function",
                "function": {"name": asked.tool(call.tool) or call.tool, "arguments": json.dumps(call.arguments)},
            }
            for number, call in enumerate(_calls(step))
        ]
        message: dict[str, Any] = {"role": "assistant", "content": _text(step)}
        if calls:
            message["tool_calls"] = calls
        finish = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        base = {"id": _identity("chatcmpl"), "created": int(time.time()), "model": asked.body.get("model", "scripted")}
        if not asked.body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self._whole({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        self._stream()
        self._event({**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        self._event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
        self._event("[DONE]")

    def _responses(self, asked: Asked, step: Step) -> None:
        items = [_responses_call(asked, call) for call in _calls(step)]
        if not items:
            part = {"type": "output_text", "text": _text(step), "annotations": []}
            message = {"type": "message", "id": _identity("msg"), "role": "assistant", "status": "completed"}
            items = [{**message, "content": [part]}]
        base = {
            "id": _identity("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": asked.body.get("model", "scripted"),
            "status": "in_progress",
            "output": [],
        }
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        done = {**base, "status": "completed", "output": items, "usage": usage}
        if not asked.body.get("stream"):
            self._whole(done)
            return
        self._stream()
        numbers = itertools.count()

        def send(kind: str, **fields: Any) -> None:
            self._event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

        send("response.created", response=base)
        for index, item in enumerate(items):
            opened = {**item, "status": "in_progress", **({"content": []} if item["type"] == "message" else {})}
            send("response.output_item.added", output_index=index, item=opened)
            place = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                text = item["content"][0]["text"]
                empty = {"type": "output_text", "text": "", "annotations": []}
                send("response.content_part.added", **place, content_index=0, part=empty)
                send("response.output_text.delta", **place, content_index=0, delta=text)
                send("response.output_text.done", **place, content_index=0, text=text)
            elif item["type"] == "function_call":
                send("response.function_call_arguments.delta", **place, delta=item["arguments"])
                send("response.function_call_arguments.done", **place, arguments=item["arguments"])
            send("response.output_item.done", output_index=index, item=item)
        send("response.completed", response=done)

    def _anthropic(self, asked: Asked, step: Step) -> None:
        blocks: list[dict[str, Any]] = [
            {
                "type": "tool_use",
                "id": _identity("toolu"),
                "name": asked.tool(call.tool) or call.tool,
                "input": dict(call.arguments),
            }
            for call in _calls(step)
        ] or [{"type": "text", "text": _text(step)}]
        reason = "tool_use" if _calls(step) else "end_turn"
        cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {
            "id": _identity("msg"),
            "type": "message",
            "role": "assistant",
            "model": asked.body.get("model", "scripted"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1, **cached},
        }
        if not asked.body.get("stream"):
            self._whole({**message, "content": blocks, "stop_reason": reason})
            return
        self._stream()
        self._event({"type": "message_start", "message": message}, "message_start")
        for index, block in enumerate(blocks):
            is_call = block["type"] == "tool_use"
            opened = {**block, "input": {}} if is_call else {"type": "text", "text": ""}
            delta = (
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                if is_call
                else {"type": "text_delta", "text": block["text"]}
            )
            started = {"type": "content_block_start", "index": index, "content_block": opened}
            self._event(started, "content_block_start")
            self._event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            self._event({"type": "content_block_stop", "index": index}, "content_block_stop")
        ended = {"stop_reason": reason, "stop_sequence": None}
        self._event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}, "message_delta")
        self._event({"type": "message_stop"}, "message_stop")

    def _gemini(self, asked: Asked, step: Step) -> None:
        parts: list[dict[str, Any]] = [
            {"functionCall": {"name": asked.tool(call.tool) or call.tool, "args": dict(call.arguments)}}
            for call in _calls(step)
        ] or [{"text": _text(step)}]
        answer = {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "scripted",
        }
        if "stream" not in self.path:
            self._whole(answer)
            return
        self._stream()
        self._event(answer)


def _responses_call(asked: Asked, call: Call) -> dict[str, Any]:
    name = asked.tool(call.tool) or call.tool
    space, plain = _responses_tools(asked.body).get(name, (None, name))
    item: dict[str, Any] = {"call_id": _identity("call"), "name": plain, "status": "completed"}
    if space is not None:
        item["namespace"] = space
    if call.is_freeform:
        return {**item, "type": "custom_tool_call", "id": _identity("ctc"), "input": call.arguments["input"]}
    arguments = json.dumps(dict(call.arguments))
    return {**item, "type": "function_call", "id": _identity("fc"), "arguments": arguments}


def scenarios_from_json(found: Any) -> list[Scenario]:
    """Return scenarios from ``[{"marker": …, "steps": [{"say": …} | {"call": …, "arguments": …} | {"calls": […]}
    | {"stall": seconds} | {"refuse": status}]}]``."""
    return [Scenario(item["marker"], [_step_from_json(step) for step in item["steps"]]) for item in found]


def _step_from_json(found: Mapping[str, Any]) -> Step:
    if "say" in found:
        return Say(found["say"])
    if "call" in found:
        return Call(found["call"], found.get("arguments", {}), bool(found.get("is_freeform")))
    if "calls" in found:
        return Calls(tuple(Call(one["call"], one.get("arguments", {})) for one in found["calls"]))
    if "stall" in found:
        return Stall(float(found["stall"]))
    return Refuse(int(found["refuse"]))


def main() -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser(description="Play scripted scenarios to coding agents.")
    parser.add_argument("--script", type=Path, required=True, help="JSON file with the scenarios")
    parser.add_argument("--log", type=Path, help="file that gets one JSON object a request")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    options = parser.parse_args()
    scenarios = scenarios_from_json(json.loads(options.script.read_bytes()))
    with ModelServer(scenarios, port=options.port, log=options.log) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
