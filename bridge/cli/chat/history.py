"""What was typed at the prompt, kept for later: private to its owner, secrets masked, bounded."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prompt_toolkit.history import FileHistory

from bridge.foundation.redaction import redact_text

#: Bytes that the history may grow to; when it is opened, the older half of a larger one is dropped.
MAX_BYTES: Final = 1024 * 1024
_MODE: Final = 0o600


class PrivateHistory(FileHistory):
    """A history file that only its owner may read, and that holds no secret in a format that Bridge knows."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made with its mode before anything is in it; one that was there is made private.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
        try:
            os.fchmod(file, _MODE)
            _shorten(file)
        finally:
            os.close(file)
        super().__init__(str(path))
        self._path = path

    def store_string(self, string: str) -> None:
        masked, _ = redact_text(string)
        # Like the base class, but for the time: an offset keeps it readable on any machine.
        lines = "".join(f"+{line}\n" for line in masked.split("\n"))
        moment = datetime.now(UTC).isoformat()
        with self._path.open("ab") as file:
            file.write(f"\n# {moment}\n{lines}".encode("utf-8", "backslashreplace"))


def _shorten(file: int) -> None:
    size = os.fstat(file).st_size
    if size <= MAX_BYTES:
        return
    kept = os.pread(file, MAX_BYTES // 2, size - MAX_BYTES // 2)
    # From the beginning of an item, which a comment line is.
    start = kept.find(b"\n# ")
    kept = kept[start:] if start >= 0 else b""
    os.ftruncate(file, 0)
    os.pwrite(file, kept, 0)
