"""What can be wrong with a session file: one family, one exit status.

Each class has Bridge's ``code`` and the published constant of the format, which is the code in capitals:
``session_invalid_json`` is ``SESSION_INVALID_JSON``. The constant also stands in ``details`` under ``constant``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from bridge.foundation.errors import BridgeError


class SessionFileError(BridgeError):
    """The base of all that is raised about session files; itself never raised.

    ``details`` holds ``path`` where a file is concerned, and ``line`` (from 1), ``offset`` (of the line's first byte,
    from 0), ``id`` and ``reason`` where they are known.
    """

    exit_status: ClassVar[int] = 251

    def __init__(self, message: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint, details={"constant": self.constant, **(details or {})})

    @property
    def constant(self) -> str:
        """The published constant, such as ``SESSION_INVALID_JSON``."""
        return self.code.upper()


class SessionFileExists(SessionFileError):
    """Raised when a session file is to be made where a file is."""

    code = "session_file_exists"
    summary = "A session file is to be made where something exists already; nothing was changed."
    default_hint = "Load the file that is there, or choose another name."


class SessionFileMissing(SessionFileError):
    """Raised when there is no file of that name, or its directory is missing."""

    code = "session_file_missing"
    summary = "There is no session file of that name."
    default_hint = "Check the path."


class SessionNotRegular(SessionFileError):
    """Raised when what has the name is a link, a directory, a pipe or a device."""

    code = "session_not_regular"
    summary = "What has the name of a session file is not a regular file; it was not read."
    default_hint = "Name the file itself: links are not followed."


class SessionUnreadable(SessionFileError):
    """Raised when the operating system refuses to read the file."""

    code = "session_unreadable"
    summary = "A session file cannot be read."
    default_hint = "See to the file's permissions and the disk."


class SessionEmpty(SessionFileError):
    """Raised when a file holds no header: nothing at all, blank lines, or a header that was cut short."""

    code = "session_empty"
    summary = "A session file holds no header: it is empty, or was cut short in its first line."
    default_hint = "Nothing was recorded in it. Remove it, or make another session file."


class SessionInvalidUtf8(SessionFileError):
    """Raised when a file is not UTF-8, wherever that is."""

    code = "session_invalid_utf8"
    summary = "A session file is not valid UTF-8."
    default_hint = "The file is damaged: take a copy from before. Nothing of it is skipped or guessed."


class SessionInvalidJson(SessionFileError):
    """Raised when a line is not one JSON object, beside a last line that was merely cut short."""

    code = "session_invalid_json"
    summary = "A line of a session file is not one JSON object, and it is not a last line that was cut short."
    default_hint = "The file is damaged, or another program's: take a copy from before. Nothing of it is skipped."


class SessionInvalidHeader(SessionFileError):
    """Raised when the first line is not the header of a session file."""

    code = "session_invalid_header"
    summary = "The first line of a file is not the header of a session file."
    default_hint = "It may be another program's transcript, which this reader does not take."


class SessionUnsupportedVersion(SessionFileError):
    """Raised when a header or an entry has another version than 1."""

    code = "session_unsupported_version"
    summary = "A session file has a version that this Bridge does not read; no byte of it was changed."
    default_hint = "Read it with the program that wrote it, or with a newer Bridge."


class SessionInvalidEntry(SessionFileError):
    """Raised when a line is JSON, but no entry: fields are missing, unknown or of the wrong form."""

    code = "session_invalid_entry"
    summary = "A line of a session file, or what is to become one, is not an entry of the contract."
    default_hint = "The details name the fields; the contract is schema/session-file/v1/entry.json."


class SessionInvalidMessage(SessionFileError):
    """Raised when the message of an entry breaks its contract."""

    code = "session_invalid_message"
    summary = "The message of an entry breaks the message contract."
    default_hint = "The details name the fields; the contract is schema/session-file/v1/message.json."


class SessionDuplicateId(SessionFileError):
    """Raised when two entries have one id."""

    code = "session_duplicate_id"
    summary = "Two entries of a session file have one id."
    default_hint = "Ids are unique in their file: see to the source of ids."


class SessionParentMissing(SessionFileError):
    """Raised when the parent of an entry is no earlier entry."""

    code = "session_parent_missing"
    summary = "The parent of an entry is no earlier entry of its session file."
    default_hint = "Name an entry of this file, or none for a root."


class SessionToolMismatch(SessionFileError):
    """Raised when a tool's result has no call with its id and name among its ancestors."""

    code = "session_tool_mismatch"
    summary = "The result of a tool matches no call on its own branch."
    default_hint = "Append the result below the call it answers, with the call's id and name."


