"""What can be wrong with a search. A query cannot be: any text is one."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class UnknownTimeZone(BridgeError):
    """Raised when a time zone is asked for that this machine does not know."""

    code = "unknown_time_zone"
    exit_status = 242
    summary = "A search named a time zone that this machine does not know; nothing was searched."
    default_hint = "Name one as in the IANA database, for example Europe/Berlin, or leave it out."
