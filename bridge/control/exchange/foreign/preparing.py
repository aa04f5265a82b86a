"""From the items of a reader to entries that are ready to be written: times, paths, sizes. Needs no transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from bridge.control.exchange.foreign.places import Place, Places
from bridge.control.recording import Recorder
from bridge.conversations.errors import PayloadTooLarge
from bridge.conversations.models import EntryDraft, PreparedEntry
from bridge.foundation.clock import format_timestamp
from bridge.foundation.errors import InvalidText, NotCanonical
from bridge.semantics.errors import InvalidPayload
from bridge.semantics.ownwords import without_notes
from bridge.transcripts.foreign.neutral import SOURCE_META, Item, Neutral, SessionFacts
from bridge.transcripts.foreign.records import Damage, Record

#: Characters of a key or a session's id of another program, as it stands in an entry.
MAX_KEY_CHARACTERS: Final = 400
#: A time before which no agent ran, and one that a 64-bit count of milliseconds may not pass.
_EARLIEST: Final = "2000-01-01T00:00:00.000000Z"
_LATEST_MILLISECONDS: Final = 253_402_300_799_000
#: A time as nearly all programs write it, but for its day.
_USUAL_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.(?:\d{3}|\d{6})Z", re.ASCII)
_PATH_FIELDS: Final = ("paths_read", "paths_written")

#: Kinds in whose text hosts put what hooks add, and what an entry is called that is nothing but that.
_SAID: Final = frozenset({"user.message", "assistant.message", "note"})
OWN_WORDS: Final = "bridge.note"


@dataclass(slots=True)
class Ready:
    """One entry that is ready, and where it comes from; keys are as entries hold them."""

    session: str
    key: str
    base: str
    parent: str | None
    logical_parent: str | None
    is_aside: bool
    prepared: PreparedEntry
    digest: str
    line: int
    offset: int


#: What a batch is made of: entries that are ready; everything else as the reader gave it, with its place.
Work = Ready | tuple[Item, int, int]


class Preparer:
    """Prepares the items of one transcript, in their order.

    Parameters
    ----------
    format_name
        Name of the format, which is part of every entry's source.
    started_at
        When the transcript began, as far as nothing else tells: the time of its file.
    """

    def __init__(self, recorder: Recorder, places: Places, format_name: str, started_at: str) -> None:
        self.recorder = recorder
        self.places = places
        self.format_name = format_name
        self._started_at = started_at
        # Of each session: the time of its last entry, and where it works.
        self._times: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._where: dict[str, tuple[str | None, Place | None]] = {}

    def prepare(self, items: Iterable[Item], record: Record, *, is_clean: bool) -> list[Work]:
        """Return the items of a record, ready to be written; what cannot be an entry becomes one that says so.

        Parameters
        ----------
        is_clean
            Whether the line was looked through, and holds no secret.
        """
        line, offset = record.line.number, record.line.offset
        done: list[Work] = []
        for item in items:
            if type(item) is Neutral:
                done.extend(self._ready(item, record, is_clean=is_clean))
            else:
                if type(item) is SessionFacts:
                    self._learn(item)
                done.append((item, line, offset))
        return done

    def moment_of(self, session: str) -> str:
        """Return the time of a session's last entry so far."""
        return self._times.get(session, self._started_at)

    def _learn(self, facts: SessionFacts) -> None:
        if facts.cwd is not None:
            self._where[facts.session] = (facts.cwd, self.places.of(facts.cwd))
        if facts.session not in self._times:
            self._times[facts.session] = time_of(facts.created_at) or self._started_at

    def _ready(self, item: Neutral, record: Record, *, is_clean: bool) -> list[Work]:
        session = item.session
        moment = time_of(item.timestamp) or self._times.get(session) or self._started_at
        self._times[session] = moment
        item = without_own_words(item)
        payload = item.payload
        if "paths_read" in payload or "paths_written" in payload:
            payload = self._with_places(payload, session)
        meta = payload.get("provider_meta")
        source = {"digest": record.digest}
        payload["provider_meta"] = {SOURCE_META: source} if meta is None else {**meta, SOURCE_META: source}
        line, offset = record.line.number, record.line.offset
        key = safe_key(item.key)
        found: list[Work] = []
        try:
            prepared = self._prepared(item, item.kind, payload, moment, key, is_clean=is_clean)
        except PayloadTooLarge as error:
            message = (
                f"an entry of {error.details.get('bytes')} bytes, which is more than one holds; kept among the lines"
            )
            found.append((Damage("payload_too_large", message, line, offset), line, offset))
            prepared = self._prepared(item, *self._stand_in(item, record), moment, key, is_clean=False)
        except (InvalidPayload, NotCanonical, InvalidText) as error:
            message = f"an entry of kind {item.kind} that cannot be one: {error.message[:200]}"
            found.append((Damage("unusable_entry", message, line, offset), line, offset))
            prepared = self._prepared(item, *self._stand_in(item, record), moment, key, is_clean=False)
        base, parent, logical = item.base, item.parent, item.logical_parent
        found.append(
            Ready(
                session,
                key,
                key if base is None else safe_key(base),
                None if parent is None else safe_key(parent),
                None if logical is None else safe_key(logical),
                item.is_aside,
                prepared,
                record.digest,
                line,
                offset,
            )
        )
        return found

    def _prepared(
        self, item: Neutral, kind: str, payload: dict[str, Any], moment: str, key: str, *, is_clean: bool
    ) -> PreparedEntry:
        source = self._sources.get(item.session)
        if source is None:
            source = self._sources[item.session] = source_name(self.format_name, item.session)
        if is_clean:
            return self.recorder.prepare_read(
                kind,
                payload,
                visibility=item.visibility,  # type: ignore[arg-type]  # readers have no other words
                external_id=key,
                external_source=source,
                created_at=moment,
            )
        return self.recorder.prepare(
            EntryDraft(
                kind=kind,
                payload=payload,
                context_visibility=item.visibility,  # type: ignore[arg-type]  # as above
                external_id=key,
                external_source=source,
                created_at=moment,
            )
        )

    def _stand_in(self, item: Neutral, record: Record) -> tuple[str, dict[str, Any]]:
        meta = {SOURCE_META: {"digest": record.digest}}
        return "provider.unknown", {"raw_type": f"{self.format_name}:{item.kind}"[:1024], "provider_meta": meta}

    def _with_places(self, payload: dict[str, Any], session: str) -> dict[str, Any]:
        """Return a payload with its paths relative to the checkout; those elsewhere are left out, as input has them."""
        placed = dict(payload)
        cwd, place = self._where.get(session, (None, None))
        for name in _PATH_FIELDS:
            paths = placed.pop(name, None)
            if paths is None or place is None:
                continue
            kept = [inner for path in paths if (inner := place.relative(path, cwd)) is not None]
            if kept:
                placed[name] = kept
        return placed


