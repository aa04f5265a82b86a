"""What a model is shown of chats: cards, and what three look-ups give. Everything is redacted as a whole, then cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from bridge.adapters.models.port import CHAT_OUTLINE, FIND_CHATS, MAX_LOOKUPS, PEEK_CHAT, ModelTrouble, Trouble
from bridge.control.controller import Controller
from bridge.control.search.finding import FoundChat, FoundChats
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.store import iterate_entries
from bridge.conversations.tokens import BYTES_PER_TOKEN, estimate_tokens
from bridge.foundation.errors import BridgeError
from bridge.foundation.redaction import redact_text
from bridge.recall.terms import excerpt, parse_query
from bridge.recall.texts import searchable_text
from bridge.storage.transaction import Connection

#: Tokens of one card, and of everything that is looked up for one question.
CARD_TOKENS: Final = 60
MAX_LOOKUP_TOKENS: Final = 2_000
#: Cards at the beginning, and for one look-up.
FIRST_CARDS: Final = 8
FOUND_CARDS: Final = 4
#: Places of a chat, and messages of an outline, in one look-up.
MAX_PLACES: Final = 6
MAX_MESSAGES: Final = 16
#: Entries that are read for an outline.
_READ_FOR_OUTLINE: Final = 400
_MESSAGE_CHARACTERS: Final = 120


class Desk:
    """Where a model's look-ups are run, within its limits. Blocking; one question, one thread at a time.

    Parameters
    ----------
    find
        Searches the index for a text, with the bounds of the question.
    """

    def __init__(self, controller: Controller, find: Callable[[str], FoundChats]) -> None:
        self._controller = controller
        self._find = find
        #: Chats that were shown, by their marks.
        self.shown: dict[str, FoundChat] = {}
        self.lookups = 0
        self.tokens = 0

    def cards(self, chats: Sequence[FoundChat]) -> str:
        """Return cards of chats, which are shown from now on."""
        with self._controller.store.read() as connection:
            return "\n".join(self._card(connection, chat) for chat in chats)

    def look_up(self, name: str, argument: str) -> str:
        """Run a look-up and return what it gives, cut to what is left of the limit.

        Raises
        ------
        ModelTrouble
            If it is one more than there may be, or the limit is used up.
        """
        if self.lookups >= MAX_LOOKUPS or self.tokens >= MAX_LOOKUP_TOKENS:
            raise ModelTrouble(Trouble.GREEDY, "it wanted to look up more than it may")
        self.lookups += 1
        room = MAX_LOOKUP_TOKENS - self.tokens
        try:
            text = cut_to_tokens(self._run(name, argument, room), room)
        except BridgeError as error:
            text = f"that cannot be read ({error.code})"
        self.tokens += estimate_tokens(text)
        return text

    def _run(self, name: str, argument: str, room: int) -> str:
        if name == FIND_CHATS:
            # Only what there is room for: a chat whose card is cut off was not shown.
            fitting = min(FOUND_CARDS, room // CARD_TOKENS)
            if fitting == 0:
                return "there is no room left for a card"
            found = self._find(argument).chats[:fitting]
            return self.cards(found) or "no chat has these words"
        mark, _, words = argument.strip().partition(" ")
        chat = self.shown.get(mark)
        if chat is None:
            return f"no chat with the mark {mark[:20]} was shown"
        if name == PEEK_CHAT:
            return self._peek(chat, words) or "the chat does not have these words"
        if name == CHAT_OUTLINE:
            return self._outline(chat) or "the chat has no messages"
        return f"there is no look-up {name[:40]}"

    def _card(self, connection: Connection, chat: FoundChat) -> str:
        mark = next((mark for mark, known in self.shown.items() if known.session.id == chat.session.id), None)
        if mark is None:
            mark = f"c{len(self.shown) + 1}"
            self.shown[mark] = chat
        session = chat.session
        try:
            first = next(self._spoken(connection, session.id), "")
        except BridgeError:
            first = ""  # it is named all the same: the index has it
        words = " ".join(redact_text(session.label or "")[0].split())
        begins = "" if first.startswith(words) and words else f" begins: {first}" if words else first
        day = datetime.fromisoformat(session.updated_at).astimezone(UTC).date().isoformat()
        about = f"{mark} | {day} | {session.harness or '-'} | {chat.matches} matches | "
        return cut_to_tokens(f"{about}{words}{begins}", CARD_TOKENS)

    def _peek(self, chat: FoundChat, words: str) -> str:
        query = parse_query(words)
        found = recall(self._controller, Standpoint(), chat.session.id, words, limit=MAX_PLACES)
        lines = []
        for hit in found.hits:
            entry = hit.entry
            text = searchable_text(
                entry.semantic_schema_version, entry.kind, entry.payload_text, entry.context_visibility
            )
            # Masked before it is cut: half a secret has no known form any more.
            lines.append(f"{entry.kind}: {excerpt(redact_text(text)[0], query)}")
        return "\n".join(lines)

    def _outline(self, chat: FoundChat) -> str:
        lines = []
        with self._controller.store.read() as connection:
            for text in self._spoken(connection, chat.session.id):
                lines.append(f"- {text[:_MESSAGE_CHARACTERS]}")
                if len(lines) == MAX_MESSAGES:
                    break
        return "\n".join(lines)

    @staticmethod
    def _spoken(connection: Connection, session_id: str) -> Iterator[str]:
        """Yield what the user said in a chat, masked as a whole, each on one line."""
        for read, entry in enumerate(iterate_entries(connection, session_id)):
            if read >= _READ_FOR_OUTLINE:
                return
            if entry.kind == "user.message":
                text = searchable_text(
                    entry.semantic_schema_version, entry.kind, entry.payload_text, entry.context_visibility
                )
                if text:
                    yield " ".join(redact_text(text)[0].split())


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return a text, or as much of its beginning as so many tokens hold."""
    room = tokens * BYTES_PER_TOKEN
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= room:
        return text
    return encoded[: max(room - len("…".encode()), 0)].decode("utf-8", "ignore") + "…"
