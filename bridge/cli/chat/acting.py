"""What the verbs do. Most of them are the commands of the same name, asked about this session. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anyio import from_thread

from bridge.cli.chat.lines import MARK, VERBS, Verb, help_lines
from bridge.cli.context import SESSION_VARIABLE, Cli
from bridge.cli.errors import UsageInvalid
from bridge.control.controller import Controller
from bridge.control.reading.sessions import session_details
from bridge.control.reading.trees import read_branches
from bridge.control.sessions import go_back, go_to, set_label
from bridge.control.standpoint import Standpoint
from bridge.foundation.ids import short_entry

if TYPE_CHECKING:
    from bridge.control.conversing.chatting import Chat
    from bridge.control.search.deep.starting import Prestarted

#: What /cd takes for the entry where one was before.
BEFORE: Final = "-"
#: What /find takes before its words, to ask a model.
DEEP: Final = "--deep"
#: Chats that /find --deep shows.
FOUND: Final = 4
#: Entries that /back goes at most.
MAX_BACK: Final = 10_000


class Actions:
    """The verbs of one chat.

    Parameters
    ----------
    chat
        Told where the agent stands.
    """

    def __init__(self, cli: Cli, controller: Controller, chat: Chat) -> None:
        self._controller = controller
        self._chat = chat
        self._session_id = chat.session_id
        # References mean entries of this session, whatever the environment says.
        self._cli = replace(cli, environment={**cli.environment, SESSION_VARIABLE: chat.session_id})
        self._before: str | None = None
        self._ahead: Prestarted | None = None
        self._here = Standpoint(directory=cli.directory, session=chat.session_id)

    def perform(self, verb: Verb) -> None:
        """Do what a verb says; ``quit``, ``checkpoint`` and ``compact`` are the chat's own. Raises BridgeError."""
        actions: Mapping[str, Callable[[str], None]] = {
            "tree": self._tree,
            "branches": self._branches,
            "cd": self._cd,
            "back": self._back,
            "label": self._label,
            "show": lambda entry: self._command("show:show", entry or "@"),
            "sid": self._sid,
            "root": lambda _: self._command("verify:root", self._session_id),
            "diff": self._diff,
            "recall": lambda words: self._command("recall:recall", words, session=self._session_id),
            "find": self._find,
            "help": self._help,
        }
        actions[verb.name](verb.argument)

    async def close(self) -> None:
        """Give up a model that was started ahead."""
        if self._ahead is not None:
            await self._ahead.close()

    def _find(self, argument: str) -> None:
        """Ask the index; if it is not sure, start a model ahead for the deep search that may follow."""
        from bridge.control.search.deep.asking import ask_deep, is_unsure
        from bridge.control.search.deep.models import model_of
        from bridge.control.search.deep.starting import Prestarted

        words = argument.removeprefix(DEEP).strip()
        model = model_of(self._controller)
        if argument.startswith(DEEP):
            from bridge.cli.commands.find import show_deep

            ask = partial(ask_deep, self._controller, self._here, words, model, prestarted=self._ahead)
            show_deep(self._cli, from_thread.run(ask), limit=FOUND)
            return
        self._command("find:find", words)
        if model is not None and is_unsure(self._controller, self._here, words):
            if self._ahead is None:
                self._ahead = Prestarted(self._controller.clock)
            from_thread.run_sync(self._ahead.offer, model)

    def _command(self, target: str, *arguments: Any, **options: Any) -> None:
        from bridge.cli.line import load_function
        from bridge.cli.registry import CommandSpec

        function: Any = load_function(CommandSpec(name="", help="", target=target))
        function.__wrapped__(self._cli, *arguments, **options)

    def _tree(self, argument: str) -> None:
        found = read_branches(self._controller, self._here, self._session_id)
        points = dict.fromkeys(
            branch.tip.branch_point_entry_id for branch in found.branches if branch.tip.branch_point_entry_id
        )
        if points:
            names = ", ".join(short_entry(entry) for entry in points)
            self._cli.output.status(f"{len(found.branches)} branches; branch points: {names}")
        self._command("tree:tree", self._session_id, all_=_is_all(argument, "tree"))

    def _branches(self, argument: str) -> None:
        self._command("branches:branches", self._session_id, all_=_is_all(argument, "branches"))

    def _cd(self, argument: str) -> None:
        if argument == BEFORE and self._before is None:
            raise UsageInvalid("There is no place where you were before.", hint=f"See {MARK}branches.")
        target = (self._before or "") if argument == BEFORE else argument
        move = go_to(self._controller, self._here, self._session_id, target)
        self._before = move.from_entry_id
        self._cli.output.status(f"now at {short_entry(move.to_entry_id)}; the files are as they were")

    def _back(self, argument: str) -> None:
        move = go_back(self._controller, self._here, self._session_id, steps=_count(argument))
        self._before = move.from_entry_id
        self._cli.output.status(f"now at {short_entry(move.to_entry_id)}; the files are as they were")

    def _label(self, argument: str) -> None:
        name, _, entry = argument.partition(" ")
        done = set_label(self._controller, self._here, entry.strip() or "@", name)
        self._cli.output.status(f"{short_entry(done.entry_id)} is now called {name}")

    def _diff(self, argument: str) -> None:
        if argument:
            self._command("diff:diff", argument)
        else:
            self._command("status:status", self._session_id)

    def _sid(self, _argument: str) -> None:
        from bridge.cli.rendering import facts

        session = session_details(self._controller, self._here, self._session_id).session
        about = self._chat.about()
        pairs = [
            ("session", session.id),
            ("label", session.label),
            ("at", session.active_entry_id),
            ("harness", self._chat.harness.name),
            ("agent's session", about.native_session_id),
            ("model", about.model),
            ("agent knows up to", about.known_entry_id),
        ]
        self._cli.output.emit(dict(pairs), facts(pairs))

    def _help(self, argument: str) -> None:
        name = argument.removeprefix(MARK)
        if name and name not in VERBS:
            raise UsageInvalid(f"There is no verb {MARK}{name[:40]}.", hint=f"See {MARK}help.")
        self._cli.output.emit(help_lines(name or None), "\n".join(help_lines(name or None)))


def _is_all(argument: str, verb: str) -> bool:
    if argument in ("", "all", "--all"):
        return bool(argument)
    raise UsageInvalid(f"{MARK}{verb} takes nothing, or all.", hint=f"See {MARK}help {verb}.")


def _count(argument: str) -> int:
    if not argument:
        return 1
    if not argument.isdecimal() or not 1 <= int(argument) <= MAX_BACK:
        raise UsageInvalid(f"{MARK}back takes a number from 1 to {MAX_BACK}.")
    return int(argument)
