"""A session as a document for people: what is shown, whatever it is shown with. Values only.

All texts are as recorded. Whoever renders them makes them harmless and visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Role = Literal["user", "assistant", "tool", "result", "note", "event", "problem"]


@dataclass(frozen=True, slots=True)
class Prose:
    """Text that was written as Markdown, or might have been. ``breaks``: its line ends are meant as such."""

    text: str
    breaks: bool = False


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text as it is, under a word that says what it is (``input``); empty for none."""

    text: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Fold:
    """What is shown when somebody asks for it."""

    summary: str
    parts: Sequence[Prose | Verbatim | Fields]
    is_open: bool = False


Part = Prose | Verbatim | Fields | Fold


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the document, by its anchor, and what is found there."""

    anchor: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One entry, or a tool call with its result.

    Parameters
    ----------
    anchors
        Ids of the entries that are shown.
    reference, time, title
        Short id, when it was recorded, and what it is in a word or two.
    stamp
        The state of the files, where it differs from that of the block before; None if not.
    turn
        Number of the turn that begins with it; None if none does.
    problem
        What it tells of, such as ``tool_failed``; None if all is well.
    branches
        Where the conversation also goes on from here.
    """

    anchors: Sequence[str]
    reference: str
    time: str
    role: Role
    title: str
    parts: Sequence[Part]
    stamp: str | None = None
    turn: int | None = None
    problem: str | None = None
    is_hidden: bool = False
    labels: Sequence[str] = ()
    branches: Sequence[Link] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The beginning of a stretch of entries: the active path, a branch, or what belongs to another session.

    ``origin`` is where a branch leaves another one.
    """

    anchor: str
    title: str
    origin: Link | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of a document."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Link]


class Renderer(Protocol):
    """Makes a document, piece by piece."""

    def head(self, head: Head) -> str: ...
    def section(self, section: Section) -> str: ...
    def block(self, block: Block) -> str: ...
    def foot(self) -> str: ...
