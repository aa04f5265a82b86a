"""Which harnesses can be talked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.adapters.errors import UnknownHarness
from bridge.adapters.talkers import KNOWN, SCRIPTED, talker, talkers
from bridge.foundation.config import HarnessSettings


def test_known_scripted_and_configured_ones_are_listed(tmp_path):
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    mine = {"mine": HarnessSettings(("no-such-program",)), "opencode": HarnessSettings(("gemini", "x"))}
    found = {item.name: item for item in talkers(mine, state=tmp_path, search_path=str(program.parent))}
    assert set(found) == {*KNOWN, SCRIPTED, "mine"}
    assert found["gemini"].program == program
    assert found["mine"].program is None
    assert found["opencode"].command == ("gemini", "x")
    assert found["opencode"].is_configured
    assert found[SCRIPTED].program is not None


def test_the_configuration_goes_first():
    mine = {"gemini": HarnessSettings(("other",), {"A": "b"}, frozenset({"fs"}))}
    assert talker("gemini", mine, state=Path("/x")).capabilities.resume is False
    assert talker("gemini", {}, state=Path("/x")).capabilities.resume is True


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UnknownHarness) as caught:
        talker("opencod", {}, state=Path("/x"))
    assert "opencode" in caught.value.message
    assert SCRIPTED in caught.value.hint
