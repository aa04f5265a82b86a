"""What Bridge says to an agent in its own context, and recognising it again wherever a host echoes it.

Hosts keep such texts: in the transcript, in the request of a resumed session, one of them even in the prompt that it
reports. Each says as of when it holds and that it supersedes earlier ones, and none is ever taken for something that
was said in the conversation.
"""

from __future__ import annotations

import re
from typing import Final

_OPENING: Final = "[Bridge note as of {moment}; it supersedes earlier ones.]"
_CLOSING: Final = "[/Bridge note as of {moment}]"
_MOMENT: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z"
_NOTE: Final = re.compile(
    rf"\[Bridge note as of (?P<moment>{_MOMENT}); it supersedes earlier ones\.\].*?\[/Bridge note as of (?P=moment)\]",
    re.DOTALL,
)
#: What hosts put around what a hook added, once it is taken out.
_EMPTY_WRAPPERS: Final = re.compile(
    r"<(?P<name>hook_context|system-reminder)>\s*(?:[A-Za-z]+ hook additional context:\s*)?</(?P=name)>"
)
#: A note is recognised by this without a regular expression.
MARK: Final = "[Bridge note as of "
#: Characters that the opening and the closing take.
OVERHEAD: Final = len(_OPENING) + len(_CLOSING) + 2 * (len("2026-01-02T03:04:05Z") - len("{moment}")) + 2


def as_note(text: str, moment: str) -> str:
    """Return a text as a note to an agent.

    Parameters
    ----------
    moment
        When what it says was seen: a timestamp, of which whole seconds are shown.
    """
    seconds = moment.partition(".")[0].removesuffix("Z") + "Z"
    return f"{_OPENING.format(moment=seconds)} {text} {_CLOSING.format(moment=seconds)}"


def without_notes(text: str) -> str:
    """Return a text without Bridge's own notes in it; the same object if there are none."""
    if MARK not in text:
        return text
    left = _NOTE.sub("", text)
    return left if left == text else _EMPTY_WRAPPERS.sub("", left).strip()
