"""The folder of one attempt: the request as files, the evidence as exact bytes, the result, the logs.

Blocking; for helper threads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from bridge.adapters.base import Evidence, TaskRequest
from bridge.adapters.errors import EvidenceMismatch, TaskFolderUnusable
from bridge.foundation.canonical import canonical_bytes, parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import SAFE_ID

#: Version of the request file's contract, ``schema/task-request/v1.json``.
REQUEST_VERSION = 1
#: Largest payload, in bytes, that stands in the request itself; a larger one is only named there, with its digest.
MAX_INLINE_EVIDENCE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """The names of the files in an attempt's folder."""

    path: Path

    @property
    def request(self) -> Path:
        return self.path / "task.json"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"


def prepare(task: TaskRequest) -> TaskFolder:
    """Write request and evidence, remove the result of anything earlier, and return the folder.

    Raises
    ------
    EvidenceMismatch
        If a payload does not have its digest.
    TaskFolderUnusable
        If a file cannot be written.
    """
    folder = TaskFolder(task.folder)
    for item in task.evidence:
        if digest_hex(item.payload) != item.digest:
            raise EvidenceMismatch(
                f"The evidence {item.reference!r} is not what it was when it was resolved, so nothing was started.",
                details={"reference": item.reference, "expected": item.digest, "found": digest_hex(item.payload)},
            )
    try:
        folder.evidence.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A result left by an earlier run of the same attempt would be taken for this one's.
        folder.result.unlink(missing_ok=True)
        paths = evidence_paths(folder, task.evidence)
        for path, item in zip(paths, task.evidence, strict=True):
            _replace(path, item.payload)
        _replace(folder.request, request_bytes(task, folder, paths))
    except OSError as error:
        raise unusable(folder.path, error) from error
    return folder


def unusable(path: Path, error: OSError) -> TaskFolderUnusable:
    """Return the error for a task's folder that cannot be written."""
    return TaskFolderUnusable(
        f"The task folder {str(path)!r} cannot be written ({error.strerror}), so nothing was started.",
        details={"path": str(path)},
    )


def evidence_paths(folder: TaskFolder, evidence: Sequence[Evidence]) -> list[Path]:
    """Return the files in which evidence stands, in its order."""
    return [folder.evidence / _file_name(number, item) for number, item in enumerate(evidence, start=1)]


def request_bytes(task: TaskRequest, folder: TaskFolder, evidence_paths: list[Path]) -> bytes:
    """Return the request file: canonical JSON in which each small payload stands as its stored bytes."""
    return canonical_bytes(
        {
            "version": REQUEST_VERSION,
            "delegation_id": task.delegation_id,
            "attempt": task.attempt,
            "role": task.role,
            "objective": task.objective,
            "acceptance_criteria": list(task.acceptance_criteria),
            "write": task.write_mode,
            "owned_paths": list(task.owned_paths),
            "base_commit": task.base_commit,
            "worktree": str(task.worktree),
            "evidence": [_evidence_json(item, path) for item, path in zip(task.evidence, evidence_paths, strict=True)],
            **({"spark": task.spark} if task.spark else {}),
            "output_schema": None if task.output_schema is None else dict(task.output_schema),
            "result_path": str(folder.result),
            "timeout_seconds": task.timeout_seconds,
            "previous_errors": [dict(error) for error in task.previous_errors],
            "mcp": {"command": list(task.mcp_command)} if task.mcp_command else None,
        }
    )


def read_result(path: Path, max_bytes: int) -> bytes | None:
    """Return the first ``max_bytes`` of the result file, or None if there is none.

    Raises
    ------
    OSError
        If something else than a readable regular file stands there. A link is not followed, a pipe not waited for.
    """
    try:
        with _open_regular(path) as stream:
            return stream.read(max_bytes)
    except FileNotFoundError:
        return None


def read_tail(path: Path, max_bytes: int) -> bytes:
    """Return the last whole lines of a log within ``max_bytes``; empty if the worker made the log unreadable."""
    try:
        with _open_regular(path) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - max_bytes))
            tail = stream.read(max_bytes)
    except OSError:
        return b""
    return tail.partition(b"\n")[2] or tail if size > max_bytes else tail


def _open_regular(path: Path) -> BinaryIO:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(file, "rb")


def _evidence_json(item: Evidence, path: Path) -> dict[str, Any]:
    described: dict[str, Any] = {"reference": item.reference, "digest": item.digest, "path": str(path)}
    if len(item.payload) <= MAX_INLINE_EVIDENCE_BYTES and _is_json(item.payload):
        described["payload"] = orjson.Fragment(item.payload)
    return described


def _is_json(payload: bytes) -> bool:
    try:
        parse_json(payload)
    except NotCanonical:
        return False
    return True


def _file_name(number: int, item: Evidence) -> str:
    name = item.reference if SAFE_ID.fullmatch(item.reference) else "evidence"
    return f"{number:02d}-{name}.json"


def _replace(path: Path, content: bytes) -> None:
    """Write a file anew. Readable by its owner alone and not writable: what a worker computes from stays as it is."""
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(file, "wb") as stream:
        stream.write(content)
