"""Every error class of every package: complete, and told apart by code and by exit status."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections import Counter

import pytest

import bridge
from bridge.foundation.errors import (
    FIRST_EXIT_STATUS,
    LAST_EXIT_STATUS,
    BridgeError,
    InvalidId,
    NotCanonical,
    error_classes,
)

#: The ranges that the docstring of bridge.foundation.errors hands out.
RANGES = {
    "foundation": range(3, 10),
    "semantics": range(10, 16),
    "storage": [*range(16, 26), *range(82, 86)],
    "git": range(26, 41),
    "process": range(41, 46),
    "conversations": range(46, 66),
    "workspaces": range(66, 76),
    "agents": range(76, 82),
    "control": range(86, 110),
    "adapters": range(110, 115),
    "rpc": range(115, 118),
    "cli": range(118, 122),
    "integrity": range(122, 124),
}
OTHERS = range(124, 126)


def all_error_classes() -> list[type[BridgeError]]:
    for module in pkgutil.walk_packages(bridge.__path__, "bridge."):
        if module.name.rpartition(".")[2] == "errors":
            importlib.import_module(module.name)
    return [cls for cls in error_classes() if cls.__module__.startswith("bridge.")]


def test_the_classes_are_found() -> None:
    found = all_error_classes()
    assert {NotCanonical, InvalidId} <= set(found)
    assert [cls.exit_status for cls in found] == sorted(cls.exit_status for cls in found)


def test_no_code_and_no_exit_status_is_used_twice() -> None:
    found = all_error_classes()
    for attribute in ("code", "exit_status"):
        counted = Counter(getattr(cls, attribute) for cls in found)
        assert [value for value, times in counted.items() if times > 1] == []


#: What every command line tool has: a usage error, and the end by Ctrl-C (128 + SIGINT).
CONVENTIONAL = {"usage": 2, "interrupted": 130}


def test_every_exit_status_lies_in_the_range_of_its_package() -> None:
    for cls in all_error_classes():
        if cls.code in CONVENTIONAL:
            assert cls.exit_status == CONVENTIONAL[cls.code]
            continue
        assert FIRST_EXIT_STATUS <= cls.exit_status <= LAST_EXIT_STATUS
        assert cls.exit_status in RANGES.get(cls.__module__.split(".")[1], OTHERS), cls


def test_every_class_lives_in_an_errors_module_and_explains_itself() -> None:
    for cls in all_error_classes():
        assert cls.__module__.endswith(".errors"), cls
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", cls.code), cls
        assert cls.summary.endswith("."), cls
        assert cls.__doc__, cls


def test_an_error_is_json_ready() -> None:
    error = NotCanonical("It has no form.", details={"key": "a"})

    assert json.loads(json.dumps(error.to_json())) == {
        "error": {
            "code": "not_canonical",
            "message": "It has no form.",
            "hint": NotCanonical.default_hint,
            "details": {"key": "a"},
        }
    }
    assert str(error) == "It has no form."


@pytest.mark.parametrize("hint", ["", "Do this."])
def test_a_given_hint_replaces_the_default(hint: str) -> None:
    assert NotCanonical("x", hint=hint).hint == hint
