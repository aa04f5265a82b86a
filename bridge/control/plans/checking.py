"""What a schema cannot say of a plan: ids, dependencies, harnesses, places."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from bridge.adapters.registry import DEFAULT_HARNESS, harness, known_harnesses
from bridge.agents.errors import InvalidOwnedPath
from bridge.agents.ownership import normalise
from bridge.control.plans.outputschemas import read_output_schema
from bridge.control.plans.tomlindex import KeyPath, nearest_line
from bridge.foundation.config import HarnessSettings
from bridge.process.environment import KEPT_GIT_VARIABLES, STRIPPED_PREFIXES
from bridge.semantics.errors import InvalidOutputSchema


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong with a plan: its line from 1, its key (``worker[0].needs[1]``; empty for the whole), and what."""

    line: int
    key: str
    message: str

    @property
    def text(self) -> str:
        return f"{self.key}: {self.message}" if self.key else self.message

    def to_json(self) -> dict[str, Any]:
        return {"line": self.line, "key": self.key, "message": self.message}


class Problems:
    """Collects problems by place. The first one found at a place stands for it."""

    def __init__(self, lines: dict[KeyPath, int]) -> None:
        self._lines = lines
        self.found: dict[KeyPath, Problem] = {}

    def line(self, path: KeyPath) -> int:
        return nearest_line(self._lines, path)

    def add(self, path: KeyPath, message: str) -> None:
        self.found.setdefault(path, Problem(self.line(path), _key(path), message))

    def add_pointer(self, document: Any, pointer: str, message: str) -> None:
        """Add a problem whose place is a JSON pointer into the document."""
        self.add(_resolve(document, pointer), message)

    def has(self, path: KeyPath) -> bool:
        """Tell whether something is wrong at a place or inside it."""
        return any(found[: len(path)] == path for found in self.found)

    def in_order(self) -> list[Problem]:
        return sorted(self.found.values())

    def known_only(self, table: Mapping[str, Any], path: KeyPath, known: Iterable[str]) -> dict[str, Any]:
        """Return a table's known keys; each other one is a problem that names the closest known one."""
        names = list(known)
        for key in table:
            if key not in names:
                self.add((*path, key), f"is not a known key{_did_you_mean(key, names)}")
        return {key: value for key, value in table.items() if key in names}


def check_workers(
    tables: list[dict[str, Any]],
    problems: Problems,
    *,
    plan_folder: Path,
    repository_root: Path,
    harnesses: Mapping[str, HarnessSettings],
) -> None:
    """Add to ``problems`` what is wrong with the workers beyond their schema; what that faults is passed over."""
    ids: dict[str, int] = {}
    for number, worker in enumerate(tables):
        path: KeyPath = ("worker", number)
        identifier = worker.get("id")
        if isinstance(identifier, str):
            if identifier in ids:
                first = problems.line(("worker", ids[identifier]))
                problems.add((*path, "id"), f"{identifier!r} is already the id of the worker on line {first}")
            else:
                ids[identifier] = number
        _check_harness(worker, path, problems, harnesses)
        _check_command(worker, path, problems)
        _check_environment(worker, path, problems)
        _check_owned_paths(worker, path, problems, repository_root)
        _check_output_schema(worker, path, problems, plan_folder, repository_root)
    _check_needs(tables, ids, problems)


def _check_harness(
    worker: dict[str, Any], path: KeyPath, problems: Problems, configured: Mapping[str, HarnessSettings]
) -> None:
    name = worker.get("harness", DEFAULT_HARNESS)
    if not isinstance(name, str):
        return
    known = known_harnesses(configured)
    if name not in known:
        problems.add((*path, "harness"), f"there is no harness {name!r}{_did_you_mean(name, known)}")
    elif harness(name, configured).capabilities.needs_command and "command" not in worker:
        problems.add((*path, "command"), f"is missing; the harness {name!r} does nothing without one")


