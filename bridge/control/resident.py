"""What a long-lived process holds beside the store, and how it is given up in order."""

from __future__ import annotations

from functools import partial
from weakref import WeakKeyDictionary

from anyio import CancelScope, to_thread

from bridge.control.controller import Controller
from bridge.control.delegations.delegating import end_delegations
from bridge.control.feed import close_feed
from bridge.control.search.indexing import Indexer

_indexers: WeakKeyDictionary[Controller, Indexer] = WeakKeyDictionary()


def begin_resident(controller: Controller) -> None:
    """Begin to keep the search index caught up while nobody writes; until :func:`end_resident`."""
    indexer = _indexers[controller] = Indexer(controller)
    indexer.start()


def _stop_indexing(controller: Controller) -> None:
    indexer = _indexers.pop(controller, None)
    if indexer is not None:
        indexer.stop()


async def end_resident(controller: Controller) -> None:
    """End the single delegations that this process runs, then what follows the store; before the controller closes."""
    with CancelScope(shield=True):
        await end_delegations(controller)
        await to_thread.run_sync(partial(_stop_indexing, controller))
        await to_thread.run_sync(partial(close_feed, controller))
