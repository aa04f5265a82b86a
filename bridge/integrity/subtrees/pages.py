"""How subtree hashes are packed: pages of 1,024 sequences, each with its parent, its children and two hashes."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

#: Sequences of one page.
PAGE_ENTRIES: Final = 1024
#: The parent of a root.
NO_PARENT: Final = -1
#: What stands for the parent where no entry has the sequence.
NO_ENTRY: Final = -2
#: Little-endian: the parent's sequence, the number of children, entry hash, subtree hash.
_SLOT: Final = Struct("<qI32s32s")
_EMPTY_PAGE: Final = _SLOT.pack(NO_ENTRY, 0, bytes(32), bytes(32)) * PAGE_ENTRIES
PAGE_BYTES: Final = len(_EMPTY_PAGE)


class Slot(NamedTuple):
    """What is kept of one entry."""

    parent: int
    children: int
    entry_hash: bytes
    subtree_hash: bytes


class PagesDamaged(Exception):
    """The stored pages are not what was written; they are made anew from the entries."""


class Pages:
    """The pages of one session, read when first needed.

    Parameters
    ----------
    load
        Returns a stored page by its number, None if there is none.
    """

    def __init__(self, load: Callable[[int], bytes | None]) -> None:
        self._load = load
        self._pages: dict[int, bytearray] = {}
        self._changed: set[int] = set()

    def slot(self, sequence: int) -> Slot:
        """Return what is kept of an entry; its parent is ``NO_ENTRY`` if there is none.

        Raises
        ------
        PagesDamaged
            If the page has another size than pages have.
        """
        number, place = divmod(sequence, PAGE_ENTRIES)
        return Slot._make(_SLOT.unpack_from(self._page(number), place * _SLOT.size))

    def fields(self, sequence: int) -> tuple[int, int, bytes, bytes]:
        """Return what :meth:`slot` does, as a plain tuple: for who reads thousands."""
        page = self._pages.get(sequence // PAGE_ENTRIES)
        if page is None:
            page = self._page(sequence // PAGE_ENTRIES)
        found: tuple[int, int, bytes, bytes] = _SLOT.unpack_from(page, sequence % PAGE_ENTRIES * _SLOT.size)
        return found

    def put(self, sequence: int, slot: tuple[int, int, bytes, bytes]) -> None:
        """Replace what is kept of an entry."""
        number, place = divmod(sequence, PAGE_ENTRIES)
        page = self._pages.get(number)
        if page is None:
            page = self._page(number)
        _SLOT.pack_into(page, place * _SLOT.size, *slot)
        self._changed.add(number)

    def changed(self) -> dict[int, bytes]:
        """Return the pages that were written to, by number."""
        return {number: bytes(self._pages[number]) for number in sorted(self._changed)}

    def _page(self, number: int) -> bytearray:
        page = self._pages.get(number)
        if page is None:
            stored = self._load(number)
            page = self._pages[number] = bytearray(_EMPTY_PAGE if stored is None else stored)
            if len(page) != PAGE_BYTES:
                raise PagesDamaged(f"page {number} has {len(page)} bytes")
        return page
