"""A controller over a real store and a real repository, and plans written as people write them."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.tasks import find_task, task_details
from bridge.control.plans.file import load_plan
from bridge.control.plans.progress import Progress
from bridge.control.plans.scheduling import PlanOutcome, PlanRequest, request_of, run_plan
from bridge.conversations.models import Entry, EntryDraft, NewSession
from bridge.conversations.paths import active_path
from bridge.conversations.references import require_entry
from bridge.conversations.store import get_head
from bridge.foundation.clock import SystemClock
from bridge.git.repository import discover
from bridge.integrity.store import iterate_events
from bridge.workspaces.models import Workspace
from bridge.workspaces.registration import register
from tests.conftest import settings_here

#: No run of a test's plan takes this long; it is a bound, not an expectation.
BOUND_SECONDS = 100.0

_PREAMBLE = """\
import hashlib, json, os, pathlib, signal, subprocess, sys, time
task = json.loads(pathlib.Path(os.environ["BRIDGE_TASK"]).read_bytes())
def hand_in(summary="done", status="completed", **result):
    content = json.dumps({"status": status, "summary": summary, **result})
    pathlib.Path(os.environ["BRIDGE_RESULT"]).write_text(content)
def wait_for(path, seconds=60):
    deadline = time.monotonic() + seconds
    while not pathlib.Path(path).exists():
        if time.monotonic() > deadline:
            sys.exit(f"{path} did not appear")
        time.sleep(0.01)
"""


class World:
    """One store, one repository, and what tests do with them."""

    def __init__(self, controller: Controller, repo: Any, folder: Path) -> None:
        self.controller = controller
        self.repo = repo
        self.folder = folder
        self.workspace = self.register(repo.path)

    def register(self, path: Path) -> Workspace:
        location = discover(path)
        return self.controller.recorder.transact(
            lambda recording: register(recording.tx, location, moment=recording.moment)
        ).workspace

    # Plans

    def worker(self, name: str, body: str, **keys: Any) -> str:
        """Return a worker of a plan that runs some Python, with ``task``, ``hand_in`` and ``wait_for`` at hand."""
        return self.table(name, command=[sys.executable, "-c", _PREAMBLE + body], **keys)

    def shell(self, name: str, line: str, **keys: Any) -> str:
        """Return a worker of a plan that runs a line of shell; cheaper than Python."""
        return self.table(name, command=["/bin/sh", "-c", line], **keys)

    def table(self, name: str, **keys: Any) -> str:
        values = {"id": name, "objective": f"do {name}", **keys}
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        return "\n".join(["[[worker]]", *lines, ""]) + "\n"

    def plan(self, text: str, **changes: Any) -> PlanRequest:
        harnesses = self.controller.settings.harness
        plan = load_plan(text, path=self.folder / "plan.toml", repository_root=self.repo.path, harnesses=harnesses)
        return request_of(plan, **changes)

    def run(
        self, text: str, *, reports: list[Progress] | None = None, controller: Controller | None = None, **changes: Any
    ) -> PlanOutcome:
        """Run a plan's text to its end."""
        collected = reports if reports is not None else []

        async def main() -> PlanOutcome:
            with anyio.fail_after(BOUND_SECONDS):
                return await run_plan(
                    controller or self.controller,
                    self.workspace,
                    self.plan(text, **changes),
                    progress=collected.append,
                )

        return anyio.run(main)

    # What came of them

    def task(self, name: str) -> Delegation:
        with self.controller.store.read() as connection:
            return find_task(connection, name)

    def details(self, name: str) -> dict[str, Any]:
        return task_details(self.controller, self.task(name)).to_json()

    def result(self, name: str) -> dict[str, Any]:
        found = self.details(name)["result"]
        assert found is not None, self.details(name)
        return dict(found)

    def worktree(self, name: str) -> Path:
        return Path(self.details(name)["worktree"])

    # Conversations

    def session(self, *texts: str, workspace_id: str | None = None) -> str:
        new = NewSession(workspace_id=workspace_id or self.workspace.id, harness="test")
        session_id = self.controller.recorder.create_session(new).id
        for text in texts:
            self.say(session_id, text)
        return session_id

    def say(self, session_id: str, text: str, **where: Any) -> str:
        draft = EntryDraft(kind="user.message", payload={"text": text}, **where)
        return self.controller.recorder.append_now(session_id, draft).id

    def entry(self, entry_id: str) -> Entry:
        with self.controller.store.read() as connection:
            return require_entry(connection, entry_id)

    def path(self, session_id: str, controller: Controller | None = None) -> list[Entry]:
        with (controller or self.controller).store.read() as connection:
            return active_path(connection, session_id)

    def head(self, session_id: str) -> str:
        with self.controller.store.read() as connection:
            found = get_head(connection, session_id)
        assert found is not None
        return found.entry_id

    def kinds(self, session_id: str) -> list[str]:
        return [entry.kind for entry in self.path(session_id)]

    def events(self, chain_id: str) -> list[tuple[str, dict[str, Any]]]:
        with self.controller.store.read() as connection:
            return [
                (event.event_type, json.loads(event.body)["body"]) for event in iterate_events(connection, chain_id)
            ]

    def count(self, table: str) -> int:
        with self.controller.store.read() as connection:
            return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())

    def open_tasks(self) -> list[Delegation]:
        with self.controller.store.read() as connection:
            return rows.list_delegations(connection, open_only=True)

    def eventually(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        """Wait until something holds, within a generous bound."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not come true"
            time.sleep(0.02)

    # Files

    def everything(self, path: Path | None = None) -> dict[str, bytes]:
        """Return every byte of a checkout that belongs to its user: files, index, HEAD, refs outside refs/bridge."""
        root = path or self.repo.path
        found = {
            str(file.relative_to(root)): file.read_bytes()
            for file in sorted(root.rglob("*"))
            if file.is_file() and ".git" not in file.relative_to(root).parts
        }
        git_dir = discover(root).git_dir
        found |= {f".git/{name}": (git_dir / name).read_bytes() for name in ("index", "HEAD", "config")}
        refs = self.repo.git("for-each-ref", "--format=%(refname) %(objectname)")
        found["refs"] = "\n".join(line for line in refs.splitlines() if not line.startswith("refs/bridge/")).encode()
        return found


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


@pytest.fixture
def confined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers be confined, as they are unless somebody says otherwise; name it before what opens the store."""
    monkeypatch.delenv("BRIDGE_CONFINEMENT")


@pytest.fixture
def controller(bridge_home: Path) -> Iterator[Controller]:
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def world(controller: Controller, repository: Any, tmp_path: Path) -> World:
    return World(controller, repository, tmp_path)


@pytest.fixture
def another_controller(bridge_home: Path) -> Iterator[Callable[[], Controller]]:
    """Return a function that opens the same store anew, as another process would."""
    opened: list[Controller] = []

    def open_another() -> Controller:
        opened.append(Controller(settings_here(), clock=SystemClock(), environment=os.environ))
        return opened[-1]

    yield open_another
    for one in opened:
        one.close()
