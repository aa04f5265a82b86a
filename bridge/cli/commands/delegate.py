"""``bridge delegate`` and ``bridge task retry``: hand one task to a worker, and wait for what comes of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.cli.asking import Caller

#: Milliseconds of one wait for a task; between two of them its state is told.
WAIT_MS = 1_000
#: Seconds of an attempt, unless ``--timeout`` says otherwise.
DEFAULT_TIMEOUT_SECONDS = 1800
#: Bytes of a file with an output schema.
MAX_SCHEMA_BYTES = 1024 * 1024

Network = Annotated[
    bool | None, typer.Option("--network/--offline", help="Ask for the network, or have it kept from the worker.")
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait for the result; else a resident controller goes on with it.")
]


@command(progress=True, exits={1: "The worker did not complete."})
def delegate(
    cli: Cli,
    objective: Annotated[list[str], typer.Argument(help="What is to be done; - reads it from standard input.")],
    *,
    name: Annotated[str, typer.Option("--name", help="A short name to call it by.")] = "",
    session: Annotated[
        str | None, typer.Option("--session", help="Session that delegates. Default: @, or a new one.")
    ] = None,
    role: Annotated[str, typer.Option("--role", help="What the worker is for.")] = "implementation",
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="How one sees that it is done; may be repeated.")
    ] = None,
    evidence: Annotated[
        list[str] | None, typer.Option("--evidence", help="A result it builds on, as reference; may be repeated.")
    ] = None,
    owns: Annotated[
        list[str] | None, typer.Option("--owns", help="A path it may write; may be repeated. Default: no limit.")
    ] = None,
    write: Annotated[
        Literal["read_only", "shared", "isolated"],
        typer.Option("--write", help="Whether it writes, and whether into this checkout or a worktree of its own."),
    ] = "isolated",
    schema: Annotated[
        str | None, typer.Option("--schema", help="File with a JSON Schema for the result's data.")
    ] = None,
    harness: Annotated[
        str, typer.Option("--harness", help="The agent program. Default: as configured, or the session's.")
    ] = "",
    run: Annotated[
        str | None, typer.Option("--run", help="A command line to run as the worker, instead of an agent.")
    ] = None,
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, help="Seconds that one attempt may take.")
    ] = DEFAULT_TIMEOUT_SECONDS,
    attempts: Annotated[
        int, typer.Option("--attempts", min=1, max=10, help="Attempts; a further one follows an invalid result.")
    ] = 1,
    tokens: Annotated[int, typer.Option("--tokens", min=0, help="Tokens it may use, for the budget.")] = 0,
    network: Network = None,
    dirty: Annotated[
        Literal["refuse", "ignore", "carry"], typer.Option("--dirty", help="What becomes of uncommitted work.")
    ] = "refuse",
    wait: Wait = True,
) -> int:
    """Delegate one task to a worker in a worktree of its own

    The worker starts from the commit that the checkout is at. What it did waits for bridge task adopt. A resident
    controller runs it if there is one, or if it is to go on without this command (--no-wait); else this process does,
    and the worker ends with it.
    """
    params: dict[str, Any] = {
        "objective": _objective(cli, objective),
        "name": name,
        "role": role,
        "acceptance_criteria": list(accept or ()),
        "evidence": list(evidence or ()),
        "owned_paths": list(owns or ()),
        "write_mode": write,
        "output_schema": None if schema is None else _schema(cli, schema),
        "harness": harness,
        "command": [] if run is None else _command(run),
        "timeout_seconds": timeout,
        "attempts": attempts,
        "tokens": tokens,
        "network": network,
        "dirty": dirty,
    }
    if session is not None:
        params["session"] = session
    return _request(cli, "delegations/request", params, is_waiting=wait, may_begin=session is None)


@command(progress=True, exits={1: "The worker did not complete."})
def retry(
    cli: Cli,
    task: Annotated[str, typer.Argument(help="Task that has ended: its name, PLAN/NAME, or its id.")],
    *,
    feedback: Annotated[
        str | None, typer.Option("--feedback", help="What the next worker should know; - reads it from standard input.")
    ] = None,
    onto: Annotated[
        Literal["HEAD"] | None,
        typer.Option("--onto", help="In a new worktree from HEAD, with the work carried over. Default: in the same."),
    ] = None,
    wait: Wait = True,
) -> int:
    """Have an ended task tried again, with what was wrong

    It is a task of its own: the same request, told what became of the try before. Without --onto it goes on in the
    same worktree; with it the work is merged onto HEAD, and a conflict refuses it before anything starts.
    """
    params: dict[str, Any] = {"task": task, "onto_head": onto is not None}
    if feedback is not None:
        params["feedback"] = text_or_stdin(cli, feedback)
    return _request(cli, "delegations/retry", params, is_waiting=wait, may_begin=False)


def _request(cli: Cli, method: str, params: Mapping[str, Any], *, is_waiting: bool, may_begin: bool) -> int:
    from bridge.cli.asking import connect, run_with_caller

    client = connect(cli, is_needed=not is_waiting)

    async def main(call: Caller) -> int:
        asked = await _asked(call, method, params, may_begin=may_begin)
        name = str(asked["name"] or asked["id"])
        for notice in asked["notices"]:
            cli.output.warn(notice, code="request_notice", details={"delegation_id": asked["id"]})
        if not is_waiting:
            cli.output.emit(asked, f"{name}: {asked['id']} {asked['status']}")
            return 0
        try:
            ended = await _waited(cli, call, asked)
        except BaseException:
            if client is not None:
                cli.output.warn(f"{name} goes on in the controller. To end it: bridge task cancel {asked['id']}")
            raise
        cli.output.emit(ended, _words(ended))
        return 0 if ended["status"] == "completed" else 1

    return run_with_caller(cli, client, main)


async def _asked(call: Caller, method: str, params: Mapping[str, Any], *, may_begin: bool) -> dict[str, Any]:
    """Ask for the worker; where there is no session to ask in and none was named, in a new one."""
    from bridge.rpc.resident.client import RemoteError

    try:
        return dict(await call(method, params))
    except RemoteError as error:
        if not may_begin or error.code != "session_not_found":
            raise
    session = await call("sessions/new", {"label": params.get("name") or None})
    return dict(await call(method, {**params, "session": session["id"]}))


async def _waited(cli: Cli, call: Caller, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Wait until the task has ended, and tell of its steps and of what its worker asks."""
    told: set[object] = set()
    while True:
        found = dict(await call("delegations/wait", {"task": asked["id"], "timeout_ms": WAIT_MS}))
        state = (found["status"], found.get("waiting_reason"))
        if state not in told and not found["ended"]:
            told.add(state)
            _tell(cli, found)
        if found["ended"]:
            return found
        if found["status"] == "running":
            for approval in (await call("approvals/list", {}))["approvals"]:
                if approval["delegation_id"] == asked["id"] and approval["id"] not in told:
                    told.add(approval["id"])
                    cli.output.warn(
                        f"{found['name'] or found['id']} wants to: {approval['title']}. "
                        f"Answer with bridge approve {approval['id']} or bridge deny {approval['id']}",
                        code="approval_requested",
                        details={"approval_id": approval["id"], "expires_at": approval["expires_at"]},
                    )


