"""What a verification finds: one finding for each row that is not as it was recorded, and what each kind breaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

#: Findings listed by a verification; the rest is counted.
MAX_FINDINGS: Final = 100

#: What each kind of finding breaks, by its code.
BREAKS: Final = MappingProxyType(
    {
        "payload_altered": "what the entry says",
        "payload_missing": "what the entry says",
        "entry_altered": "the entry, and the hashes of all that descends from it",
        "entry_missing": "the conversation: something was said there that is gone",
        "entry_unreadable": "the entry: its row does not hold what such a row holds",
        "parent_missing": "the entry's place in the conversation",
        "tree_unsound": "the session's tree: it has no root hash",
        "tombstone_altered": "what is known of erased texts: nobody can say that they were erased in order",
        "events_missing": "the audit chain of a removed session",
        "root_altered": "a root that was given out or taken in: entries before it differ",
        "subtrees_altered": "nothing that was said; kept hashes, which are made anew when they are dropped",
        "origin_missing": "where the session was forked from",
        "origin_altered": "where the session was forked from",
        "event_altered": "the audit chain from there on",
        "event_missing": "the audit chain: a change is not recorded any more",
        "event_unplaced": "the order of the log",
        "head_altered": "where the conversation goes on",
        "head_missing": "where the conversation goes on",
        "session_altered": "the session's own row",
        "session_missing": "the session: its row is gone",
        "label_altered": "what a name in the session stands for",
        "cursor_altered": "where a running turn or task goes on",
        "leaf_altered": "the log's own hashes, and each proof made from them",
        "leaf_missing": "the log's own hashes, and each proof made from them",
        "leaf_without_event": "the log: an event had its place and is gone",
        "anchor_not_reached": "the end of the log: changes are not recorded any more",
        "anchor_differs": "the log: its beginning is another one than the one anchored",
        "anchor_damaged": "the anchor in the state directory",
        "log_not_extended": "the log: it is not one that grew from the earlier one",
        "state_altered": "what the files were when entries were recorded",
        "state_missing": "what the files were when entries were recorded",
        "text_altered": "long texts of entries",
        "text_unused": "nothing that was said; a text that no entry has",
        "evidence_altered": "what others may cite as a worker's result",
        "evidence_missing": "what others may cite as a worker's result",
        "workspace_altered": "which place a session's files are in",
        "quarantine_altered": "which sessions are set aside",
        "index_damaged": "nothing that was said; the search index, which is built anew when it is dropped",
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was recorded: which row, and what is wrong with it."""

    code: str
    subject: str
    message: str

    @property
    def breaks(self) -> str:
        """What no longer holds because of it."""
        return BREAKS[self.code]

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "subject": self.subject, "message": self.message, "breaks": self.breaks}


@dataclass(slots=True)
class Report:
    """What a verification found.

    ``checked`` counts the rows recomputed; ``findings`` holds at most :data:`MAX_FINDINGS` of ``problems``.
    """

    checked: int = 0
    problems: int = 0
    findings: list[Finding] = field(default_factory=list)
    #: Entries whose payload was erased in order, so that only its hash could be used.
    withheld: int = 0

    @property
    def is_valid(self) -> bool:
        return self.problems == 0

    def add(self, code: str, subject: str, message: str) -> None:
        """Add a finding; what stored bytes that are no text hold is shown escaped."""
        self.problems += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(code, shown(subject), shown(message)))

    def include(self, other: Report) -> None:
        """Add what another verification found."""
        self.checked += other.checked
        self.problems += other.problems
        self.withheld += other.withheld
        self.findings.extend(other.findings[: MAX_FINDINGS - len(self.findings)])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found about one session, one chain that is no session's, or one part of the store.

    Parameters
    ----------
    subject
        The id of the session or chain, or the name of the part.
    session_root
        The recomputed root; None for all but sessions, and for a session that has none.
    report
        Rows recomputed and findings.
    delegations
        What a session's chain says of the tasks that were given out from it, by their ids.
    """

    subject: str
    session_root: str | None
    report: Report
    delegations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Whether the chain is that of a session that was removed in order.
    is_removed: bool = False

    @property
    def is_healthy(self) -> bool:
        return self.report.is_valid

    def to_json(self) -> dict[str, Any]:
        return {
            "status": ("removed" if self.is_removed else "healthy") if self.is_healthy else "faulty",
            "checked": self.report.checked,
            "withheld": self.report.withheld,
            "problems": self.report.problems,
            "findings": [finding.to_json() for finding in self.report.findings],
        }


def shown(text: str) -> str:
    """Return a text with what is no character in it escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
