"""From a call's params to a use case of ``control`` and back to JSON: one short function per method.

The params models stand beside the functions that take them. All of it blocks and runs in worker threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from bridge.control.checks.proving import prove_entry
from bridge.control.checks.verification import PARTS, read_root, verify
from bridge.control.comparing import status_of
from bridge.control.contexts.building import MAX_BUDGET_TOKENS, MIN_BUDGET_TOKENS, build_context
from bridge.control.controller import Controller
from bridge.control.delegations.results import resolve_result
from bridge.control.delegations.tasks import find_task, list_tasks, session_of, task_details
from bridge.control.feed import Interest
from bridge.control.reading.sessions import entry_of, read_log, session_details, session_page
from bridge.control.reading.trees import read_tree_page
from bridge.control.reading.views import session_view
from bridge.control.search.recalling import DEFAULT_LIMIT, MAX_LIMIT, recall
from bridge.control.sessions import (
    AppendRequest,
    SessionRequest,
    append_entry,
    go_to,
    remove_label,
    set_label,
    start_session,
)
from bridge.control.standpoint import Standpoint
from bridge.conversations.facets import Facet
from bridge.rpc.errors import InvalidParams
from bridge.rpc.methods.shapes import Names, param
from bridge.rpc.roles import READERS, Caller
from bridge.workspaces.wording import PROMPT_LIMIT, START_LIMIT, agent_text

#: Things on one page, unless another number is asked for, and at most.
PAGE: Final = 100
MAX_PAGE: Final = 1000
#: Characters of ROOT/SIZE: 64 digits, a slash, a number of at most 18.
MAX_LOG_ROOT: Final = 83
#: Longest reference that is taken, in characters; what it means is for the use cases to say.
REFERENCE: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 200}
#: Lengths of an agent's text by the moment it is told at.
_TEXT_LIMITS: Final = {"start": START_LIMIT, "prompt": PROMPT_LIMIT}
SESSION_HELP: Final = "Session: id, unique tail, label, or @ for the current one. Default: @."


class Peer(Protocol):
    """The connection that a call came over, for what concerns other calls and for what outlives this one."""

    def cancel(self, identity: Any) -> str:
        """Give up the calls of an id; return what became of them: ``unknown``, ``cancelled`` or ``finishing``."""

    def subscribe(self, interest: Interest, place: tuple[int, str]) -> str:
        """Begin to send events, once the call under way is answered; return the subscription's id."""

    def unsubscribe(self, subscription: str) -> str | None:
        """End a subscription; return the cursor to go on from, None if there is no such subscription."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a function gets beside its params; ``peer`` is None where nothing can be sent later."""

    controller: Controller
    standpoint: Standpoint
    caller: Caller
    peer: Peer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSession:
    """Params of methods about one session."""

    session: str | None = param(SESSION_HELP, default=None, names=Names.SESSION, **REFERENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSessionParams:
    label: str | None = param("A name for people.", default=None, maxLength=200)
    harness: str | None = param("The agent program; only shown.", default=None, maxLength=200)
    parent: str | None = param("The session that this one continues.", default=None, **REFERENCE)
    workspace: str | None = param("Workspace, as id or as a path in it.", default=None, maxLength=4096)
    without_workspace: bool = param("Whether it has none, also in a repository.", default=False)


def sessions_new(call: Call, params: NewSessionParams) -> dict[str, Any]:
    request = SessionRequest(
        label=params.label,
        harness=params.harness,
        parent=params.parent,
        workspace=params.workspace,
        without_workspace=params.without_workspace,
    )
    return session_view(start_session(call.controller, call.standpoint, request).session)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkParams:
    entry: str = param("The entry to go on from.", **REFERENCE)
    label: str | None = param("A name for people.", default=None, maxLength=200)
    harness: str | None = param("The agent program; only shown.", default=None, maxLength=200)


def sessions_fork(call: Call, params: ForkParams) -> dict[str, Any]:
    request = SessionRequest(label=params.label, harness=params.harness, from_entry=params.entry)
    return session_view(start_session(call.controller, call.standpoint, request).session)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSessionsParams:
    everywhere: bool = param("Of all workspaces and of none.", default=False)
    kinds: tuple[str, ...] = param(
        "Only these kinds; empty means all.",
        default=("chat",),
        items={"type": "string", "enum": ["chat", "worker", "hidden"]},
        maxItems=3,
    )
    limit: int = param("At most so many.", default=PAGE, minimum=1, maximum=MAX_PAGE)
    page: str | None = param(
        "What the page before gave as next.", default=None, maxLength=120, pattern="^[^ ]{1,40} [^ ]{1,70}$"
    )


def sessions_list(call: Call, params: ListSessionsParams) -> dict[str, Any]:
    updated_at, _, session_id = (params.page or "").partition(" ")
    found = session_page(
        call.controller,
        call.standpoint,
        everywhere=params.everywhere,
        kinds=params.kinds,
        limit=params.limit,
        before=None if params.page is None else (updated_at, session_id),
    )
    last = found.sessions[-1] if found.has_more else None
    return {
        "sessions": [session_view(one) for one in found.sessions],
        "hasMore": found.has_more,
        "next": None if last is None else f"{last.updated_at} {last.id}",
    }


def sessions_show(call: Call, params: OfSession) -> dict[str, Any]:
    return session_details(call.controller, call.standpoint, params.session).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendParams:
    session: str = param("Session: id, unique tail, label, or @ for the current one.", **REFERENCE)
    kind: str = param("Kind of the entry.", minLength=1, maxLength=200)
    payload: Mapping[str, Any] | None = param("The payload; this or text.", default=None)
    text: str | None = param("Text of the kind's main field; this or payload.", default=None)
    parent: str | None = param("Entry to append under. Default: the head.", default=None, **REFERENCE)
    cursor: str | None = param("Owner of the cursor to append at, instead of parent.", default=None, **REFERENCE)
    expected_head: str | None = param("Only if this is the head.", default=None, **REFERENCE)
    hidden: bool = param("Whether it is kept from restored context.", default=False)
    external_id: str | None = param("Its id in the source it comes from.", default=None, minLength=1, maxLength=1000)
    external_source: str = param("That source.", default="", maxLength=200)


def sessions_append(call: Call, params: AppendParams) -> dict[str, Any]:
    exactly_one(params, "payload", "text")
    if params.parent is not None and params.cursor is not None:
        raise _excluding("parent", "cursor")
    request = AppendRequest(
        kind=params.kind,
        payload=params.payload,
        text=params.text,
        parent=params.parent,
        cursor=params.cursor,
        expected_head=params.expected_head,
        is_hidden=params.hidden,
        external_id=params.external_id,
        external_source=params.external_source,
    )
    appended = append_entry(call.controller, call.standpoint, params.session, request)
    details = entry_of(call.controller, appended.entry.id)
    return {**details.to_json(), "active_entry_id": appended.head_entry_id, "recorded": appended.is_new}


@dataclass(frozen=True, slots=True, kw_only=True)
class GotoParams:
    session: str = param("Session: id, unique tail, label, or @ for the current one.", **REFERENCE)
    entry: str = param("The entry that becomes its head.", **REFERENCE)
    expected_head: str | None = param("Only if this is the head.", default=None, **REFERENCE)


def sessions_goto(call: Call, params: GotoParams) -> dict[str, Any]:
    move = go_to(call.controller, call.standpoint, params.session, params.entry, expected_head=params.expected_head)
    return move.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelParams:
    entry: str = param("The entry that is named.", **REFERENCE)
    name: str = param("Its name.", minLength=1, maxLength=200)
    remove: bool = param("Whether to take the name from it instead.", default=False)


def sessions_label(call: Call, params: LabelParams) -> dict[str, Any]:
    change = remove_label if params.remove else set_label
    done = change(call.controller, call.standpoint, params.entry, params.name)
    return {
        "session_id": done.session_id,
        "entry_id": done.entry_id,
        "label": done.name,
        "previous_entry_id": done.previous_entry_id,
        "removed": done.is_removed,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParams(OfSession):
    limit: int = param(
        "At most so many: the last ones, or with after the first ones.", default=PAGE, minimum=1, maximum=MAX_PAGE
    )
    all_branches: bool = param("Every branch in the order of sequence, not the active path.", default=False)
    before: str | None = param(
        "Only what lies before this entry: the first one of the page behind.",
        default=None,
        names=Names.ENTRY,
        **REFERENCE,
    )
    after: str | None = param("Only what lies behind this entry.", default=None, names=Names.ENTRY, **REFERENCE)
    facets: tuple[str, ...] = param(
        "Only entries of these facets; empty means all.",
        default=(),
        items={"type": "string", "enum": [str(facet) for facet in Facet]},
        maxItems=len(Facet),
    )
    problems: bool = param("Only entries that tell of a problem.", default=False)
    turn: str | None = param(
        "Only entries of the turn that this entry belongs to.", default=None, names=Names.ENTRY, **REFERENCE
    )


def sessions_log(call: Call, params: LogParams) -> dict[str, Any]:
    found = read_log(
        call.controller,
        call.standpoint,
        params.session,
        limit=params.limit,
        all_branches=params.all_branches,
        before=params.before,
        after=params.after,
        facets=[Facet(one) for one in params.facets],
        problems_only=params.problems,
        turn=params.turn,
    )
    head = found.session.active_entry_id
    return {
        "session_id": found.session.id,
        "active_entry_id": head,
        "entries": found.to_json(),
        "hasMore": found.has_more,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeParams(OfSession):
    limit: int = param("At most so many.", default=MAX_PAGE, minimum=1, maximum=MAX_PAGE)
    after: str | None = param(
        "Only what was recorded after this entry: the last one of the page before.", default=None, **REFERENCE
    )


def sessions_tree(call: Call, params: TreeParams) -> dict[str, Any]:
    found = read_tree_page(call.controller, call.standpoint, params.session, after=params.after, limit=params.limit)
    head = found.session.active_entry_id
    return {
        "session_id": found.session.id,
        "active_entry_id": head,
        "nodes": found.to_json(),
        "hasMore": found.has_more,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParams(OfSession):
    budget: int | None = param(
        "At most so many tokens by Bridge's estimate; the newest that fits.",
        default=None,
        minimum=MIN_BUDGET_TOKENS,
        maximum=MAX_BUDGET_TOKENS,
    )
    cold_start: bool = param("Whether a checkpoint stands for what lies before it.", default=True)
    with_files: bool = param("Whether to look if the files have moved on.", default=True)


def sessions_context(call: Call, params: ContextParams) -> dict[str, Any]:
    found = build_context(
        call.controller,
        call.standpoint,
        params.session,
        budget=params.budget,
        cold_start=params.cold_start,
        with_files=params.with_files,
    )
    return {**found.to_json(), "text": found.text()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParams(OfSession):
    query: str = param("Words to look for; nothing in it is an operator.", maxLength=100_000)
    limit: int = param("At most so many.", default=DEFAULT_LIMIT, minimum=1, maximum=MAX_LIMIT)
    offset: int = param("Leave out so many of the best.", default=0, minimum=0, maximum=2**53)
    deep: bool = param(
        "Also look into the sessions of workers whose results lie on the active path.", default=False, roles=READERS
    )


def search_session_entries(call: Call, params: SearchParams) -> dict[str, Any]:
    return recall(
        call.controller,
        call.standpoint,
        params.session,
        params.query,
        limit=params.limit,
        offset=params.offset,
        deep=params.deep,
    ).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDelegationsParams:
    session: str | None = param(
        "Only those on the active branch of one session.", default=None, names=Names.SESSION, **REFERENCE
    )
    plan: str | None = param("Only those of one plan, by its id.", default=None, **REFERENCE)
    open: bool = param("Only those that have not ended.", default=False)
    limit: int = param("At most so many, the newest.", default=PAGE, minimum=1, maximum=MAX_PAGE)
    before: str | None = param(
        "Only those asked for before this one: the first one of the page behind.",
        default=None,
        names=Names.TASK,
        **REFERENCE,
    )


def delegations_list(call: Call, params: ListDelegationsParams) -> dict[str, Any]:
    session_id = None if params.session is None else session_of(call.controller, call.standpoint, params.session)
    found = list_tasks(
        call.controller,
        plan_id=params.plan,
        session_id=session_id,
        open_only=params.open,
        before=params.before,
        limit=params.limit + 1,
    )
    newest = found[-params.limit :]
    return {"delegations": [task.to_json() for task in newest], "hasMore": len(found) > len(newest)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskParams:
    task: str = param(
        "Name (the newest of that name), PLAN/NAME, or id or its beginning.", names=Names.TASK, **REFERENCE
    )


def delegations_show(call: Call, params: TaskParams) -> dict[str, Any]:
    with call.controller.store.read() as connection:
        delegation = find_task(connection, params.task)
    return task_details(call.controller, delegation).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceParams:
    reference: str = param("Evidence reference: an entry, or a task's name or id.", names=Names.EVIDENCE, **REFERENCE)
    session: str | None = param(
        "The session that cites it. Default: the current one if named, else the result's own.",
        default=None,
        names=Names.SESSION,
        **REFERENCE,
    )


def references_resolve(call: Call, params: ReferenceParams) -> dict[str, Any]:
    return resolve_result(call.controller, call.standpoint, params.reference, session=params.session).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceParams(OfSession):
    moment: Literal["start", "prompt"] = param(
        "Which length agent_text has: at the start of a session, or at a prompt.", default="start"
    )


def divergence_report(call: Call, params: DivergenceParams) -> dict[str, Any]:
    found = status_of(call.controller, call.standpoint, params.session)
    limit = _TEXT_LIMITS[params.moment]
    return {**found.to_json(), "agent_text": agent_text(found.report, limit)}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyParams:
    session: str | None = param("Session: id, unique tail, label, or @. Default: all.", default=None, **REFERENCE)
    only: tuple[str, ...] = param(
        "Only these parts; empty means all, of one session those that are about it.",
        default=(),
        items={"type": "string", "enum": list(PARTS)},
        maxItems=len(PARTS),
    )
    since: str | None = param(
        "An earlier log as ROOT/SIZE, which the log of now has to extend.", default=None, maxLength=MAX_LOG_ROOT
    )


def integrity_verify(call: Call, params: VerifyParams) -> dict[str, Any]:
    found = verify(call.controller, call.standpoint, params.session, only=params.only, since=params.since)
    return found.to_json()


def integrity_root(call: Call, params: OfSession) -> dict[str, Any]:
    return read_root(call.controller, call.standpoint, params.session).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofParams:
    entry: str = param("Entry: id, short reference, or label.", names=Names.ENTRY, **REFERENCE)


def integrity_proof(call: Call, params: ProofParams) -> dict[str, Any]:
    return dict(prove_entry(call.controller, call.standpoint, params.entry).value)


def exactly_one(params: object, *names: str) -> None:
    """Refuse params of which not exactly one of some is given.

    Raises
    ------
    InvalidParams
        If none or several are.
    """
    if sum(getattr(params, name) is not None for name in names) != 1:
        fields = [{"path": f"/{name}", "message": f"give one of: {', '.join(names)}"} for name in names]
        raise InvalidParams(f"Give one of {' and '.join(names)}. Nothing was called.", details={"fields": fields})


def _excluding(*names: str) -> InvalidParams:
    fields = [{"path": f"/{name}", "message": "excludes the others"} for name in names]
    return InvalidParams(f"{' and '.join(names)} exclude each other. Nothing was called.", details={"fields": fields})
