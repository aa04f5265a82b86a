"""Texts that not every database keeps are known before they get there."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.errors import InvalidText
from bridge.foundation.texts import is_storable, require_storable


@pytest.mark.parametrize("text", ["", "a", "é", "日本", "\U0010ffff", "\x01\n\x7f", "\ufffd\ufeff"])
def test_texts_that_are_kept(text: str) -> None:
    assert is_storable(text)
    require_storable(label=text, harness=None)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\udcff", "a\ud800", "\udca9\ud83d", "é\0"])
def test_texts_that_are_not(text: str) -> None:
    assert not is_storable(text)
    with pytest.raises(InvalidText, match=r"label .*Nothing was written") as caught:
        require_storable(harness="fine", label=text)
    assert caught.value.details == {"field": "label"}
    caught.value.message.encode()


@given(st.text(alphabet=st.characters(categories=["Cs", "Cc", "L", "So"])))
def test_what_is_storable_comes_back_as_it_was(text: str) -> None:
    if is_storable(text):
        assert sqlite3.connect(":memory:").execute("SELECT ?", (text,)).fetchone() == (text,)
