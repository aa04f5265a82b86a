"""The continuity spark fits its limits, ends with a word, and holds no secret."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.lineage.sparks import BYTES_PER_TOKEN, MAX_CHARACTERS, MAX_TOKENS, spark_of


def size(text):
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


@given(st.text() | st.lists(st.text(alphabet="abcé漢🦜", max_size=30), max_size=60).map(" ".join))
def test_a_spark_fits(text):
    spark = spark_of(text)
    assert len(spark) <= MAX_CHARACTERS
    assert size(spark) <= MAX_TOKENS
    assert "\n" not in spark
    words = text.split()
    if spark.endswith("…") and len(words) > 1 and size(words[0]) < MAX_TOKENS - 1 and "…" not in text:
        assert spark[:-1].split() == words[: len(spark[:-1].split())]


def test_at_the_edge_nothing_is_cut():
    fits = "x" * (MAX_TOKENS * BYTES_PER_TOKEN)
    assert spark_of(fits) == fits
    assert spark_of(fits + "y").endswith("…")
    assert spark_of("one two") == "one two"
    assert spark_of("  one\n\ttwo  ") == "one two"
    words = "word " * 40
    assert spark_of(words).removesuffix("…").split() == ["word"] * (len(spark_of(words)) // 5)


def test_a_secret_that_the_cut_would_hide_is_masked():
    secret = "ghp_" + "a1B2" * 9
    assert "ghp_" not in spark_of("x" * 120 + " " + secret)
