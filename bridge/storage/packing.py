"""Texts that are kept compressed: written by zstd, read in every form that was ever written."""

from __future__ import annotations

import zlib
from typing import Final

from bridge.storage.errors import StoredTextDamaged

#: The level of compression: the fastest of the usual ones. Higher ones save little and take several times as long.
_LEVEL: Final = 1
#: How a form is told: by its first bytes. What begins otherwise was written by a later version, or is damaged.
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZLIB: Final = b"\x78"


def packed(data: bytes) -> bytes:
    """Return some bytes compressed, with a checksum of them."""
    from zstandard import ZstdCompressor  # 5 ms that only an import spends

    return ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data)


def unpacked(body: bytes) -> bytes:
    """Return what was compressed.

    Raises
    ------
    StoredTextDamaged
        If it is of a form that is not known, or damaged.
    """
    if body.startswith(_ZSTD):
        from zstandard import ZstdDecompressor, ZstdError

        try:
            return ZstdDecompressor().decompress(body, allow_extra_data=False)
        except ZstdError as error:
            raise _damaged("damaged") from error
    if body.startswith(_ZLIB):
        # What was written before zstd.
        try:
            return zlib.decompress(body)
        except zlib.error as error:
            raise _damaged("damaged") from error
    raise _damaged("unknown_form")


def _damaged(reason: str) -> StoredTextDamaged:
    what = "compressed in a form that this Bridge does not know" if reason == "unknown_form" else "damaged"
    return StoredTextDamaged(f"Lines that are kept in the store are {what}.", details={"reason": reason})
