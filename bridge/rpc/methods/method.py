"""What the table says about one method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.conversations import errors as conversations
from bridge.foundation.errors import BridgeError
from bridge.rpc.methods import forms
from bridge.rpc.roles import Role
from bridge.semantics.errors import UnsupportedSemanticVersion


class Mode(StrEnum):
    """How a call runs, and what becomes of it when nobody wants it any more."""

    #: At once, on the event loop: it does not block.
    INLINE = "inline"
    #: In a thread, after the changes that were sent before it. Given up at any time.
    READ = "read"
    #: In a thread, one after the other in the order in which they were sent. Once begun it is finished and answered.
    CHANGE = "change"
    #: In a thread, in no order, since it takes long. Once begun it is finished and answered.
    ACT = "act"
    #: A coroutine that begins something. Once begun it is finished and answered.
    START = "start"
    #: A coroutine that may wait for a long time; it takes no place among the calls in flight. Given up at any time.
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Method:
    """A method.

    Parameters
    ----------
    name, summary
        What it is called and what it does, in one line.
    params
        The dataclass of its params.
    result
        JSON Schema of what comes back.
    run
        What it does: blocks, unless ``mode`` is INLINE, and is a coroutine function if that is START or WAIT.
    roles
        Who may call it.
    errors
        What it raises beyond what any call may meet.
    mode
        How it runs.
    """

    name: str
    summary: str
    params: type[Any]
    result: forms.Schema
    run: Callable[[Any, Any], Any]
    roles: frozenset[Role]
    errors: tuple[type[BridgeError], ...]
    mode: Mode = Mode.READ


#: What naming a session, an entry, or needing a session's path may meet.
REFERENCE_ERRORS: Final = (
    conversations.SessionNotFound,
    conversations.AmbiguousReference,
    conversations.InvalidReference,
    conversations.SessionQuarantined,
)
ENTRY_ERRORS: Final = (*REFERENCE_ERRORS, conversations.EntryNotFound)
PATH_ERRORS: Final = (*REFERENCE_ERRORS, conversations.PathBroken, UnsupportedSemanticVersion)
