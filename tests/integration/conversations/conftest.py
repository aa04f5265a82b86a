"""A recorder on a store of its own, and short ways to say things in tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from bridge.control.recording import Recorder
from bridge.conversations import paths
from bridge.conversations.models import Entry, EntryDraft, NewSession
from bridge.foundation.clock import FixedClock
from bridge.storage.store import Store


class Forest:
    """A recorder with texts instead of drafts; reading opens the file anew where ``reopen`` was called."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FixedClock(datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
        self.store = Store.open(url)
        self.recorder = Recorder(self.store, self.clock)

    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.url)
        self.recorder = Recorder(self.store, self.clock)

    def session(self, **options) -> str:
        return self.recorder.create_session(NewSession(**options)).id

    def append(self, session_id: str, kind: str = "user.message", *, payload=None, text=None, **options) -> Entry:
        payload = {"text": text or "hello"} if payload is None else payload
        return self.recorder.append_now(session_id, EntryDraft(kind=kind, payload=payload, **options))

    def say(self, session_id: str, text: str, **options) -> Entry:
        """Append a message, of the user if the text begins with u, else of the assistant."""
        kind = "user.message" if text.startswith("u") else "assistant.message"
        return self.append(session_id, kind, text=text, **options)

    def texts(self, session_id: str, leaf: str | None = None) -> list[str]:
        with self.store.read() as connection:
            path = paths.active_path(connection, session_id) if leaf is None else paths.path_to(connection, leaf)
        return [entry.payload.get("text", entry.kind) for entry in path]

    def head(self, session_id: str) -> str:
        with self.store.read() as connection:
            return paths.active_path(connection, session_id, include_roots=True)[-1].id


@pytest.fixture
def forest(database_url: str) -> Iterator[Forest]:
    opened = Forest(database_url)
    yield opened
    opened.store.close()
