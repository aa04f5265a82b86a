"""The plan file: TOML in, a checked :class:`Plan` out, or every problem at once with its line and key.

Nothing is started, written or asked of git here. What two workers may do at the same time is the policy's question.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from bridge.adapters.registry import DEFAULT_HARNESS
from bridge.agents.ownership import normalise
from bridge.agents.policy_model import WriteMode
from bridge.control.errors import InvalidPlan
from bridge.control.plans.checking import Problem, Problems, check_workers
from bridge.control.plans.outputschemas import read_output_schema
from bridge.control.plans.tomlindex import line_index
from bridge.foundation.canonical import MAX_INTEGER, MIN_INTEGER
from bridge.foundation.config import HarnessSettings
from bridge.foundation.hashing import digest_hex
from bridge.semantics.schemas import field_errors, load_schema, validator

#: The published schema of a plan.
PLAN_SCHEMA = "plan/v1"
#: Largest plan file, in bytes of UTF-8.
MAX_PLAN_BYTES = 256 * 1024
#: Problems that one error lists; the number of the others is told.
MAX_PROBLEMS = 50
#: Time limit of a worker that names none.
DEFAULT_TIMEOUT_SECONDS = 1800.0
#: What a worker is for that does not say.
DEFAULT_ROLE = "implementation"
#: What becomes of uncommitted changes when a plan does not say: nothing is started.
DEFAULT_DIRTY = "refuse"
#: How a command given as one string is run.
SHELL = ("/bin/sh", "-c")

#: What the schema's checker says in the words of JSON, in the words of a plan.
_WORDING = {
    r"does not match \S": "must not be empty",
    r"does not match ^[A-Za-z0-9_-]{1,64}$": "must be 1 to 64 letters, digits, hyphens or underscores",
    # Keys of the plan itself are gone through before; only names of variables are left to the schema.
    "is not a known field": "cannot be the name of an environment variable",
    "must be an object": "must be a table",
}
_POSITION = re.compile(r" ?\(at line (\d+), column \d+\)| ?\(at end of document\)")


@dataclass(frozen=True, slots=True)
class PlanWorker:
    """One worker of a plan, with every default filled in.

    ``command`` is always program and arguments; ``owned_paths`` are in their normal form; ``output_schema`` is the
    schema itself. ``line`` is where the worker begins in the plan file.
    """

    id: str
    role: str
    harness: str
    command: tuple[str, ...]
    objective: str
    acceptance_criteria: tuple[str, ...]
    needs: tuple[str, ...]
    evidence: tuple[str, ...]
    write: WriteMode
    owned_paths: tuple[str, ...]
    output_schema: Mapping[str, Any] | None
    timeout_seconds: float
    attempts: int
    environment: Mapping[str, str]
    line: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that can be run.

    Parameters
    ----------
    label
        Label for the orchestrator's session, if the plan names one.
    dirty
        What becomes of uncommitted changes in the checkout: ``refuse``, ``ignore`` or ``carry``.
    max_parallel
        Workers that run at once; None leaves it to the policy.
    workers
        In the order of the file; at least one.
    path
        Where it was read from.
    text
        The TOML itself.
    digest
        SHA-256 (hex) of the text.
    """

    label: str | None
    dirty: str
    max_parallel: int | None
    workers: tuple[PlanWorker, ...]
    path: Path
    text: str = field(repr=False)
    digest: str


