"""Write the digests of the published schema files to schema/digests.json, or check them with --check.

Before release 1.0 any change of a schema is pinned by running this together with the change. From 1.0 on the
files of a released version never change: run it only after adding files, and never when it reports a change.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path

SCHEMA = Path(__file__).resolve().parents[1] / "schema"
LOCK = SCHEMA / "digests.json"
#: Folders below schema/ whose files are promises to others.
PINNED_FOLDERS = ("semantic", "worker-result", "vectors")


def current_digests() -> dict[str, str]:
    """Return the SHA-256 (hex) of every pinned file by its path below schema/, sorted."""
    files = sorted(file for folder in PINNED_FOLDERS for file in (SCHEMA / folder).rglob("*.json"))
    return {file.relative_to(SCHEMA).as_posix(): sha256(file.read_bytes()).hexdigest() for file in files}


def main(arguments: list[str]) -> int:
    pinned = json.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    current = current_digests()
    for name in sorted(pinned.keys() | current.keys()):
        if pinned.get(name) != current.get(name):
            change = "added" if name not in pinned else "removed" if name not in current else "changed"
            print(f"{change}: {name}")
    if "--check" in arguments:
        return int(pinned != current)
    LOCK.write_text(json.dumps(current, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
