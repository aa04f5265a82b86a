"""Which reader the record of a host is for whose hooks report to Bridge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bridge.transcripts.claude import reading as claude
from bridge.transcripts.codex import reading as codex
from bridge.transcripts.foreign.neutral import Hints, Reader
from bridge.transcripts.gemini import reading as gemini


class HostRecord(NamedTuple):
    """The reader of a host's own record, and what tells that an object in it stands for itself."""

    reader: Callable[[Hints], Reader]
    is_record: Callable[[Mapping[str, Any]], bool]


HOST_RECORDS: Final[Mapping[str, HostRecord]] = MappingProxyType(
    {
        "claude-code": HostRecord(claude.ClaudeReader, claude.recognises),
        "codex": HostRecord(codex.CodexReader, codex.recognises),
        "gemini": HostRecord(gemini.GeminiReader, gemini.is_record),
    }
)