def _check_command(worker: dict[str, Any], path: KeyPath, problems: Problems) -> None:
    command = worker.get("command")
    if isinstance(command, list) and command and isinstance(command[0], str) and not command[0].strip():
        problems.add((*path, "command", 0), "names no program")
    for number, word in enumerate(_texts([command] if isinstance(command, str) else command)):
        if "\0" in word:
            problems.add((*path, "command", number), "holds a NUL character")


def _check_environment(worker: dict[str, Any], path: KeyPath, problems: Problems) -> None:
    environment = worker.get("environment")
    if not isinstance(environment, dict):
        return
    for name, value in environment.items():
        if name.startswith(STRIPPED_PREFIXES) and name not in KEPT_GIT_VARIABLES:
            problems.add((*path, "environment", name), "is not a plan's to set; Bridge keeps BRIDGE_* and GIT_*")
        elif isinstance(value, str) and "\0" in value:
            problems.add((*path, "environment", name), "holds a NUL character")


def _check_owned_paths(worker: dict[str, Any], path: KeyPath, problems: Problems, repository_root: Path) -> None:
    for number, owned in enumerate(_texts(worker.get("owned_paths"))):
        place = (*path, "owned_paths", number)
        try:
            target = (repository_root / normalise(owned)).resolve()
        except InvalidOwnedPath as error:
            problems.add(place, f"{owned!r} {error.details['reason']}")
            continue
        except OSError as error:  # a loop of links
            problems.add(place, f"{owned!r} cannot be followed: {error.strerror}")
            continue
        if not target.is_relative_to(repository_root.resolve()):
            problems.add(place, f"{owned!r} leads out of the repository through a link")


def _check_output_schema(
    worker: dict[str, Any], path: KeyPath, problems: Problems, plan_folder: Path, repository_root: Path
) -> None:
    place = (*path, "output_schema")
    given = worker.get("output_schema")
    if not isinstance(given, (dict, str)) or problems.has(place):
        return
    try:
        read_output_schema(given, plan_folder, repository_root)
    except InvalidOutputSchema as error:
        problems.add(place, error.details["reason"])


def _check_needs(tables: list[dict[str, Any]], ids: dict[str, int], problems: Problems) -> None:
    graph: dict[str, list[str]] = {}
    for number, worker in enumerate(tables):
        needs = _texts(worker.get("needs"))
        for position, need in enumerate(needs):
            if need not in ids:
                suggestion = _did_you_mean(need, ids)
                problems.add(("worker", number, "needs", position), f"no worker has the id {need!r}{suggestion}")
        identifier = worker.get("id")
        if isinstance(identifier, str) and ids.get(identifier) == number:
            graph[identifier] = [need for need in needs if need in ids]
    for cycle in _cycles(graph):
        problems.add(("worker", ids[cycle[0]], "needs"), f"form a cycle: {' -> '.join([*cycle, cycle[0]])}")


def _cycles(graph: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield cycles that have no worker in common, each from its first worker in the plan; none if there is no cycle."""
    order = {name: number for number, name in enumerate(graph)}
    remaining = dict(graph)
    while True:
        try:
            TopologicalSorter(remaining).prepare()
        except CycleError as error:
            # Named twice, at both ends, and from what is needed to what needs it.
            cycle: list[str] = error.args[1][:0:-1]
            first = cycle.index(min(cycle, key=order.__getitem__))
            yield cycle[first:] + cycle[:first]
            for name in cycle:
                remaining.pop(name, None)
        else:
            return


def _texts(value: Any) -> list[str]:
    """Return a list if it holds nothing but texts, else an empty one: the schema has faulted it already."""
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _key(path: KeyPath) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def _resolve(document: Any, pointer: str) -> KeyPath:
    """Return the path that a JSON pointer names; digits are an index only where there is an array."""
    path: list[str | int] = []
    here = document
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal():
            path.append(int(name))
            here = here[int(name)] if int(name) < len(here) else None
        else:
            path.append(name)
            here = here.get(name) if isinstance(here, dict) else None
    return tuple(path)