def load_plan(
    text: str, *, path: Path, repository_root: Path, harnesses: Mapping[str, HarnessSettings] | None = None
) -> Plan:
    """Read and check a plan.

    Parameters
    ----------
    text
        The TOML.
    path
        Where it came from: named in messages, and what a relative ``output_schema`` counts from.
    repository_root
        Top of the worktree that the plan is run in; no path of the plan may lead out of it.
    harnesses
        Those of the configuration, beside the known ones.

    Raises
    ------
    InvalidPlan
        If anything is wrong. ``details["problems"]`` holds ``line``, ``key`` and ``message`` of each problem.
    """
    encoded = text.encode()
    if len(encoded) > MAX_PLAN_BYTES:
        raise _invalid(path, [Problem(1, "", f"the plan is larger than {MAX_PLAN_BYTES} bytes")])
    document = _parse(text, path)
    problems = Problems(line_index(text))
    plain = _without_foreign_values(document, (), problems)
    known = _without_unknown_keys(plain, problems)
    for error in field_errors(validator(PLAN_SCHEMA), known, limit=MAX_PROBLEMS):
        problems.add_pointer(known, error["path"], _WORDING.get(error["message"], error["message"]))
    workers = known.get("worker")
    tables = [table for table in workers if isinstance(table, dict)] if isinstance(workers, list) else []
    if isinstance(workers, list) and len(tables) == len(workers):
        check_workers(
            tables, problems, plan_folder=path.parent, repository_root=repository_root, harnesses=harnesses or {}
        )
    if problems.found:
        raise _invalid(path, problems.in_order())
    return Plan(
        label=known.get("label"),
        dirty=known.get("dirty", DEFAULT_DIRTY),
        max_parallel=known.get("max_parallel"),
        workers=tuple(
            _worker(table, problems.line(("worker", number)), path.parent, repository_root)
            for number, table in enumerate(tables)
        ),
        path=path,
        text=text,
        digest=digest_hex(encoded),
    )


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        position = _POSITION.search(message)
        line = int(position[1]) if position and position[1] else text.count("\n") + 1
        raise _invalid(path, [Problem(line, "", f"not TOML: {_POSITION.sub('', message)}")]) from error
    except RecursionError as error:
        raise _invalid(path, [Problem(1, "", "values are nested too deep")]) from error


def _without_foreign_values(value: Any, path: tuple[str | int, ...], problems: Problems) -> Any:
    """Return a value without what TOML has and JSON lacks; each such value is a problem and becomes None."""
    match value:
        case dict():
            return {key: _without_foreign_values(item, (*path, key), problems) for key, item in value.items()}
        case list():
            return [_without_foreign_values(item, (*path, number), problems) for number, item in enumerate(value)]
        case datetime() | date() | time():
            problems.add(path, "must not be a date or time; write it in quotation marks")
        case float() if not math.isfinite(value):
            problems.add(path, "must be a finite number")
        case int() if not MIN_INTEGER <= value <= MAX_INTEGER:
            problems.add(path, "must be a number of at most 64 bits")
        case _:
            return value
    return None


def _without_unknown_keys(document: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """Return the document without keys that the schema does not know; each is a problem with the closest known one."""
    schema = load_schema(PLAN_SCHEMA)
    known = problems.known_only(document, (), schema["properties"])
    workers = known.get("worker")
    if isinstance(workers, dict):
        problems.add(("worker",), "must be an array of tables: write [[worker]] instead of [worker]")
    if isinstance(workers, list):
        fields = schema["$defs"]["worker"]["properties"]
        known["worker"] = [
            problems.known_only(table, ("worker", number), fields) if isinstance(table, dict) else table
            for number, table in enumerate(workers)
        ]
    return known


def _worker(table: dict[str, Any], line: int, plan_folder: Path, repository_root: Path) -> PlanWorker:
    command = table.get("command", [])
    return PlanWorker(
        id=table["id"],
        role=table.get("role", DEFAULT_ROLE),
        harness=table.get("harness", DEFAULT_HARNESS),
        command=(*SHELL, command) if isinstance(command, str) else tuple(command),
        objective=table["objective"],
        acceptance_criteria=tuple(table.get("acceptance_criteria", ())),
        needs=tuple(table.get("needs", ())),
        evidence=tuple(table.get("evidence", ())),
        write=WriteMode(table.get("write", WriteMode.ISOLATED)),
        owned_paths=tuple(map(normalise, table.get("owned_paths", ()))),
        output_schema=read_output_schema(table.get("output_schema"), plan_folder, repository_root),
        timeout_seconds=float(table.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS)),
        attempts=table.get("attempts", 1),
        environment=dict(table.get("environment", {})),
        line=line,
    )


def _invalid(path: Path, problems: Iterable[Problem]) -> InvalidPlan:
    everything = list(problems)
    listed = everything[:MAX_PROBLEMS]
    lines = [f"{path.name}:{problem.line}: {problem.text}" for problem in listed]
    more = len(everything) - len(listed)
    if len(everything) == 1:
        message = f"{lines[0]}. Nothing was started."
    else:
        message = "\n  ".join([f"{path.name} has {len(everything)} problems, so nothing was started:", *lines])
        message += f"\n  … and {more} more" if more else ""
    return InvalidPlan(
        message, details={"path": str(path), "problems": [problem.to_json() for problem in listed], "omitted": more}
    )
