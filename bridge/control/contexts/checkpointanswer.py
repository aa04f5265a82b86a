"""Reading what an agent answers to the request for a checkpoint, however it wraps it. Pure.

Agents put fences around JSON, say something before it, repeat themselves, and write back what they were told. None of
that is an error: the object that fits is taken, the rest is left. What it must hold is in
``schema/checkpoint/v1-answer.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.semantics.schemas import FieldError, field_errors, validator

ANSWER_SCHEMA: Final = "checkpoint/v1-answer"
FIELDS: Final = ("summary", "decisions", "files_touched", "open_work")
#: Longest answer that is read, in characters.
MAX_ANSWER_CHARACTERS: Final = 400_000
#: Braces at which an object is looked for.
MAX_OBJECTS_TRIED: Final = 200
#: Other spellings of the fields that agents use.
_SPELLINGS: Final = {"filesTouched": "files_touched", "openWork": "open_work"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of reading an answer.

    Parameters
    ----------
    value
        The four fields, blanks trimmed and repetitions dropped; None if the answer is no checkpoint.
    fields
        What is wrong, as JSON pointers into the best object that was found; empty if nothing is.
    ignored
        Names of further fields that it held; they are not the agent's to say.
    """

    value: dict[str, Any] | None
    fields: tuple[FieldError, ...] = ()
    ignored: tuple[str, ...] = ()


def read_answer(raw: str) -> Answer:
    """Read an agent's answer: the first JSON object in it that keeps the contract, else what is wrong with the best."""
    if len(raw) > MAX_ANSWER_CHARACTERS:
        return Answer(None, (_whole(f"is longer than {MAX_ANSWER_CHARACTERS} characters"),))
    best: Answer | None = None
    known = -1
    for found in _objects(raw):
        answer = _judge(found)
        if answer.value is not None:
            return answer
        held = sum(name in found or _old(name) in found for name in FIELDS)
        if held > known:
            best, known = answer, held
    return best or Answer(None, (_whole("holds no JSON object"),))


def _objects(raw: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of a text, in order."""
    decoder = json.JSONDecoder()
    at = raw.find("{")
    for _ in range(MAX_OBJECTS_TRIED):
        if at < 0:
            return
        try:
            _, end = decoder.raw_decode(raw, at)
            found = parse_json(raw[at:end])
        except (ValueError, RecursionError, NotCanonical):
            at = raw.find("{", at + 1)
            continue
        if isinstance(found, dict):
            yield _unwrapped(found)
        at = raw.find("{", end)


def _unwrapped(found: dict[str, Any]) -> dict[str, Any]:
    """Return the object inside ``{"checkpoint": {…}}``, or the object itself."""
    inner = next(iter(found.values())) if len(found) == 1 else None
    return inner if isinstance(inner, dict) else found


def _judge(found: dict[str, Any]) -> Answer:
    named = {_SPELLINGS.get(name, name): value for name, value in found.items()}
    value: dict[str, Any] = {name: _tidy(named[name]) for name in FIELDS if name in named}
    errors = field_errors(validator(ANSWER_SCHEMA), json.loads(json.dumps(value)))
    if errors:
        return Answer(None, tuple(errors))
    return Answer(value, ignored=tuple(sorted(name[:100] for name in named if name not in FIELDS)))


def _tidy(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(dict.fromkeys(item.strip() for item in value if item.strip()))
    return value


def _old(name: str) -> str:
    return next((old for old, new in _SPELLINGS.items() if new == name), name)


def _whole(message: str) -> FieldError:
    return {"path": "", "message": message}
