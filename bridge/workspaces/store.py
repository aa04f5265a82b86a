"""Queries of the workspace tree and of repository states. Every function takes an open connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, select, update
from sqlalchemy.exc import IntegrityError

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.git.manifest import Manifest, decode_page
from bridge.semantics.stamps import STAMP_VERSION, RepositoryState
from bridge.storage.tables.workspaces import ManifestPageRow, ManifestRow, RepositoryStateRow, WorkspaceRow
from bridge.workspaces.errors import StateNotFound, WorkspaceNotFound, WorkspacePathTaken
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus

_WORKSPACES = WorkspaceRow.__table__
_STATES = RepositoryStateRow.__table__
_MANIFESTS = ManifestRow.__table__
_PAGES = ManifestPageRow.__table__
