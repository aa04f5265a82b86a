"""The installed program as a black box: started as a process, judged by status, stdout and stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import prepared

ROOT = Path(__file__).resolve().parents[2]
#: Longest run of one command; far above what any takes, so that only a hang ends here.
TIMEOUT_SECONDS = 90


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it wrote."""

    words: tuple[str, ...]
    status: int
    stdout_bytes: bytes
    stderr_bytes: bytes

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8")

    def json(self) -> Any:
        """What was printed with ``--json``: exactly one value and nothing else."""
        return json.loads(self.stdout_bytes)

    def error(self) -> dict[str, Any]:
        """The error object on stderr: exactly one, and nothing else."""
        record = json.loads(self.stderr_bytes)
        assert set(record) == {"error"}
        assert set(record["error"]) == {"code", "message", "hint", "details"}
        return dict(record["error"])

    def ok(self) -> Ran:
        """This, after asserting that the command succeeded."""
        assert self.status == 0, f"{self.words}: status {self.status}\n{self.stderr}\n{self.stdout}"
        return self


class BridgeCli:
    """Runs ``bridge``: the script beside the testing interpreter, else ``python -m bridge`` from the checkout.

    Unless it is to be started from the beginning, a command is a fork of a process that has loaded the libraries.
    """

    def __init__(self, directory: Path, *, is_prepared: bool = True) -> None:
        self._is_prepared = is_prepared
        #: Where commands run unless told otherwise.
        self.directory = directory
        script = Path(sysconfig.get_path("scripts")) / "bridge"
        self._is_installed = script.exists()
        #: The words that start the program, for tests that need a process of their own.
        self.command = [str(script)] if self._is_installed else [sys.executable, "-m", "bridge"]

    def environment(self, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """The environment of a command: the test's own, with changes (``None`` removes)."""
        environment = dict(os.environ)
        if not self._is_installed:
            environment["PYTHONPATH"] = str(ROOT)
        for name, value in (changes or {}).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        return environment

    def __call__(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str | None] | None = None,
    ) -> Ran:
        """Run a command to its end; never raises for its status."""
        told, directory, variables = tuple(map(str, words)), cwd or self.directory, self.environment(environment)
        ready = prepared(variables) if self._is_prepared else None
        if ready is not None:
            done = ready.run(list(told), cwd=directory, environment=variables, stdin=stdin, timeout=TIMEOUT_SECONDS)
        else:
            done = subprocess.run(
                [*self.command, *told],
                cwd=directory,
                input=stdin,
                capture_output=True,
                env=variables,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        return Ran(told, done.returncode, done.stdout, done.stderr)


@pytest.fixture
def bridge_cli(tmp_path: Path, bridge_home: Path) -> BridgeCli:
    """The program with a state directory of its own; runs in an empty directory outside any repository."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return BridgeCli(directory)


@pytest.fixture
def installed_cli(bridge_cli: BridgeCli) -> BridgeCli:
    """The same, but each command is started from the beginning, as a shell starts it."""
    return BridgeCli(bridge_cli.directory, is_prepared=False)
