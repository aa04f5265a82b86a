"""What can go wrong with the settings of other programs."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class HostSettingsUnusable(BridgeError):
    """The family of what keeps a host's settings from being changed."""

    code = "host_settings_unusable"
    exit_status = 213
    summary = "The settings of a coding agent could not be changed; they were left alone."
    default_hint = "See what is wrong with the file, then repeat."


class HostSettingsUnreadable(HostSettingsUnusable):
    """Raised when a host's settings are not what they should be; nothing was changed in them."""

    code = "host_settings_unreadable"
    summary = (
        "The settings of a coding agent cannot be read or are not what that agent would accept; they were left alone."
    )
    default_hint = "Mend the file at the line named, then repeat."


class HostSettingsChanged(HostSettingsUnusable):
    """Raised when a host's settings were changed by somebody else meanwhile."""

    code = "host_settings_changed"
    summary = "The settings of a coding agent were changed by another program at the same moment; nothing was written."
    default_hint = "Repeat the command."
