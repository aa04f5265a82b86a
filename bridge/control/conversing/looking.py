"""Before a turn: what happened to the files since the conversation last saw them, and who has to know.

A person is told once for each change; an agent with its next message, and only of what touches the conversation.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.control.controller import Controller
from bridge.control.divergence import SessionDivergence, session_divergence
from bridge.conversations.forest import require_session
from bridge.conversations.references import require_entry
from bridge.git.observe import Observation
from bridge.workspaces.divergence import Divergence, DivergenceReport
from bridge.workspaces.ranking import Rank
from bridge.workspaces.wording import PROMPT_LIMIT, START_LIMIT, agent_text


@dataclass(frozen=True, slots=True)
class Outlook:
    """How the files are to where the conversation stands.

    Parameters
    ----------
    found
        The comparison; None if the files are as they were, by a look that reads no more than it must.
    key
        The same for the same change: what stood then, what stands now.
    """

    head_entry_id: str
    divergence: Divergence
    found: SessionDivergence | None
    key: str

    @property
    def touches_conversation(self) -> bool:
        """Whether HEAD or the branch moved, or a path that the conversation read or edited changed."""
        if self.found is None or self.divergence is not Divergence.DIVERGED:
            return False
        return is_near(self.found.report)

    def words_for_agent(self, *, is_start: bool) -> str:
        """Return what an agent is to know; empty if nothing."""
        if self.found is None or self.divergence is not Divergence.DIVERGED:
            return ""
        if not is_start and not self.touches_conversation:
            return ""
        return agent_text(self.found.report, START_LIMIT if is_start else PROMPT_LIMIT)


def is_near(report: DivergenceReport) -> bool:
    """Return whether a difference is one that the conversation stands on."""
    is_moved = report.head is not None and report.then is not None and report.now is not None
    has_moved = is_moved and report.then.head != report.now.head  # type: ignore[union-attr]  # both are set
    return has_moved or report.is_ref_changed or bool(report.of_rank(Rank.EDITED, Rank.READ))


def look(
    controller: Controller, session_id: str, *, entry_id: str | None = None, observation: Observation | None = None
) -> Outlook:
    """Compare the files of a session with its head. Blocking.

    A quick look decides whether anything differs at all; only then every file is read.

    Parameters
    ----------
    entry_id
        Full id of an entry that belongs to the session, to compare with instead of its head.
    observation
        The quick look, where it was just taken.
    """
    with controller.store.read() as connection:
        session = require_session(connection, session_id)
        head = require_entry(connection, entry_id or session.active_entry_id)
    if observation is None:
        observation = controller.observer.stamp_session(controller.store, session.workspace_id)
    now = observation.stamp.state_digest
    then = head.stamp.state_digest
    if now is not None and now == then:
        return Outlook(head.id, Divergence.ALIGNED, None, "aligned")
    found = session_divergence(
        controller.store,
        controller.observer,
        session_id,
        entry_id=entry_id,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )
    report = found.report
    if report.divergence is Divergence.UNKNOWN:
        key = f"unknown {report.unknown.reason if report.unknown is not None else ''}"
    else:
        key = f"{then} {now}"
    return Outlook(head.id, report.divergence, found, key)
