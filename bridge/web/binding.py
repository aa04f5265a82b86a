"""Where the door over HTTP stands, and which names it answers to."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field
from typing import Final

from bridge.web.errors import DoorNotOpened

#: Names under which a loopback address is reached.
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
#: Connections that wait to be taken.
_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class Binding:
    """Where to listen.

    Parameters
    ----------
    host, port
        Address and port; port 0 takes a free one.
    is_remote_allowed
        Whether the address may be one beyond loopback: said by the operator, never a default.
    names
        Further names that clients may reach it by (the ``Host`` they send).
    origins
        Web origins, beside its own, whose pages may call it.
    """

    host: str = "127.0.0.1"
    port: int = 0
    is_remote_allowed: bool = False
    names: frozenset[str] = field(default_factory=frozenset)
    origins: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def known_names(self) -> frozenset[str]:
        """Every name that a ``Host`` header may have."""
        own = LOOPBACK_NAMES if self.is_loopback else frozenset({self.host})
        return frozenset(name.lower() for name in own | self.names)


def listen(binding: Binding) -> socket.socket:
    """Return a socket that listens.

    Raises
    ------
    DoorNotOpened
        If the address is beyond loopback and that was not allowed, or it cannot be had.
    """
    if not binding.is_loopback and not binding.is_remote_allowed:
        raise DoorNotOpened(
            f"{binding.host} can be reached from other machines. Nothing was opened.",
            hint="Use 127.0.0.1; to listen beyond this machine it must be asked for explicitly.",
            details={"host": binding.host},
        )
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            binding.host, binding.port, type=socket.SOCK_STREAM
        )
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _failed(binding, error) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise _failed(binding, error) from error
    return made


def _failed(binding: Binding, error: OSError) -> DoorNotOpened:
    return DoorNotOpened(
        f"{binding.host}:{binding.port} cannot be listened on: {error.strerror or error}. Nothing was opened.",
        details={"host": binding.host, "port": binding.port},
    )
