"""Random sequences of git and file operations: the stamp against git status and the bytes of the listed paths."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.foundation.clock import SystemClock
from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.git.observe import observe

NAMES = st.sampled_from(["a", "b", "folder/c", "folder/d", "folder", "new\nline", "ignored.log", "sub/x", "A"])
TEXTS = st.sampled_from(["", "one\n", "two\n", "one\r\n", "ONE\n"])
#: CI's profile: examples times steps is the number of compared states.
EXAMPLES = 40
STEPS = 30

#: Shrinking a failure takes many more runs than passing.
pytestmark = pytest.mark.timeout(900)


class Worktree(RuleBasedStateMachine):
    """One repository; after each step the observation is compared with the truth of git and the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bridge-random-"))
        self.truths: dict[bytes, str] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def git(self, *arguments: str) -> bytes:
        done = subprocess.run(["git", *arguments], cwd=self.folder, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else b""

    def target(self, name: str) -> Path:
        path = self.folder / name
        for parent in reversed(path.relative_to(self.folder).parents[:-1]):
            if not (self.folder / parent).is_dir():
                (self.folder / parent).unlink(missing_ok=True)
                (self.folder / parent).mkdir()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        return path

    @initialize()
    def start(self) -> None:
        self.git("init", "-q", "-b", "main")
        (self.folder / ".gitignore").write_text("*.log\n")

    @rule(name=NAMES, text=TEXTS)
    def write(self, name: str, text: str) -> None:
        path = self.target(name)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, newline="")

    @rule(name=NAMES, destination=st.sampled_from(["a", "b", "nowhere"]))
    def link(self, name: str, destination: str) -> None:
        path = self.target(name)
        path.unlink(missing_ok=True)
        path.symlink_to(destination)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        path = self.folder / name
        if os.path.lexists(path):
            self.target(name).unlink(missing_ok=True)

    @rule(name=NAMES, mode=st.sampled_from([0o644, 0o755]))
    def chmod(self, name: str, mode: int) -> None:
        path = self.folder / name
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if os.path.lexists(self.folder / name):
            os.utime(self.folder / name, (1_000_000_000, 1_000_000_000), follow_symlinks=False)

    @rule(name=NAMES)
    def stage(self, name: str) -> None:
        self.git("add", "-A", "--", name)

    @rule(name=NAMES)
    def unstage(self, name: str) -> None:
        self.git("rm", "-r", "-q", "--cached", "--", name)

    @rule()
    def commit(self) -> None:
        self.git("commit", "-q", "-m", "x")

    @rule()
    def stash(self) -> None:
        self.git("stash", "-u")

    @rule()
    def unstash(self) -> None:
        self.git("stash", "pop")

    @rule()
    def reset(self) -> None:
        self.git("reset", "-q", "--hard")

    @rule(branch=st.sampled_from(["main", "side"]))
    def switch(self, branch: str) -> None:
        if not self.git("switch", branch):
            self.git("switch", "-c", branch)

    @rule(branch=st.sampled_from(["main", "side"]))
    def merge(self, branch: str) -> None:
        self.git("merge", "--no-edit", branch)

    @rule(name=st.sampled_from(["folder", "sub"]))
    def nest(self, name: str) -> None:
        if not os.path.lexists(self.folder / name / ".git"):
            self.git("init", "-q", "-b", "main", name)

    @rule(value=st.sampled_from(["true", "false", "input"]))
    def autocrlf(self, value: str) -> None:
        self.git("config", "core.autocrlf", value)

    @rule(value=st.sampled_from(["true", "false"]))
    def file_mode(self, value: str) -> None:
        self.git("config", "core.fileMode", value)

    @invariant()
    def the_observation_is_the_truth(self) -> None:
        if not (self.folder / ".git").exists():
            return
        printed = self.git("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
        seen = observe(self.folder, clock=SystemClock(), timeout_seconds=60)
        assert seen.unknown is None, (seen.unknown, seen.unknown_path, seen.detail)
        assert seen.is_clean == (printed == b"")
        assert (seen.state.dirty_hash == CLEAN_DIRTY_HASH) == seen.is_clean
        truth = self.truth(printed)
        assert self.truths.setdefault(truth, seen.state.dirty_hash) == seen.state.dirty_hash
        assert len(set(self.truths.values())) == len(self.truths), "two states share a dirty hash"

    def truth(self, printed: bytes) -> bytes:
        """Everything git status distinguishes and every byte below the listed paths, as one digest."""
        listed = self.git(
            "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames"
        )
        digest = hashlib.sha256(listed if printed else b"")
        counts_mode = self.git("config", "core.fileMode").strip() != b"false"
        for line in listed.split(b"\0"):
            if line[:1] in {b"1", b"u", b"?"}:
                path = line.split(b" ", {b"1": 8, b"u": 10, b"?": 1}[line[:1]])[-1]
                digest.update(self.below(path, is_mode_counted=counts_mode and line[:1] == b"?"))
        return digest.digest()

    def below(self, path: bytes, *, is_mode_counted: bool) -> bytes:
        absolute = os.path.join(os.fsencode(self.folder), path)
        if os.path.islink(absolute):
            return b"link " + os.readlink(absolute)
        if os.path.isfile(absolute):
            is_executable = is_mode_counted and os.access(absolute, os.X_OK)
            return b"file %d " % is_executable + Path(os.fsdecode(absolute)).read_bytes()
        if os.path.isdir(absolute):
            inside = subprocess.run(
                ["git", "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames"],
                cwd=absolute,
                capture_output=True,
                check=True,
            ).stdout
            names = [line.split(b" ")[-1] for line in inside.split(b"\0") if line[:1] in {b"1", b"?"}]
            head = [line for line in inside.split(b"\0") if not line.startswith(b"# branch.head")]
            return b"\0".join([*head, *(self.below(os.path.join(path, name), is_mode_counted=True) for name in names)])
        return b"absent"


TestWorktree = Worktree.TestCase
TestWorktree.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
