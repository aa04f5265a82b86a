"""Completion at the prompt: verbs, and entries of this session where a verb takes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from bridge.cli.chat.lines import MARK, VERBS

#: Verbs that take an entry, and behind how many words.
_TAKE_ENTRY: Final = {"cd": 0, "show": 0, "diff": 0, "label": 1}


class ChatCompleter(Completer):
    """Completes verbs and references.

    Parameters
    ----------
    entries
        Returns references and what each is, the most useful first; called when somebody asks.
    """

    def __init__(self, entries: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._entries = entries

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith(MARK) or text.startswith(MARK * 2) or "\n" in document.text:
            return
        words = text[1:].split(" ")
        if len(words) == 1:
            for verb in VERBS.values():
                if verb.name.startswith(words[0]):
                    yield Completion(verb.name, start_position=-len(words[0]), display_meta=verb.help)
            return
        if _TAKE_ENTRY.get(words[0]) == len(words) - 2:
            typed = words[-1]
            for reference, meaning in self._entries():
                if reference.startswith(typed):
                    yield Completion(reference, start_position=-len(typed), display_meta=meaning)
        elif words[0] == "help" and len(words) == 2:
            for name in VERBS:
                if name.startswith(words[1]):
                    yield Completion(name, start_position=-len(words[1]))
