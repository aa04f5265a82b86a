"""``bridge serve``: the resident controller."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    import socket

    from bridge.web.binding import Binding

#: Seconds that a controller which is replaced or stopped may take to end.
END_SECONDS = 30.0
#: Largest log of earlier controllers that a new one adds to, in bytes.
MAX_LOG_BYTES = 1024 * 1024


@command(exits={1: "With --status: no controller runs."})
def serve(
    cli: Cli,
    *,
    idle_timeout: Annotated[
        float | None,
        typer.Option(
            "--idle-timeout", metavar="SECONDS", min=0, help="End after so long without use; 0: never. Default: 900."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of one that runs, unless it has workers.")
    ] = False,
    cancel_workers: Annotated[
        bool, typer.Option("--cancel-workers", help="With --replace or --stop: end its workers, too.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it answers; it goes on in the background.")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="[HOST:]PORT", help="Answer over HTTP too; 0 takes a free port of 127.0.0.1."),
    ] = None,
    http_names: Annotated[
        list[str] | None, typer.Option("--http-name", metavar="NAME", help="A further name that clients reach it by.")
    ] = None,
    http_origins: Annotated[
        list[str] | None, typer.Option("--http-origin", metavar="ORIGIN", help="A web origin whose pages may call it.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Tell about the one that runs.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the one that runs, and wait until it has.")] = False,
) -> int:
    """Run the resident controller, or look at it, stop it, replace it

    It holds the store open, watches the files and answers clients on a socket in the state directory, until it is
    told to end (Ctrl-C, SIGTERM, --stop) or has been of no use to anybody for --idle-timeout. Without one every
    command does its work by itself. An older one without workers is replaced. See docs/controller.md.

    It opens no port unless --http says so. Clients then need a token, which stands in run/http.json in the state
    directory; other machines reach it only if HOST is an address that they can reach.
    """
    if (status and stop) or ((status or stop) and (replace or detach or idle_timeout is not None)):
        raise UsageInvalid("--status and --stop stand alone, but for --stop --cancel-workers.")
    if http is None and (http_names or http_origins):
        raise UsageInvalid("--http-name and --http-origin go with --http.")
    if http is not None and (status or stop):
        raise UsageInvalid("--status and --stop stand alone, but for --stop --cancel-workers.")
    if cancel_workers and not (replace or stop):
        raise UsageInvalid("--cancel-workers goes with --replace or --stop.")
    if status:
        return _show(cli)
    if stop:
        return _stop(cli, cancel_workers=cancel_workers)
    seconds = cli.settings.idle_timeout_seconds if idle_timeout is None else idle_timeout
    binding = None if http is None else _binding(http, http_names or [], http_origins or [])
    run = _Run(cli, seconds or None, replace=replace, cancel_workers=cancel_workers, binding=binding)
    return run.detached() if detach else run.here()


def _show(cli: Cli) -> int:
    from bridge.cli.rendering import facts
    from bridge.cli.residing import endpoint_of
    from bridge.rpc.errors import ControllerUnavailable
    from bridge.rpc.resident.client import Client

    try:
        with Client.connect(endpoint_of(cli.settings), role="observer") as client:
            found = client.call("controller/status")
    except ControllerUnavailable:
        cli.output.emit({"running": False}, "no controller runs")
        return 1
    shown = facts(
        [
            ("process", found["pid"]),
            ("build", found["build"]),
            ("running for", f"{found['uptime_seconds']:.0f} s"),
            ("connections", found["connections"]),
            ("workers", ", ".join(worker["name"] or worker["id"] for worker in found["workers"]) or "none"),
            ("ends after", f"{found['idle_limit_seconds']:.0f} s without use" if found["idle_limit_seconds"] else None),
        ]
    )
    cli.output.emit({"running": True, **found}, shown)
    return 0


def _stop(cli: Cli, *, cancel_workers: bool) -> int:
    from bridge.cli.residing import endpoint_of
    from bridge.rpc.resident.starting import stop as end

    pid = end(endpoint_of(cli.settings), cancel_workers=cancel_workers, wait_seconds=END_SECONDS)
    cli.output.emit({"stopped": pid is not None, "pid": pid}, "no controller runs" if pid is None else f"ended {pid}")
    return 0


class _Run:
    """One start of a controller."""

    def __init__(
        self,
        cli: Cli,
        idle_seconds: float | None,
        *,
        replace: bool,
        cancel_workers: bool,
        binding: Binding | None,
    ) -> None:
        self._cli = cli
        self._idle_seconds = idle_seconds
        self._replace = replace
        self._cancel_workers = cancel_workers
        self._binding = binding

    def here(self) -> int:
        """Be the controller in this process."""
        self._cli.prepare_logging()
        output, settings = self._cli.output, self._cli.settings

        def ready(facts: dict[str, Any]) -> None:
            output.emit(facts, None)
            output.status(f"the controller answers for {settings.home} (process {facts['pid']}); Ctrl-C ends it")
            if "http" in facts:
                output.status(f"over HTTP at {facts['http']}; the token is in {settings.home / 'run' / 'http.json'}")

        is_clean = self._reside(ready)
        if not is_clean:
            # A thread that hangs in a call which nobody waits for any more would keep the process.
            output.finish()
            os._exit(0)
        return 0

    def _reside(self, ready: Callable[[dict[str, Any]], None]) -> bool:
        from bridge.cli.residing import endpoint_of, reside
        from bridge.rpc.resident.builds import build_id
        from bridge.rpc.resident.starting import take_over

        # Before all else: what is imported from here on is of this build.
        build = build_id()
        hold = take_over(
            endpoint_of(self._cli.settings),
            build=build,
            replace=self._replace,
            cancel_workers=self._cancel_workers,
            wait_seconds=END_SECONDS,
        )
        facts = {"pid": os.getpid(), "build": build, "home": str(self._cli.settings.home)}
        try:
            http = self._listen(facts)
        except BaseException:
            hold.release()
            raise
        _, is_clean = reside(
            self._cli, hold, build=build, idle_seconds=self._idle_seconds, http=http, ready=lambda: ready(facts)
        )
        return is_clean

    def _listen(self, facts: dict[str, Any]) -> tuple[Binding, socket.socket] | None:
        """Listen where HTTP was asked for, before anybody is told that the controller answers."""
        if self._binding is None:
            return None
        from bridge.web.binding import listen
        from bridge.web.serving import url_of

        listener = listen(self._binding)
        facts["http"] = url_of(self._binding, listener)
        return self._binding, listener

    def detached(self) -> int:
        """Be the controller in a child that outlives this process, and return when it answers."""
        from bridge.cli.residing import endpoint_of
        from bridge.rpc.resident.client import RemoteError
        from bridge.rpc.resident.holding import make_private

        endpoint = endpoint_of(self._cli.settings)
        # An unusable place is told here, where somebody reads it.
        _private_folder(endpoint.folder, make_private)
        told, telling = os.pipe()
        if os.fork() == 0:
            os._exit(self._child(endpoint.log_path, telling))
        os.close(telling)
        with os.fdopen(told, "rb") as pipe:
            printed = pipe.read()
        if not printed:
            raise RemoteError({"message": f"The controller ended at its start; see {endpoint.log_path}."})
        answer = json.loads(printed)
        if "error" not in answer:
            self._cli.output.emit({**answer, "started": True}, f"controller started (process {answer['pid']})")
            return 0
        raise RemoteError(answer["error"])

    def _child(self, log_path: str, telling: int) -> int:
        from bridge.foundation.errors import BridgeError
        from bridge.rpc.messages import error_object

        _leave_terminal(log_path, keep=telling)

        is_told = False

        def ready(facts: dict[str, Any]) -> None:
            nonlocal is_told
            is_told = True
            os.write(telling, json.dumps(facts).encode())
            os.close(telling)

        try:
            self._cli.prepare_logging()
            self._reside(ready)
        except BridgeError as error:
            if is_told:
                self._cli.output.error(error.to_json())
            else:
                os.write(telling, json.dumps({"error": error_object(error)}).encode())
            return error.exit_status
        except BaseException:  # noqa: BLE001 - this process was forked: nothing may reach the frames below
            import traceback

            traceback.print_exc()
            return 1
        return 0


def _binding(text: str, names: list[str], origins: list[str]) -> Binding:
    """Return where --http says to listen."""
    from bridge.web.binding import Binding

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageInvalid(f"--http takes a port, or HOST:PORT, not {text!r}.")
    # A host beyond loopback was named by the operator just now: that is being told to.
    return Binding(
        host=host.strip("[]") or "127.0.0.1",
        port=int(port),
        is_remote_allowed=True,
        names=frozenset(names),
        origins=frozenset(origins),
    )


def _private_folder(folder: str, make_private: Callable[[Any], None]) -> None:
    from pathlib import Path

    from bridge.rpc.errors import ControllerUnavailable

    try:
        make_private(Path(folder))
    except OSError as error:
        raise ControllerUnavailable(f"{folder} cannot be used: {error.strerror}.") from error


def _leave_terminal(log_path: str, *, keep: int) -> None:
    """Let go of terminal, current directory and every open file of whoever started this process."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    size = os.stat(log_path).st_size if os.path.exists(log_path) else 0  # noqa: PTH110, PTH116 - its paths are texts
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if size > MAX_LOG_BYTES else os.O_APPEND)
    log = os.open(log_path, flags | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
