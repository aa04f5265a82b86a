"""What a line at the prompt is: a message, a verb, or a mistyped verb. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Begins a verb; doubled, a message that begins with it.
MARK: Final = "/"
#: Nearest matches that are offered for a mistyped verb.
MAX_OFFERED: Final = 3


@dataclass(frozen=True, slots=True)
class VerbSpec:
    """A verb as the help shows it.

    Parameters
    ----------
    arguments
        What may follow, for people.
    needs_argument, takes_argument
        Whether something has to follow, and whether it may.
    """

    name: str
    arguments: str
    help: str
    takes_argument: bool = True
    needs_argument: bool = False


_VERBS: Final = (
    VerbSpec("tree", "[all]", "Draw the tree of this session, branch points on top"),
    VerbSpec("branches", "[all]", "List the branches, with the entries that /cd takes"),
    VerbSpec("cd", "ENTRY", "Go to another entry; - is where you were before; no file is touched", needs_argument=True),
    VerbSpec("back", "[N]", "Go back one entry, or N"),
    VerbSpec("label", "NAME [ENTRY]", "Name the entry where you are, or another", needs_argument=True),
    VerbSpec("show", "[ENTRY]", "Show an entry with its payload and stamp"),
    VerbSpec(
        "sid", "", "Show the ids of session and agent, and how the agent knows the conversation", takes_argument=False
    ),
    VerbSpec("root", "", "Print the hash that fixes the whole session", takes_argument=False),
    VerbSpec("diff", "[ENTRY]", "Show how the files differ from where you are, or from an entry"),
    VerbSpec("recall", "WORDS", "Find again what was said in this session", needs_argument=True),
    VerbSpec("find", "[--deep] WORDS", "Find a chat by what was spoken of in it, and when", needs_argument=True),
    VerbSpec("checkpoint", "", "Have the agent sum up, for a cold start later", takes_argument=False),
    VerbSpec("compact", "", "Have it sum up and go on from that alone", takes_argument=False),
    VerbSpec("help", "[VERB]", "Show this"),
    VerbSpec("quit", "", "Leave; Ctrl-D does too", takes_argument=False),
)
#: The verbs by name, in the order of the help.
VERBS: Final[Mapping[str, VerbSpec]] = {verb.name: verb for verb in _VERBS}


@dataclass(frozen=True, slots=True)
class Message:
    """Something to say under the head."""

    text: str


@dataclass(frozen=True, slots=True)
class Verb:
    """Something to do."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class Mistyped:
    """What begins like a verb and is none, or has the wrong arguments. Nothing is sent."""

    word: str
    problem: str


def parse(line: str) -> Message | Verb | Mistyped | None:
    """Return what a line asks for; None for an empty one.

    Several lines at once, as pasted, are always a message, but for the doubled mark at their beginning.
    """
    text = line.strip()
    if not text:
        return None
    if text.startswith(MARK * 2):
        return Message(text[1:])
    if not text.startswith(MARK) or "\n" in text:
        return Message(text)
    word, _, argument = text[1:].partition(" ")
    return _verb(word, argument.strip())


def help_lines(name: str | None = None) -> list[str]:
    """Return the help, for one verb or for all."""
    chosen = [VERBS[name]] if name is not None and name in VERBS else list(VERBS.values())
    heads = [f"{MARK}{verb.name} {verb.arguments}".rstrip() for verb in chosen]
    width = max(len(head) for head in heads)
    lines = [f"{head:<{width}}  {verb.help}" for head, verb in zip(heads, chosen, strict=True)]
    if len(chosen) > 1:
        lines += [
            "Anything else is a message under the entry where you are; //text sends a text that begins with a slash.",
            "Alt-Enter begins a new line. Ctrl-C cancels a turn, twice kills it; Ctrl-D leaves.",
        ]
    return lines


def _verb(word: str, argument: str) -> Verb | Mistyped:
    spec = VERBS.get(word)
    if spec is None:
        near = difflib.get_close_matches(word, VERBS, n=MAX_OFFERED, cutoff=0.5)
        near = near or [name for name in VERBS if word and name.startswith(word[0])][:MAX_OFFERED]
        offered = " or ".join(f"{MARK}{name}" for name in near)
        told = f"Did you mean {offered}?" if near else f"See {MARK}help."
        return Mistyped(word, f"there is no verb {MARK}{word[:40]}. {told} Nothing was sent; //text sends it as it is.")
    if spec.needs_argument and not argument:
        return Mistyped(word, f"{MARK}{word} needs {spec.arguments}.")
    if argument and not spec.takes_argument:
        return Mistyped(word, f"{MARK}{word} takes nothing behind it.")
    return Verb(word, argument)
