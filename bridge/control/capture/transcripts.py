"""The port through which a host's own record is read for what its hooks did not tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bridge.control.capture.model import Captured
from bridge.control.controller import Controller
from bridge.conversations.models import EntryDraft


@dataclass(frozen=True, slots=True)
class Tail:
    """What is new in a record.

    Parameters
    ----------
    drafts
        Entries for it, in the order of the record, with external ids of the record's own.
    offset
        How far the record was read, in bytes.
    """

    drafts: tuple[EntryDraft, ...]
    offset: int


#: Reads what is new in a session's record. Blocks; raises OSError or BridgeError if it cannot be read.
ReadTail: TypeAlias = Callable[[Controller, Captured], Tail]