class SessionLineTooLarge(SessionFileError):
    """Raised when a line has more bytes than a line may have."""

    code = "session_line_too_large"
    summary = "An entry needs more bytes than a line of a session file may have; nothing was cut."
    default_hint = "Keep large contents elsewhere and name them in the message."


class SessionFileTooLarge(SessionFileError):
    """Raised when the file has, or would have, more bytes than a session file may have."""

    code = "session_file_too_large"
    summary = "A session file has, or would get, more bytes than it may have; nothing was cut."
    default_hint = "Go on in another session file."


class SessionTooManyEntries(SessionFileError):
    """Raised when the file has, or would have, more entries than a session file may have."""

    code = "session_too_many_entries"
    summary = "A session file has, or would get, more entries than it may have; nothing was left out."
    default_hint = "Go on in another session file."


class SessionEntryMissing(SessionFileError):
    """Raised when an entry is asked for that the file does not have."""

    code = "session_entry_missing"
    summary = "A session file has no entry of that id."
    default_hint = "Name an entry of this file."


class SessionFileLocked(SessionFileError):
    """Raised when another writer holds the file for longer than one waits."""

    code = "session_file_locked"
    summary = "Another writer held a session file for too long; nothing was written."
    default_hint = "Try again; nothing has to be removed, a lock ends with its process."


class SessionFileReplaced(SessionFileError):
    """Raised when the file, or its directory, is no longer the one that was loaded."""

    code = "session_file_replaced"
    summary = "A session file, or its directory, was replaced by something that does not go on from what was loaded."
    default_hint = "Load the file anew and look at it before you go on."


class SessionWriteFailed(SessionFileError):
    """Raised when a commit failed and the file is what it was before."""

    code = "session_write_failed"
    summary = "A session file could not be written; it is what it was before, and may be tried again."
    default_hint = "See to the disk's space and permissions, then try again."


class SessionRollbackFailed(SessionFileError):
    """Raised when a commit failed and it could not be proved that the file is what it was before.

    The object that met it refuses further use with this same error.
    """

    code = "session_rollback_failed"
    summary = "A commit of a session file failed half way, and its undoing could not be proved."
    default_hint = "Compare the file with the recovery marker beside it; docs/session-files.md says how to go on."


class SessionRecoveryRequired(SessionFileError):
    """Raised when a recovery marker lies beside a file that does not go on from it."""

    code = "session_recovery_required"
    summary = "The recovery marker beside a session file holds what the file does not; a person has to choose."
    default_hint = "Compare the two; docs/session-files.md says how to go on."


#: What is more than a session file holds.
SIZE_ERRORS: Final = (SessionLineTooLarge, SessionFileTooLarge, SessionTooManyEntries)
#: What reading the contents of a session file may raise.
CONTENT_ERRORS: Final = (
    SessionEmpty,
    SessionInvalidUtf8,
    SessionInvalidJson,
    SessionInvalidHeader,
    SessionUnsupportedVersion,
    SessionInvalidEntry,
    SessionInvalidMessage,
    SessionDuplicateId,
    SessionParentMissing,
    SessionToolMismatch,
    *SIZE_ERRORS,
)
