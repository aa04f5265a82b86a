"""Write the digests of the schema revisions to bridge/storage/migrations/digests.json, or check them with --check.

Before release 1.0 a revision that no release contains may still change, and is pinned by running this together with the
change. A released one never does: run it only after adding files, and never when it reports a change of such a file.
"""

from __future__ import annotations

import sys

from pinning import pin

from bridge.storage.migrations.running import DIGESTS, current_digests

if __name__ == "__main__":
    sys.exit(pin(DIGESTS, current_digests(), sys.argv[1:]))
