"""Harnesses by name."""

from __future__ import annotations

import pytest

from bridge.adapters.errors import UnknownHarness
from bridge.adapters.registry import HARNESSES, harness
from bridge.adapters.talkers import KNOWN, SCRIPTED


def test_each_harness_answers_to_its_name() -> None:
    for name in HARNESSES:
        assert harness(name).name == name


def test_command_is_the_default_and_says_what_it_can_do() -> None:
    adapter = harness()
    assert adapter.name == "command"
    assert (adapter.capabilities.resume, adapter.capabilities.cancel, adapter.capabilities.mcp) == (False, True, False)


def test_unknown_harness_suggests_the_closest() -> None:
    with pytest.raises(UnknownHarness, match="Did you mean 'command'") as caught:
        harness("comand")
    assert set(caught.value.details["known"]) == {"command", *KNOWN, SCRIPTED}
