"""Many transcripts, one after another: below a folder, in the agents' own folders, or as they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bridge.control.controller import Controller
from bridge.control.exchange.foreign import forms
from bridge.control.exchange.foreign.folders import HostFolder, oldest_first, transcripts_below
from bridge.control.exchange.foreign.places import Places
from bridge.control.exchange.foreign.transcripts import ForeignFormat, Transcript
from bridge.control.exchange.imported import Imported, ImportFinding, ImportRequest
from bridge.control.exchange.sources import Source
from bridge.foundation.errors import BridgeError

#: Seconds between two looks at files that may grow.
WATCH_SECONDS: Final = 1.0
#: Transcripts that are held open in thought, so that only what follows is read; others are told anew by their digest.
MAX_FOLLOWED: Final = 32

#: Told what became of each transcript; and what waits between two rounds: true to end.
Tell = Callable[[Imported], None]
Pause = Callable[[float], bool]


def take_in_all(
    controller: Controller, places_of: Iterable[tuple[Path, ForeignFormat | None]], request: ImportRequest, tell: Tell
) -> None:
    """Take in files one by one; what is wrong with one is told, and the next is gone on with.

    Parameters
    ----------
    places_of
        Files, each with the form that it must be of; None for any.
    """
    places = Places(controller)
    for path, form in places_of:
        tell(take_in_one(controller, path, form, request, places))


def take_in_one(
    controller: Controller, path: Path, form: ForeignFormat | None, request: ImportRequest, places: Places
) -> Imported:
    """Take in a file; an error becomes a finding."""
    source = Source(path)
    try:
        found = form or forms.form_of(source)
        if found is None:
            kind = "empty" if forms.is_empty(source) else "unknown_format"
            return failed(path, request, kind, f"it holds {forms.seen_in(source)}")
        if found is forms.OPENCODE:
            return forms.take_in_database(controller, source, request, places)
        return forms.take_in_lines(controller, source, found, request, places)
    except BridgeError as error:
        kind = "empty" if error.code == "transcript_empty" else error.code
        return failed(path, request, kind, error.message, form)


def failed(path: Path, request: ImportRequest, kind: str, message: str, form: ForeignFormat | None = None) -> Imported:
    """Return the result of a file of which nothing was taken in."""
    return Imported(
        session_id=None,
        digest=None,
        is_dry_run=request.dry_run,
        sessions=(),
        format="unknown" if form is None else form.name,
        path=str(path),
        findings=(ImportFinding(str(path), kind, message),),
        problems=1,
    )


def files_of(hosts: Iterable[HostFolder]) -> Iterator[tuple[Path, ForeignFormat | None]]:
    """Yield the files of agents' folders with their forms."""
    for host in hosts:
        if host.path.is_dir():
            for path in oldest_first(transcripts_below(host.path, host.form)):
                yield path, host.form
        else:
            yield host.path, host.form


@dataclass(slots=True)
class _Followed:
    """A file as it was when it was looked at last; ``transcript`` knows where reading ended."""

    signature: tuple[int, int, int]
    transcript: Transcript | None = None
    told: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Watch:
    """Follows files that grow, until it is told to end.

    Parameters
    ----------
    files
        Gives the files to follow, anew for every round.
    pause
        Waits between two rounds; returns true to end.
    """

    controller: Controller
    files: Callable[[], Iterable[tuple[Path, ForeignFormat | None]]]
    request: ImportRequest
    tell: Tell
    pause: Pause
    seconds: float = WATCH_SECONDS
    _known: dict[Path, _Followed] = field(default_factory=dict)

    def run(self) -> None:
        """Take in what is there and what comes, until ``pause`` says that it is enough."""
        places = Places(self.controller)
        while True:
            seen = set()
            for path, form in self.files():
                seen.add(path)
                self._look(path, form, places)
            for gone in self._known.keys() - seen:
                del self._known[gone]
            self._forget_some()
            if self.pause(self.seconds):
                return

    def _look(self, path: Path, form: ForeignFormat | None, places: Places) -> None:
        signature = _signature(path)
        known = self._known.get(path)
        if signature is None or (known is not None and known.signature == signature):
            return
        grew = known is not None and known.signature[2] == signature[2] and signature[0] >= known.signature[0]
        if known is not None and known.transcript is not None and grew:
            known.signature = signature
            self._go_on(path, known)
            return
        self._known[path] = followed = _Followed(signature)
        self._begin(path, form, followed, places)

    def _begin(self, path: Path, form: ForeignFormat | None, followed: _Followed, places: Places) -> None:
        source = Source(path)
        found = form
        try:
            found = form or forms.form_of(source)
            if found is None or found is forms.OPENCODE or forms.form_of(source) is not found:
                done = take_in_one(self.controller, path, form, self.request, places)
                if not _is_about_to_begin(done):
                    self.tell(done)
                return
            transcript = forms.opened_transcript(self.controller, source, found, self.request, places)
            with source.open() as stream:
                transcript.begin(stream, followed.signature[0])
                transcript.go_on(stream)
        except BridgeError as error:
            self.tell(failed(path, self.request, error.code, error.message, found))
            return
        followed.transcript = transcript
        self._report(transcript, followed)

    def _go_on(self, path: Path, followed: _Followed) -> None:
        transcript = followed.transcript
        if transcript is None:
            return
        try:
            with Source(path).open() as stream:
                transcript.go_on(stream)
        except BridgeError as error:
            followed.transcript = None
            self.tell(failed(path, self.request, error.code, error.message))
            return
        self._report(transcript, followed)

    def _report(self, transcript: Transcript, followed: _Followed) -> None:
        """Tell what was added, and what was found, since the last time; nothing if that is nothing."""
        done = transcript.result()
        # A record that is being written is no damage: it is told if it is never finished.
        problems = done.problems - done.torn
        before = followed.told
        followed.told = (done.added, problems)
        if followed.told != before:
            new = tuple(one for one in done.findings if one.kind != "torn_tail")[before[1] :]
            self.tell(replace(done, findings=new, problems=problems - before[1]))

    def _forget_some(self) -> None:
        held = [known for known in self._known.values() if known.transcript is not None]
        for known in held[: max(0, len(held) - MAX_FOLLOWED)]:
            known.transcript = None


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # A database's changes are in its log first.
    log = path.with_name(path.name + "-wal")
    beside = log.stat().st_size if path.suffix == ".db" and log.exists() else 0
    return found.st_size + beside, found.st_mtime_ns, found.st_ino


def _is_about_to_begin(done: Imported) -> bool:
    """Return whether a file is only empty so far: it may be filled any moment."""
    return all(finding.kind == "empty" for finding in done.findings) and bool(done.findings)
