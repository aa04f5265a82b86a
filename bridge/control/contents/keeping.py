"""Keeping the contents behind stamps (``snapshots = "dirty"``), and letting go of those that nobody needs.

Called between an observation and the transaction that records its stamp, never under a database lock. It cannot
fail an append: a stamp is exact without contents. What could not be kept is told, and whoever asks for the files
later is told that their content is not known.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from bridge.control.contents.store import stamped_dirty_hashes
from bridge.control.notices import Tell, log_notice
from bridge.foundation.clock import Clock, format_timestamp
from bridge.foundation.config import Settings, SnapshotMode
from bridge.foundation.errors import BridgeError
from bridge.git.contents import DeadlinePassed
from bridge.git.contentstore import ORPHAN_GRACE_SECONDS, ContentStore, KeptContents, KeptObject, Wanted
from bridge.git.errors import GitFailed
from bridge.git.manifest import ContentKind, Manifest
from bridge.git.observe import Observation
from bridge.storage.store import Store
from bridge.workspaces.models import KeptState, KeptStatus
from bridge.workspaces.store import (
    find_kept_contents,
    find_kept_state,
    forget_kept_contents,
    forget_kept_states,
    kept_manifests,
    kept_repositories,
    save_kept_state,
)

#: Time limit of packing and pruning one repository's contents, in seconds.
COLLECT_TIMEOUT_SECONDS: Final = 600.0
#: What of a manifest has content of its own; a nested repository keeps its own history.
KEPT_KINDS: Final = (ContentKind.FILE, ContentKind.LINK)


class Keeper:
    """Keeps contents behind stamps, if that is asked for. Safe to share between threads.

    Parameters
    ----------
    store
        Where it is recorded what was kept.
    settings
        Whether anything is kept, where, and how much for one stamp.
    tell
        Takes what a person should know: contents that could not be kept, or were left out.
    """

    def __init__(self, store: Store, settings: Settings, clock: Clock, tell: Tell = log_notice) -> None:
        self._tell = tell
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()

    def keep(self, observation: Observation) -> KeptState | None:
        """Keep the contents of the state that was observed; None if there is nothing to keep, or it failed.

        A state whose contents are kept already costs one look into the database. Nothing is kept of a clean state:
        the repository has it.
        """
        state, manifest, location = observation.state, observation.manifest, observation.location
        if self._settings.snapshots is SnapshotMode.OFF or state is None or manifest is None or location is None:
            return None
        if manifest.is_clean:
            return None
        key = (state.repository_id, state.dirty_hash)
        try:
            found = self._find(key)
            if found is None:
                # One at a time: who asked for the same state meanwhile finds it kept.
                with self._lock:
                    found = self._find(key) or self._keep(observation, manifest, key)
        except (BridgeError, OSError, DeadlinePassed) as error:
            why = str(error) or "it took too long"
            self._tell(
                f"the contents behind this stamp were not kept: {why}", code="snapshot_failed", details={"why": why}
            )
            return None
        return found

    def _find(self, key: tuple[str, str]) -> KeptState | None:
        """Return what is kept of a state, unless another try may keep more."""
        with self._store.read() as connection:
            found = find_kept_state(connection, *key)
        if found is None or found.status is KeptStatus.INCOMPLETE:
            return None
        is_limit_raised = self._settings.snapshot_limit_bytes > found.limit_bytes
        return None if found.status is KeptStatus.OVER_LIMIT and is_limit_raised else found

    def _keep(self, observation: Observation, manifest: Manifest, key: tuple[str, str]) -> KeptState:
        wanted = [
            Wanted(row.path, row.content_digest.decode("ascii"), row.content_kind)
            for row in manifest.rows
            if row.content_kind in KEPT_KINDS
        ]
        with self._store.read() as connection:
            known = find_kept_contents(connection, key[0], {content.digest for content in wanted})
        try:
            kept = self._taken(observation, wanted, known, key)
        except GitFailed:
            if not known:
                raise
            # An object that is recorded may be gone from the disk: then all is read anew.
            kept = self._taken(observation, wanted, {}, key)
        state = _state_of(kept, key, self._settings.snapshot_limit_bytes)
        moment = format_timestamp(self._clock.now())
        # Not waited for: the entry's own write comes after it, and shares its flush to the disk.
        written = self._store.submit(lambda tx: save_kept_state(tx, state, kept.objects, moment))
        written.add_done_callback(self._tell_if_failed)
        if state.status is KeptStatus.OVER_LIMIT:
            self._tell(
                f"{state.omitted_count} of {state.omitted_count + state.kept_count} contents behind this stamp were "
                f"not kept: they exceed the limit (snapshot_limit_bytes is {state.limit_bytes})",
                code="snapshot_over_limit",
                details=state.to_json(),
            )
        return state

    def _tell_if_failed(self, written: Future[None]) -> None:
        error = None if written.cancelled() else written.exception()
        if error is not None:
            self._tell(
                f"the contents behind a stamp were not recorded: {error}",
                code="snapshot_failed",
                details={"why": str(error)},
            )

    def _taken(
        self, observation: Observation, wanted: list[Wanted], known: Mapping[str, KeptObject], key: tuple[str, str]
    ) -> KeptContents:
        if observation.location is None:
            raise AssertionError("a known state has a place")
        return content_store(self._settings, key[0]).keep(
            observation.location,
            wanted,
            known,
            label=key[1],
            limit_bytes=self._settings.snapshot_limit_bytes,
            moment=self._clock.now().timestamp(),
            timeout_seconds=self._settings.git_timeout_seconds,
        )


def _state_of(kept: KeptContents, key: tuple[str, str], limit_bytes: int) -> KeptState:
    status = KeptStatus.COMPLETE
    if kept.changed:
        status = KeptStatus.INCOMPLETE
    elif kept.over_limit:
        status = KeptStatus.OVER_LIMIT
    return KeptState(
        repository_id=key[0],
        dirty_hash=key[1],
        ref=kept.ref,
        status=status,
        kept_count=len(kept.objects),
        kept_bytes=sum(found.size for found in kept.objects.values()),
        omitted_count=len(kept.over_limit) + len(kept.changed),
        omitted_bytes=sum(kept.over_limit.values()),
        limit_bytes=limit_bytes,
    )


def content_store(settings: Settings, repository_id: str) -> ContentStore:
    """Return the object store of a repository, whether or not it was made yet."""
    return ContentStore(settings.objects / repository_id)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What :func:`prune_contents` did.

    Parameters
    ----------
    states_removed, contents_removed
        Dirty manifests, and different contents, that are kept no longer.
    bytes_before, bytes_after
        Size of all object stores on the disk.
    """

    states_removed: int
    contents_removed: int
    bytes_before: int
    bytes_after: int

    def to_json(self) -> dict[str, Any]:
        return {
            "states_removed": self.states_removed,
            "contents_removed": self.contents_removed,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
        }


