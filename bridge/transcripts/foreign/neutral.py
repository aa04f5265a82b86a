"""What a reader makes of the records of a transcript, whatever program wrote it. Values only.

A reader is given records one by one and yields items: what it learnt about a session, entries, and findings. It keeps
little: what it has to know for the next record is :meth:`Reader.state`, so that reading can go on later where it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from bridge.transcripts.foreign.records import Damage, Record

#: Key of ``provider_meta`` under which an imported entry says where it came from.
SOURCE_META: Final = "source"
#: Identifiers and names that an entry may hold, in characters.
MAX_NAME_CHARACTERS: Final = 1024
#: A record of a type without a meaning is kept in its entry up to this many bytes; beyond, among the raw lines alone.
MAX_OPAQUE_BYTES: Final = 16 * 1024

#: An entry of a record: kind, payload, and visibility where it is not the kind's own.
Part = tuple[str, dict[str, Any], str | None]


class Neutral(NamedTuple):
    """One entry.

    Parameters
    ----------
    session
        The program's own id of the session it belongs to.
    key
        Its id there; of several entries of one record all but the last have a suffix, so that the id names the last.
    parent
        Key of the entry that it follows; None at a beginning.
    timestamp
        As the program wrote it, text or milliseconds; None if it did not.
    is_aside
        Whether it stands beside the conversation: it never becomes the active leaf.
    logical_parent
        Key of the entry that it follows in meaning, where its own parent is none: before a compaction.
    visibility
        None means the kind's default.
    commit
        The commit that HEAD was when it was recorded, where the program says so.
    base
        Key of the record that it is one of several entries of: where that is known already, so is this. None if the
        entry stands for itself.
    """

    session: str
    key: str
    parent: str | None
    kind: str
    payload: dict[str, Any]
    timestamp: str | float | None
    is_aside: bool = False
    logical_parent: str | None = None
    visibility: str | None = None
    commit: str | None = None
    base: str | None = None


def chain(
    session: str,
    key: str,
    parent: str | None,
    parts: Sequence[Part],
    timestamp: str | float | None,
    *,
    aside: bool = False,
) -> list[Neutral]:
    """Return the entries of one record, each below the one before; the last has the record's own key."""
    found: list[Neutral] = []
    last = len(parts) - 1
    for number, (kind, payload, visibility) in enumerate(parts):
        own = key if number == last else f"{key}#{number + 1}"
        found.append(
            Neutral(
                session,
                own,
                parent,
                kind,
                payload,
                timestamp,
                aside,
                None,
                visibility,
                None,
                None if last == 0 else key,
            )
        )
        parent = own
    return found


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a transcript says about a session; told when it is met first, and again when more is known.

    Parameters
    ----------
    session
        The program's own id of it.
    kind
        ``chat`` or ``worker``.
    parent
        The program's id of the session that it was started from or forked from.
    relation
        ``delegated``, ``forked`` or ``continued``; None without a parent.
    parent_key
        Key of the entry there that started it, or that it goes on from.
    depth
        How far below a session of a person; None if not told.
    branch, commit
        As git had it when the session began.
    extra
        What else is worth keeping, by name.
    """

    session: str
    kind: str = "chat"
    cwd: str | None = None
    branch: str | None = None
    commit: str | None = None
    repository_url: str | None = None
    title: str | None = None
    version: str | None = None
    created_at: str | float | None = None
    parent: str | None = None
    relation: str | None = None
    parent_key: str | None = None
    depth: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class LabelSet(NamedTuple):
    """An entry got a name; None takes the names of that entry away."""

    session: str
    key: str
    name: str | None


class LeafMoved(NamedTuple):
    """A session goes on from another entry; None for its beginning."""

    session: str
    key: str | None


Item = Neutral | SessionFacts | Damage | LabelSet | LeafMoved


@dataclass(frozen=True, slots=True)
class Hints:
    """What lies around a transcript: its own name and what stands in files beside it.

    Parameters
    ----------
    name
        The file's name without folder and suffix.
    folder
        The name of its folder.
    parent_folder
        The name of the folder above.
    cwd
        Where the agent worked, if a file beside it says so.
    meta
        A file of facts beside it.
    """

    name: str = ""
    folder: str = ""
    parent_folder: str = ""
    cwd: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


class Reader(Protocol):
    """Reads the records of one transcript."""

    def read(self, record: Record) -> Iterable[Item]:
        """Return what a record says."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what the reader has to know to go on; plain JSON, bounded."""
        ...


def text_or_none(value: Any) -> str | None:
    """Return a text that is one and is not empty; else None."""
    return value if isinstance(value, str) and value else None


def name_of(value: Any, default: str) -> str:
    """Return a name that an entry can hold."""
    return value[:MAX_NAME_CHARACTERS] if isinstance(value, str) and value else default


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def count_of(value: Any) -> int:
    """Return a count that is one; else 0."""
    return value if type(value) is int and 0 <= value < 2**63 else 0


def opaque(raw_type: Any, record: Record, value: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the payload of a record that has no meaning here: whole if it is short, else by its digest."""
    name = name_of(raw_type, "unknown")
    if record.line.size > MAX_OPAQUE_BYTES:
        return {"raw_type": name}
    return {"raw_type": name, "raw": dict(record.value if value is None else value)}


def without_nothing(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


class Recent:
    """The last values by key: a mapping of bounded size that can be kept as JSON.

    Parameters
    ----------
    limit
        How many are kept at least; at most twice as many.
    """

    def __init__(self, limit: int, values: Mapping[str, Any] | None = None) -> None:
        self._limit = limit
        self._values: dict[str, Any] = dict(values or {})

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __setitem__(self, key: str, value: Any) -> None:
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > 2 * self._limit:
            self._values = dict(list(self._values.items())[-self._limit :])

    def pop(self, key: str) -> Any:
        return self._values.pop(key, None)

    def to_json(self) -> dict[str, Any]:
        return dict(list(self._values.items())[-self._limit :])
