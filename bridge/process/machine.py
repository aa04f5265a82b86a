"""Which process table a pid belongs to: a host's name alone may be another machine's, or another container's."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

#: Drawn anew by the kernel at each start of the machine.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Names the pid namespace that this process is in.
_NAMESPACE = Path("/proc/self/ns/pid")


@cache
def machine_identity() -> str:
    """Return what two processes have in common that see each other's pids, until the machine is started again.

    Where the system tells neither its start nor a namespace it is the host's name.
    """
    parts = [platform.node()]
    try:
        parts += [_BOOT_ID.read_text().strip(), str(_NAMESPACE.readlink())]
    except OSError:
        # Not Linux, or /proc is not mounted: then the name has to do, as it did before.
        return parts[0]
    return " ".join(parts)
