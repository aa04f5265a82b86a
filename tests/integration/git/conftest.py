"""Fixtures of the git tests."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from bridge.foundation.clock import SystemClock
from bridge.git.observe import Observation, observe

#: The id of the user who owns nothing.
NOBODY = 65534


class Watcher:
    """Observes paths with the system's clock and a generous time limit."""

    def __call__(self, path: Path, **options) -> Observation:
        return observe(path, clock=SystemClock(), **{"timeout_seconds": 60.0, **options})

    def hash(self, path: Path) -> str:
        """The dirty hash, which must be known."""
        seen = self(path)
        assert seen.unknown is None, (seen.unknown, seen.unknown_path, seen.detail)
        return seen.state.dirty_hash

    def listed(self, path: Path) -> dict[bytes, str]:
        """Path and status of each row."""
        seen = self(path)
        assert seen.unknown is None, (seen.unknown, seen.unknown_path, seen.detail)
        return {row.path: row.status for row in seen.manifest.rows}


@pytest.fixture
def look() -> Watcher:
    return Watcher()


def fingerprint(folder: Path) -> dict[str, str]:
    """Every path below a folder with its type, mode and content."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(os.fsencode(folder)):
        for name in [*folders, *files]:
            path = os.path.join(root, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path).hex()
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest() + f" {status.st_mtime_ns}"
            else:
                content = ""
            found[os.fsdecode(path)] = f"{status.st_mode:o} {content}"
    return found


@pytest.fixture
def bytes_below():
    return fingerprint


@pytest.fixture
def ordinary_user(repository):
    """A copy of the repository that belongs to the ordinary user as whom the test then runs.

    For root nothing is unreadable, so a test as root changes its identity for a while; pytest's own folders are
    closed to others, hence the folder elsewhere.
    """
    folder = Path(tempfile.mkdtemp(prefix="bridge-test-"))
    copy = folder / "repository"
    try:
        shutil.copytree(repository.path, copy, symlinks=True)
        if os.geteuid() != 0:
            yield type(repository)(copy)
            return
        for root, folders, files in os.walk(folder):
            for name in [".", *folders, *files]:
                os.lchown(os.path.join(root, name), NOBODY, NOBODY)
        home = folder / "home"
        home.mkdir(mode=0o755)
        os.environ["HOME"] = str(home)  # the caller's monkeypatch puts it back
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield type(repository)(copy)
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
