"""What no hash of an entry covers, as an import's digest takes it in."""

from __future__ import annotations

from bridge.integrity.recorded import beside_line
from bridge.integrity.store import StoredEntry


def test_a_text_that_is_not_utf8_gives_another_line_and_no_error():
    values = dict.fromkeys(StoredEntry._fields, "x")
    sound = beside_line(StoredEntry(**values))
    for damaged in ("\udcedx", "\ud800", "y"):
        assert beside_line(StoredEntry(**{**values, "external_source": damaged})) != sound
