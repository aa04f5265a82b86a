"""The table's part about taking away what was recorded, and about copies that are kept up to date."""

from __future__ import annotations

from typing import Final

from bridge.conversations.errors import EraseRefused
from bridge.git.errors import GitFailed
from bridge.integrity.errors import TreeUnsound
from bridge.rpc.methods import calls_removal
from bridge.rpc.methods import results_removal as results
from bridge.rpc.methods.method import ENTRY_ERRORS, REFERENCE_ERRORS, Method, Mode
from bridge.rpc.roles import WORKERS, WRITERS

REMOVAL_TABLE: Final = (
    Method(
        "sessions/erase",
        "Erase what an entry says, for good; its hash stays",
        calls_removal.EraseParams,
        results.ERASED,
        calls_removal.sessions_erase,
        WRITERS,
        (*ENTRY_ERRORS, EraseRefused, GitFailed),
        Mode.ACT,
    ),
    Method(
        "sessions/prune",
        "Remove all but the chats touched last, but for what others stand on",
        calls_removal.PruneParams,
        results.PRUNED,
        calls_removal.sessions_prune,
        WRITERS,
        (GitFailed,),
        Mode.ACT,
    ),
    Method(
        "sessions/sync",
        "Say what changed in a session since a root of it was handed out, and hand out the one of now",
        calls_removal.SyncParams,
        results.SESSION_CHANGES,
        calls_removal.sessions_sync,
        WORKERS,
        (*REFERENCE_ERRORS, TreeUnsound),
        Mode.ACT,
    ),
)
