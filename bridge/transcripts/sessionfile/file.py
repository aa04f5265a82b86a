"""``SessionFile``: a session as one file, to which entries are added and from which nothing is ever taken."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any, Final, Self

from bridge.foundation.clock import Clock, SystemClock, format_timestamp
from bridge.foundation.ids import new_session_id
from bridge.transcripts.sessionfile.disk import Directory, Found, Identity
from bridge.transcripts.sessionfile.errors import (
    SessionFileError,
    SessionFileMissing,
    SessionRecoveryRequired,
    SessionRollbackFailed,
)
from bridge.transcripts.sessionfile.limits import LOCK_SECONDS, MAX_FILE_BYTES
from bridge.transcripts.sessionfile.queueing import Turns
from bridge.transcripts.sessionfile.reading import (
    Contents,
    Ledger,
    TornTail,
    generation,
    read,
    require_line,
    too_large,
)
from bridge.transcripts.sessionfile.records import (
    Place,
    SessionEntry,
    SessionHeader,
    new_entry,
    new_header,
    snapshot,
)

#: Where ids of new entries come from.
NewId = Callable[[], str]
#: Bytes of chance in an id.
_ID_BYTES: Final = 8
#: Characters of a digest in the name of what was set aside.
_DIGEST_CHARACTERS: Final = 12


def random_id() -> str:
    """Return 16 random hexadecimal digits."""
    return secrets.token_hex(_ID_BYTES)


class SessionFile:
    """A session file that was made or loaded. Safe to share between threads; other processes may append as well.

    Made by :meth:`create` or :meth:`load`. Nothing is held open between operations.
    """

    def __init__(
        self, directory: Directory, contents: Contents, *, clock: Clock, new_id: NewId, lock_seconds: float
    ) -> None:
        self._folder = directory.path
        self._name = directory.name
        self._folder_identity: Identity = directory.identity
        self._contents = contents
        self._clock = clock
        self._new_id = new_id
        self._lock_seconds = lock_seconds
        self._turns = Turns()
        self._broken: SessionRollbackFailed | None = None

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        session_id: str | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        lock_seconds: float = LOCK_SECONDS,
    ) -> Self:
        """Make a session file that holds a header alone.

        Parameters
        ----------
        session_id
            None makes one of the form ``YYYYMMDD-HHMMSS-<4 hex>``.
        clock
            Source of times; None is the machine's.
        new_id
            Source of the ids of entries.
        lock_seconds
            How long to wait for another writer, in seconds.

        Raises
        ------
        SessionFileExists
            If something has that name.
        SessionRecoveryRequired
            If a recovery marker of that name is left.
        SessionInvalidHeader
            If the session id cannot be used.
        SessionFileMissing, SessionFileLocked, SessionWriteFailed, SessionRollbackFailed
            If there is no directory; another writer is at it; it cannot be written.
        """
        used_clock = SystemClock() if clock is None else clock
        moment = used_clock.now()
        identity = new_session_id(moment) if session_id is None else session_id
        with _directory(path) as directory, directory.locked(lock_seconds):
            header = new_header(identity, format_timestamp(moment))
            _refuse_lone_marker(directory)
            data = generation([header.line])
            directory.create(data)
            contents = Contents(data, Ledger(header))
            return cls(directory, contents, clock=used_clock, new_id=new_id, lock_seconds=lock_seconds)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        lock_seconds: float = LOCK_SECONDS,
    ) -> Self:
        """Load a session file; no byte of it changes. Parameters as for :meth:`create`.

        A last line that was cut short is set aside (:attr:`torn_tail`) until the next append removes it from the file.

        Raises
        ------
        SessionFileMissing, SessionNotRegular, SessionUnreadable, SessionFileReplaced
            If it cannot be read as one generation.
        SessionRecoveryRequired
            If a recovery marker beside it holds what it does not.
        SessionFileError
            Another of its classes: what is wrong with its contents.
        """
        with _directory(path) as directory:
            contents = _load(directory, lock_seconds)
            used_clock = SystemClock() if clock is None else clock
            return cls(directory, contents, clock=used_clock, new_id=new_id, lock_seconds=lock_seconds)

    @property
    def path(self) -> str:
        """The canonical path of the file."""
        return os.path.join(self._folder, self._name)

    @property
    def header(self) -> SessionHeader:
        return self._contents.ledger.header

    @property
    def entries(self) -> tuple[SessionEntry, ...]:
        """All entries, of all branches, in the order of the file."""
        return tuple(self._contents.ledger.entries)

    @property
    def torn_tail(self) -> TornTail | None:
        """What was cut short at the end of the file, and is still there."""
        return self._contents.torn

    @property
    def is_poisoned(self) -> bool:
        """Whether a commit failed in such a way that nobody knows what the file is: nothing more is written."""
        return self._broken is not None

    def __contains__(self, identity: object) -> bool:
        return identity in self._contents.ledger

    def entry(self, identity: str) -> SessionEntry:
        """Return an entry. Raises SessionEntryMissing."""
        return self._contents.ledger.get(identity)

    def path_to(self, identity: str | None) -> tuple[SessionEntry, ...]:
        """Return the entries from the root to an entry; none for None. Raises SessionEntryMissing."""
        return tuple(reversed(list(self._contents.ledger.lineage(identity))))

    def append(self, parent_id: str | None, message: Mapping[str, Any]) -> SessionEntry:
        """Add an entry and return it once it is on the disk.

        What other writers added meanwhile is taken over first; nothing of theirs is lost. If this raises, file and
        object are what they were (but for what was taken over), and the next append works.

        Parameters
        ----------
        parent_id
            The entry it follows, the last one or any; None makes a root.
        message
            A message of ``schema/session-file/v1/message.json``. It is copied before this waits for anything.

        Raises
        ------
        SessionInvalidMessage
            If the message breaks its contract.
        SessionParentMissing, SessionToolMismatch, SessionDuplicateId, SessionInvalidEntry
            If it does not fit where it is put, or the source of ids gave one that cannot be used.
        SessionLineTooLarge, SessionFileTooLarge, SessionTooManyEntries
            If it is more than the file holds; nothing is cut.
        SessionFileLocked, SessionFileReplaced, SessionRecoveryRequired, SessionWriteFailed
            If another writer is at it for too long; the file does not go on from what was loaded; it cannot be written.
        SessionRollbackFailed
            If a commit failed and its undoing could not be proved, now or earlier.
        """
        copy = snapshot(message)
        with self._turns, self._opened() as directory, directory.locked(self._lock_seconds):
            found = self._take_over(directory)
            self._settle(directory)
            entry, data = self._next_generation(parent_id, copy)
            try:
                self._keep_torn_tail(directory)
                directory.replace(data, found)
            except SessionRollbackFailed as error:
                self._broken = error
                raise
            ledger = self._contents.ledger
            ledger.add(entry, self._place())
            self._contents = Contents(data, ledger)
            return entry

    def refresh(self) -> None:
        """Take over what other writers added.

        Raises as :meth:`load`; SessionRollbackFailed if an earlier commit raised it.
        """
        with self._turns, self._opened() as directory:
            self._take_over(directory)

    def _opened(self) -> AbstractContextManager[Directory]:
        if self._broken is not None:
            raise SessionRollbackFailed(self._broken.message, details=self._broken.details)
        return Directory(self._folder, self._name, self._folder_identity)

    def _take_over(self, directory: Directory) -> Found:
        """Read the file; if it is another generation than the one that is known, learn what it has more."""
        found = directory.read(self._name, MAX_FILE_BYTES)
        if found.data == self._contents.data:
            return found
        fresh = _parsed(directory, found)
        if not fresh.goes_on_from(self._contents):
            raise directory.replaced("it does not go on from it", entries=len(fresh.ledger))
        ledger = self._contents.ledger
        for entry in fresh.ledger.entries[len(ledger) :]:
            ledger.add(entry, self._place())
        # The objects that were handed out stay the ones that are known.
        self._contents = Contents(fresh.data, ledger, fresh.torn)
        return found

    def _settle(self, directory: Directory) -> None:
        if directory.has_marker():
            _require_beyond_marker(directory, self._contents)
            directory.settle()

    def _next_generation(self, parent_id: str | None, message: dict[str, Any]) -> tuple[SessionEntry, bytes]:
        entry = new_entry(self._new_id(), parent_id, self._clock.timestamp(), message)
        place = self._place()
        require_line(entry.line, place, entry.id)
        self._contents.ledger.check(entry, place)
        data = generation([*self._contents.lines(), entry.line])
        if len(data) > MAX_FILE_BYTES:
            raise too_large(self.path, len(data), id=entry.id)
        return entry, data

    def _place(self) -> Place:
        """Return where the next line will stand."""
        lines = self._contents.lines()
        return Place(self.path, len(lines) + 1, sum(len(line) + 1 for line in lines))

    def _keep_torn_tail(self, directory: Directory) -> None:
        torn = self._contents.torn
        if torn is not None:
            digest = sha256(torn.data).hexdigest()[:_DIGEST_CHARACTERS]
            directory.keep_aside(torn.data, f"{self._name}.torn-{digest}")


def _directory(path: str | os.PathLike[str]) -> Directory:
    folder, name = os.path.split(os.fspath(path))
    if name in {"", ".", ".."}:
        raise SessionFileMissing(f"{os.fspath(path)!r} names no file.", details={"path": os.fspath(path)})
    return Directory(os.path.realpath(folder or "."), name)


def _load(directory: Directory, lock_seconds: float) -> Contents:
    contents = None
    if not directory.has_marker():
        contents = _parsed(directory, directory.read(directory.name, MAX_FILE_BYTES))
    if contents is None or directory.has_marker():
        # A commit is under way, or one ended half way: with the lock it is known which.
        with directory.locked(lock_seconds):
            if directory.has_marker():
                contents = _beside_marker(directory)
            else:
                contents = _parsed(directory, directory.read(directory.name, MAX_FILE_BYTES))
    return contents


def _beside_marker(directory: Directory) -> Contents:
    try:
        contents = _parsed(directory, directory.read(directory.name, MAX_FILE_BYTES))
    except SessionFileError as error:
        raise _recovery(directory, f"the file itself cannot be used ({error.constant})") from error
    _require_beyond_marker(directory, contents)
    return contents


def _require_beyond_marker(directory: Directory, contents: Contents) -> None:
    try:
        marked = _parsed(directory, directory.read(directory.marker_name, MAX_FILE_BYTES))
    except SessionFileError as error:
        raise _recovery(directory, f"the marker cannot be read ({error.constant})") from error
    if not contents.goes_on_from(marked):
        raise _recovery(directory, "the file does not go on from it")


def _refuse_lone_marker(directory: Directory) -> None:
    if directory.has_marker() and not directory.has_file():
        raise _recovery(directory, "the file itself is gone")


def _recovery(directory: Directory, what: str) -> SessionRecoveryRequired:
    return SessionRecoveryRequired(
        f"A recovery marker lies beside {directory.file!r}, and {what}. Nothing was changed.",
        details={"path": directory.file, "marker": directory.marker, "reason": what},
    )


def _parsed(directory: Directory, found: Found) -> Contents:
    if found.size > MAX_FILE_BYTES:
        raise too_large(directory.file, found.size)
    return read(found.data, directory.file)
