"""What deep searches used, recorded on one hidden session: figures, no question and no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.adapters.models.port import Usage
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import list_sessions

#: What such usage is for; label of the hidden session, and in each entry.
TASK_FAMILY: Final = "chat_search"
_FIGURES: Final = ("status", "reason", "model", "lookups", "lookup_tokens", "elapsed_seconds", "model_seconds")


def record_usage(controller: Controller, figures: Mapping[str, Any], usage: Usage) -> None:
    """Record what one deep search used; the hidden session is made when there is none."""
    about = {name: figures[name] for name in _FIGURES}
    tokens = {"input": usage.input_tokens or 0, "output": usage.output_tokens or 0}

    def write(recording: RecordingTransaction) -> None:
        known = [one for one in list_sessions(recording.tx.connection, kinds=("hidden",)) if one.label == TASK_FAMILY]
        session_id = known[0].id if known else recording.create_session(NewSession(kind="hidden", label=TASK_FAMILY)).id
        draft = EntryDraft(
            kind="usage.updated",
            payload={"tokens": tokens, "provider_meta": {"task_family": TASK_FAMILY, **about}},
            context_visibility="hidden",
        )
        recording.append(session_id, draft)

    controller.recorder.transact(write)
