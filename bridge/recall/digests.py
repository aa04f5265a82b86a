"""What a look at a whole session is made of: its label, its first message and its latest real summary. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from bridge.recall.terms import terms

#: Characters kept of the first message, and of a summary.
MAX_FIRST_CHARACTERS: Final = 500
MAX_SUMMARY_CHARACTERS: Final = 1_000
#: Kinds whose summary tells what happened, the better one higher. The end of an abandoned branch tells only of that.
SUMMARY_RANKS: Final = {"branch.summary": 1, "worker.result": 2, "checkpoint": 3, "compaction": 3}


@dataclass(frozen=True, slots=True)
class Digest:
    """What is indexed of a session as a whole, and shown of it where it is found.

    ``summary_rank`` says how good the summary is: a later one takes its place unless it is of a lesser kind.
    """

    label: str = ""
    first: str = ""
    summary: str = ""
    summary_rank: int = 0

    @classmethod
    def from_text(cls, text: str) -> Digest:
        """Return a digest from its stored form; of an empty text an empty one."""
        return cls(**json.loads(text)) if text else cls()

    def to_text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @property
    def terms(self) -> list[str]:
        """The terms under which the session stands in the index."""
        return [term for part in (self.label, self.first, self.summary) for term in terms(part)]

    def with_entry(self, kind: str, words: str) -> Digest:
        """Return the digest after one more entry with its searchable words."""
        if kind == "user.message":
            return self if self.first else replace(self, first=_one_line(words, MAX_FIRST_CHARACTERS))
        rank = SUMMARY_RANKS.get(kind, 0)
        if rank and rank >= self.summary_rank and words.strip():
            return replace(self, summary=_one_line(words, MAX_SUMMARY_CHARACTERS), summary_rank=rank)
        return self


def _one_line(text: str, limit: int) -> str:
    # Twice the limit is enough to have that much left once blanks are joined, but for a text of blanks.
    return " ".join(text[: 2 * limit].split())[:limit]
