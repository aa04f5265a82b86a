"""Root commits: by them a repository is known again wherever it stands."""

from __future__ import annotations

from bridge.git.process import run_git
from bridge.git.repository import RepositoryLocation

#: Time limit of walking a whole history to its roots, in seconds; a million commits take about ten.
ROOTS_TIMEOUT_SECONDS = 20.0
#: Root commits that are looked at; histories that were merged from more repositories than this have the rest ignored.
MAX_ROOTS = 64


def is_shallow(location: RepositoryLocation) -> bool:
    """Return whether the repository's history is cut off: its oldest commits then only look like roots."""
    return (location.common_dir / "shallow").exists()


def root_commits(
    location: RepositoryLocation, commit: str | None = None, *, timeout_seconds: float = ROOTS_TIMEOUT_SECONDS
) -> tuple[str, ...]:
    """Return commits without parents that a commit descends from, or that any branch or tag does; sorted.

    Stashes, notes and Bridge's own refs do not count: they can have roots that no history has. A repository
    without commits has none.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot walk the history within the time limit.
    """
    tips = ["HEAD", "--branches", "--remotes", "--tags"] if commit is None else [commit]
    output = run_git(
        ["rev-list", "--max-parents=0", f"--max-count={MAX_ROOTS}", "--ignore-missing", *tips, "--"],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    return tuple(sorted(output.text.split()))
