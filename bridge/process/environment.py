"""The environment a child gets: what the caller names, without what could misdirect git or betray the controller."""

from __future__ import annotations

from collections.abc import Mapping

#: Prefixes of variables that never pass to a child by inheritance. ``GIT_*`` could point a worker's git at
#: another repository (a hook or ``git rebase --exec`` exports GIT_DIR); ``BRIDGE_*`` holds the controller's
#: token, its database address and the task of an enclosing worker.
STRIPPED_PREFIXES = ("GIT_", "BRIDGE_")

#: The git variables that pass all the same. They say who commits, which user settings hold and how a remote is
#: reached, never which repository is meant.
KEPT_GIT_VARIABLES = frozenset(
    {
        "GIT_ASKPASS",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_EXEC_PATH",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSL_CAINFO",
        "GIT_TERMINAL_PROMPT",
    }
)


def child_environment(base: Mapping[str, str], additions: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child: ``base`` without the stripped prefixes, then ``additions``.

    ``additions`` are taken as they are, so that a caller can hand a child its own ``BRIDGE_TASK``.
    """
    kept = {
        name: value
        for name, value in base.items()
        if name in KEPT_GIT_VARIABLES or not name.startswith(STRIPPED_PREFIXES)
    }
    return {**kept, **additions}
