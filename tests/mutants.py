"""A store with something in every column that a verification covers, and everything that can be done to one value."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from bridge.control.checks.anchoring import anchor_log
from bridge.control.checks.verification import read_root, verify
from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.plans.file import load_plan
from bridge.control.plans.scheduling import request_of, run_plan
from bridge.control.removal.erasing import erase
from bridge.control.removal.pruning import prune
from bridge.control.standpoint import Standpoint
from bridge.conversations.condition.store import put_quarantine
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.repository import discover
from bridge.integrity.coverage import COVERAGE
from bridge.integrity.subtrees import roots
from bridge.semantics.stamps import Stamp, UnknownReason
from bridge.storage.tables import metadata
from bridge.workspaces.models import WorkspaceLink
from bridge.workspaces.registration import register
from bridge.workspaces.store import add_link, save_state

NOWHERE = Standpoint()
#: Entries of the main session; with those of the others there are some 200.
ENTRIES = 150


class Specimen(NamedTuple):
    """The sessions of the store: ``bystander`` shares nothing with the others."""

    bystander: str
    main: str
    fork: str
    imported: str


@contextmanager
def opened(home: Path, url: str | None = None) -> Iterator[Controller]:
    environment = {"BRIDGE_HOME": str(home)} | ({} if url is None else {"BRIDGE_DATABASE_URL": url})
    with Controller(load_settings(environment), clock=SystemClock(), environment=os.environ) as controller:
        yield controller


def build(controller: Controller, repository: Any, folder: Path, entries: int = ENTRIES) -> Specimen:
    """Record something of everything."""
    recorder = controller.recorder
    gone = recorder.create_session(NewSession(label="gone"))
    recorder.append_now(gone.id, EntryDraft(kind="note", payload={"text": "soon gone"}))
    bystander = recorder.create_session(NewSession(label="bystander"))
    for number in range(4):
        recorder.append_now(bystander.id, EntryDraft(kind="user.message", payload={"text": f"aside {number}"}))
    assert prune(controller, keep=1).removed == (gone.id,)
    workspace = recorder.transact(
        lambda recording: register(recording.tx, discover(repository.path), moment=recording.moment)
    ).workspace
    main = recorder.create_session(NewSession(label="main", harness="test", workspace_id=workspace.id))
    _fill(controller, repository, main.id, entries)
    fork = recorder.fork(f"{main.id}-000009", NewSession(parent_session_id=main.id, parent_relation="forked"))
    for number in range(8):
        recorder.append_now(fork.id, EntryDraft(kind="user.message", payload={"text": f"else {number}"}))
    erase(controller, NOWHERE, f"{main.id}-000034")
    erase(controller, NOWHERE, f"{main.id}-000035", pattern="naïve")
    _delegate(controller, workspace, repository, folder)
    imported = _import(controller, folder)
    link = WorkspaceLink(workspace.id, "repository", "tree", "other repository", "other tree", "/old", "/new")
    recorder.transact(lambda recording: _relink(recording, link))
    recorder.transact(lambda recording: _set_aside(recording, imported))
    for session in (bystander.id, main.id, fork.id):
        read_root(controller, NOWHERE, session)
    with controller.store.read() as connection:
        reading = roots.read(connection, main.id, kept_from=1)
    controller.store.write(lambda tx: roots.keep(tx, reading))
    anchor_log(controller)
    return Specimen(bystander.id, main.id, fork.id, imported)


def _fill(controller: Controller, repository: Any, session: str, entries: int) -> None:
    recorder, chance = controller.recorder, random.Random(1)
    (repository.path / "a.txt").write_text("changed\n")
    (repository.path / "docs").mkdir(exist_ok=True)
    (repository.path / "docs" / "new.txt").write_text("new\n")
    seen = controller.observer.observe(repository.path)
    lost = Stamp(
        unknown_reason=UnknownReason.UNREADABLE_PATH, unknown_path="docs/secret", unknown_detail="permission denied"
    )
    ids = [f"{session}-000000"]
    for number in range(entries):
        text = "x" * 20_000 if number == 40 else f"entry {number}, naïve"
        draft = EntryDraft(
            kind="assistant.message" if number % 2 else "user.message",
            payload={"text": text, "provider_meta": {"n": number, "f": 1.5}},
            parent_entry_id=chance.choice(ids[-8:]) if number % 20 == 7 else None,
            external_id=f"m{number}" if number % 9 == 0 else None,
            external_source="made-up" if number % 9 == 0 else "",
        )
        stamp = lost if number % 30 == 3 else seen.stamp
        entry = recorder.append_now(
            session, draft, stamp, first=lambda recording: save_state(recording.tx, seen, recording.moment)
        )
        ids.append(entry.id)
    recorder.label(session, ids[5], "start")
    recorder.label(session, ids[9], "later")
    recorder.transact(lambda recording: recording.open_cursor(session, "turn", ids[20]))
    recorder.transact(lambda recording: recording.update_session(session, label="main, renamed"))
    recorder.append_now(session, EntryDraft(kind="note", payload={"text": "on"}, cursor="turn"))
    recorder.move_head(session, ids[30])


def _delegate(controller: Controller, workspace: Any, repository: Any, folder: Path) -> None:
    """Run two tasks to their end, the second of which cites the first."""
    script = (
        "import json, os, pathlib; pathlib.Path('made.txt').write_text('x');"
        "pathlib.Path(os.environ['BRIDGE_RESULT']).write_text(json.dumps({'status': 'completed', 'summary': 'done'}))"
    )
    command = f'command = ["{sys.executable}", "-c", """{script}"""]'
    text = f'[[worker]]\nid = "one"\nobjective = "one"\n{command}\n[[worker]]\nid = "two"\nobjective = "two"\nneeds = ["one"]\n{command}\n'  # noqa: E501 - one plan
    plan = request_of(load_plan(text, path=folder / "plan.toml", repository_root=repository.path), dirty="ignore")

    async def run() -> None:
        with anyio.fail_after(100):
            outcome = await run_plan(controller, workspace, plan)
        assert outcome.is_completed

    anyio.run(run)


def _import(controller: Controller, folder: Path) -> str:
    file = BytesIO()
    with opened(folder / "elsewhere") as there:
        session = there.recorder.create_session(NewSession(label="from elsewhere"))
        for number in range(6):
            draft = EntryDraft(
                kind="note", payload={"text": f"there {number}"}, external_id=str(number), external_source="made-up"
            )
            entry = there.recorder.append_now(session.id, draft)
        there.recorder.label(session.id, entry.id, "end")
        export_session(there, NOWHERE, ExportRequest(session=session.id), file.write)
    import_session(controller, file)
    return session.id


def _relink(recording: Any, link: WorkspaceLink) -> None:
    add_link(recording.tx, link, recording.moment)
    body = {name: getattr(link, name) for name in WorkspaceLink.__slots__}
    recording.event(link.workspace_id, "workspace.relinked", body | {"shared_roots": [], "stamped_head": None})


def _set_aside(recording: Any, session: str) -> None:
    put_quarantine(recording.tx, session, "by_hand", "[]", recording.moment)
    recording.event(session, "session.quarantined", {"reason": "by_hand", "flaws": 1})


class Mutation(NamedTuple):
    """One value of one row, and what it is to be instead."""

    table: str
    column: str
    row: dict[str, Any]
    value: Any

    @property
    def session(self) -> str:
        """The session that the row speaks of; empty if that is none."""
        for name in ("session_id", "chain_id", "parent_session_id"):
            if self.row.get(name) is not None:
                return str(self.row[name])
        return str(self.row["id"]) if self.table == "sessions" else ""


def flipped(value: Any, chance: random.Random) -> Any:
    """Return a value with one bit of it turned over; of NULL something that is not."""
    if value is None:
        return "x"
    if isinstance(value, int):
        return value ^ (1 << chance.randrange(4))
    raw = bytearray(value.encode() if isinstance(value, str) else value)
    if not raw:
        return "x" if isinstance(value, str) else b"x"
    place = chance.randrange(len(raw))
    raw[place] ^= 1 << chance.randrange(8)
    return _Text(bytes(raw)) if isinstance(value, str) else bytes(raw)


class _Text(bytes):
    """The bytes of a text, which need not be UTF-8."""


class Hand:
    """Somebody with the database in hand: changes one thing, and puts it back."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def rows(self, table: str) -> list[dict[str, Any]]:
        names = [column.name for column in metadata.tables[table].columns]
        found = self.connection.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY {names[0]}").fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[bool]:
        """Put the value there; false if the database's own keys do not let it be."""
        changed = {**mutation.row, mutation.column: mutation.value}
        try:
            self._set(mutation, mutation.row, mutation.value)
        except Exception as error:
            if "constraint" not in str(error).lower() and "invalid" not in str(error).lower():
                raise
            yield False
            return
        try:
            yield True
        finally:
            self._set(mutation, changed, mutation.row[mutation.column])

    @contextmanager
    def dropped(self, table: str, row: dict[str, Any]) -> Iterator[None]:
        keys, values = self._where(table, row)
        assert self.connection.execute(f"DELETE FROM {table} WHERE {keys}", values).rowcount == 1
        try:
            yield
        finally:
            self.insert(table, row)

    def insert(self, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(row))
        self.connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))

    def delete(self, table: str, row: dict[str, Any]) -> None:
        keys, values = self._where(table, row)
        assert self.connection.execute(f"DELETE FROM {table} WHERE {keys}", values).rowcount == 1

    def _set(self, mutation: Mutation, row: dict[str, Any], value: Any) -> None:
        keys, values = self._where(mutation.table, row)
        mark = "CAST(? AS TEXT)" if isinstance(value, _Text) else "?"
        statement = f"UPDATE {mutation.table} SET {mutation.column} = {mark} WHERE {keys}"
        assert self.connection.execute(statement, (_plain(value), *values)).rowcount == 1, mutation

    @staticmethod
    def _where(table: str, row: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
        keys = [column.name for column in metadata.tables[table].primary_key.columns]
        conditions = [f"{key} = {'CAST(? AS TEXT)' if isinstance(row[key], _Text) else '?'}" for key in keys]
        return " AND ".join(conditions), tuple(_plain(row[key]) for key in keys)


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, _Text) else value


