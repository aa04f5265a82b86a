"""What can be wrong with a portable session file."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class TranscriptInvalid(BridgeError):
    """Raised when a portable session file is damaged or incomplete.

    ``details`` holds ``line`` (from 1), ``offset`` (of that line's first byte, from 0) and ``reason``.
    """

    code = "transcript_invalid"
    exit_status = 125
    summary = "A portable session file is damaged or cut short; the details name line, byte offset and reason."
    default_hint = "Export the session again; nothing of a damaged file is taken in."


class UnsupportedTranscriptVersion(TranscriptInvalid):
    """Raised when a portable session file has a format version that this Bridge does not read."""

    code = "unsupported_transcript_version"
    exit_status = 249
    summary = "A portable session file has a format version that this Bridge does not read."
    default_hint = "Read it with the Bridge that wrote it, or with a newer one."


class TranscriptPartial(BridgeError):
    """Raised when a file is to be imported that was written without the hidden entries."""

    code = "transcript_partial"
    exit_status = 250
    summary = "A portable session file was written without hidden entries, so that its hashes cannot be recomputed."
    default_hint = "Export again: bridge export SESSION, or with --scope active --hidden"


class UnknownTranscriptFormat(TranscriptInvalid):
    """Raised when a file is of no form that Bridge takes in, or not of the one that was named."""

    code = "unknown_transcript_format"
    exit_status = 125
    summary = "A file is of no form that Bridge takes in, or not of the one that was named; nothing was written."
    default_hint = "The details say what was seen. docs/importing.md lists what can be taken in."


class TranscriptDatabaseUnreadable(UnknownTranscriptFormat):
    """Raised when a database of another program cannot be read."""

    code = "transcript_database_unreadable"
    exit_status = 125
    summary = "A database of another program cannot be read, or is damaged; nothing was written."
    default_hint = "Look whether the program itself still opens it, then import again."


class TranscriptEmpty(UnknownTranscriptFormat):
    """Raised when a file that is to be imported holds no record at all."""

    code = "transcript_empty"
    exit_status = 125
    summary = "A file that is to be imported is empty, or holds nothing whole; nothing was written."
    default_hint = "If the agent was stopped before its first answer, there is nothing to take in."
