"""A chat on a terminal: a prompt that says where one is, verbs, turns, questions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anyio import to_thread
from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output as TerminalOutput

from bridge.adapters.permission import PermissionAnswer, PermissionRequest
from bridge.cli.chat.acting import Actions
from bridge.cli.chat.completing import ChatCompleter
from bridge.cli.chat.driving import take_turn
from bridge.cli.chat.history import PrivateHistory
from bridge.cli.chat.lines import Message, Mistyped, Verb, parse
from bridge.cli.chat.showing import TurnDisplay
from bridge.cli.chat.summing import sum_up
from bridge.cli.context import Cli
from bridge.cli.rendering import one_line as on_one_line
from bridge.control.controller import Controller
from bridge.control.conversing.chatting import Chat
from bridge.control.conversing.looking import Outlook
from bridge.control.reading.sessions import read_log, session_details
from bridge.control.reading.trees import read_branches
from bridge.control.standpoint import Standpoint
from bridge.foundation.errors import BridgeError
from bridge.foundation.ids import short_entry
from bridge.semantics.kinds import CONVERSATIONAL_KINDS
from bridge.workspaces.divergence import Divergence
from bridge.workspaces.wording import changed_names, one_line

#: File of the prompt's history, below the folder of chats.
HISTORY_FILE: Final = "history"
#: Entries of the active path that are offered for completion.
OFFERED_ENTRIES: Final = 40
_MARKS: Final = {Divergence.ALIGNED: "", Divergence.DIVERGED: " ≠ files", Divergence.UNKNOWN: " ? files"}


class PromptedChat:
    """Talks with a person.

    Parameters
    ----------
    input_, output
        The terminal; that of the process unless given.
    """

    def __init__(
        self,
        cli: Cli,
        controller: Controller,
        chat: Chat,
        actions: Actions,
        display: TurnDisplay,
        *,
        input_: Input | None = None,
        output: TerminalOutput | None = None,
    ) -> None:
        self._cli = cli
        self._controller = controller
        self._chat = chat
        self._actions = actions
        self._display = display
        self._here = Standpoint(directory=cli.directory, session=chat.session_id)
        self._shown: str | None = None
        self._confirmed: str | None = None
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(cli),
            completer=ChatCompleter(self._references),
            complete_while_typing=False,
            complete_in_thread=True,
            key_bindings=_bindings(),
            input=input_,
            output=output,
        )
        self._question: PromptSession[str] = PromptSession(input=input_, output=output)

    async def run(self) -> int:
        """Go on until the person leaves; return 0."""
        while True:
            outlook = await self._chat.look()
            self._tell(outlook)
            try:
                line = await self._prompt.prompt_async(_place(outlook), handle_sigint=False)
            except KeyboardInterrupt:
                continue  # the line is given up, as in a shell
            except EOFError:
                return 0
            try:
                if not await self._take(line, outlook):
                    return 0
            except BridgeError as error:
                self._cli.output.error(error.to_json())

    async def permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Ask the person; Enter and everything but yes is a no."""
        allow = next((option for option in request.options if option.kind == "allow_once"), None)
        allow = allow or next((option for option in request.options if option.allows), None)
        reject = next((option for option in request.options if not option.allows), None)
        self._cli.output.status(f"the agent asks: {on_one_line(request.title)}")
        yes = await self._ask("allow it this once? [y/N] ", default=False)
        chosen = allow if yes else reject
        return PermissionAnswer(None if chosen is None else chosen.id, "person")

    # -- a line ------------------------------------------------------------------------------------------------

    async def _take(self, line: str, outlook: Outlook) -> bool:
        """Do what a line asks for; return whether to go on."""
        asked = parse(line)
        match asked:
            case None:
                return True
            case Mistyped():
                self._cli.output.warn(asked.problem)
            case Verb(name="quit"):
                return False
            case Verb(name="checkpoint" | "compact"):
                await sum_up(self._cli, self._chat, self._display, is_compact=asked.name == "compact")
            case Verb():
                await to_thread.run_sync(self._actions.perform, asked)
            case Message():
                await self._say(asked.text, outlook)
        return True

    async def _say(self, text: str, before: Outlook) -> None:
        # The person may have thought about it for an hour.
        outlook = await self._chat.look()
        if outlook.head_entry_id == before.head_entry_id:
            self._tell(outlook)
            if outlook.touches_conversation and outlook.key != self._confirmed:
                self._confirmed = outlook.key
                if not await self._ask("send it all the same? The agent is told. [Y/n] ", default=True):
                    self._cli.output.status("nothing was sent")
                    return
        expected = before.head_entry_id
        await take_turn(self._cli, self._chat, self._display, text, outlook=outlook, expected_head=expected)

    def _tell(self, outlook: Outlook) -> None:
        """Say what happened to the files, once for each change."""
        if outlook.found is None:
            self._shown = None
            return
        if outlook.key == self._shown:
            return
        self._shown = outlook.key
        line = one_line(outlook.found.report)
        if outlook.divergence is Divergence.UNKNOWN:
            self._cli.output.warn(line, code="unknown")
        else:
            names = changed_names(outlook.found.report)
            line = f"{line}: {names}" if names else line
            self._cli.output.warn(f"{line}. See: /diff", code="diverged")

    async def _ask(self, question: str, *, default: bool) -> bool:
        try:
            answer = await self._question.prompt_async(question, handle_sigint=False)
        except (KeyboardInterrupt, EOFError):
            await self._chat.cancel()
            return False
        word = answer.strip().lower()
        return default if not word else word in ("y", "yes")

    def _references(self) -> Iterable[tuple[str, str]]:
        """Return what /cd and its like take: labels, ends of branches, the latest entries."""
        session_id = self._chat.session_id
        try:
            details = session_details(self._controller, self._here, session_id)
            branches = read_branches(self._controller, self._here, session_id).branches
            entries = read_log(self._controller, self._here, session_id, limit=OFFERED_ENTRIES).entries
        except BridgeError:
            return []  # a damaged session has nothing to offer; its verbs say why
        found = [(label.name, short_entry(label.entry_id)) for label in details.labels]
        found += [(short_entry(branch.tip.leaf_entry_id), on_one_line(branch.summary)) for branch in branches]
        spoken = [entry for entry in reversed(entries) if entry.kind in CONVERSATIONAL_KINDS]
        found += [(short_entry(entry.id), entry.kind) for entry in spoken]
        # The first meaning of a reference is the one that is shown.
        meanings: dict[str, str] = {}
        for reference, meaning in found:
            meanings.setdefault(reference, meaning)
        return meanings.items()


def _place(outlook: Outlook) -> FormattedText:
    """Return the prompt: the entry one is at, and whether the files are as they were there."""
    mark = _MARKS[outlook.divergence]
    return FormattedText([("bold", short_entry(outlook.head_entry_id)), ("fg:ansiyellow", mark), ("", "> ")])


def _history(cli: Cli) -> History:
    """Return the kept history, or one for this chat alone where it cannot be kept."""
    path = cli.settings.chats / HISTORY_FILE
    try:
        return PrivateHistory(path)
    except OSError as error:
        cli.output.warn(f"what is typed is not kept: {path}: {error.strerror}", code="history_unusable")
        return InMemoryHistory()


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
