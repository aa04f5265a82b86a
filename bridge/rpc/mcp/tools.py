"""The tools that agents get: each is one method of the table, with less to say and less to read.

What a tool takes comes from the method's own params, so that the two cannot drift apart; a tool never takes a
session, since its agent has one. What it returns is a part of the method's result, bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from bridge.rpc.methods import forms, results
from bridge.rpc.methods.shapes import schema_of
from bridge.rpc.methods.table import METHODS, Method
from bridge.semantics.schemas import foreign_validator

Schema = dict[str, Any]

#: Longest result of a tool, in bytes of JSON; an agent reads every one of them.
MAX_RESULT_BYTES: Final = 512 * 1024
#: Longest arguments of a call, in bytes of JSON.
MAX_ARGUMENT_BYTES: Final = 2 * 1024 * 1024
#: Hits of one recall, unless another number is asked for, and at most.
RECALL_HITS: Final = 10
MAX_RECALL_HITS: Final = 50
MAX_QUERY_CHARACTERS: Final = 2000
#: Paths that a divergence lists.
MAX_PATHS: Final = 100
#: Bytes of evidence in one answer, unless another number is asked for, and at most.
EVIDENCE_BYTES: Final = 32 * 1024
MAX_EVIDENCE_BYTES: Final = 256 * 1024
#: Seconds that a wait takes, unless another number is asked for, and at most. Clients give up a call after a minute.
WAIT_SECONDS: Final = 45
MAX_WAIT_SECONDS: Final = 3600
#: Characters of a result's summary that a wait tells; the result itself is read as evidence.
MAX_SUMMARY_CHARACTERS: Final = 2000

_TEXT: Final[Schema] = {"type": "string"}
_OPTIONAL: Final[Schema] = {"type": ["string", "null"]}
_COUNT: Final[Schema] = {"type": "integer"}
_FLAG: Final[Schema] = {"type": "boolean"}


def _as_given(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def _whole(result: dict[str, Any]) -> dict[str, Any]:
    return result


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    Parameters
    ----------
    name, description
        What an agent reads before it chooses; short, since every agent pays for every word.
    method
        The method of the table behind it.
    takes
        Names of the method's params that it takes as they are.
    narrower
        Keywords that replace those of the method's, by param.
    extra
        Further arguments, which ``arrange`` turns into the method's.
    arrange
        Turns arguments into params of the method.
    shape
        Turns the method's result into the tool's.
    result
        JSON Schema of that.
    is_waiting
        Whether it waits for something, with progress.
    """

    name: str
    description: str
    method: str
    takes: tuple[str, ...] = ()
    narrower: Mapping[str, Schema] = field(default_factory=dict)
    extra: Mapping[str, Schema] = field(default_factory=dict)
    arrange: Callable[[dict[str, Any]], dict[str, Any]] = _as_given
    shape: Callable[[dict[str, Any]], dict[str, Any]] = _whole
    result: Schema = field(default_factory=dict)
    is_waiting: bool = False

    @property
    def behind(self) -> Method:
        """The method of the table behind it."""
        return METHODS[self.method]

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing."""
        return self.name not in _CHANGING

    def input_schema(self) -> Schema:
        """Return the JSON Schema of its arguments."""
        whole = schema_of(self.behind.params)
        properties = {name: {**whole["properties"][name], **self.narrower.get(name, {})} for name in self.takes}
        required = [name for name in self.takes if name in whole["required"]]
        return {
            "type": "object",
            "properties": {**properties, **self.extra},
            "required": required,
            "additionalProperties": False,
        }


def _divergence(result: dict[str, Any]) -> dict[str, Any]:
    paths = result["paths"][:MAX_PATHS]
    omitted = result["paths_omitted"] + len(result["paths"]) - len(paths)
    return {
        "divergence": result["divergence"],
        "reason": result["reason"],
        "entry_id": result["entry_id"],
        "text": result["agent_text"],
        "paths": paths,
        "paths_omitted": omitted,
    }


def _request(arguments: dict[str, Any]) -> dict[str, Any]:
    budget = arguments.pop("budget", {})
    names = {"seconds": "timeout_seconds", "attempts": "attempts", "tokens": "tokens"}
    return {**arguments, **{names[name]: value for name, value in budget.items()}}


def _delegation(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("id", "name", "status", "role", "harness")}


def _asked(result: dict[str, Any]) -> dict[str, Any]:
    return {**_delegation(result), "notices": result["notices"]}


def _wait(arguments: dict[str, Any]) -> dict[str, Any]:
    seconds = arguments.pop("seconds", WAIT_SECONDS)
    return {**arguments, "timeout_ms": seconds * 1000}


def _waited(result: dict[str, Any]) -> dict[str, Any]:
    ended = result["result"] or {}
    decision = result["decision"] or {}
    return {
        **_delegation(result),
        "ended": result["ended"],
        "reference": result["result_entry_id"],
        "summary": str(ended.get("summary") or decision.get("explanation") or "")[:MAX_SUMMARY_CHARACTERS],
        "files_changed": len(ended.get("files_changed", ())),
        "failure_class": ended.get("failure_class"),
    }


def _notes(arguments: dict[str, Any]) -> dict[str, Any]:
    of = arguments.pop("session_id", None)
    return {**arguments, "of": of}


_DELEGATION: Final = {"id": _TEXT, "name": _OPTIONAL, "status": _TEXT, "role": _TEXT, "harness": _TEXT}

_TABLE: Final = (
    Tool(
        "wake",
        "Begin here: what the session before left, what changed since, what still runs.",
        "sessions/wake",
        result=results.WOKEN,
    ),
    Tool(
        "note",
        "Leave a note that outlives this conversation.",
        "notes/add",
        takes=("text", "recipient", "type"),
        result=results.NOTE,
    ),
    Tool(
        "read_notes",
        "Read the notes of this conversation, or of the one it continues.",
        "notes/read",
        takes=("include_previous", "limit"),
        extra={
            "session_id": {
                "type": ["string", "null"],
                "minLength": 1,
                "maxLength": 200,
                "description": "previous, or the id of one that it continues. Default: its own.",
            }
        },
        arrange=_notes,
        result=results.NOTES,
    ),
    Tool(
        "divergence",
        "Compare the files now with the last entry of this conversation.",
        "divergence/report",
        takes=("moment",),
        shape=_divergence,
        result=forms.record(
            "How the files are to the conversation; text says it in words.",
            divergence={"type": "string", "enum": ["aligned", "diverged", "unknown"]},
            reason=_OPTIONAL,
            entry_id=_TEXT,
            text=_TEXT,
            paths=forms.listing({"type": "object"}),
            paths_omitted=_COUNT,
        ),
    ),
    Tool(
        "recall",
        "Find again what was said in this conversation, also on other branches of it.",
        "sessions/search_session_entries",
        takes=("query", "limit", "offset"),
        narrower={
            "query": {"maxLength": MAX_QUERY_CHARACTERS},
            "limit": {"default": RECALL_HITS, "maximum": MAX_RECALL_HITS},
        },
        arrange=lambda arguments: {"limit": RECALL_HITS, **arguments},
        result=results.RECALLED,
    ),
    Tool(
        "read_evidence",
        "Read a worker's result exactly as stored, a page at a time.",
        "references/read",
        takes=("reference", "offset", "limit", "encoding"),
        narrower={"limit": {"default": EVIDENCE_BYTES, "maximum": MAX_EVIDENCE_BYTES}},
        arrange=lambda arguments: {"limit": EVIDENCE_BYTES, **arguments},
        result=results.EVIDENCE_PAGE,
    ),
    Tool(
        "delegate",
        "Ask for a worker; it works in a worktree of its own. Then wait_delegation.",
        "delegations/request",
        takes=(
            "objective",
            "name",
            "role",
            "acceptance_criteria",
            "evidence",
            "owned_paths",
            "write_mode",
            "output_schema",
            "harness",
            "command",
            "network",
            "dirty",
        ),
        extra={
            "budget": {
                "type": "object",
                "description": "What it may use.",
                "properties": {
                    "seconds": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 7 * 24 * 3600,
                        "description": "Of one attempt.",
                    },
                    "attempts": {"type": "integer", "minimum": 1, "maximum": 10},
                    "tokens": {"type": "integer", "minimum": 1, "maximum": 10**12},
                },
                "additionalProperties": False,
            }
        },
        arrange=_request,
        shape=_asked,
        result=forms.record(
            "The delegation as it was asked for, and what of it cannot be kept.",
            **_DELEGATION,
            notices=forms.listing(_TEXT),
        ),
    ),
    Tool(
        "wait_delegation",
        "Wait until a worker has ended. The reference then names its result: cite it, or read_evidence.",
        "delegations/wait",
        takes=("task",),
        extra={
            "seconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": MAX_WAIT_SECONDS,
                "default": WAIT_SECONDS,
                "description": "Wait at most so long.",
            }
        },
        arrange=_wait,
        shape=_waited,
        result=forms.record(
            "How it stands; reference is null until there is a result.",
            **_DELEGATION,
            ended=_FLAG,
            reference=_OPTIONAL,
            summary=_TEXT,
            files_changed=_COUNT,
            failure_class=_OPTIONAL,
        ),
        is_waiting=True,
    ),
    Tool(
        "submit_result",
        "Workers: hand in the result and end. Where errors come back, mend them and call again.",
        "delegations/submit",
        takes=("result",),
        narrower={
            "result": {
                "description": (
                    "status (completed, failed, cancelled, blocked, needs_delegation) and summary; also files_changed, "
                    "tests, decisions, risks, remaining_work, and data in the form that the task asks for."
                )
            }
        },
        result=results.HANDED,
    ),
)

#: Tools that change something.
_CHANGING: Final = frozenset({"delegate", "submit_result", "note", "wake"})

#: Every tool by name.
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TABLE}


@cache
def input_validator(name: str) -> Any:
    """Return what checks a tool's arguments."""
    from bridge.foundation.canonical import canonical_bytes

    return foreign_validator(canonical_bytes(TOOLS[name].input_schema()))
