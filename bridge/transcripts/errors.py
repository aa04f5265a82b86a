"""What can be wrong with a portable session file."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class TranscriptInvalid(BridgeError):
    """Raised when a portable session file is damaged, incomplete or of a version that this Bridge does not read."""

    code = "transcript_invalid"
    exit_status = 125
    summary = "A portable session file is damaged, cut short, or of a format version that this Bridge does not read."
    default_hint = "Export the session again, or read the file with the Bridge that wrote it."
