"""What an agent gets when it goes on with a session: the projected context, with what happened to its files on top.

The one door to it: the command line, RPC, the chat and whatever starts an agent ask here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.divergence import session_divergence
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.models import Session
from bridge.conversations.pathsource import StoredPath
from bridge.conversations.projection import Projection, project_source
from bridge.conversations.shape.runs import shape_of
from bridge.semantics.interpretation import require_readable
from bridge.storage.transaction import Connection
from bridge.workspaces.divergence import Divergence, DivergenceReport
from bridge.workspaces.wording import START_LIMIT, agent_text

#: Smallest and largest budget that can be asked for, in tokens.
MIN_BUDGET_TOKENS: Final = 1
MAX_BUDGET_TOKENS: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class ContextReport:
    """A session's context.

    Parameters
    ----------
    divergence
        How the files are to where the conversation stands; None if that was not asked, or the session has none.
    """

    session: Session
    projection: Projection
    divergence: DivergenceReport | None = None

    def text(self) -> str:
        """Return the context as one text for an agent."""
        return self.projection.text()

    def to_json(self) -> dict[str, Any]:
        divergence = self.divergence
        return {
            "session_id": self.session.id,
            "active_entry_id": self.session.active_entry_id,
            "divergence": None if divergence is None else str(divergence.divergence),
            **self.projection.to_json(),
        }


def build_context(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    budget: int | None = None,
    cold_start: bool = True,
    with_files: bool = True,
) -> ContextReport:
    """Return the context that a session's active path restores. Blocking.

    Parameters
    ----------
    budget
        How many tokens it may take, by Bridge's estimate; None means all of it.
    cold_start
        Whether a checkpoint stands for what lies before it, as it does for an agent that knows nothing of the
        conversation.
    with_files
        Whether the files are looked at; if they have moved on, the context begins with what changed.

    Raises
    ------
    UnsupportedSemanticVersion
        If the path holds an entry that this Bridge does not read.
    SessionNotFound, AmbiguousReference, InvalidReference
        As ``find_session``.
    SessionQuarantined, PathBroken
        If the session, or one it was forked from, is damaged.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
    report = _divergence(controller, found) if with_files else None
    told = agent_text(report, START_LIMIT) if report is not None and report.divergence is Divergence.DIVERGED else None
    with controller.store.read() as connection:
        # Looked at again: the conversation may have gone on while git was asked.
        found = require_session(connection, found.id)
        projection = project_source(
            stored_path(connection, found.active_entry_id),
            budget_tokens=budget,
            divergence_line=told,
            cold_start=cold_start,
        )
    return ContextReport(found, projection, report)


def stored_path(connection: Connection, entry_id: str) -> StoredPath:
    """Return the path to an entry, read as far as it is asked for. Raises as ``shape_of``."""
    return StoredPath(connection, shape_of(connection, entry_id))


def require_readable_path(connection: Connection, entry_id: str) -> None:
    """Raise UnsupportedSemanticVersion if the path to an entry holds one without meaning here, else as ``shape_of``."""
    for mark in stored_path(connection, entry_id).marks:
        require_readable(mark.version, entry_id=mark.entry_id)


def _divergence(controller: Controller, session: Session) -> DivergenceReport | None:
    if session.workspace_id is None:
        return None
    return session_divergence(
        controller.store,
        controller.observer,
        session.id,
        timeout_seconds=controller.settings.git_timeout_seconds,
    ).report
