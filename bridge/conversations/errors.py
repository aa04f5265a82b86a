"""What can be wrong with a request to the conversation forest."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class SessionNotFound(BridgeError):
    """Raised when a reference names no session."""

    code = "session_not_found"
    exit_status = 46
    summary = "A reference names no session of this store."
    default_hint = "List them: bridge session list"


class EntryNotFound(BridgeError):
    """Raised when a reference names no entry."""

    code = "entry_not_found"
    exit_status = 47
    summary = "A reference names no entry of this store, or none of the session it must lie in."
    default_hint = "Look with bridge log or bridge tree."


class AmbiguousReference(BridgeError):
    """Raised when a short reference has several meanings; ``details["matches"]`` lists them."""

    code = "ambiguous_reference"
    exit_status = 48
    summary = "A short reference fits several sessions or entries."
    default_hint = "Type more of it."


class InvalidReference(BridgeError):
    """Raised when a text cannot be a reference at all."""

    code = "invalid_reference"
    exit_status = 49
    summary = "A text has none of the forms of a reference."
    default_hint = "Write 9f3a.31, a sequence, a label, a full id, or @ for the current entry."


class HeadMoved(BridgeError):
    """Raised when the head is not where the caller expected it. Nothing was written."""

    code = "head_moved"
    exit_status = 50
    summary = "The conversation's head is not the one that the caller expected; nothing was written."
    default_hint = "Look where it is with bridge log, then repeat with --expect-head and that entry."


class EntryShared(BridgeError):
    """Raised when a fork's head or cursor would move onto an entry it shares with its origin."""

    code = "entry_shared"
    exit_status = 51
    summary = "An entry belongs to the session a fork came from; the fork's own head never moves onto it."
    default_hint = "Fork again from that entry: bridge fork ENTRY"


class EntryNotOnPath(BridgeError):
    """Raised when a page of a path is asked for by an entry that the path does not hold, or no longer holds."""

    code = "entry_not_on_path"
    exit_status = 64
    summary = "A page of a path was asked for by an entry that does not lie on it: the head went another way."
    default_hint = "Read the path anew without it, or every branch with --all."


class NothingBefore(BridgeError):
    """Raised when there is no entry before the current one to go back to."""

    code = "nothing_before"
    exit_status = 52
    summary = "The head is at the beginning of the session already."
    default_hint = "The next message starts over from the beginning; or go elsewhere: bridge goto SESSION ENTRY"


class CursorNotFound(BridgeError):
    """Raised when a writer names a cursor that it does not hold."""

    code = "cursor_not_found"
    exit_status = 53
    summary = "A writer names a branch cursor that is not open in the session."
    default_hint = "Append without a cursor to go on from the head, or name the parent."


class CursorExists(BridgeError):
    """Raised when a cursor is opened twice."""

    code = "cursor_exists"
    exit_status = 54
    summary = "A branch cursor of that owner is open in the session already."
    default_hint = "Close the open one first, or use another owner."


class ExternalIdConflict(BridgeError):
    """Raised when an external id comes again with other content. The first one stays."""

    code = "external_id_conflict"
    exit_status = 55
    summary = "An external id is recorded already, with other content; the first one stays as it is."
    default_hint = "Look at the one that is there: bridge show ENTRY"


class InvalidLabel(BridgeError):
    """Raised when a name cannot be a label."""

    code = "invalid_label"
    exit_status = 56
    summary = "A name cannot be a label: empty, too long, or it reads like another kind of reference."
    default_hint = "Use 1 to 64 letters, digits, hyphens and underscores, not digits alone."


class SessionQuarantined(BridgeError):
    """Raised by every reader and writer of a session that ``bridge db check`` found damaged."""

    code = "session_quarantined"
    exit_status = 61
    summary = "A session was found damaged and is set aside: it is neither read nor written; its siblings stay usable."
    default_hint = (
        "See what was found with bridge doctor. bridge show still shows single entries; bridge db restore goes back."
    )


class PathBroken(BridgeError):
    """Raised when a path ends before its root: a row is missing, or the parents do not lead upwards."""

    code = "path_broken"
    exit_status = 57
    summary = "A path does not reach its root: an entry is missing or damaged."
    default_hint = "Other branches and sessions stay usable. Look closer with bridge doctor."


class PayloadTooLarge(BridgeError):
    """Raised when a payload is larger than an entry may be."""

    code = "payload_too_large"
    exit_status = 58
    summary = "A payload is larger than an entry may be; nothing was written."
    default_hint = "Record a summary, and keep the full text in a file."


class SessionExists(BridgeError):
    """Raised when a session is to be made under an id that is taken."""

    code = "session_exists"
    exit_status = 59
    summary = "A session with that id exists already, or no free id was found for a new one."
    default_hint = "Choose another id, or let Bridge choose one."


class InvalidSession(BridgeError):
    """Raised when a new session or a change of one is not possible as asked."""

    code = "invalid_session"
    exit_status = 60
    summary = "A session cannot be made or changed as asked (unknown kind, relation without parent, overlong label)."
    default_hint = "Mend what the message names and try again."


class InvalidBoundary(BridgeError):
    """Raised when a compaction cannot stand for the beginning of the branch it would be recorded on."""

    code = "invalid_boundary"
    exit_status = 62
    summary = (
        "A compaction's summary is empty, or what it would retain does not lie on its branch; nothing was written."
    )
    default_hint = "Name an entry of the active path as the first one to keep: bridge log"


class SessionDiffers(BridgeError):
    """Raised when a session is to be taken in whose id is that of another one, or of one that went on differently."""

    code = "session_differs"
    exit_status = 200
    summary = "A session to be imported differs from the one of that id that is here; nothing was written."
    default_hint = "Compare them: bridge show ENTRY. A store of its own ($BRIDGE_HOME) takes the other copy."


class SessionRemoved(BridgeError):
    """Raised when a session is to be taken in that was here once and was removed: ids are never used again."""

    code = "session_removed"
    exit_status = 201
    summary = "A session to be imported was removed from this store; its id is not used again."
    default_hint = "A store of its own ($BRIDGE_HOME) takes it."


class EraseRefused(BridgeError):
    """Raised when a payload is to be erased that cannot be, or does not hold what is to be erased."""

    code = "erase_refused"
    exit_status = 202
    summary = "An entry's payload is not erased: it is a root, is erased already, or does not hold the pattern."
    default_hint = "Look at what it holds: bridge show ENTRY"
