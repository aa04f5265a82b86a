"""What is known of each session of another program while a transcript is taken in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.preparing import Ready
from bridge.conversations.growing import Placed
from bridge.conversations.models import MAX_LABEL_CHARACTERS
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.redaction import redact_text
from bridge.transcripts.foreign.neutral import SessionFacts

#: Hexadecimal digits of a digest that end the id of such a session.
_ID_DIGITS: Final = 12
#: Facts of which the first word stays.
_FIRST_WORDS: Final = (
    "cwd",
    "branch",
    "commit",
    "repository_url",
    "version",
    "created_at",
    "parent",
    "relation",
    "parent_key",
    "depth",
)
#: Longest text of a fact that is kept in a session's root, in characters.
_FACT_CHARACTERS: Final = 4096


@dataclass(slots=True)
class Native:
    """A session of another program.

    Parameters
    ----------
    session_id
        Which session it is here; None as long as it has no entry of its own.
    copy_of, copy_source
        The session here that its entries so far are those of, and the source that they have there.
    copy_leaf
        The last of them.
    is_new
        Whether this import made its session.
    may_move
        Whether the head may follow: it stands where an import left it.
    leaf
        The entry that the conversation goes on from.
    recorded_as
        The session here that hooks recorded it as, from its beginning; then nothing of it is taken in again.
    waiting
        Entries beside the conversation that came before its first one.
    """

    id: str
    facts: SessionFacts
    row: rows.NativeRow | None = None
    session_id: str | None = None
    copy_of: str | None = None
    copy_source: str | None = None
    copy_leaf: Placed | None = None
    is_new: bool = False
    may_move: bool = False
    leaf: Placed | None = None
    leaf_moved: bool = False
    first_key: str | None = None
    first_digest: str | None = None
    is_removed: bool = False
    recorded_as: str | None = None
    seen: int = 0
    added: int = 0
    last_moment: str = ""
    waiting: list[Ready] = field(default_factory=list)

    @property
    def is_here(self) -> bool:
        """Whether something of it, or all, is in a session here."""
        return (self.session_id or self.copy_of or self.recorded_as) is not None


def merged(known: SessionFacts, more: SessionFacts) -> SessionFacts:
    """Return what two reports say of a session; the first word on each matter stays, but for the title."""
    changes: dict[str, Any] = {
        name: getattr(more, name)
        for name in _FIRST_WORDS
        if getattr(known, name) is None and getattr(more, name) is not None
    }
    changes["title"] = more.title or known.title
    changes["kind"] = "worker" if "worker" in (known.kind, more.kind) else known.kind
    changes["extra"] = {**more.extra, **known.extra}
    return replace(known, **changes)


def session_id_for(format_name: str, native_id: str, created_at: str) -> str:
    """Return the id that a session of another program gets here: the same wherever it is imported."""
    digest = sha256(f"{format_name}\x00{native_id}".encode(errors="surrogatepass")).hexdigest()[:_ID_DIGITS]
    return f"{parse_timestamp(created_at):%Y%m%d-%H%M%S}-{digest}"


def label_for(facts: SessionFacts) -> str | None:
    """Return a session's title as a label: one line, secrets masked, cut to what a label holds."""
    if facts.title is None:
        return None
    text, _ = redact_text(" ".join(facts.title.split()))
    shown = "".join(character for character in text if character.isprintable())[:MAX_LABEL_CHARACTERS].strip()
    return shown or None


def source_facts(format_name: str, native: Native) -> dict[str, Any]:
    """Return what a session's root says about where it came from."""
    facts = native.facts
    named = {
        "cwd": facts.cwd,
        "git_branch": facts.branch,
        "git_commit": facts.commit,
        "repository_url": facts.repository_url,
        "version": facts.version,
        "parent_native_id": facts.parent,
        "parent_relation": facts.relation,
        "parent_key": facts.parent_key,
        "depth": facts.depth,
    }
    shown = {name: value for name, value in named.items() if value is not None}
    for name, value in shown.items():
        if isinstance(value, str):
            shown[name] = value[:_FACT_CHARACTERS]
    return {"format": format_name, "native_id": native.id, **shown, **dict(facts.extra)}


class RecentPlaces:
    """Where the last entries of a transcript are here: bounded, by session and key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._places: dict[tuple[str, str], tuple[str, Placed]] = {}
        # By key alone, for entries that name one of another session.
        self._sessions: dict[str, str] = {}

    def get(self, native: str, key: str) -> tuple[str, Placed] | None:
        """Return session and entry of a key."""
        return self._places.get((native, key))

    def anywhere(self, key: str) -> tuple[str, str, Placed] | None:
        """Return native session, session and entry of a key, of whatever session it is."""
        native = self._sessions.get(key)
        found = None if native is None else self._places.get((native, key))
        return None if native is None or found is None else (native, *found)

    def put(self, native: str, key: str, session_id: str, placed: Placed) -> None:
        self._places[native, key] = (session_id, placed)
        self._sessions.setdefault(key, native)
        if len(self._places) > 2 * self._limit:
            self._places = dict(list(self._places.items())[-self._limit :])
            kept: dict[str, str] = {}
            for native_id, known in self._places:
                kept.setdefault(known, native_id)
            self._sessions = kept
