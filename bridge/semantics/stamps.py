"""What a stamp means: an exact repository state, or an unknown that names its reason (design §4).

Values only. The ``git`` package observes them, ``workspaces`` stores and compares them, entries carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.hashing import digest_hex

#: Version of the state and manifest encoding; another one reads as unknown (``stamp_version``).
STAMP_VERSION = 1
#: Value of ``head`` before the first commit.
UNBORN = "unborn"


class UnknownReason(StrEnum):
    """Why the state of the files could not be told. Unknown equals nothing, not even itself."""

    NO_PATH = "no_path"
    NOT_A_REPOSITORY = "not_a_repository"
    BARE_REPOSITORY = "bare_repository"
    UNREADABLE_PATH = "unreadable_path"
    UNSUPPORTED_FEATURE = "unsupported_feature"
    TIMED_OUT = "timed_out"
    GIT_FAILED = "git_failed"
    UNSTAMPED = "unstamped"
    STAMP_VERSION = "stamp_version"
    BASE_UNAVAILABLE = "base_unavailable"


@dataclass(frozen=True)
class RepositoryState:
    """One exact state of one worktree; equal states have equal digests.

    Parameters
    ----------
    repository_id, worktree_id
        Digests of the real paths of the common and of the worktree's own git directory.
    head
        Full commit id (40 or 64 hex digits), or ``"unborn"``.
    ref
        Full name of the checked-out branch (``refs/heads/main``); None when HEAD is detached.
    operation
        ``merge``, ``rebase``, ``am``, ``cherry-pick``, ``revert``, ``bisect`` or None.
    dirty_hash
        SHA-256 (hex) over the content-true dirty manifest; one fixed value when clean.
    settings_digest
        SHA-256 (hex) of the git settings that change what "modified" means.
    """

    repository_id: str
    worktree_id: str
    head: str
    ref: str | None
    operation: str | None
    dirty_hash: str
    settings_digest: str
    stamp_version: int = STAMP_VERSION

    def to_json(self) -> dict[str, Any]:
        return {
            "stamp_version": self.stamp_version,
            "repository_id": self.repository_id,
            "worktree_id": self.worktree_id,
            "head": self.head,
            "ref": self.ref,
            "operation": self.operation,
            "dirty_hash": self.dirty_hash,
            "settings_digest": self.settings_digest,
        }

    @cached_property
    def state_digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON of the state."""
        return digest_hex(canonical_bytes(self.to_json()))


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an entry carries: a reference to a stored state, or the reason why there is none.

    Exactly one of ``state_digest`` and ``unknown_reason`` is set. ``unknown_path`` and ``unknown_detail``
    name what could not be read; ``observed_at`` is when the observation began (a timestamp as text).
    Neither enters the entry's hash.
    """

    state_digest: str | None = None
    unknown_reason: UnknownReason | None = None
    unknown_path: str | None = None
    unknown_detail: str | None = None
    observed_at: str | None = None

    def __post_init__(self) -> None:
        if (self.state_digest is None) == (self.unknown_reason is None):
            raise ValueError("a stamp has either a state digest or an unknown reason")

    def hash_value(self) -> Mapping[str, Any]:
        """Return the stamp by value, as it enters the entry hash; what is returned is shared."""
        if self.state_digest is not None:
            return {"state_digest": self.state_digest}
        return _BY_REASON[self.unknown_reason]


# Made once: the text of an enumeration's member takes as long as the rest of an entry's stamp.
_BY_REASON: dict[UnknownReason | None, Mapping[str, Any]] = {
    reason: {"unknown": str(reason)} for reason in UnknownReason
}

#: The stamp of an entry that nothing observed.
UNSTAMPED = Stamp(unknown_reason=UnknownReason.UNSTAMPED)
