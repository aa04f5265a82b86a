"""What an import records of what no hash covers."""

from __future__ import annotations

from types import SimpleNamespace

from bridge.integrity.recorded import BESIDE_COLUMNS, beside_line


def test_bytes_that_are_no_text_make_another_line():
    entry = SimpleNamespace(id="x", **dict.fromkeys(BESIDE_COLUMNS, "made-up"))
    damaged = SimpleNamespace(id="x", **dict.fromkeys(BESIDE_COLUMNS, "\udcedade-up"))
    assert beside_line(damaged) != beside_line(entry)
