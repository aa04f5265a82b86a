"""Reading YAML that somebody else wrote: within bounds, without tags, and as much as there is of a torn file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

#: Bytes of one file, nesting, and events (scalars, beginnings and ends) that are read; more is refused.
MAX_BYTES: Final = 32 * 1024**2
MAX_DEPTH: Final = 64
MAX_EVENTS: Final = 4_000_000
#: How often a torn file is cut shorter until what is left can be read.
MAX_CUTS: Final = 50

_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FRACTION: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]{1,17}")
_BASE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unreadable(Exception):
    """Raised when a file cannot be read; the message says why."""


class _Loader(_BASE):  # type: ignore[misc,valid-type]  # which of the two base classes there is, is told at run time
    """Plain values only. What merely looks like a time, or a number in another notation, stays the text it is: an id
    such as ``20260825_190758`` would else be read as a number."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(rf"(?:{_WHOLE.pattern})$"), list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"(?:{_FRACTION.pattern})$"), list("-+0123456789"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds.

    Parameters
    ----------
    torn
        What is wrong with its end, if only the part before could be read.
    has_ended
        Whether its last line is a whole one; what stands last may else be the beginning of something longer.
    """

    value: Any
    torn: str | None = None
    has_ended: bool = True


def load_file(path: Path) -> Loaded:
    """Return what a file holds.

    Raises
    ------
    Unreadable
        If it cannot be read, is too large or too deep, has references, or is no YAML from its beginning.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    if len(data) > MAX_BYTES:
        raise Unreadable(f"it is larger than {MAX_BYTES} bytes")
    return load_text(data.decode("utf-8", "replace"))


def load_text(text: str) -> Loaded:
    """Return what a text holds; of one whose end is broken what stands before the break.

    Raises
    ------
    Unreadable
        As :func:`load_file`.
    """
    try:
        return Loaded(_load(text), has_ended=text.endswith("\n"))
    except yaml.YAMLError as error:
        first = error
    for shorter in _shorter(text, first):
        try:
            return Loaded(_load(shorter), _words(first))
        except yaml.YAMLError:
            continue
    raise Unreadable(_words(first)) from first


def _load(text: str) -> Any:
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable("it has references to other places of itself")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Unreadable(f"it is nested more than {MAX_DEPTH} deep")
        if count >= MAX_EVENTS:
            raise Unreadable(f"it has more than {MAX_EVENTS} parts")
    # The loader is a safe one: it makes nothing but plain values.
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - see the line above


def _shorter(text: str, error: yaml.YAMLError) -> Iterator[str]:
    """Yield a text without its last items, each time one item less."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    lines = text.splitlines(keepends=True)
    end = len(lines) if mark is None else min(len(lines), mark.line + 1)
    starts = [number for number in range(end - 1, 0, -1) if lines[number].lstrip().startswith("- ")]
    for number in starts[:MAX_CUTS]:
        yield "".join(lines[:number])


def _words(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f" in line {mark.line + 1}"
    return f"{getattr(error, 'problem', None) or 'it is not YAML'}{where}"
