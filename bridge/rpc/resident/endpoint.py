"""Where a resident controller is found: names of files, computed the same way by it and by its clients.

Part of every command's start, so it imports the standard library only, and little of it.

One controller belongs to one state directory and one database. Its files lie in ``run`` in the state directory:

====================  ==========================================================================================
``controller.lock``   held with ``flock`` by the controller as long as it lives; the kernel lets go of it after a kill
``controller.start``  held by whoever is starting one, so that of several clients one starts it
``controller.sock``   its socket; left behind by a kill, and then nobody answers there
``controller.json``   pid, host, build and the socket's place, for people and for clients that must look elsewhere
``controller.log``    what it prints
====================  ==========================================================================================

For a database that the environment names (``BRIDGE_DATABASE_URL``) the names carry a digest of its URL.
"""

from __future__ import annotations

import os

# typing is not imported for these: it would cost a command more than all of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "run"
#: Longest path of a socket, in bytes: ``sun_path`` has 108 (104 on macOS) and ends with a zero byte.
MAX_SOCKET_PATH_BYTES = 103
#: Hexadecimal digits of the digest in the names for another database than the state directory's own.
_DIGEST_DIGITS = 12


class Endpoint:
    """The files of the controller of a state directory and a database.

    Parameters
    ----------
    home
        The state directory, absolute.
    database_url
        URL of the store; None or empty for the one in the state directory.
    """

    __slots__ = ("folder", "home", "info_path", "lock_path", "log_path", "name", "socket_path", "start_path")

    def __init__(self, home: str, database_url: str | None = None) -> None:
        self.home = home
        self.folder = os.path.join(home, FOLDER)
        self.name = "controller"
        if database_url and database_url != f"sqlite:///{os.path.join(home, 'bridge.db')}":
            from hashlib import sha256  # only here, for the same reason

            self.name += "-" + sha256(database_url.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_DIGITS]
        place = os.path.join(self.folder, self.name)
        self.lock_path = place + ".lock"
        self.start_path = place + ".start"
        self.socket_path = place + ".sock"
        self.info_path = place + ".json"
        self.log_path = place + ".log"

    def find_socket(self) -> str | None:
        """Return the path under which the controller may answer; None if there is surely none."""
        if is_short_enough(self.socket_path) and os.path.exists(self.socket_path):
            return self.socket_path
        info = self.read_info()
        place = None if info is None else info.get("socket")
        return place if isinstance(place, str) else None

    def is_held(self) -> bool:
        """Tell whether a process holds the controller's place, answering or not."""
        import fcntl

        try:
            lock = os.open(self.lock_path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    def read_info(self) -> dict[str, Any] | None:
        """Return what the last controller wrote about itself; None if it ended in good order, or none ever ran."""
        import json

        try:
            with open(self.info_path, "rb") as file:
                info = json.load(file)
        except (OSError, ValueError):
            return None
        return info if isinstance(info, dict) else None


def is_short_enough(path: str) -> bool:
    """Tell whether a socket can have this path."""
    return len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES
