"""What the scripts that pin files share: compare the digests of files with a lock file, say what differs, write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def pin(lock: Path, current: Mapping[str, str], arguments: list[str]) -> int:
    """Write the digests to the lock file, naming what changed; with ``--check`` write nothing. Returns the status."""
    pinned = json.loads(lock.read_text(encoding="utf-8")) if lock.exists() else {}
    for name in sorted(pinned.keys() | current.keys()):
        if pinned.get(name) != current.get(name):
            change = "added" if name not in pinned else "removed" if name not in current else "changed"
            print(f"{change}: {name}")
    if "--check" in arguments:
        return int(pinned != current)
    lock.write_text(json.dumps(current, indent=2) + "\n", encoding="utf-8")
    return 0
