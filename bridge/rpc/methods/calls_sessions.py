"""More calls about sessions: to show and follow one, to look at entries and branches, to go back, to export."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Literal

from bridge.control.errors import ImportUnreadable
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.reading.sessions import read_entry
from bridge.control.reading.snapshots import session_snapshot
from bridge.control.reading.trees import read_branches
from bridge.control.sessions import go_back
from bridge.rpc.errors import ResultTooLarge
from bridge.rpc.methods.calls import MAX_PAGE, PAGE, REFERENCE, Call, OfSession, exactly_one
from bridge.rpc.methods.shapes import Names, param

#: Largest text that one answer holds, in bytes.
MAX_TEXT_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotParams(OfSession):
    after: int | None = param(
        "Entries of a higher sequence than this; null: the last ones.", default=None, minimum=0, maximum=2**53
    )
    limit: int = param("At most so many entries.", default=PAGE, minimum=1, maximum=MAX_PAGE)


def sessions_snapshot(call: Call, params: SnapshotParams) -> dict[str, Any]:
    found = session_snapshot(call.controller, call.standpoint, params.session, after=params.after, limit=params.limit)
    return found.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryParams:
    entry: str = param("The entry: id, short reference or label.", names=Names.ENTRY, **REFERENCE)


def sessions_entry(call: Call, params: EntryParams) -> dict[str, Any]:
    return read_entry(call.controller, call.standpoint, params.entry).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackParams(OfSession):
    expected_head: str | None = param("Only if this is the head.", default=None, **REFERENCE)


def sessions_back(call: Call, params: BackParams) -> dict[str, Any]:
    move = go_back(call.controller, call.standpoint, params.session, expected_head=params.expected_head)
    return move.to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchesParams(OfSession):
    all_forks: bool = param("Every end, not only those of branches that say something.", default=False)
    limit: int = param("At most so many, those that were added to last.", default=PAGE, minimum=1, maximum=MAX_PAGE)
    before: str | None = param(
        "Only branches that end before this entry: the end of the first one of the page behind.",
        default=None,
        **REFERENCE,
    )


def sessions_branches(call: Call, params: BranchesParams) -> dict[str, Any]:
    found = read_branches(
        call.controller,
        call.standpoint,
        params.session,
        include_all=params.all_forks,
        limit=params.limit,
        before=params.before,
    )
    return {"session_id": found.session.id, "branches": found.to_json(), "hasMore": found.has_more}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportParams(OfSession):
    format: Literal["jsonl", "session-file", "markdown", "html"] = param(
        "For programs (the first two), or for people.", default="jsonl"
    )
    scope: Literal["forest", "active"] = param("All branches, or the active path alone.", default="forest")
    hidden: bool = param("Show hidden entries as well; a forest as jsonl always holds them.", default=False)


def sessions_export(call: Call, params: ExportParams) -> dict[str, Any]:
    lines: list[bytes] = []
    size = 0

    def keep(line: bytes) -> None:
        nonlocal size
        size += len(line)
        if size > MAX_TEXT_BYTES:
            raise ResultTooLarge(
                f"The export has more than the {MAX_TEXT_BYTES} bytes that an answer holds. Nothing was exported.",
                hint="Export it to a file: bridge export SESSION --format jsonl",
                details={"limit": MAX_TEXT_BYTES},
            )
        lines.append(line)

    request = ExportRequest(session=params.session, format=params.format, scope=params.scope, hidden=params.hidden)
    done = export_session(call.controller, call.standpoint, request, keep)
    return {**done.to_json(), "text": b"".join(lines).decode()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportParams:
    text: str | None = param(
        "What an export as jsonl or session-file returned; this or path.", default=None, maxLength=MAX_TEXT_BYTES
    )
    path: str | None = param(
        "A file on the controller's machine, as the controller reads it; this or text.",
        default=None,
        minLength=1,
        maxLength=4096,
    )
    dry_run: bool = param("Check and compare everything, write nothing.", default=False)


def sessions_import(call: Call, params: ImportParams) -> dict[str, Any]:
    exactly_one(params, "text", "path")
    if params.text is not None:
        return import_session(call.controller, BytesIO(params.text.encode()), dry_run=params.dry_run).to_json()
    path = Path(params.path or "")
    if call.standpoint.directory is not None:
        path = call.standpoint.directory / path
    try:
        with path.open("rb") as source:
            return import_session(call.controller, source, dry_run=params.dry_run).to_json()
    except (OSError, ValueError) as error:
        # A name with a NUL is no OSError.
        reason = getattr(error, "strerror", None) or str(error)
        raise ImportUnreadable(
            f"{str(path)!r} cannot be read: {reason}. Nothing was written.", details={"path": str(path)}
        ) from error
