"""What is answered over HTTP: JSON-RPC by POST, events as a stream (SSE), and both over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import anyio
import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from bridge.control.controller import Controller
from bridge.rpc.connection import Connection
from bridge.rpc.messages import MAX_MESSAGE_BYTES
from bridge.rpc.roles import Caller
from bridge.web.guarding import PROTOCOL, Guard, Refusal, bearer_of, token_of_protocols
from bridge.web.using import Use

#: Nothing is cached, and nothing is taken for what it is not.
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
#: How often a quiet stream of events says that it is still there.
HEARTBEAT_SECONDS: Final = 15.0
#: Events that wait for a slow reader of a stream; the rest waits in the store.
_WAITING_EVENTS: Final = 100
#: Close codes of WebSockets: a broken rule, and too many messages.
_POLICY_VIOLATED: Final = 1008
_TRY_AGAIN_LATER: Final = 1013


def application(controller: Controller, guard: Guard, use: Use) -> Starlette:
    """Return the application that answers for a controller."""
    door = _Door(controller, guard, use)
    return Starlette(
        routes=[
            Route("/rpc", door.post, methods=["POST"]),
            Route("/events", door.events, methods=["GET"]),
            WebSocketRoute("/rpc", door.websocket),
        ]
    )


class _Door:
    def __init__(self, controller: Controller, guard: Guard, use: Use) -> None:
        self._controller = controller
        self._guard = guard
        self._use = use

    async def post(self, request: Request) -> Response:
        """Answer one message; what it would subscribe to cannot be sent."""
        caller = self._admit(request)
        if isinstance(caller, Refusal):
            return _refused(caller)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            # A page of another origin can send other types without being asked first.
            return _refused(Refusal(415, "content_type"))
        try:
            body = await _body(request)
        except ClientDisconnect:
            return Response(status_code=400)
        if body is None:
            return _refused(Refusal(413, "too_large"))
        answers: list[bytes] = []

        async def keep(answer: bytes) -> None:
            answers.append(answer)

        connection = Connection(self._controller, caller, keep, is_lasting=False)
        try:
            await connection.receive(body)
            await connection.drain()
        finally:
            await _close(connection)
        if not answers:
            return Response(status_code=204, headers=_HEADERS)
        return Response(answers[0], media_type="application/json", headers=_HEADERS)

    async def events(self, request: Request) -> Response:
        """Stream events; ``id`` of each is the cursor that a client goes on from by itself (``Last-Event-ID``)."""
        caller = self._admit(request)
        if isinstance(caller, Refusal):
            return _refused(caller)
        query = request.query_params
        params: dict[str, object] = {name: value for name, value in query.items() if name != "types"}
        if "types" in query:
            params["types"] = [one for one in query["types"].split(",") if one]
        last = request.headers.get("last-event-id")
        if last is not None:
            params["cursor"] = last
        waiting: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_EVENTS)
        connection = Connection(self._controller, caller, waiting.put)
        call = {"jsonrpc": "2.0", "id": 0, "method": "events/subscribe", "params": params}
        await connection.receive(orjson.dumps(call))
        answer = orjson.loads(await waiting.get())
        if "error" in answer:
            await connection.aclose()
            return JSONResponse(answer["error"], status_code=400, headers=_HEADERS)
        stream = _stream(connection, waiting, answer["result"]["cursor"], self._use)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)

    async def websocket(self, socket: WebSocket) -> None:
        """Answer the messages of a WebSocket, one a frame, and send events over it."""
        protocols = socket.scope.get("subprotocols", [])
        caller = self._admit(socket, token=bearer_of(socket.headers) or token_of_protocols(protocols))
        if isinstance(caller, Refusal):
            await socket.send_denial_response(_refused(caller))
            return
        await socket.accept(subprotocol=PROTOCOL if PROTOCOL in protocols else None)
        with self._use.lasting():
            await self._talk(socket, caller)

    async def _talk(self, socket: WebSocket, caller: Caller) -> None:
        async def send(message: bytes) -> None:
            try:
                await socket.send_text(message.decode())
            except (WebSocketDisconnect, RuntimeError) as error:
                # Starlette's word for a socket that was closed meanwhile is a RuntimeError.
                raise BrokenPipeError from error

        connection = Connection(self._controller, caller, send)
        try:
            while not connection.is_closed:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                if not self._guard.may_call(caller):
                    await socket.close(_TRY_AGAIN_LATER, "too many messages")
                    break
                self._use.touch()
                text = message.get("text")
                await connection.receive(text.encode() if text is not None else message["bytes"])
        finally:
            await _close(connection)

    def _admit(self, request: Request | WebSocket, *, token: str | None = None) -> Caller | Refusal:
        self._use.touch()
        address = "" if request.client is None else request.client.host
        return self._guard.admit(request.headers, address, token=token or bearer_of(request.headers))


async def _body(request: Request) -> bytes | None:
    """Return the body; None if it is larger than a message may be, without reading on."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > MAX_MESSAGE_BYTES:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_MESSAGE_BYTES:
            return None
    return bytes(body)


async def _stream(connection: Connection, waiting: asyncio.Queue[bytes], cursor: str, use: Use) -> AsyncIterator[bytes]:
    with use.lasting():
        async for part in _parts(connection, waiting, cursor):
            yield part


async def _parts(connection: Connection, waiting: asyncio.Queue[bytes], cursor: str) -> AsyncIterator[bytes]:
    try:
        yield b"id: %b\nevent: subscribed\ndata: {}\n\n" % cursor.encode()
        while True:
            try:
                message = orjson.loads(await asyncio.wait_for(waiting.get(), HEARTBEAT_SECONDS))
            except TimeoutError:
                yield b": still here\n\n"
                continue
            params = message["params"]
            shown = orjson.dumps(params.get("event", params))
            lines = (params["cursor"].encode(), message["method"].encode(), shown)
            yield b"id: %b\nevent: %b\ndata: %b\n\n" % lines
    finally:
        await _close(connection)


async def _close(connection: Connection) -> None:
    # Who goes away cancels what answers; a change that has begun is finished all the same.
    with anyio.CancelScope(shield=True):
        await connection.aclose()


def _refused(refusal: Refusal) -> Response:
    headers = dict(_HEADERS)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.status == 429:
        headers["Retry-After"] = "1"
    return JSONResponse({"error": {"code": "http_refused", "reason": refusal.reason}}, refusal.status, headers)
