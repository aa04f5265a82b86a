"""Runs a command where only the loopback interface exists: ``python tests/e2e/namespace.py COMMAND ARGUMENT…``

In a network namespace of its own where the system allows one, else with the proxies unset, and says which. Either way
no agent under test reaches a model but the scripted one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from typing import Final

#: ``linux/if.h`` and ``linux/sockios.h``: read and set the flags of an interface; the one that means "up".
_GET_FLAGS: Final = 0x8913
_SET_FLAGS: Final = 0x8914
_UP: Final = 0x1
#: Tells a process inside that it is there.
INSIDE: Final = "BRIDGE_E2E_INSIDE"
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")


def unshare_command() -> list[str] | None:
    """Return the words that start a program in a network namespace of its own; None where there is no way."""
    program = shutil.which("unshare")
    if program is None:
        return None
    for options in (["--net"], ["--net", "--map-root-user"]):
        if subprocess.run([program, *options, "true"], capture_output=True, check=False).returncode == 0:
            return [program, *options, "--"]
    return None


def raise_loopback() -> None:
    """Switch the loopback interface on, which is off in a new namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(plain, _GET_FLAGS, request))[1]
        fcntl.ioctl(plain, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def environment() -> dict[str, str]:
    """Return this process's environment without the proxies."""
    return {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}


def main() -> None:
    """Become the command, inside."""
    words = sys.argv[1:]
    if os.environ.get(INSIDE) == "namespace":
        raise_loopback()
        os.execvpe(words[0], words, environment())
    prefix = unshare_command()
    if prefix is None:
        print("e2e: no network namespaces here; running with the proxies unset", file=sys.stderr, flush=True)
        os.execvpe(words[0], words, {**environment(), INSIDE: "proxies"})
    again = [*prefix, sys.executable, __file__, *words]
    os.execvpe(again[0], again, {**environment(), INSIDE: "namespace"})


if __name__ == "__main__":
    main()
