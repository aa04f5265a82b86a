"""The command line inside the test's own process: as the installed program, without its start-up."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import structlog

from bridge.cli.main import main
from bridge.foundation.logs import configure_on_first_use


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it wrote."""

    words: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)

    def error(self) -> dict[str, Any]:
        """The error object on stderr: exactly one, and nothing else."""
        record = json.loads(self.stderr)
        assert set(record) == {"error"}
        return dict(record["error"])

    def ok(self) -> Ran:
        assert self.status == 0, f"{self.words}: status {self.status}\n{self.stderr}\n{self.stdout}"
        return self


class InProcessCli:
    """Runs commands through ``main`` with streams, directory and environment of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Ran:
        told = tuple(map(str, words))
        out, err = io.BytesIO(), io.BytesIO()
        with (
            self._streams(stdin, out, err),
            _directory(cwd or self.directory),
            patch.dict(os.environ, environment or {}),
        ):
            status = main(list(told))
        return Ran(told, status, out.getvalue().decode(), err.getvalue().decode())

    def json(self, *words: str | Path, **options: Any) -> Any:
        """What a command prints with ``--json``; it must succeed."""
        return self(*words, "--json", **options).ok().json()

    @contextmanager
    def _streams(self, stdin: bytes, out: io.BytesIO, err: io.BytesIO) -> Iterator[None]:
        streams = {
            "stdin": io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"),
            "stdout": io.TextIOWrapper(out, encoding="utf-8", write_through=True),
            "stderr": io.TextIOWrapper(err, encoding="utf-8", write_through=True),
        }
        before = {name: getattr(sys, name) for name in streams}
        try:
            for name, stream in streams.items():
                setattr(sys, name, stream)
            yield
        finally:
            for name, stream in before.items():
                setattr(sys, name, stream)
            for stream in streams.values():
                stream.detach()
            # A command that logged has sent the log to its own stderr, which is no more.
            structlog.reset_defaults()
            configure_on_first_use(None)


@contextmanager
def _directory(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture
def bridge(tmp_path: Path, bridge_home: Path) -> InProcessCli:
    """The command line with a state directory of its own, started in an empty folder outside any repository."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return InProcessCli(directory)


@pytest.fixture
def here(bridge: InProcessCli, repository) -> InProcessCli:
    """The command line, started in the repository."""
    return InProcessCli(repository.path)


@pytest.fixture
def session(here: InProcessCli) -> str:
    """A new session of the repository."""
    return here.json("session", "new")["id"]


@pytest.fixture
def say(here: InProcessCli):
    """Appends a message and returns its entry's id."""

    def append(session: str, text: str, *options: str, kind: str = "user.message") -> str:
        return here.json("append", session, "--kind", kind, "--text", text, *options)["id"]

    return append
