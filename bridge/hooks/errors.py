"""What can go wrong with the settings of other programs."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class HostSettingsUnreadable(BridgeError):
    """Raised when a host's settings are not what they should be; nothing was changed in them."""

    code = "host_settings_unreadable"
    exit_status = 234
    summary = (
        "The settings of a coding agent cannot be read or are not what that agent would accept; they were left alone."
    )
    default_hint = "Mend the file at the line named, then repeat."


class HostSettingsChanged(BridgeError):
    """Raised when a host's settings were changed by somebody else meanwhile."""

    code = "host_settings_changed"
    exit_status = 235
    summary = "The settings of a coding agent were changed by another program at the same moment; nothing was written."
    default_hint = "Repeat the command."
