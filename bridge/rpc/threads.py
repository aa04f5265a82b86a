"""Threads for blocking calls: one pool for each event loop, whose jobs can be taken back until they begin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final
from weakref import WeakKeyDictionary

#: Blocking calls that run at the same time, of all connections together.
MAX_THREADS: Final = 48

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()


def submit(loop: asyncio.AbstractEventLoop, job: Callable[[], Any]) -> Future[Any]:
    """Hand a job to the loop's pool. The threads end by themselves when the loop is gone."""
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="rpc")
    return pool.submit(job)
