"""Queries of the workspace tree and of repository states. Every function takes an open connection or transaction."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select, tuple_, update

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.hashing import digest_hex
from bridge.foundation.texts import is_storable
from bridge.git.contentstore import KeptObject
from bridge.git.manifest import CLEAN_DIRTY_HASH, Manifest, ManifestMalformed, ManifestPage, ManifestRow, decode_page
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.semantics.stamps import STAMP_VERSION, UNBORN, RepositoryState, UnknownReason
from bridge.storage.prepared import Prepared
from bridge.storage.tables import (
    kept_contents,
    kept_states,
    manifest_pages,
    manifests,
    repository_states,
    workspace_links,
    workspace_roots,
    workspaces,
)
from bridge.storage.transaction import Transaction
from bridge.workspaces.errors import StateDamaged, WorkspaceNotFound, WorkspacePathTaken
from bridge.workspaces.models import (
    KeptState,
    KeptStatus,
    Workspace,
    WorkspaceKind,
    WorkspaceLink,
    WorkspaceStatus,
    shown_folder,
)

#: Values in one IN list; SQLite takes 32,766.
_CHUNK: Final = 500
#: Pages read at a time where all are.
_PAGES_AT_ONCE: Final = 32
_W = workspaces.c
_COLUMNS = [
    _W.id,
    _W.kind,
    _W.parent_id,
    _W.path,
    _W.common_dir,
    _W.repository_id,
    _W.worktree_id,
    _W.base_commit,
    _W.label,
    _W.status,
    _W.kept_reason,
    _W.created_at,
    _W.updated_at,
]


def new_workspace_id() -> str:
    """Return an id for a workspace: ``w`` and twelve random hex digits."""
    return "w" + secrets.token_hex(6)


# Workspaces


def insert_workspace(tx: Transaction, workspace: Workspace) -> None:
    """Add a workspace; its path is reserved from here on.

    Raises
    ------
    WorkspacePathTaken
        If another workspace that is not removed has the path.
    """
    require_free_path(tx.connection, workspace.path)
    tx.execute(insert(workspaces).values({name: _column(workspace, name) for name in _NAMES}))


def require_free_path(connection: Connection, path: str) -> None:
    """Refuse a path, in the form workspaces keep it, that a workspace has.

    Raises
    ------
    WorkspacePathTaken
        If a workspace that is not removed has it.
    """
    taken = find_by_path(connection, path)
    if taken is not None:
        raise WorkspacePathTaken(
            f"{path} belongs to workspace {taken.id} ({taken.status}). Nothing was created.",
            details={"path": path, "workspace_id": taken.id, "status": str(taken.status)},
        )


def update_workspace(tx: Transaction, workspace_id: str, moment: str, **changes: str | None) -> Workspace:
    """Change columns of a workspace and return it as it is now.

    Raises
    ------
    WorkspaceNotFound
        If there is none of that id.
    """
    tx.execute(update(workspaces).where(_W.id == workspace_id).values(updated_at=moment, **changes))
    return get_workspace(tx.connection, workspace_id)


_BY_ID = Prepared(select(*_COLUMNS).where(_W.id == bindparam("workspace")), "workspace")
_BY_WORKTREE = Prepared(
    select(*_COLUMNS)
    .where(_W.worktree_id == bindparam("worktree"), _W.status != bindparam("removed"))
    .order_by(_W.created_at.desc(), _W.id),
    "worktree",
    "removed",
)


def find_workspace(connection: Connection, workspace_id: str) -> Workspace | None:
    if not is_storable(workspace_id):
        return None
    row = _BY_ID.run(connection, workspace_id).fetchone()
    return None if row is None else _workspace(row)


def get_workspace(connection: Connection, workspace_id: str) -> Workspace:
    """Return a workspace.

    Raises
    ------
    WorkspaceNotFound
        If there is none of that id.
    """
    found = find_workspace(connection, workspace_id)
    if found is None:
        raise WorkspaceNotFound(f"There is no workspace {workspace_id}.", details={"workspace_id": workspace_id})
    return found


def find_by_path(connection: Connection, folder: Path | str) -> Workspace | None:
    """Return the workspace, not a removed one, whose top level is this folder (or its shown form)."""
    path = folder if isinstance(folder, str) else shown_folder(folder)
    query = select(*_COLUMNS).where(_W.path == path, _W.status != WorkspaceStatus.REMOVED)
    row = connection.execute(query).first()
    return None if row is None else _workspace(row)


def find_by_worktree(connection: Connection, worktree_id: str) -> Workspace | None:
    """Return the workspace of a git worktree (``RepositoryLocation.worktree_id``); the newest that is not removed."""
    row = _BY_WORKTREE.run(connection, worktree_id, WorkspaceStatus.REMOVED.value).fetchone()
    return None if row is None else _workspace(row)


def list_workspaces(
    connection: Connection,
    *,
    repository_id: str | None = None,
    worktree_id: str | None = None,
    parent_id: str | None = None,
    kinds: Sequence[WorkspaceKind] | None = None,
    statuses: Sequence[WorkspaceStatus] | None = None,
    after: Workspace | None = None,
    limit: int | None = None,
) -> list[Workspace]:
    """Return workspaces in the order of their creation; each condition narrows, none means all."""
    query = select(*_COLUMNS).order_by(_W.created_at, _W.id)
    for column, value in ((_W.repository_id, repository_id), (_W.worktree_id, worktree_id), (_W.parent_id, parent_id)):
        if value is not None:
            query = query.where(column == value)
    if kinds is not None:
        query = query.where(_W.kind.in_([str(kind) for kind in kinds]))
    if statuses is not None:
        query = query.where(_W.status.in_([str(status) for status in statuses]))
    if after is not None:
        query = query.where(tuple_(_W.created_at, _W.id) > (after.created_at, after.id))
    return [_workspace(row) for row in connection.execute(query if limit is None else query.limit(limit))]


_NAMES = tuple(column.name for column in _COLUMNS)


def _column(workspace: Workspace, name: str) -> str | None:
    value = getattr(workspace, name)
    return None if value is None else str(value)


def _workspace(row: Sequence[Any]) -> Workspace:
    values = dict(zip(_NAMES, row, strict=True))
    return Workspace(**{**values, "kind": WorkspaceKind(values["kind"]), "status": WorkspaceStatus(values["status"])})


# States

_HAS_STATE = Prepared(
    select(repository_states.c.state_digest).where(repository_states.c.state_digest == bindparam("digest")), "digest"
)
_INSERT_STATE = Prepared(insert(repository_states), "state_digest", "dirty_hash", "created_at", "state")
_INSERT_MANIFEST = Prepared(insert(manifests), "dirty_hash", "created_at", "page_index")
_INSERT_PAGE = Prepared(insert(manifest_pages), "page_digest", "body")


def save_state(tx: Transaction, observation: Observation, moment: str) -> str | None:
    """Store what was observed, each part once, and return the state's digest; None when it is unknown.

    A state that is stored already costs one look-up. What is there is looked for before it is written (the
    tables refuse an INSERT over a key): only one transaction writes at a time, so nothing comes in between.
    """
    state, manifest = observation.state, observation.manifest
    if state is None:
        return None
    if _HAS_STATE.run(tx.connection, state.state_digest).fetchone() is None:
        if manifest is not None:
            _save_manifest(tx, manifest, moment)
        tx.run(_INSERT_STATE, state.state_digest, state.dirty_hash, moment, canonical_text(state.to_json()))
    return state.state_digest


def load_state(connection: Connection, state_digest: str) -> RepositoryState | UnknownReason:
    """Return a stored state, or why it cannot be used: ``stamp_version``, or ``base_unavailable`` if it is not there.

    Raises
    ------
    StateDamaged
        If the stored text does not have the digest.
    """
    query = select(repository_states.c.state).where(repository_states.c.state_digest == state_digest)
    text = connection.execute(query).scalar_one_or_none()
    if text is None:
        return UnknownReason.BASE_UNAVAILABLE
    if digest_hex(text.encode()) != state_digest:
        raise StateDamaged(
            f"The stored state {state_digest[:12]} does not match its digest.", details={"state_digest": state_digest}
        )
    value = parse_json(text)
    if value.get("stamp_version") != STAMP_VERSION:
        return UnknownReason.STAMP_VERSION
    return RepositoryState(**value)


def load_manifest(connection: Connection, dirty_hash: str) -> Manifest | None:
    """Return a stored manifest; None when the state came without paths.

    Raises
    ------
    StateDamaged
        If a page is missing or damaged, or the whole does not have the hash.
    """
    if dirty_hash == CLEAN_DIRTY_HASH:
        return Manifest()
    index = connection.execute(
        select(manifests.c.page_index).where(manifests.c.dirty_hash == dirty_hash)
    ).scalar_one_or_none()
    if index is None:
        return None
    wanted = [page["page"] for page in parse_json(index)]
    bodies: dict[str, bytes] = {}
    for chunk in _chunks(wanted):
        query = select(manifest_pages.c.page_digest, manifest_pages.c.body).where(
            manifest_pages.c.page_digest.in_(chunk)
        )
        bodies.update((row[0], bytes(row[1])) for row in connection.execute(query))
    try:
        manifest = Manifest.from_pages(bodies[digest] for digest in wanted)
    except (KeyError, ManifestMalformed) as error:
        raise _damaged_manifest(dirty_hash) from error
    if manifest.dirty_hash != dirty_hash:
        raise _damaged_manifest(dirty_hash)
    return manifest


def state_text(connection: Connection, state_digest: str) -> tuple[str, str] | None:
    """Return the dirty hash and the text of a stored state as they are; None if it is not there."""
    query = select(repository_states.c.dirty_hash, repository_states.c.state).where(
        repository_states.c.state_digest == state_digest
    )
    row = connection.execute(query).first()
    return None if row is None else (row[0], row[1])


def page_index_text(connection: Connection, dirty_hash: str) -> str | None:
    """Return the text that lists the pages of a stored manifest; None if it is clean or came without paths."""
    query = select(manifests.c.page_index).where(manifests.c.dirty_hash == dirty_hash)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def page_index_of(manifest: Manifest) -> str:
    """Return the text that lists the pages of a manifest, as it is stored."""
    return canonical_text(_index_of(manifest.pages()))


def _index_of(pages: Iterable[ManifestPage]) -> list[dict[str, str]]:
    return [{"directory": plain_path(page.directory), "page": page.digest} for page in pages]


def state_hashes(connection: Connection) -> list[tuple[str, str]]:
    """Return the digest of every stored state, with the manifest that its row names."""
    query = select(repository_states.c.state_digest, repository_states.c.dirty_hash)
    return [(row[0], row[1]) for row in connection.execute(query.order_by(repository_states.c.state_digest))]


def manifest_hashes(connection: Connection) -> list[str]:
    """Return the hashes of all stored manifests."""
    return list(connection.execute(select(manifests.c.dirty_hash).order_by(manifests.c.dirty_hash)).scalars())


def iterate_pages(connection: Connection) -> Iterator[tuple[str, Any]]:
    """Yield every page of a manifest with its digest, a few at a time."""
    query = select(manifest_pages.c.page_digest, manifest_pages.c.body).order_by(manifest_pages.c.page_digest)
    for row in connection.execute(query, execution_options={"yield_per": _PAGES_AT_ONCE}):
        yield row[0], row[1]


def page_size(connection: Connection, page_digest: str) -> int:
    """Return the length of a stored page of a manifest in bytes, -1 if it is not there."""
    query = select(func.length(manifest_pages.c.body)).where(manifest_pages.c.page_digest == page_digest)
    found: int | None = connection.execute(query).scalar_one_or_none()
    return -1 if found is None else found


def page_body(connection: Connection, page_digest: str) -> bytes:
    """Return the body of a page of a manifest that is stored."""
    query = select(manifest_pages.c.body).where(manifest_pages.c.page_digest == page_digest)
    return bytes(connection.execute(query).scalar_one())


def import_page(tx: Transaction, page_digest: str, body: bytes) -> None:
    """Store a page that was checked against its digest, unless it is there."""
    if not _known(tx.connection, manifest_pages, "page_digest", [page_digest]):
        tx.run(_INSERT_PAGE, page_digest, body)


def import_manifest(tx: Transaction, dirty_hash: str, page_index: str, moment: str) -> None:
    """Store which pages make up a manifest, unless it is there; they must be stored already.

    Raises
    ------
    StateDamaged
        If the pages do not give the hash.
    """
    if _known(tx.connection, manifests, "dirty_hash", [dirty_hash]):
        return
    tx.run(_INSERT_MANIFEST, dirty_hash, moment, page_index)
    load_manifest(tx.connection, dirty_hash)


def import_state(tx: Transaction, state_digest: str, text: str, moment: str) -> None:
    """Store a state that was checked against its digest, unless it is there."""
    if _HAS_STATE.run(tx.connection, state_digest).fetchone() is None:
        tx.run(_INSERT_STATE, state_digest, parse_json(text)["dirty_hash"], moment, text)


class PageReader:
    """Reads the rows of some directories from many manifests; a page that several of them share is read once."""

    def __init__(self, connection: Connection, directories: Collection[bytes]) -> None:
        self._connection = connection
        self._directories = frozenset(plain_path(directory) for directory in directories)
        self._pages: dict[str, list[ManifestRow]] = {}
        #: Rows that were read so far.
        self.rows_read = 0

    def rows(self, dirty_hash: str) -> list[ManifestRow] | None:
        """Return a stored manifest's rows in those directories; None when the state came without paths.

        Raises
        ------
        StateDamaged
            If a page is missing or damaged.
        """
        if dirty_hash == CLEAN_DIRTY_HASH:
            return []
        query = select(manifests.c.page_index).where(manifests.c.dirty_hash == dirty_hash)
        index = self._connection.execute(query).scalar_one_or_none()
        if index is None:
            return None
        wanted = [page["page"] for page in parse_json(index) if page["directory"] in self._directories]
        return [row for digest in wanted for row in self._page(digest, dirty_hash)]

    def _page(self, digest: str, dirty_hash: str) -> list[ManifestRow]:
        if digest not in self._pages:
            query = select(manifest_pages.c.body).where(manifest_pages.c.page_digest == digest)
            body = self._connection.execute(query).scalar_one_or_none()
            if body is None or digest_hex(bytes(body)) != digest:
                raise _damaged_manifest(dirty_hash)
            try:
                self._pages[digest] = decode_page(bytes(body))
            except ManifestMalformed as error:
                raise _damaged_manifest(dirty_hash) from error
            self.rows_read += len(self._pages[digest])
        return self._pages[digest]


def _damaged_manifest(dirty_hash: str) -> StateDamaged:
    return StateDamaged(
        f"The stored manifest {dirty_hash[:12]} is incomplete or does not match its digest.",
        details={"dirty_hash": dirty_hash},
    )


def _save_manifest(tx: Transaction, manifest: Manifest, moment: str) -> None:
    if manifest.is_clean or _known(tx.connection, manifests, "dirty_hash", [manifest.dirty_hash]):
        return
    pages = manifest.pages()
    known = _known(tx.connection, manifest_pages, "page_digest", [page.digest for page in pages])
    for page in pages:
        # Two folders never share a page: the rows hold full paths.
        if page.digest not in known:
            tx.run(_INSERT_PAGE, page.digest, page.content)
    index = _index_of(pages)
    tx.run(_INSERT_MANIFEST, manifest.dirty_hash, moment, canonical_text(index))


def _known(connection: Connection, table: Table, key: str, values: Sequence[str]) -> set[str]:
    column = table.c[key]
    found: set[str] = set()
    for chunk in _chunks(values):
        found.update(connection.execute(select(column).where(column.in_(chunk))).scalars())
    return found


def _chunks(values: Sequence[str]) -> Iterable[Sequence[str]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


# Kept contents

_K, _C = kept_states.c, kept_contents.c


def find_kept_state(connection: Connection, repository_id: str, dirty_hash: str) -> KeptState | None:
    """Return what was kept for a dirty manifest of a repository; None if nothing was tried or it failed."""
    query = select(*(_K[name] for name in KeptState.__slots__)).where(
        _K.repository_id == repository_id, _K.dirty_hash == dirty_hash
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    values = dict(zip(KeptState.__slots__, row, strict=True))
    return KeptState(**{**values, "status": KeptStatus(values["status"])})


def save_kept_state(tx: Transaction, kept: KeptState, objects: Mapping[str, KeptObject], moment: str) -> None:
    """Record what was kept for a manifest, in place of what an earlier try kept, and where each content is."""
    tx.execute(delete(kept_states).where(_K.repository_id == kept.repository_id, _K.dirty_hash == kept.dirty_hash))
    values = {name: getattr(kept, name) for name in KeptState.__slots__}
    tx.execute(insert(kept_states).values({**values, "status": str(kept.status), "created_at": moment}))
    recorded = find_kept_contents(tx.connection, kept.repository_id, objects)
    new = {digest: found for digest, found in objects.items() if recorded.get(digest) != found}
    for chunk in _chunks([digest for digest in new if digest in recorded]):
        tx.execute(delete(kept_contents).where(_C.repository_id == kept.repository_id, _C.content_digest.in_(chunk)))
    if new:
        rows = [
            {"repository_id": kept.repository_id, "content_digest": digest, "object_id": at.object_id, "size": at.size}
            for digest, at in new.items()
        ]
        tx.execute(insert(kept_contents), rows)


def find_kept_contents(connection: Connection, repository_id: str, digests: Collection[str]) -> dict[str, KeptObject]:
    """Return where contents are kept, for those that are."""
    found: dict[str, KeptObject] = {}
    for chunk in _chunks(list(digests)):
        query = select(_C.content_digest, _C.object_id, _C.size).where(
            _C.repository_id == repository_id, _C.content_digest.in_(chunk)
        )
        found.update((digest, KeptObject(object_id, size)) for digest, object_id, size in connection.execute(query))
    return found


def kept_repositories(connection: Connection) -> list[str]:
    """Return the ids of the repositories of which something is, or was, kept."""
    ids = set(connection.execute(select(_K.repository_id).distinct()).scalars())
    return sorted(ids | set(connection.execute(select(_C.repository_id).distinct()).scalars()))


def kept_manifests(connection: Connection, *, before: str | None = None) -> list[tuple[str, str, str | None]]:
    """Return repository, dirty hash and ref of everything kept, or of what was kept before a moment."""
    query = select(_K.repository_id, _K.dirty_hash, _K.ref)
    if before is not None:
        query = query.where(_K.created_at <= before)
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def forget_kept_states(tx: Transaction, keys: Iterable[tuple[str, str]]) -> None:
    """Remove the rows of manifests, given by repository and dirty hash, whose contents nobody needs any more."""
    for repository_id, dirty_hash in keys:
        tx.execute(delete(kept_states).where(_K.repository_id == repository_id, _K.dirty_hash == dirty_hash))


def forget_kept_contents(tx: Transaction, repository_id: str, reachable: Collection[str]) -> int:
    """Remove the rows of contents whose object is not among the reachable ones; return how many."""
    query = select(_C.content_digest, _C.object_id).where(_C.repository_id == repository_id)
    gone = [digest for digest, object_id in tx.connection.execute(query) if object_id not in reachable]
    for chunk in _chunks(gone):
        tx.execute(delete(kept_contents).where(_C.repository_id == repository_id, _C.content_digest.in_(chunk)))
    return len(gone)


# Relinking


def add_link(tx: Transaction, link: WorkspaceLink, moment: str) -> None:
    """Record that a workspace stands for another place from now on."""
    number = len(list_links(tx.connection, link.workspace_id)) + 1
    values = {name: getattr(link, name) for name in WorkspaceLink.__slots__}
    tx.execute(insert(workspace_links).values({**values, "number": number, "created_at": moment}))


def list_links(connection: Connection, workspace_id: str) -> list[WorkspaceLink]:
    """Return the relinkings of a workspace, oldest first."""
    columns = [workspace_links.c[name] for name in WorkspaceLink.__slots__]
    query = select(*columns).where(workspace_links.c.workspace_id == workspace_id).order_by(workspace_links.c.number)
    return [WorkspaceLink(*row) for row in connection.execute(query)]


def add_roots(tx: Transaction, workspace_id: str, commits: Iterable[str]) -> None:
    """Record root commits of a workspace's repository; those known already stay."""
    known = set(list_roots(tx.connection, workspace_id))
    for commit in commits:
        if commit not in known:
            tx.execute(insert(workspace_roots).values(workspace_id=workspace_id, commit_id=commit))


def list_roots(connection: Connection, workspace_id: str) -> list[str]:
    """Return the root commits that were seen in a workspace's repository."""
    query = select(workspace_roots.c.commit_id).where(workspace_roots.c.workspace_id == workspace_id)
    return sorted(connection.execute(query).scalars())


def stamped_heads(connection: Connection, repository_id: str, limit: int) -> list[str]:
    """Return commits that HEAD of a repository was stamped at, the newest states first, each once."""
    query = (
        select(repository_states.c.state)
        .where(repository_states.c.state.like(f'%"repository_id":"{repository_id}"%'))
        .order_by(repository_states.c.created_at.desc())
        .limit(limit)
    )
    heads = (parse_json(text)["head"] for text in connection.execute(query).scalars())
    return [head for head in dict.fromkeys(heads) if head != UNBORN]
