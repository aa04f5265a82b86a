"""Being the resident controller: putting it together, running it, and taking it apart in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from bridge.cli.composition import tell_listener
from bridge.cli.context import Cli
from bridge.cli.line import preload
from bridge.cli.resident import ResidentCommands
from bridge.control.capture.places import note_places
from bridge.control.controller import Controller
from bridge.control.delegations.recovery import recover
from bridge.control.resident import begin_resident, end_resident
from bridge.control.watched import CachedObserver
from bridge.foundation.config import CONFIG_FILE, Settings
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger, make_ready
from bridge.git.digestcache import DigestCache
from bridge.hooks.placing import is_placed, place_client
from bridge.rpc.capture import door as hooks
from bridge.rpc.mcp.door import ROLE, AgentDoor, prepare
from bridge.rpc.resident.builds import build_id
from bridge.rpc.resident.endpoint import Endpoint
from bridge.rpc.resident.holding import Hold
from bridge.rpc.resident.residency import Residency
from bridge.rpc.resident.server import End, Server
from bridge.web.binding import Binding
from bridge.web.serving import serve_http
from bridge.web.using import Use

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_log = get_logger(__name__)


def endpoint_of(settings: Settings) -> Endpoint:
    """Return where the controller for these settings is found."""
    return Endpoint(str(settings.home), settings.database_url)


class Freshness:
    """Whether the settings and the code that a controller was started with are still those on the disk."""

    def __init__(self, settings: Settings, build: str) -> None:
        self._config = settings.home / CONFIG_FILE
        self._build = build
        self._then = _mark(self._config)

    def settings_changed(self) -> bool:
        """Tell whether ``config.toml`` is another file, or has other contents, than at the start."""
        return _mark(self._config) != self._then

    def is_outdated(self) -> bool:
        """Tell whether settings or code were changed."""
        return self.settings_changed() or build_id() != self._build


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def reside(
    cli: Cli,
    hold: Hold,
    *,
    build: str,
    idle_seconds: float | None,
    http: tuple[Binding, socket.socket] | None = None,
    ready: Callable[[], None],
) -> tuple[End, bool]:
    """Be the controller until told to end or idle for long enough.

    Parameters
    ----------
    http
        Where to answer over HTTP too, and the socket that listens there; None for nowhere.
    ready
        Called when clients are answered.

    Returns
    -------
    tuple
        Why it ended, and whether nothing was left running in this process.
    """
    freshness = Freshness(cli.settings, build)
    with ExitStack() as stack:
        stack.callback(hold.release)
        controller = _controller(cli, stack)
        commands = ResidentCommands(controller, cli.environment, freshness.settings_changed)
        residency = Residency(controller, build=build, run_command=commands)
        listener = hold.listen(cli.environment)
        hold.announce({"build": build, "started_at": controller.now()})
        use = Use()
        hook_door = hooks.HookDoor(controller)
        server = Server(
            residency,
            hold,
            idle_seconds=idle_seconds,
            doors={ROLE: AgentDoor(controller), hooks.ROLE: hook_door},
            is_outdated=freshness.is_outdated,
            end_work=partial(_end_work, controller, hook_door),
            is_used_elsewhere=lambda: use.is_lasting,
        )
        use.touch = server.touch
        helper = ThreadPoolExecutor(1, thread_name_prefix="start")

        def begin() -> None:
            ready()
            helper.submit(_catch_up, controller)
            helper.submit(_take_hooks, cli, controller, hook_door)
            helper.submit(prepare, controller)
            begin_resident(controller)

        async def main() -> End:
            _end_on_signals(server)
            async with _door(controller, http, use, server.end):
                return await server.serve(listener, ready=begin)

        why = anyio.run(main)
        helper.shutdown(wait=True, cancel_futures=True)
        residency.pool.shutdown(wait=False, cancel_futures=True)
        is_clean = not server.is_at_work
    _log.info("the controller ended", action="controller_ended", why=str(why), pid=os.getpid())
    return why, is_clean


async def _end_work(controller: Controller, hook_door: hooks.HookDoor) -> None:
    await hook_door.close()
    await end_resident(controller)


def _take_hooks(cli: Cli, controller: Controller, hook_door: hooks.HookDoor) -> None:
    """Bring what the hook client goes by up to date and take in what it kept, where hooks were ever installed."""
    if not is_placed(controller.settings):
        return
    try:
        place_client(controller.settings, cli.environment)
        note_places(controller)
        hook_door.spool.take_in()
    except (BridgeError, OSError):
        _log.exception("hooks could not be looked after", action="hooks_failed")


def _controller(cli: Cli, stack: ExitStack) -> Controller:
    """Return a controller whose observer watches; the stack closes both."""
    settings, clock = cli.settings, cli.clock
    observers: list[CachedObserver] = []

    def observer(digests: DigestCache) -> CachedObserver:
        made = CachedObserver(clock, settings.git_timeout_seconds, state_directory=settings.home, digests=digests)
        observers.append(made)
        return made

    controller = Controller(settings, clock=clock, environment=cli.environment, tell=tell_listener, observer=observer)
    for made in observers:
        stack.callback(made.close)
    stack.callback(controller.close)
    return controller


def _end_on_signals(server: Server) -> None:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, server.end)


@asynccontextmanager
async def _door(
    controller: Controller, http: tuple[Binding, socket.socket] | None, use: Use, end: Callable[[], None]
) -> AsyncIterator[None]:
    """Answer over HTTP meanwhile, where that was asked for."""
    if http is None:
        yield
        return
    binding, listener = http
    answering = asyncio.get_running_loop().create_task(serve_http(controller, binding, listener=listener, use=use))
    # A door that falls shut is no reason to go on as if it were open.
    answering.add_done_callback(lambda _: end())
    try:
        yield
    finally:
        answering.cancel()
        await asyncio.wait([answering])
        if not answering.cancelled() and answering.exception() is not None:
            _log.error("the door over HTTP failed", action="http_failed", error=repr(answering.exception()))


def _catch_up(controller: Controller) -> None:
    """Close what a lost controller left open, then load what commands need: after the first client was answered."""
    try:
        closed = recover(controller)
    except BridgeError:
        _log.exception("lost delegations could not be looked for", action="recovery_failed")
    else:
        if closed:
            _log.warning("lost delegations were closed", action="recovered", count=len(closed))
    make_ready()
    preload()
