"""What the scripted agent can be told to do: the steps of a script file, and directives in a prompt."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.adapters.errors import ScriptInvalid

#: Begins a line of a prompt that is a directive.
DIRECTIVE_MARK: Final = "!"
#: Bytes of a script file.
MAX_SCRIPT_BYTES: Final = 4 * 2**20

#: Every step with the type of its value.
STEPS: Final[Mapping[str, tuple[type, ...]]] = {
    "say": (str,),
    "echo": (bool, str),
    "think": (str,),
    "read": (str,),
    "write": (dict,),
    "edit": (dict,),
    "run": (list, str),
    "ask": (str,),
    "plan": (list,),
    "usage": (dict,),
    "context": (bool,),
    "checkpoint": (bool, dict),
    "result": (dict,),
    "update": (dict,),
    "sleep": (int, float),
    "stall": (bool,),
    "stubborn": (bool,),
    "leave": (int, float),
    "stop": (str,),
    "fail": (str,),
    "limit": (int, float),
    "crash": (int, str),
    "rubbish": (str,),
    "huge": (int,),
}
#: Options beside the step itself.
_OPTIONS: Final = frozenset({"via", "pieces", "title", "kind", "path"})
_OPTION_WORDS: Final = ", ".join(sorted(_OPTIONS))


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: its name, its value, and its options."""

    name: str
    value: Any
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What to do at one prompt.

    Parameters
    ----------
    match
        Text that the prompt must hold; empty fits every prompt.
    repeat
        Whether it is played again and again, or once.
    """

    steps: tuple[Step, ...]
    match: str = ""
    repeat: bool = False


def read_script(path: Path) -> tuple[Turn, ...]:
    """Return the turns of a script file, TOML or JSON by its ending.

    Raises
    ------
    ScriptInvalid
        If it cannot be read, or holds something else.
    """
    try:
        data = path.read_bytes()
        if len(data) > MAX_SCRIPT_BYTES:
            raise ScriptInvalid(f"{path}: more than {MAX_SCRIPT_BYTES} bytes.")
        loaded = json.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode())
    except (OSError, ValueError) as error:
        raise ScriptInvalid(f"{path}: {error}.") from error
    turns = loaded.get("turn") if isinstance(loaded, dict) else None
    if not isinstance(turns, list):
        raise ScriptInvalid(f"{path}: expected a list of tables named turn.")
    return tuple(_turn(item, f"{path}: turn {number}") for number, item in enumerate(turns, 1))


def directives(prompt: str) -> tuple[Step, ...]:
    """Return the steps that a prompt names, one a line that begins with ``!``; empty if it names none.

    A line that begins with the mark and names no step is text like any other.
    """
    found = []
    for line in prompt.splitlines():
        word, _, rest = line.strip().removeprefix(DIRECTIVE_MARK).partition(" ")
        make = _DIRECTIVES.get(word)
        if line.strip().startswith(DIRECTIVE_MARK) and make is not None:
            found.append(_step({word: make(rest.strip())}, f"directive {line.strip()[:80]!r}"))
    return tuple(found)


def _turn(item: Any, where: str) -> Turn:
    if not isinstance(item, dict) or not isinstance(item.get("step", []), list):
        raise ScriptInvalid(f"{where}: expected a table with a list of steps.")
    unknown = set(item) - {"match", "repeat", "step"}
    if unknown:
        raise ScriptInvalid(f"{where}: unknown key {sorted(unknown)[0]!r}.")
    steps = tuple(_step(step, f"{where}, step {number}") for number, step in enumerate(item.get("step", []), 1))
    return Turn(steps, match=str(item.get("match", "")), repeat=item.get("repeat") is True)


def _step(item: Any, where: str) -> Step:
    names = [name for name in item if name in STEPS] if isinstance(item, dict) else []
    if len(names) != 1 or set(item) - {names[0]} - _OPTIONS:
        raise ScriptInvalid(f"{where}: one of {', '.join(STEPS)} is needed, with nothing else but {_OPTION_WORDS}.")
    name = names[0]
    if not isinstance(item[name], STEPS[name]):
        raise ScriptInvalid(f"{where}: {name} takes {' or '.join(kind.__name__ for kind in STEPS[name])}.")
    required = {"write": ("path", "text"), "edit": ("path", "old", "new")}.get(name, ())
    if any(not isinstance(item[name].get(key), str) for key in required):
        raise ScriptInvalid(f"{where}: {name} needs {', '.join(required)}.")
    return Step(name, item[name], {key: item[key] for key in item if key in _OPTIONS})


def _written(rest: str) -> dict[str, str]:
    path, _, text = rest.partition(" ")
    return {"path": path, "text": text.replace("\\n", "\n") + "\n"}


def _edited(rest: str) -> dict[str, str]:
    path, _, change = rest.partition(" ")
    old, _, new = change.partition(" => ")
    return {"path": path, "old": old, "new": new}


def _number(rest: str) -> float:
    try:
        return float(rest or 0)
    except ValueError as error:
        raise ScriptInvalid(f"{rest[:80]!r} is no number.") from error


def _object(rest: str) -> dict[str, Any]:
    try:
        value = json.loads(rest or "{}")
    except ValueError as error:
        raise ScriptInvalid(f"no JSON: {error}.") from error
    return value if isinstance(value, dict) else {"value": value}


def _usage(rest: str) -> dict[str, int]:
    words = rest.split()
    return {"input": int(_number(words[0] if words else "10")), "output": int(_number(words[1] if words[1:] else "5"))}


_DIRECTIVES: Final[Mapping[str, Callable[[str], Any]]] = {
    "say": lambda rest: rest,
    "echo": lambda rest: rest or True,
    "think": lambda rest: rest,
    "read": lambda rest: rest,
    "write": _written,
    "edit": _edited,
    "run": shlex.split,
    "ask": lambda rest: rest or "do it",
    "plan": lambda rest: [part.strip() for part in rest.split(";") if part.strip()],
    "usage": _usage,
    "context": lambda _: True,
    "checkpoint": lambda _: True,
    "result": _object,
    "sleep": _number,
    "stall": lambda _: True,
    "stubborn": lambda _: True,
    "leave": _number,
    "stop": lambda rest: rest or "end_turn",
    "fail": lambda rest: rest or "told to fail",
    "limit": _number,
    "crash": lambda rest: int(_number(rest)) if rest else 1,
    "rubbish": lambda rest: rest or "this is no message",
    "huge": lambda rest: int(_number(rest)),
}