#: Each covered column, with its table.
COVERED = sorted((table, name) for table, columns in COVERAGE.items() for name, one in columns.items() if one.part)
PARTS = ("tree", "chain", "log", "states")


def look(controller):
    return verify(controller, NOWHERE, None, only=PARTS)


def check_flips(controller, hand, sessions, table, *, samples):
    """Flip a bit of some values of each covered column, those that are NULL as well as those that are not."""
    chance = random.Random(table)
    rows = hand.rows(table)
    assert rows, f"nothing in {table}"
    for name in [name for covered, name in COVERED if covered == table]:
        filled = [row for row in rows if row[name] is not None]
        empty = [row for row in rows if row[name] is None]
        assert filled, f"{table}.{name} has no value anywhere"
        chosen = chance.sample(filled, min(samples, len(filled))) + chance.sample(empty, min(1, len(empty)))
        for row in chosen:
            mutation = Mutation(table, name, row, flipped(row[name], chance))
            with hand.mutated(mutation) as is_done:
                if is_done:
                    check_found(look(controller), mutation, sessions)
    assert look(controller).is_healthy


def check_found(found, mutation, sessions):
    assert not found.is_healthy, mutation
    faulty = {verdict.subject for verdict in found.sessions if not verdict.is_healthy}
    if mutation.session != sessions.bystander:
        assert sessions.bystander not in faulty, mutation
    elif mutation.table != "repository_states":
        # What is done to one session leaves the others alone.
        assert not faulty & {sessions.main, sessions.fork, sessions.imported}, (mutation, faulty)
