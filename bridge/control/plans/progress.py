"""What a long use case reports while it runs: typed events, for a table, plain lines or JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """One report.

    Parameters
    ----------
    event
        ``plan_started``, ``task_queued``, ``task_rejected``, ``task_preparing``, ``task_running``,
        ``task_settling``, ``task_finished``, ``plan_finished``.
    plan_id
        The run it belongs to, if any.
    task
        Name of the task in its plan, or its id; None for reports about the plan.
    status
        The task's or plan's status afterwards.
    message
        One line for a person; empty if the status says it all.
    at
        When, as a timestamp.
    details
        Further facts: ids, counts.
    """

    event: str
    plan_id: str | None
    task: str | None
    status: str
    at: str
    message: str = ""
    details: dict[str, Any] | None = None

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.event == "plan_finished"

    def to_json(self) -> dict[str, Any]:
        """Return the report as one typed line."""
        return {
            "event": self.event,
            "plan_id": self.plan_id,
            "task": self.task,
            "status": self.status,
            "message": self.message,
            "finished": self.is_last,
            "at": self.at,
            **(self.details or {}),
        }


#: Takes reports as they come; called on the event loop, must not block.
ProgressSink = Callable[[Progress], None]


def ignore_progress(_report: Progress) -> None:
    """Take no notice."""
