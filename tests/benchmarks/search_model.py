"""Scripted models for ``search_quality.py``: each always does the same, so that what is measured is the way through a
model, and not a model.

``overlap`` looks once for words that the list of ``bridge/recall/related.py`` gives for those of the question, then
names the cards that hold most of either, if they hold any: it knows nothing that the index does not. ``knows`` looks as
well, and then names the right chat if it was shown it: no model can do better with the same look-up. ``invents`` names
a chat that it was never shown.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bridge.recall.related import related
from tests.scriptedmodel import Played, answer, call

#: Words that it looks for beside those of the question.
MAX_WORDS = 6
MAX_NAMED = 4


class Asking:
    """What a model was told so far.

    Parameters
    ----------
    right
        How the right chat begins; only ``knows`` looks at it.
    """

    def __init__(self, body: dict[str, Any], right: str) -> None:
        said = [str(message.get("content")) for message in body["messages"] if message["role"] in ("user", "tool")]
        self.words = _words(re.search(r"^Question: (.*)$", said[0], re.MULTILINE)[1].lower())
        self.more = [other for word in sorted(self.words) for other in related((word,))][:MAX_WORDS]
        self.has_looked = any(message["role"] == "tool" for message in body["messages"])
        self.cards = dict(re.findall(r"^(c\d+) \|(.*)$", "\n".join(reversed(said)), re.MULTILINE))
        self.right = right


def overlap(asking: Asking) -> Played:
    if asking.more and not asking.has_looked:
        return call("find_chats", argument=" ".join(asking.more))
    scores = {}
    for mark, card in asking.cards.items():
        held = _words(card.lower())
        scores[mark] = 2 * len(asking.words & held) + len(set(asking.more) & held)
    named = sorted((mark for mark in scores if scores[mark]), key=lambda mark: (-scores[mark], int(mark[1:])))
    return answer(*named[:MAX_NAMED], why="it has the words")


def knows(asking: Asking) -> Played:
    if asking.more and not asking.has_looked:
        return call("find_chats", argument=" ".join(asking.more))
    return answer(*[mark for mark, card in asking.cards.items() if asking.right in card], why="it is the one")


def invents(_asking: Asking) -> Played:
    return answer("c99")


POLICIES = {"overlap": overlap, "knows": knows, "invents": invents}


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[\w.-]+", text) if len(word) > 2}