def prune_contents(store: Store, settings: Settings, clock: Clock) -> PruneReport:
    """Remove the contents that no entry's stamp needs any more; to be called after sessions were removed. Blocking.

    In an order in which being interrupted leaves nothing that claims to be there and is not: first the rows of
    states, then their refs, then the rows of contents that nothing holds, then the objects.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If a store cannot be pruned; calling again goes on where it stopped.
    """
    with store.read() as connection:
        needed = stamped_dirty_hashes(connection)
        # The entry of a young one may be about to be written.
        young = format_timestamp(clock.now() - timedelta(seconds=ORPHAN_GRACE_SECONDS))
        kept = kept_manifests(connection, before=young)
        gone = [(repository_id, dirty_hash) for repository_id, dirty_hash, _ in kept if dirty_hash not in needed]
        repositories = kept_repositories(connection)
    if gone:
        store.write(lambda tx: forget_kept_states(tx, gone))
    before = after = contents = 0
    for repository_id in repositories:
        content = content_store(settings, repository_id)
        if not content.exists:
            contents += _forget_contents(store, repository_id, frozenset())
            continue
        before += content.size()
        with content.locked():
            with store.read() as connection:
                refs = frozenset(ref for key, _, ref in kept_manifests(connection) if key == repository_id and ref)
            content.drop(refs, now=clock.now().timestamp())
            reachable = content.reachable(timeout_seconds=COLLECT_TIMEOUT_SECONDS)
            contents += _forget_contents(store, repository_id, reachable)
            content.collect(timeout_seconds=COLLECT_TIMEOUT_SECONDS)
        after += content.size()
    return PruneReport(len(gone), contents, before, after)


def drop_states(store: Store, settings: Settings, keys: Collection[tuple[str, str]]) -> int:
    """Remove what is kept of states, given by repository and dirty hash, at once; return how many were kept. Blocking.

    In the same order as :func:`prune_contents`.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If a store cannot be cleared; :func:`prune_contents` goes on where it stopped.
    """
    with store.read() as connection:
        gone = [one for one in kept_manifests(connection) if one[:2] in keys]
    if not gone:
        return 0
    store.write(lambda tx: forget_kept_states(tx, [one[:2] for one in gone]))
    for repository_id in sorted({one[0] for one in gone}):
        content = content_store(settings, repository_id)
        if not content.exists:
            continue
        with content.locked():
            content.forget([ref for owner, _, ref in gone if owner == repository_id and ref is not None])
            _forget_contents(store, repository_id, content.reachable(timeout_seconds=COLLECT_TIMEOUT_SECONDS))
            content.collect(timeout_seconds=COLLECT_TIMEOUT_SECONDS)
    return len(gone)


def _forget_contents(store: Store, repository_id: str, reachable: frozenset[str]) -> int:
    return store.write(lambda tx: forget_kept_contents(tx, repository_id, reachable))
