"""A task group whose only failure is raised as itself.

anyio wraps whatever leaves a task group in an exception group. Callers of use cases catch Bridge's typed errors, so
where one error ended the group it has to arrive as that error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def sole_error_group() -> AsyncIterator[TaskGroup]:
    """Open a task group; if exactly one error ends it, that error is raised, not a group around it.

    Raises
    ------
    BaseExceptionGroup
        If several tasks failed at once.
    """
    try:
        async with anyio.create_task_group() as group:
            yield group
    except BaseExceptionGroup as errors:
        found: BaseException = errors
        while isinstance(found, BaseExceptionGroup) and len(found.exceptions) == 1:
            found = found.exceptions[0]
        if isinstance(found, BaseExceptionGroup):
            raise
        # Its own cause and traceback are what matters; the group would only repeat them.
        raise found from None
