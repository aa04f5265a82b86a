"""Taking in the events that no controller took when they came: without a file state, in their order, each once."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.control.capture import store as rows
from bridge.control.capture.model import Delivery
from bridge.control.capture.places import LOST_PREFIX, SPOOL_FOLDER, hooks_folder
from bridge.control.capture.taking import Capture
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.foundation.config import Settings
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.foundation.redaction import redact
from bridge.integrity.events import CAPTURE_TAKEN_IN, STORE_CHAIN
from bridge.storage.errors import DatabaseBusy, DatabaseFailed

#: Largest kept event that is read, in bytes; the client writes none that is larger.
MAX_BYTES: Final = 256 * 1024
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What came of the kept events."""

    taken: int
    damaged: int


class Spool:
    """The folder of kept events. Safe to share between threads."""

    def __init__(self, controller: Controller, capture: Capture) -> None:
        self._controller = controller
        self._capture = capture
        self._folder = hooks_folder(controller.settings) / SPOOL_FOLDER
        self._lock = threading.Lock()

    def is_empty(self) -> bool:
        """Tell whether nothing is kept."""
        return next(_kept(self._folder), None) is None

    def take_in(self) -> TakenIn:
        """Record what is kept, the oldest first, and remove what was recorded. Blocking.

        Each event is hashed as it lies there, and the hash over all is written to the audit chain. What cannot be read
        is counted as refused and put aside under another name.

        Raises
        ------
        DatabaseBusy, DatabaseFailed
            If the store cannot be written; what is left stays.
        """
        taken = damaged = 0
        digest = hashlib.sha256()
        with self._lock:
            for path in sorted(_kept(self._folder), key=_order):
                delivery = _read(path, digest)
                if delivery is None:
                    damaged += 1
                    path.rename(path.with_suffix(".damaged"))
                    continue
                try:
                    self._capture.take(delivery)
                except (DatabaseBusy, DatabaseFailed):
                    raise
                except BridgeError:
                    _log.exception("a kept event could not be recorded", action="capture_refused", host=delivery.host)
                    self._refuse(delivery.host)
                    damaged += 1
                    path.rename(path.with_suffix(".damaged"))
                    continue
                taken += 1
                path.unlink(missing_ok=True)
            if taken:
                body = {"events": taken, "damaged": damaged, "digest": digest.hexdigest()}
                self._controller.recorder.transact(
                    lambda recording: recording.event(STORE_CHAIN, CAPTURE_TAKEN_IN, body)
                )
        return TakenIn(taken, damaged)

    def keep(self, delivery: Delivery) -> None:
        """Keep an event that could not be recorded now, without secrets."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = {"id": delivery.id, "host": delivery.host, "at": delivery.at, "parent": None}
        data = json.dumps({**kept, "event": redact(dict(delivery.raw)).value}).encode("ascii")
        if len(data) > MAX_BYTES:
            self._refuse(delivery.host)
            return
        path = self._folder / f"{delivery.id}.json"
        unfinished = path.with_suffix(".new")
        unfinished.write_bytes(data)
        unfinished.chmod(0o600)
        unfinished.replace(path)

    def _refuse(self, host: str) -> None:
        def run(recording: RecordingTransaction) -> None:
            rows.count_trouble(recording.tx.connection, host, refused=1)

        self._controller.recorder.transact(run)


def count_kept(settings: Settings) -> int:
    """Return how many events wait to be taken in."""
    return sum(1 for _ in _kept(hooks_folder(settings) / SPOOL_FOLDER))


def count_lost(settings: Settings, host: str) -> int:
    """Return how many events of a host could not even be kept."""
    try:
        return (hooks_folder(settings) / f"{LOST_PREFIX}{host}").stat().st_size
    except FileNotFoundError:
        return 0


def _kept(folder: Path) -> Iterator[Path]:
    return folder.glob("*.json")


def _order(path: Path) -> tuple[int, str]:
    # The id begins with the time, in hexadecimal digits of no fixed number.
    try:
        return int(path.stem.partition("-")[0], 16), path.stem
    except ValueError:
        return 0, path.stem


def _read(path: Path, digest: Any) -> Delivery | None:
    """Return a kept event, and add its bytes to a hash; None if it is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        record = json.loads(data)
        raw, host, identity = record["event"], record["host"], record["id"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if len(data) > MAX_BYTES or not isinstance(raw, dict) or not isinstance(host, str) or not isinstance(identity, str):
        return None
    digest.update(hashlib.sha256(data).digest())
    at = record.get("at")
    return Delivery(id=identity[:100], host=host, raw=raw, at=at if isinstance(at, float) else None, is_live=False)
