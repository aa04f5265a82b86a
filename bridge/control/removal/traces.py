"""Where else a text may stand: raw rows, the folders of tasks, backups beside the store."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.removal import store
from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import require_safe_id
from bridge.integrity.removal.tombstones import MARK, masked_text
from bridge.storage.backend import file_of
from bridge.storage.backup import backups_of
from bridge.storage.errors import NotOnThisDatabase
from bridge.storage.packing import packed, unpacked
from bridge.storage.schema_version import unaltered_uri
from bridge.storage.transaction import Transaction

#: Shortest string of an erased payload that is looked for elsewhere, in characters: shorter ones say nothing, and
#: stand everywhere.
SHORTEST_NEEDLE: Final = 8
#: Largest file of a task's folder that is rewritten, in bytes; a larger one is named instead.
MAX_TASK_FILE_BYTES: Final = 64 * 1024 * 1024


def needles_of(payload_text: str) -> re.Pattern[str] | None:
    """Return a pattern that finds the strings of a payload elsewhere; None if it has none worth finding."""
    try:
        found = sorted(set(_strings(parse_json(payload_text))), key=len, reverse=True)
    except NotCanonical:
        return None
    found = [one for one in found if len(one) >= SHORTEST_NEEDLE]
    return re.compile("|".join(re.escape(one) for one in found)) if found else None


def mask_raw_rows(tx: Transaction, session_id: str, pattern: re.Pattern[str]) -> int:
    """Mask a pattern in the raw texts beside a session's entries; return in how many it stood."""
    changed = 0
    for table, key, column, text in list(store.raw_texts(tx.connection, session_id)):
        masked = _masked(text, pattern)
        if masked != text:
            store.put_raw_text(tx, table, key, column, masked)
            changed += 1
    for source_id, number, body in list(store.raw_lines(tx.connection, session_id)):
        lines = unpacked(body).decode("utf-8", "surrogateescape").splitlines(keepends=True)
        masked_lines = [_masked_line(line, pattern) for line in lines]
        differing = sum(one != other for one, other in zip(lines, masked_lines, strict=True))
        if differing:
            kept = packed("".join(masked_lines).encode("utf-8", "surrogateescape"))
            store.put_raw_lines(tx, source_id, number, kept, differing)
            changed += 1
    return changed


def _masked_line(line: str, pattern: re.Pattern[str]) -> str:
    end = line[len(line.rstrip("\r\n")) :]
    return _masked(line.removesuffix(end), pattern) + end


def mask_task_files(folder: Path, delegation_ids: Collection[str], pattern: re.Pattern[str]) -> tuple[int, list[str]]:
    """Mask a pattern in the files of tasks' folders; return in how many it stood, and those too large to rewrite."""
    changed, left = 0, []
    for path in _files_of(folder, delegation_ids):
        if path.stat().st_size > MAX_TASK_FILE_BYTES:
            left.append(str(path))
            continue
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        masked = "".join(_masked_line(line, pattern) for line in text.splitlines(keepends=True))
        masked = pattern.sub(MARK, masked)
        if masked != text:
            path.write_bytes(masked.encode("utf-8", "surrogateescape"))
            changed += 1
    return changed, left


def remove_task_folders(folder: Path, delegation_ids: Collection[str]) -> None:
    """Remove the folders of tasks that are gone."""
    for delegation_id in delegation_ids:
        shutil.rmtree(folder / require_safe_id(delegation_id), ignore_errors=True)


def backups_with(controller: Controller, *, entry_id: str | None = None, session_id: str | None = None) -> list[str]:
    """Return the backups beside the store that hold an entry's text, or any of a session; or may."""
    try:
        database = file_of(controller.settings.database_url)
    except NotOnThisDatabase:
        return []
    return [str(path) for path in backups_of(database) if _may_hold(path, entry_id, session_id)]


def _may_hold(backup: Path, entry_id: str | None, session_id: str | None) -> bool:
    by_id = "SELECT payload, payload_hash FROM session_entries WHERE id = ?"
    by_session = "SELECT payload, payload_hash FROM session_entries WHERE session_id = ? LIMIT 1"
    try:
        with closing(sqlite3.connect(unaltered_uri(backup), uri=True)) as connection:
            query, value = (by_session, session_id) if entry_id is None else (by_id, entry_id)
            row = connection.execute(query, (value,)).fetchone()
    except sqlite3.Error:
        return True  # an older schema, or damaged: nobody can say that it is not in there
    if row is None or entry_id is None:
        return row is not None
    # A long payload is elsewhere in the file, and an erased one has another hash.
    return row[0] is None or digest_hex(str(row[0]).encode()) == row[1]


def _files_of(folder: Path, delegation_ids: Collection[str]) -> Iterator[Path]:
    for delegation_id in delegation_ids:
        place = folder / require_safe_id(delegation_id)
        for path in sorted(place.rglob("*")) if place.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                yield path


def _masked(text: str, pattern: re.Pattern[str]) -> str:
    """Return a text with a pattern masked; in JSON within its strings, however they are escaped."""
    if text[:1] in "{[":
        with suppress(NotCanonical):  # not JSON after all, or none that has one form: as plain text then
            return masked_text(text, pattern)[0]
    return pattern.sub(MARK, text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
