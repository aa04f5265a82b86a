"""Use case: a session as a SQLite file is taken in, by the same checks and rules as one of lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory, TemporaryFile

from bridge.control.controller import Controller
from bridge.control.exchange.imported import Imported, ImportRequest
from bridge.control.exchange.importing import import_session
from bridge.control.exchange.sources import Source
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.tree import TreeNode, session_root
from bridge.transcripts.errors import TranscriptInvalid
from bridge.transcripts.portable import PortableEntry
from bridge.transcripts.portable_reading import records
from bridge.transcripts.sqlitefile import SQLITE_MAGIC, is_sqlite_session, lines_of, root_of


@contextmanager
def copied(source: Source) -> Iterator[Path]:
    """Yield a copy of a source as a file: what is read must not change, nor be locked."""
    with TemporaryDirectory(prefix="bridge-import-") as folder:
        path = Path(folder) / "source"
        with source.open() as stream, path.open("wb") as copy:
            copyfileobj(stream, copy)
        yield path


def is_sqlite_file(source: Source) -> bool:
    """Return whether a source is a session as a SQLite file."""
    if source.is_directory or not source.head().startswith(SQLITE_MAGIC):
        return False
    with copied(source) as path:
        return is_sqlite_session(source.head(), path)


def import_sqlite(controller: Controller, source: Source, request: ImportRequest) -> Imported:
    """Take in a session as a SQLite file.

    Raises
    ------
    TranscriptInvalid
        If its chain is not one, or its entries do not come to the root it names; and what
        :func:`bridge.control.exchange.importing.import_session` raises.
    """
    with copied(source) as path, TemporaryFile() as lines:
        for line in lines_of(path):
            lines.write(line)
        lines.seek(0)
        own = (one for one in records(lines) if isinstance(one, PortableEntry))
        session_id, nodes = "", list[TreeNode]()
        for entry in own:
            if entry.session_id != session_id:
                session_id, nodes = entry.session_id, []
            nodes.append(TreeNode(entry.id, entry.parent_entry_id, entry.sequence, entry.entry_hash))
        named = root_of(path)
        if named is not None and _root_of(nodes) != named:
            raise TranscriptInvalid(
                "The session file: its entries do not come to the root that it names. Nothing was taken in.",
                details={"reason": "root_differs"},
            )
        lines.seek(0)
        return import_session(controller, lines, dry_run=request.dry_run, progress=request.progress)


def _root_of(nodes: list[TreeNode]) -> str | None:
    try:
        return session_root(reversed(nodes))
    except TreeUnsound:
        return None
