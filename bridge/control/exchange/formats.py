"""What ``bridge import`` can take in: one table, in the order in which a file is looked at.

A format says whether it recognises a source by what it holds, never by its name, and takes it in. Names are those of
``--format``; who adds a format adds a row to :data:`FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridge.control.controller import Controller
from bridge.control.exchange import importing, sessionfiles
from bridge.control.exchange.foreign import forms
from bridge.control.exchange.foreign.transcripts import ForeignFormat
from bridge.control.exchange.imported import Imported, ImportRequest
from bridge.control.exchange.merkleimport import import_merkle, is_merkle_file
from bridge.control.exchange.sources import Source
from bridge.control.exchange.sqliteimport import import_sqlite, is_sqlite_file
from bridge.transcripts.errors import TranscriptEmpty, UnknownTranscriptFormat


@dataclass(frozen=True, slots=True)
class Format:
    """A form in which conversations come.

    Parameters
    ----------
    name
        The word for ``--format``.
    title
        What it is, for the help and for messages.
    recognises
        Whether a source is of this form; reads no more than its beginning, and raises nothing about its content.
    take_in
        Takes a source in, and raises typed errors for what it cannot read at all.
    """

    name: str
    title: str
    recognises: Callable[[Source], bool]
    take_in: Callable[[Controller, Source, ImportRequest], Imported]


def _is_session_file(source: Source) -> bool:
    if source.is_directory:
        return False
    with source.open() as stream:
        return sessionfiles.is_session_file(stream)


def _is_portable(source: Source) -> bool:
    return not source.is_directory and importing.HEADER_MARK in source.head().partition(b"\n")[0]


def _take_in_own(controller: Controller, source: Source, request: ImportRequest) -> Imported:
    with source.open() as stream:
        return importing.import_session(controller, stream, dry_run=request.dry_run, progress=request.progress)


def _foreign(form: ForeignFormat) -> Format:
    return Format(
        form.name,
        form.title,
        lambda source: forms.form_of(source) is form,
        lambda controller, source, request: forms.take_in_lines(controller, source, form, request),
    )


FORMATS: Final = (
    Format("bridge", "a session that bridge export wrote as jsonl", _is_portable, _take_in_own),
    Format("session-file", "a session file", _is_session_file, _take_in_own),
    Format("sqlite", "a session that bridge export wrote as sqlite", is_sqlite_file, import_sqlite),
    Format("merkle-sessions", "a Merkle-rooted session of questions, one SQLite file", is_merkle_file, import_merkle),
    *map(_foreign, forms.LINE_FORMS),
    Format(
        forms.OPENCODE.name,
        forms.OPENCODE.title,
        lambda source: forms.form_of(source) is forms.OPENCODE,
        forms.take_in_database,
    ),
)


def format_named(name: str) -> Format | None:
    """Return the format of a name; None if there is none."""
    return next((one for one in FORMATS if one.name == name), None)


def recognise(source: Source) -> Format | None:
    """Return the first format that recognises a source; None if none does."""
    return next((one for one in FORMATS if one.recognises(source)), None)


def take_in(
    controller: Controller, source: Source, request: ImportRequest, *, format_name: str | None = None
) -> Imported:
    """Take a source in, as the format that is named or that recognises it.

    Raises
    ------
    UnknownTranscriptFormat
        If there is no format of that name, or none recognises the source.
    BridgeError
        What taking it in raises.
    """
    chosen = recognise(source) if format_name is None else format_named(format_name)
    if chosen is None and format_name is not None:
        names = ", ".join(one.name for one in FORMATS)
        raise UnknownTranscriptFormat(
            f"There is no format {format_name[:80]!r}. Nothing was written.",
            hint=f"The formats are {names}.",
            details={"format": format_name[:200], "formats": [one.name for one in FORMATS]},
        )
    if chosen is None:
        if forms.is_empty(source) and not source.is_directory:
            raise TranscriptEmpty(
                f"{source.name!r} holds no record: it is {forms.seen_in(source)}. Nothing was written.",
                details={"path": source.name, "seen": forms.seen_in(source)},
            )
        seen = forms.seen_in(source)
        raise UnknownTranscriptFormat(
            f"{source.name!r} is of no form that Bridge takes in: it holds {seen}. Nothing was written.",
            details={"path": source.name, "seen": seen},
        )
    return chosen.take_in(controller, source, request)
