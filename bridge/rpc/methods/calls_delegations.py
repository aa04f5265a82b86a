"""Calls that ask for delegations, wait for them, end them, and take over or give up what they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from anyio import to_thread

from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.discarding import discard
from bridge.control.delegations.adoption.model import MAX_TASKS, Method, Wish
from bridge.control.delegations.adoption.previewing import preview
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.choosing import choose_harness, request_notices
from bridge.control.delegations.delegating import Wanted, delegator_of
from bridge.control.delegations.model import Delegation, Request
from bridge.control.delegations.tasks import find_task, task_details
from bridge.rpc.methods.calls import REFERENCE, Call, OfSession, TaskParams
from bridge.rpc.methods.shapes import Names, param

#: Longest time that a call waits for a delegation, in milliseconds: a day.
MAX_WAIT_MS: Final = 24 * 60 * 60 * 1000
#: Longest text of one field of a request, in characters; more travels as evidence or in files.
MAX_TEXT: Final = 100_000
#: Items of one list of a request.
MAX_ITEMS: Final = 200
_TEXTS: Final[dict[str, Any]] = {"items": {"type": "string", "maxLength": MAX_TEXT}, "maxItems": MAX_ITEMS}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParams(OfSession):
    objective: str = param("To what end the worker works.", minLength=1, maxLength=MAX_TEXT)
    name: str = param("A short name to call it by.", default="", maxLength=64, pattern="^[A-Za-z0-9_-]*$")
    role: str = param("What the worker is for.", default="implementation", minLength=1, maxLength=64)
    harness: str = param(
        "The agent program it runs through. Default: command where there is one, else worker_harness of the "
        "configuration, else that of the session that asks.",
        default="",
        maxLength=64,
    )
    command: tuple[str, ...] = param("Program and arguments, for the harness command.", default=(), **_TEXTS)
    environment: Mapping[str, str] | None = param(
        "Variables to add to the worker's environment.",
        default=None,
        additionalProperties={"type": "string", "maxLength": MAX_TEXT},
        propertyNames={"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,199}$", "not": {"pattern": "^(BRIDGE_|GIT_)"}},
        maxProperties=MAX_ITEMS,
    )
    acceptance_criteria: tuple[str, ...] = param("How one sees that it is done.", default=(), **_TEXTS)
    evidence: tuple[str, ...] = param(
        "Results it builds on, as entry references.",
        default=(),
        names=Names.EVIDENCE,
        items={"type": "string", **REFERENCE},
        maxItems=MAX_ITEMS,
    )
    write_mode: Literal["read_only", "shared", "isolated"] = param("Where it may write.", default="isolated")
    owned_paths: tuple[str, ...] = param("Paths it may write; empty for no limit.", default=(), **_TEXTS)
    output_schema: Mapping[str, Any] | None = param("JSON Schema for the result's data.", default=None)
    timeout_seconds: int = param("Time limit of one attempt.", default=1800, minimum=1, maximum=7 * 24 * 3600)
    attempts: int = param("Tries; a further one follows an invalid result only.", default=1, minimum=1, maximum=10)
    dirty: Literal["refuse", "ignore", "carry"] = param("What becomes of uncommitted work.", default="refuse")
    network: bool | None = param(
        "True asks for the network; false has it kept from the worker, or the worker refused where the kernel cannot; "
        "null leaves it to the checkout and the policy.",
        default=None,
    )
    tokens: int = param("Tokens it may use, for the budget; 0: nobody counts.", default=0, minimum=0, maximum=10**12)


def _harness_of(call: Call, params: RequestParams) -> str:
    return choose_harness(
        call.controller,
        call.standpoint,
        session=params.session,
        named=params.harness,
        has_command=bool(params.command),
    )


async def delegations_request(call: Call, params: RequestParams) -> dict[str, Any]:
    request = Request(
        name=params.name,
        objective=params.objective,
        role=params.role,
        harness=await to_thread.run_sync(partial(_harness_of, call, params)),
        command=params.command,
        environment=params.environment or {},
        acceptance_criteria=params.acceptance_criteria,
        evidence=params.evidence,
        write_mode=params.write_mode,
        owned_paths=params.owned_paths,
        output_schema=params.output_schema,
        timeout_seconds=float(params.timeout_seconds),
        attempts_permitted=params.attempts,
        network=params.network,
        tokens=params.tokens,
    )
    wanted = Wanted(request=request, session=params.session, dirty=DirtyMode(params.dirty))
    return await asked_for(call, wanted)


async def asked_for(call: Call, wanted: Wanted) -> dict[str, Any]:
    """Ask for a delegation; return it as it is, and what of the wish cannot be kept."""
    notices = request_notices(call.controller, wanted.request)
    asked = await delegator_of(call.controller).request(call.standpoint, wanted)
    return {**asked.to_json(), "notices": list(notices)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitParams(TaskParams):
    timeout_ms: int | None = param(
        "Wait at most so long; null: until it ends.", default=None, minimum=0, maximum=MAX_WAIT_MS
    )


async def delegations_wait(call: Call, params: WaitParams) -> dict[str, Any]:
    delegation = await to_thread.run_sync(partial(_found, call, params.task))
    timeout = None if params.timeout_ms is None else params.timeout_ms / 1000
    ended = await delegator_of(call.controller).wait(delegation.id, timeout_seconds=timeout)
    details = await to_thread.run_sync(partial(task_details, call.controller, ended))
    return {**details.to_json(), "ended": ended.status.is_final}


async def delegations_cancel(call: Call, params: TaskParams) -> dict[str, Any]:
    delegation = await to_thread.run_sync(partial(_found, call, params.task))
    return (await delegator_of(call.controller).cancel(delegation)).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptParams(TaskParams):
    also: tuple[str, ...] = param(
        "Further tasks that come together with it, or not at all.",
        default=(),
        names=Names.TASK,
        items={"type": "string", **REFERENCE},
        maxItems=MAX_TASKS - 1,
    )
    method: Literal["auto", "merge", "squash", "pick"] = param("How the commits come.", default="auto")
    into: str | None = param(
        "Git branch that takes them; null: the one they were asked for on.", default=None, minLength=1, maxLength=1000
    )
    check: str | None = param(
        "Command to run in the combined files first.", default=None, minLength=1, maxLength=MAX_TEXT
    )
    message: str | None = param("Message of commits that are made.", default=None, maxLength=MAX_TEXT)
    allow_out_of_scope: bool = param("Also what was written outside the owned paths.", default=False)
    hooks: bool = param("Run the user's hooks for commits that are made.", default=True)
    sign: bool = param("Sign commits that are made where the user signs.", default=True)
    force: bool = param("Also what did not complete.", default=False)

    def wish(self) -> Wish:
        """Return what is wanted, in the words of the use case."""
        return Wish(
            method=Method(self.method),
            into=self.into,
            check=self.check,
            message=self.message,
            allows_out_of_scope=self.allow_out_of_scope,
            is_forced=self.force,
            runs_hooks=self.hooks,
            is_signed=self.sign,
        )


def delegations_adopt(call: Call, params: AdoptParams) -> dict[str, Any]:
    return adopt(call.controller, *_wanted(call, params), wish=params.wish()).to_json()


def delegations_preview(call: Call, params: AdoptParams) -> dict[str, Any]:
    return preview(call.controller, *_wanted(call, params), wish=params.wish()).to_json()


def _wanted(call: Call, params: AdoptParams) -> list[Delegation]:
    return [_found(call, task) for task in (params.task, *params.also)]


def delegations_discard(call: Call, params: TaskParams) -> dict[str, Any]:
    return discard(call.controller, _found(call, params.task)).to_json()


def _found(call: Call, task: str) -> Delegation:
    with call.controller.store.read() as connection:
        return find_task(connection, task)
