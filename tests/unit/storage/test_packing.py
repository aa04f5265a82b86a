from __future__ import annotations

import zlib

import pytest

from bridge.storage.errors import StoredTextDamaged
from bridge.storage.packing import packed, unpacked

LINES = b'{"type":"user"}\n' * 1000


@pytest.mark.parametrize("data", [b"", b"\n", LINES], ids=["nothing", "a line feed", "lines"])
def test_what_was_packed_comes_back(data: bytes) -> None:
    assert unpacked(packed(data)) == data


def test_what_was_written_before_zstd_is_read() -> None:
    assert unpacked(zlib.compress(LINES, 1)) == LINES


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "unknown_form"),
        (b"plain", "unknown_form"),
        (b"\x04\x22\x4d\x18" + LINES, "unknown_form"),
        (packed(LINES)[:-1], "damaged"),
        (packed(LINES) + b"x", "damaged"),
        (packed(LINES)[:20] + b"\x00" + packed(LINES)[21:], "damaged"),
        (zlib.compress(LINES)[:-1], "damaged"),
    ],
    ids=["empty", "plain", "lz4", "cut", "more", "altered", "zlib cut"],
)
def test_an_unknown_form_and_a_damaged_one_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(StoredTextDamaged) as caught:
        unpacked(body)
    assert caught.value.details == {"reason": reason}