def without_own_words(item: Neutral) -> Neutral:
    """Return an entry without what Bridge itself told the agent; what is nothing but that is no one's message."""
    text = item.payload.get("text")
    if item.kind not in _SAID or not isinstance(text, str):
        return item
    left = without_notes(text)
    if left is text or left == text:
        return item
    if left:
        return item._replace(payload={**item.payload, "text": left})
    return item._replace(kind="provider.unknown", payload={"raw_type": OWN_WORDS}, visibility=None)


def safe_key(key: str) -> str:
    """Return a key as an entry can hold it: one with odd characters, or a very long one, by its digest."""
    if len(key) <= MAX_KEY_CHARACTERS and key.isprintable():
        return key
    return f"sha256:{sha256(key.encode(errors='surrogatepass')).hexdigest()}"


def source_name(format_name: str, session: str) -> str:
    """Return the source that entries of a session have."""
    return f"{format_name}:{safe_key(session)}"


def time_of(value: str | float | None) -> str | None:
    """Return a time as entries have it; None if it is none.

    Parameters
    ----------
    value
        An ISO 8601 time with an offset (without one it is taken as UTC), or milliseconds.
    """
    try:
        if isinstance(value, str):
            if _USUAL_TIME.fullmatch(value) is not None and _is_day(value[:10]):
                found = value if len(value) == len(_EARLIEST) else value[:-1] + "000Z"
            else:
                moment = datetime.fromisoformat(value)
                found = format_timestamp(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
        elif isinstance(value, (int, float)) and 0 < value < _LATEST_MILLISECONDS:
            found = format_timestamp(datetime.fromtimestamp(value / 1000, UTC))
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return found if found >= _EARLIEST else None


@lru_cache(maxsize=64)
def _is_day(text: str) -> bool:
    """Return whether there is such a day; many entries after each other are of the same one."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
