"""A repository, a store, a resident controller and a real agent, set up for one end-to-end test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.e2e.agents import Installed, set_up
from tests.e2e.modelserver import ModelServer

#: Longest wait for anything here; only what hangs takes so long.
PATIENCE_SECONDS: Final = 240.0


class Stage:
    """Runs ``bridge`` in a repository of its own, with harnesses that reach the scripted model alone."""

    def __init__(self, root: Path, server: ModelServer) -> None:
        self.root = root
        self.repo = root / "repo"
        self.home = root / "state"
        self.server = server
        self.home.mkdir()
        self.repo.mkdir()
        script = Path(sysconfig.get_path("scripts")) / "bridge"
        self._program = [str(script)] if script.exists() else [sys.executable, "-P", "-m", "bridge"]
        self._make_repository()

    def _make_repository(self) -> None:
        (self.repo / "readme.txt").write_text("a repository\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Someone")
        self.git("config", "user.email", "someone@example.org")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "begin")

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""
        done = subprocess.run(["git", *words], cwd=self.repo, check=True, capture_output=True, text=True)
        return done.stdout

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "VIRTUAL_ENV") if name in os.environ}
        python = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        return {**kept, **python, "HOME": str(self.root), "BRIDGE_HOME": str(self.home)}

    def configure(self, agents: Sequence[Installed], *, silence_seconds: float, **options: str) -> None:
        """Write ``config.toml`` with a harness for each agent, set up in a home folder of its own."""
        lines = [f"worker_silence_seconds = {silence_seconds}", "idle_timeout_seconds = 600"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in options.items()]
        for installed in agents:
            name = installed.agent.name
            env = set_up(name, self.root / "homes" / name, self.server.url)
            env["PATH"] = os.pathsep.join((installed.path, os.environ["PATH"]))
            lines += [f"[harness.{name}]", f"command = {json.dumps(list(installed.command))}", f"[harness.{name}.env]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in env.items()]
        (self.home / "config.toml").write_text("\n".join(lines) + "\n")

    def bridge(self, *words: str, status: int = 0, stdin: str = "") -> str:
        """Run a command to its end and return what it prints, after checking its exit status."""
        done = subprocess.run(
            [*self._program, *words],
            cwd=self.repo,
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == status, f"bridge {' '.join(words)}: {done.returncode}\n{done.stderr}\n{done.stdout}"
        return done.stdout

    def json(self, *words: str) -> Any:
        """Run a command with ``--json`` and return what it prints."""
        return json.loads(self.bridge(*words, "--json"))

    def start(self, *words: str, stdin: str = "") -> subprocess.Popen[str]:
        """Start a command, hand it its input, and leave it running."""
        process = subprocess.Popen(
            [*self._program, *words],
            cwd=self.repo,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        return process

    @contextmanager
    def controller(self) -> Iterator[None]:
        """Have a resident controller, and end it with its workers."""
        self.bridge("serve", "--detach")
        try:
            yield
        finally:
            self.bridge("serve", "--stop", "--cancel-workers")

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Return the tasks by name."""
        return {task["name"]: task for task in self.json("task", "list")}

    def task(self, name: str) -> dict[str, Any]:
        """Return a task with its attempts and its result."""
        return dict(self.json("task", "show", name))


def until(condition: Callable[[], Any], why: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait for a condition and return what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {why}"
        time.sleep(0.1)
    return found


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, after checking that it is one."""
    assert isinstance(value, Mapping), value
    return value
