"""What every use case stands on: the open store, the recorder, the observer, the clock and the settings."""

from __future__ import annotations

import os
import platform
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Self

import bridge
from bridge.control.contents.keeping import Keeper
from bridge.control.delegations import store as rows
from bridge.control.delegations.lost import LEASE_SECONDS, RENEWAL_SECONDS
from bridge.control.notices import Tell, log_notice
from bridge.control.observing import Observer
from bridge.control.recording import Recorder
from bridge.foundation.clock import Clock, format_timestamp
from bridge.foundation.config import Settings
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.git.digestcache import DigestCache, FileDigestCache
from bridge.process.identity import identity_of
from bridge.process.machine import machine_identity
from bridge.storage.clients import Visit
from bridge.storage.store import Store

_log = get_logger(__name__)


class Controller:
    """One process's hold on a store. Safe to share between threads; close it, or use it as a context manager.

    Parameters
    ----------
    settings, clock
        Where state lives, and the time.
    environment
        What child processes may inherit, before it is stripped.
    create
        Whether a missing store is made.
    tell
        Takes what a person should know besides results; logged unless given.
    observer
        Makes the observer; one that looks anew each time unless given. A process that stays gives one that
        remembers, and closes it after the controller.
    open_door
        Sees to it that a resident controller runs, which agents reach by their tools; None in one that is it. A
        confined worker cannot start one.

    Raises
    ------
    UnsupportedSchemaVersion, SchemaUpgradeNeeded, DatabaseMissing, DatabaseFailed
        What opening the store raises.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        environment: Mapping[str, str],
        create: bool = True,
        tell: Tell = log_notice,
        observer: Callable[[DigestCache], Observer] | None = None,
        open_door: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self.open_door = open_door
        self.clock = clock
        self.environment = dict(environment)
        visit = Visit(platform.node(), bridge.__version__, format_timestamp(clock.now()))
        self.store = Store.open(settings.database_url, create=create, visit=visit, auto_upgrade=settings.auto_upgrade)
        self.recorder = Recorder(self.store, clock)
        digests = FileDigestCache(settings.digests)
        if observer is None:
            self.observer = Observer(clock, timeout_seconds=settings.git_timeout_seconds, digests=digests)
        else:
            self.observer = observer(digests)
        self.tell = tell
        self.keeper = Keeper(self.store, settings, clock, tell)
        self._id: str | None = None
        self._registering = threading.Lock()
        self._closing = threading.Event()
        self._heart: threading.Thread | None = None

    @property
    def id(self) -> str | None:
        """The id under which this process owns delegations; None as long as it owns none."""
        return self._id

    def now(self) -> str:
        """Return the current time as a timestamp."""
        return format_timestamp(self.clock.now())

    def register(self) -> str:
        """Return the id under which this process owns delegations; recorded when first asked for.

        Only what starts workers needs to be found again after a crash, so reading commands record nothing.
        """
        with self._registering:
            if self._id is None:
                identity, started_at = identity_of(os.getpid()), self.now()
                if identity is None:
                    raise RuntimeError("this process cannot be seen in the process table")
                controller_id = f"c{secrets.token_hex(6)}"
                expires_at = self.lease_end()
                self.store.write(
                    lambda tx: rows.add_controller(
                        tx.connection,
                        controller_id,
                        identity,
                        host=platform.node(),
                        machine=machine_identity(),
                        build=bridge.__version__,
                        started_at=started_at,
                        lease_expires_at=expires_at,
                    )
                )
                self._id = controller_id
                self._heart = threading.Thread(target=self._beat, args=(controller_id,), name="leases", daemon=True)
                self._heart.start()
            return self._id

    def lease_end(self) -> str:
        """Return until when a lease runs that is renewed now."""
        return format_timestamp(self.clock.now() + timedelta(seconds=LEASE_SECONDS))

    def renew_leases(self) -> None:
        """Say that this process is there and watches over its workers. Blocking."""
        controller_id, expires_at = self._id, self.lease_end()
        if controller_id is not None:
            self.store.write(lambda tx: rows.renew_leases(tx.connection, controller_id, expires_at))

    def _beat(self, controller_id: str) -> None:
        while not self._closing.wait(RENEWAL_SECONDS):
            try:
                self.renew_leases()
            except BridgeError as error:
                # A lease outlasts some renewals that did not come off; the next one may.
                _log.warning("a lease was not renewed", action="lease", controller_id=controller_id, code=error.code)

    def close(self) -> None:
        """Record an orderly end, if this process was recorded, and close the store. Safe to call twice."""
        self._closing.set()
        if self._heart is not None:
            self._heart.join()
        controller_id, self._id = self._id, None
        if controller_id is not None:
            ended_at = self.now()
            self.store.write(lambda tx: rows.end_controller(tx.connection, controller_id, ended_at))
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
