"""Write the digests of the published schema files to schema/digests.json, or check them with --check.

Before release 1.0 any change of a schema is pinned by running this together with the change. From 1.0 on the
files of a released version never change: run it only after adding files, and never when it reports a change.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

from pinning import pin

SCHEMA = Path(__file__).resolve().parents[1] / "schema"
LOCK = SCHEMA / "digests.json"
#: Folders below schema/ whose files are promises to others.
PINNED_FOLDERS = ("checkpoint", "portable", "semantic", "session-file", "worker-result", "vectors")


def current_digests() -> dict[str, str]:
    """Return the SHA-256 (hex) of every pinned file by its path below schema/, sorted."""
    files = sorted(file for folder in PINNED_FOLDERS for file in (SCHEMA / folder).rglob("*.json"))
    return {file.relative_to(SCHEMA).as_posix(): sha256(file.read_bytes()).hexdigest() for file in files}


if __name__ == "__main__":
    sys.exit(pin(LOCK, current_digests(), sys.argv[1:]))
