"""Transcripts of other programs as tests write them, and what is read back of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.formats import take_in
from bridge.control.exchange.imported import Imported, ImportRequest
from bridge.control.exchange.sources import Source
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import Entry
from bridge.conversations.paths import active_path
from bridge.conversations.store import get_session, iterate_entries
from bridge.integrity.verify import verify_whole_session

SESSION = "5a5a5a5a-0000-4000-8000-000000000001"


def lines(*records: Any, end: bytes = b"\n") -> bytes:
    """Return records as JSON lines; bytes among them stand as they are."""
    return b"".join(
        record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode() + end
        for record in records
    )


def claude(key: str, parent: str | None, kind: str = "user", text: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a line of Claude Code: a message of a person, or of the model."""
    said = text if text is not None else f"words of {key}"
    message: dict[str, Any] = {"role": kind, "content": said}
    if kind == "assistant":
        message = {"role": kind, "id": f"msg_{key}", "model": "m", "content": [{"type": "text", "text": said}]}
    number = sum(map(ord, key)) % 60
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "type": kind,
        "message": message,
        "uuid": key,
        "timestamp": f"2026-05-01T10:00:{number:02d}.000Z",
        "cwd": "/nowhere/project",
        "sessionId": SESSION,
        "version": "2.1.0",
        "gitBranch": "main",
        **more,
    }


def chain(*keys: str, **more: Any) -> list[dict[str, Any]]:
    """Return lines of Claude Code, each below the one before; keys that begin with ``a`` are the model's."""
    parents = [None, *keys]
    return [
        claude(key, parent, "assistant" if key.startswith("a") else "user", **more)
        for key, parent in zip(keys, parents, strict=False)
    ]


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*records))
    return path


def take(store: Controller, path: Path, *, format_name: str | None = None, **request: Any) -> Imported:
    """Take a file in as ``bridge import`` does."""
    return take_in(store, Source(path), ImportRequest(**request), format_name=format_name)


def entries(store: Controller, session_id: str | None) -> list[Entry]:
    """Return a session's own entries without the root."""
    with store.store.read() as connection:
        return [entry for entry in iterate_entries(connection, str(session_id)) if not entry.is_root]


def keys(found: list[Entry]) -> list[str | None]:
    return [entry.external_id for entry in found]


def path_keys(store: Controller, session_id: str | None) -> list[str | None]:
    """Return the external ids on the active path, shared entries of a fork included."""
    with store.store.read() as connection:
        return [entry.external_id for entry in active_path(connection, str(session_id)) if not entry.is_root]


def all_entries(store: Controller) -> int:
    """Return how many entries all sessions have, roots left out."""
    from bridge.conversations.store import list_sessions

    with store.store.read() as connection:
        sessions = list_sessions(connection)
    return sum(len(entries(store, session.id)) for session in sessions)


def healthy(store: Controller, session_id: str | None) -> bool:
    with store.store.read() as connection:
        return verify_whole_session(connection, str(session_id)).is_healthy


def session_of(store: Controller, session_id: str | None) -> Any:
    with store.store.read() as connection:
        return get_session(connection, str(session_id))


def raw(store: Controller, session_id: str | None) -> bytes:
    """Return the transcript of a session as it is kept."""
    pieces: list[bytes] = []
    export_session(store, Standpoint(), ExportRequest(session=session_id, format="raw"), pieces.append)
    return b"".join(pieces)


def kinds(done: Imported) -> list[str]:
    return [finding.kind for finding in done.findings]
