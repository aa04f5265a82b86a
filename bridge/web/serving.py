"""Opening the door over HTTP inside the resident controller, on request only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import orjson

from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint
from bridge.rpc.messages import MAX_MESSAGE_BYTES
from bridge.rpc.roles import Caller, Role
from bridge.web.binding import Binding, listen
from bridge.web.using import Use

if TYPE_CHECKING:
    from uvicorn import Config, Server

#: Where the tokens are, under the state directory's ``run``; 0600, and gone with the door.
DOOR_FILE: Final = "http.json"
#: Random bytes of a token.
TOKEN_BYTES: Final = 32
#: Connections at the same time; further ones are answered with 503.
MAX_CONNECTIONS: Final = 200
#: How long an idle connection is kept, and how long an ending door waits for its answers.
KEEP_ALIVE_SECONDS: Final = 30
CLOSE_SECONDS: Final = 5


def url_of(binding: Binding, listener: socket.socket) -> str:
    """Return the URL at which a door answers."""
    host = f"[{binding.host}]" if ":" in binding.host else binding.host
    return f"http://{host}:{listener.getsockname()[1]}"


async def serve_http(
    controller: Controller,
    binding: Binding | None = None,
    *,
    listener: socket.socket | None = None,
    agents: Mapping[str, str] | None = None,
    use: Use | None = None,
    ready: Callable[[str], None] = lambda _url: None,
) -> None:
    """Answer over HTTP until cancelled. Tokens are minted anew and put, with the URL, into :data:`DOOR_FILE`.

    Parameters
    ----------
    binding
        Where to listen; a free port of loopback unless given.
    listener
        What :func:`bridge.web.binding.listen` returned for the binding; made here unless given. Closed in the end.
    agents
        Tokens that are bound to sessions, by token; beside the two that are minted, of an operator and an observer.
    use
        Is told of every call, and knows who is connected for long.
    ready
        Is told the URL once it answers.

    Raises
    ------
    DoorNotOpened
        If it cannot listen there, or may not.
    """
    # Imported when used: the door is opened on request, and they cost 200 ms.
    from bridge.web.door import application
    from bridge.web.guarding import Guard, Tokens

    binding = binding or Binding()
    listener = listener or listen(binding)
    try:
        operator, observer = secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
        callers = {operator: Caller(Role.OPERATOR, Standpoint()), observer: Caller(Role.OBSERVER, Standpoint())}
        for token, session_id in (agents or {}).items():
            callers[token] = Caller(Role.AGENT, Standpoint(session=session_id), session_id)
        server = _server(application(controller, Guard(binding, Tokens(callers)), use or Use()))
        url = url_of(binding, listener)
        told = {"url": url, "operator": operator, "observer": observer, "pid": os.getpid()}
        with _door_file(controller.settings.home / "run", told):
            await _run(server, listener, lambda: ready(url))
    finally:
        listener.close()


def _server(app: Any) -> Server:
    from uvicorn import Config, Server

    config: Config = Config(
        app,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE_BYTES,
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=CLOSE_SECONDS,
        # Nobody stands between the two, whose word on addresses would count.
        proxy_headers=False,
    )
    return Server(config)


async def _run(server: Server, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve on a socket until cancelled; signals stay the controller's."""

    async def serve() -> None:
        # Not ``serve``, which would take over the process's signals.
        await server._serve([listener])  # noqa: SLF001 - the part of it that serves

    task = asyncio.get_running_loop().create_task(serve())
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        if server.started:
            ready()
        await asyncio.shield(task)
    finally:
        server.should_exit = True
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])


@contextlib.contextmanager
def _door_file(folder: Path, told: Mapping[str, Any]) -> Iterator[None]:
    """Say where the door is and how to enter, in a file that only its owner reads, as long as it is open."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / DOOR_FILE
    # Made with 0600 and put in place whole: at no moment can anybody else read it, or half of it.
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=DOOR_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(told))
    Path(name).replace(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            # Another door may have taken its place.
            if orjson.loads(path.read_bytes()).get("operator") == told["operator"]:
                path.unlink()
