"""Use cases about the search index: catching it up, before it is read and while nobody writes; building it anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.recall import index
from bridge.recall.index import Batch
from bridge.storage.backend import Follower
from bridge.storage.errors import StoreClosed

#: How long a search catches up at most before it answers, and says that something is missing, in seconds.
SEARCH_PATIENCE_SECONDS: Final = 2.0
#: Entries indexed in one transaction where the whole index is built anew: others wait longer, and the whole is done in
#: three quarters of the time.
REINDEX_BATCH: Final = 4_000
#: How long nobody must have written before the index is caught up by itself, in seconds.
IDLE_SECONDS: Final = 0.5
#: How long a wait for the next commit lasts before it is seen whether to go on, in seconds.
_LOOK_SECONDS: Final = 0.1

_log = get_logger(__name__)

#: Called with the entries indexed so far and those that there are in all.
IndexProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What building the index did."""

    entries: int
    sessions: int

    def to_json(self) -> dict[str, Any]:
        return {"entries": self.entries, "sessions": self.sessions}


def catch_up(
    controller: Controller, session_ids: Sequence[str] | None = None, *, patience_seconds: float | None = None
) -> bool:
    """Index what is new, of some sessions or of all; return whether nothing is missing any more.

    Parameters
    ----------
    patience_seconds
        How long this may go on; None: until nothing is missing.
    """
    started = controller.clock.monotonic()
    for _ in _batches(controller, session_ids):
        if patience_seconds is not None and controller.clock.monotonic() - started > patience_seconds:
            with controller.store.read() as connection:
                return index.prepare(connection, session_ids, limit=1) is None
    return True


def reindex(controller: Controller, *, progress: IndexProgress = lambda _done, _total: None) -> Reindexed:
    """Throw the search index away and build it anew, in batches that let other writers in between.

    Raises
    ------
    DatabaseFailed, DatabaseBusy
        If the database fails meanwhile; the next search, or this once more, goes on.
    """
    controller.store.write(index.drop)
    with controller.store.read() as connection:
        missing = index.backlog(connection)
    done = 0
    for batch in _batches(controller, limit=REINDEX_BATCH):
        done += batch.entries
        progress(done, max(done, missing.entries))
    return Reindexed(done, missing.sessions)


def _batches(
    controller: Controller, session_ids: Sequence[str] | None = None, *, limit: int | None = None
) -> Iterator[Batch]:
    """Index what is new, of some sessions or of all, and yield each batch once it is in."""
    after: str | None = None
    while True:
        with controller.store.read() as connection:
            batch = index.prepare(connection, session_ids, limit=limit, after=after)
        if batch is not None:
            controller.store.write(partial(index.put, batch=batch))
            after = batch.through
            yield batch
        elif after is None:
            return
        else:
            # Those before it may have changed meanwhile.
            after = None


class Indexer:
    """Keeps the index caught up while nobody writes; for a process that lives on. Stop it before the store closes."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End; a batch that is under way is finished. Safe to call twice."""
        self._is_stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._controller.store.follow()) as follower:
                while self._wait_until_quiet(follower):
                    started = time.monotonic()
                    for _ in _batches(self._controller):
                        # As long a pause as it took: whoever writes meanwhile is not held up for long.
                        if self._is_stopped.wait(time.monotonic() - started):
                            return
                        started = time.monotonic()
                    while not self._is_stopped.is_set() and not follower.wait(_LOOK_SECONDS):
                        pass
        except StoreClosed:
            return
        except BridgeError:
            # Searching catches up by itself; nothing is lost but the head start.
            _log.warning("indexing_stopped", exc_info=True)

    def _wait_until_quiet(self, follower: Follower) -> bool:
        """Wait until nobody has written for a while; return false once this is to end."""
        quiet = 0.0
        while quiet < IDLE_SECONDS:
            if self._is_stopped.is_set():
                return False
            quiet = 0.0 if follower.wait(_LOOK_SECONDS) else quiet + _LOOK_SECONDS
        return True