def _tell(cli: Cli, found: Mapping[str, Any]) -> None:
    if cli.output.json_lines:
        keys = ("id", "name", "status", "waiting_reason", "waiting_until")
        cli.output.progress({"event": "task_state", **{key: found.get(key) for key in keys}})
        return
    reason = found.get("waiting_reason")
    until = f" until {found['waiting_until']}" if found.get("waiting_until") else ""
    cli.output.status(f"{found['name'] or found['id']}: {found['status']}" + (f" ({reason}{until})" if reason else ""))


def _words(ended: Mapping[str, Any]) -> str:
    from bridge.foundation.ids import short_entry

    name, result = ended["name"] or ended["id"], ended.get("result") or {}
    lines = [f"{name}: {ended['status']}"]
    summary = result.get("summary") or (ended.get("decision") or {}).get("explanation")
    if summary:
        lines.append(f"  {summary}")
    lines += [f"  changed {path}" for path in result.get("files_changed", ())]
    lines += [f"  risk: {risk}" for risk in result.get("risks", ())]
    if ended.get("result_entry_id"):
        lines.append(f"  result {short_entry(ended['result_entry_id'])}")
    if ended.get("adoption_status") == "pending":
        lines.append(f"  its changes wait: bridge task diff {ended['id']}, bridge task adopt {ended['id']}")
    return "\n".join(lines)


def _objective(cli: Cli, words: list[str]) -> str:
    return text_or_stdin(cli, " ".join(words))


def text_or_stdin(cli: Cli, text: str) -> str:
    """Return a text, or what standard input holds in the place of ``-``."""
    if text == "-":
        data = b"" if cli.stdin is None else cli.stdin.read()
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise UsageInvalid(f"Standard input is not UTF-8 (byte {error.start}). Nothing was done.") from error
    if not text.strip():
        raise UsageInvalid("There is no text. Nothing was done.")
    return text


def _command(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageInvalid(f"--run is no command line: {error}. Nothing was started.") from error
    if not words:
        raise UsageInvalid("--run is empty. Nothing was started.")
    return words


def _schema(cli: Cli, path: str) -> dict[str, Any]:
    try:
        with (cli.directory / Path(path)).open("rb") as file:
            data = file.read(MAX_SCHEMA_BYTES + 1)
        value = json.loads(data) if len(data) <= MAX_SCHEMA_BYTES else None
    except (OSError, ValueError) as error:
        raise UsageInvalid(f"{path} cannot be used as a schema: {error}. Nothing was started.") from error
    if not isinstance(value, dict):
        raise UsageInvalid(f"{path} holds no JSON object of at most {MAX_SCHEMA_BYTES} bytes. Nothing was started.")
    return value
