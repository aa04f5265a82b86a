"""Write the digests of the schema revisions to bridge/storage/migrations/digests.json, or check them with --check.

Before release 1.0 a revision that no release contains may still change, and is pinned by running this together with the
change. A released one never does: run it only after adding files, and never when it reports a change of such a file.
"""

from __future__ import annotations

import json
import sys

from bridge.storage.migrations.running import DIGESTS, current_digests


def main(arguments: list[str]) -> int:
    pinned = json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}
    current = current_digests()
    for name in sorted(pinned.keys() | current.keys()):
        if pinned.get(name) != current.get(name):
            change = "added" if name not in pinned else "removed" if name not in current else "changed"
            print(f"{change}: {name}")
    if "--check" in arguments:
        return int(pinned != current)
    DIGESTS.write_text(json.dumps(current, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
