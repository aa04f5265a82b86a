"""Generated documents are what the code says, and the error classes are complete and do not collide."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from bridge.foundation import errors as base
from bridge.foundation.errors import FIRST_EXIT_STATUS, LAST_EXIT_STATUS, SHELL_EXIT_STATUSES, BridgeError

ROOT = Path(__file__).resolve().parents[2]


def load_generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


generate = load_generator()
ERRORS = generate.published_errors()
#: Statuses outside the ranges, each with its reason: usage (2) and Ctrl-C (130) are what every program uses.
CONVENTIONAL = {"usage": 2, "interrupted": 130}


def ranges() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for package, spans in re.findall(r"\b([a-z]+) {2,}((?:\d+(?:–\d+)?(?:, )?)+)", base.__doc__ or ""):
        for first, last in re.findall(r"(\d+)(?:–(\d+))?", spans):
            found.setdefault(package, []).extend(range(int(first), int(last or first) + 1))
    return found


def shares_its_family(cls: type[BridgeError]) -> bool:
    return any(base_class.__dict__.get("exit_status") == cls.exit_status for base_class in cls.__mro__[1:])


#: Made once: that takes seconds.
FILES = generate.generated_files()


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: path.name)
def test_no_generated_file_is_stale(path):
    assert path.read_text(encoding="utf-8") == FILES[path], "stale: run make docs"


def test_codes_and_statuses_are_unique():
    codes = [cls.code for cls in ERRORS]
    statuses = [cls.exit_status for cls in ERRORS if not shares_its_family(cls)]
    assert sorted(set(codes)) == sorted(codes)
    assert sorted(set(statuses)) == sorted(statuses)


def test_the_ranges_cover_every_package_once():
    taken = [status for span in ranges().values() for status in span]
    assert len(taken) == len(set(taken))
    assert min(taken) == FIRST_EXIT_STATUS
    assert max(taken) == LAST_EXIT_STATUS
    assert not set(taken) & set(SHELL_EXIT_STATUSES)


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.code)
def test_an_error_class_is_complete(cls):
    package = cls.__module__.split(".")[1]
    if cls.code in CONVENTIONAL:
        assert cls.exit_status == CONVENTIONAL[cls.code]
    else:
        assert cls.exit_status in ranges()[package]
    assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", cls.code)
    assert cls.summary.endswith(".")
    assert cls.default_hint or cls.no_hint_reason, "needs a default_hint, or a no_hint_reason"
    assert cls.__doc__, "needs a docstring: Raised when …"
    assert cls.__module__.endswith(".errors"), "error classes stand in their package's errors.py"


def test_check_says_what_is_stale(monkeypatch, capsys, tmp_path):
    elsewhere = {tmp_path / path.relative_to(generate.ROOT): text for path, text in FILES.items()}
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "generated_files", lambda: elsewhere)
    assert generate.main(["--check"]) == 1
    assert "stale: docs/errors.md (run: make docs)" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
