"""A file or folder that is to be taken in: where it is, how it begins, and a stream over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_SET
from pathlib import Path
from typing import BinaryIO, Final

from bridge.control.errors import ImportUnreadable

#: Bytes from the beginning of a file by which formats are told apart.
HEAD_BYTES: Final = 256 * 1024
#: A first line that is longer is read up to so many bytes more.
MAX_FIRST_LINE_BYTES: Final = 32 * 1024 * 1024


class Source:
    """One file, folder or stream.

    Parameters
    ----------
    path
        Where it is; None for a stream.
    stream
        What is read instead of a file; it must be able to seek, and stays open.
    name
        What messages call it; the path unless given.
    """

    def __init__(self, path: Path | None = None, *, stream: BinaryIO | None = None, name: str | None = None) -> None:
        if path is None and stream is None:
            raise ValueError("a source has a path or a stream")
        self.path = path
        self._stream = stream
        self.name = name if name is not None else str(path)
        self._head: bytes | None = None

    @property
    def is_directory(self) -> bool:
        return self._stream is None and self.path is not None and self.path.is_dir()

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the source for reading from its beginning.

        Raises
        ------
        ImportUnreadable
            If it cannot be read; also where reading it fails later.
        """
        if self._stream is not None:
            self._stream.seek(0, SEEK_SET)
            yield self._stream
            return
        if self.path is None:
            raise ValueError("a source has a path or a stream")
        try:
            with self.path.open("rb") as stream:
                yield stream
        except OSError as error:
            raise self.unreadable(error) from error

    def head(self) -> bytes:
        """Return the first :data:`HEAD_BYTES` bytes, or fewer; more where the first line is longer.

        Raises as :meth:`open`. Of a folder, nothing.
        """
        if self._head is None:
            if self.is_directory:
                self._head = b""
            else:
                with self.open() as stream:
                    self._head = stream.read(HEAD_BYTES)
                    if len(self._head) == HEAD_BYTES and b"\n" not in self._head:
                        # A first line that long (a picture in the first prompt) is still what tells the form.
                        self._head += stream.readline(MAX_FIRST_LINE_BYTES)
        return self._head

    def unreadable(self, error: OSError) -> ImportUnreadable:
        """Return the error that says why the source cannot be read."""
        return ImportUnreadable(
            f"{self.name!r} cannot be read: {error.strerror}. Nothing was written.", details={"path": self.name}
        )
