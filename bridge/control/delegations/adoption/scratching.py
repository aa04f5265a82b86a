"""Where the combined files of tasks are tried out before a branch takes them.

Blocking; run in a helper thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio

from bridge.control.controller import Controller
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.placesettings import worktree_settings
from bridge.control.delegations.preparing import CHECKOUT_VARIABLE, WORKTREE_VARIABLE
from bridge.control.delegations.setupcache import SetupCache
from bridge.control.delegations.setups import Setup, run_setup
from bridge.foundation.logs import get_logger
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation
from bridge.git.scratch import scratch_worktree
from bridge.workspaces.checkouts import REPOSITORY_DIGITS
from bridge.workspaces.inclusion import copy_included

#: Name of a log of a check: the moment it began.
_LOG_NAME: Final = "check-%Y%m%d-%H%M%S-%f.log"
#: Where the output of setups of scratch worktrees goes, below the folder of all tasks.
_SETUP_FOLDER: Final = "adoption"
_SETUP_LOG_NAME: Final = "setup-%Y%m%d-%H%M%S-%f.log"
_log = get_logger(__name__)


@contextlib.contextmanager
def scratch_of(controller: Controller, location: RepositoryLocation, commit: str) -> Iterator[RepositoryLocation]:
    """Make a worktree of a repository at a commit for as long as the block, as one of a worker is made.

    What ``.worktreeinclude`` names is copied, and the setup of the checkout's ``bridge.toml`` is run.

    Raises
    ------
    SetupFailed, InvalidConfiguration
        If the setup fails, or cannot be read.
    """
    folder = controller.settings.scratch / location.repository_id[:REPOSITORY_DIGITS]
    with scratch_worktree(location, folder, commit) as made:
        for path, why in copy_included(location, made).skipped:
            _log.warning("a file was not copied", action="include_skipped", path=plain_path(path), why=why)
        _set_up(controller, location, made)
        yield made


def _set_up(controller: Controller, location: RepositoryLocation, made: RepositoryLocation) -> None:
    settings = worktree_settings(location.root)
    if not (settings.setup or settings.always):
        return
    repository = location.repository_id[:REPOSITORY_DIGITS]
    folder = controller.settings.tasks / _SETUP_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    setup = Setup(
        worktree=made.root,
        log=folder / controller.clock.now().strftime(_SETUP_LOG_NAME),
        environment=controller.environment,
        additions={WORKTREE_VARIABLE: str(made.root), CHECKOUT_VARIABLE: str(location.root)},
        marker=f"adoption-{made.root.name}",
        is_cancelled=_never,
        cache=SetupCache(controller.settings.setups / repository, settings) if settings.cache else None,
    )
    anyio.run(run_setup, settings, setup)


async def _never() -> bool:
    return False


def check_log(controller: Controller, delegation: Delegation) -> Path:
    """Return where the output of a check that concerns a task goes."""
    return controller.settings.tasks / delegation.id / controller.clock.now().strftime(_LOG_NAME)
