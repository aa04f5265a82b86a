"""Where the combined files of tasks are tried out before a branch takes them.

Blocking; run in a helper thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridge.control.controller import Controller
from bridge.control.delegations.model import Delegation
from bridge.foundation.logs import get_logger
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation
from bridge.git.scratch import scratch_worktree
from bridge.workspaces.checkouts import REPOSITORY_DIGITS
from bridge.workspaces.inclusion import copy_included

#: Name of a log of a check: the moment it began.
_LOG_NAME: Final = "check-%Y%m%d-%H%M%S-%f.log"
_log = get_logger(__name__)


@contextlib.contextmanager
def scratch_of(controller: Controller, location: RepositoryLocation, commit: str) -> Iterator[RepositoryLocation]:
    """Make a worktree of a repository at a commit, with what ``.worktreeinclude`` names, for as long as the block."""
    folder = controller.settings.scratch / location.repository_id[:REPOSITORY_DIGITS]
    with scratch_worktree(location, folder, commit) as made:
        for path, why in copy_included(location, made).skipped:
            _log.warning("a file was not copied", action="include_skipped", path=plain_path(path), why=why)
        yield made


def check_log(controller: Controller, delegation: Delegation) -> Path:
    """Return where the output of a check that concerns a task goes."""
    return controller.settings.tasks / delegation.id / controller.clock.now().strftime(_LOG_NAME)
