"""The base of the errors; what every class must have is checked in tests/unit/test_generated.py."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest

import bridge
from bridge.foundation.errors import (
    BridgeError,
    InvalidId,
    NotCanonical,
    error_classes,
)


def all_error_classes() -> list[type[BridgeError]]:
    for module in pkgutil.walk_packages(bridge.__path__, "bridge."):
        if module.name.rpartition(".")[2] == "errors":
            importlib.import_module(module.name)
    return [cls for cls in error_classes() if cls.__module__.startswith("bridge.")]


def test_the_classes_are_found() -> None:
    found = all_error_classes()
    assert {NotCanonical, InvalidId} <= set(found)
    assert [cls.exit_status for cls in found] == sorted(cls.exit_status for cls in found)


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
