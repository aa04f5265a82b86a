"""The page of field cases names the tests that there are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> Any:
    spec = importlib.util.spec_from_file_location("field_cases", ROOT / "scripts" / "field_cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


field_cases = load()


def test_the_page_is_not_stale() -> None:
    stored = (ROOT / field_cases.PAGE).read_text(encoding="utf-8")
    assert stored == field_cases.page(), "stale: run python scripts/field_cases.py"


def test_a_test_may_stand_for_two_cases_and_an_unknown_case_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_x.py").write_text(
        "def test_fc_35_fc_37_a(): ...\ndef test_fc_b(): ...\ndef helper_fc_01_x(): ...\n"
    )
    assert field_cases.tests_by_case(tmp_path) == {
        "FC-35": [("tests/test_x.py", "test_fc_35_fc_37_a")],
        "FC-37": [("tests/test_x.py", "test_fc_35_fc_37_a")],
    }
    assert "none yet" in field_cases.page(tmp_path)
    (folder / "test_y.py").write_text("async def test_fc_99_a(): ...\n")
    with pytest.raises(KeyError, match="FC-99"):
        field_cases.page(tmp_path)
