"""What an agent and its person are told of the files: facts since the agent's last turn, once for each change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bridge.control.capture.model import NOTHING, Captured, Told
from bridge.control.controller import Controller
from bridge.control.conversing.looking import Outlook, look
from bridge.foundation.clock import format_timestamp
from bridge.foundation.ids import short_session
from bridge.git.observe import Observation
from bridge.semantics.ownwords import OVERHEAD, as_note
from bridge.workspaces.divergence import Divergence
from bridge.workspaces.wording import PROMPT_LIMIT, START_LIMIT, agent_text, one_line

#: Characters of the line for a person; a longer one is cut by the hosts in their own ways.
NOTICE_LIMIT: Final = 500


@dataclass(frozen=True, slots=True)
class Warned:
    """What is to be told, and the session as it is once that was told."""

    told: Told
    captured: Captured


def warn(controller: Controller, captured: Captured, observation: Observation, *, is_start: bool) -> Warned:
    """Compare the files with what the agent knows. Blocking.

    Parameters
    ----------
    observation
        A look at the files that was just taken.
    is_start
        Whether the session starts, resumes, or was never compared since; else it is at a prompt, where an agent hears
        of nothing but what touches its conversation.
    """
    if captured.base_entry_id is None:
        return Warned(NOTHING, captured)
    outlook = look(controller, captured.session_id, entry_id=captured.base_entry_id, observation=observation)
    moment = format_timestamp(observation.observed_at)
    context = _context(outlook, captured, moment, is_start=is_start)
    notice = _notice(outlook, captured, was_agent_told=context is not None, is_start=is_start)
    after = captured
    if context is not None:
        after = replace(after, told_key=outlook.key)
    if notice is not None:
        after = replace(after, told_person_key=outlook.key)
    if captured.owed_text is not None:
        context = _joined(captured.owed_text, context, START_LIMIT)
        after = replace(after, owed_text=None)
    return Warned(Told(context, notice), after)


def _context(outlook: Outlook, captured: Captured, moment: str, *, is_start: bool) -> str | None:
    if outlook.found is None or outlook.divergence is not Divergence.DIVERGED or outlook.key == captured.told_key:
        return None
    if not is_start and not outlook.touches_conversation:
        return None
    limit = START_LIMIT if is_start else PROMPT_LIMIT
    text = agent_text(outlook.found.report, limit - OVERHEAD)
    return as_note(text, moment) if text else None


def _notice(outlook: Outlook, captured: Captured, *, was_agent_told: bool, is_start: bool) -> str | None:
    """Return the person's line: with what the agent is told, at a start, and where nothing can be told."""
    if outlook.found is None or outlook.key == captured.told_person_key:
        return None
    is_unknown = outlook.divergence is Divergence.UNKNOWN
    if not (was_agent_told or is_unknown or is_start):
        return None
    line = one_line(outlook.found.report, reference=short_session(captured.session_id), was_agent_told=was_agent_told)
    return f"Bridge: {line}"[:NOTICE_LIMIT]


def _joined(owed: str, context: str | None, limit: int) -> str:
    if context is None:
        return owed
    # What is owed is older: where not both have room, the one that supersedes it goes first.
    return f"{owed} {context}" if len(owed) + len(context) + 1 <= limit else context
