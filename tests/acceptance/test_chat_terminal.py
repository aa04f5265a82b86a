"""``bridge chat`` on a real pseudo-terminal."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from typing import Any

import pexpect
import pytest

#: Seconds that anything may take; far above what it does, so that only a hang ends here.
PATIENCE = 60
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_=>])")


class Terminal:
    """A chat on a pseudo-terminal."""

    def __init__(self, bridge_cli: Any, directory: Any, *words: str) -> None:
        program, *rest = [*bridge_cli.command, "chat", *words]
        # Nothing answers when the prompt asks where the cursor is.
        environment = bridge_cli.environment({"PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"})
        self.child = pexpect.spawn(
            program, rest, cwd=str(directory), env=environment, encoding="utf-8", timeout=PATIENCE, dimensions=(24, 100)
        )
        self.child.delaybeforesend = 0.05

    def prompt(self) -> str:
        """Wait for the prompt; return what was shown before it, without the terminal's own sequences."""
        self.child.expect(r"[0-9a-f]{4}\.\d+[^\r\n>]*>\x1b")
        return self.plain(self.child.before)

    def place(self) -> str:
        return self.plain(self.child.after)

    @staticmethod
    def plain(text: str) -> str:
        return _SEQUENCE.sub("", text)

    def say(self, text: str) -> None:
        """Type a line."""
        self.child.send(text + "\r")

    def see(self, words: str) -> None:
        """Wait for words. What was typed is shown as well, so they must not be part of it."""
        self.child.expect_exact(words)

    def ends(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        assert self.child.signalstatus is None
        return int(self.child.exitstatus)


Open = Callable[..., Terminal]


@pytest.fixture
def open_chat(bridge_cli, repository) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*words: str) -> Terminal:
        opened.append(Terminal(bridge_cli, repository.path, *words))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.child.close(force=True)


def test_a_conversation_with_completion_verbs_history_and_an_orderly_end(
    open_chat, bridge_cli, bridge_home, repository
):
    chat = open_chat("--new", "--harness", "scripted")
    chat.prompt()
    chat.say("日本語 and ünïcode 🚀")
    chat.see("You said: 日本語 and ünïcode 🚀")
    chat.prompt()
    chat.child.setwinsize(12, 30)
    chat.child.send("/bra\t")
    chat.see("nches")
    chat.child.send("\r")
    chat.prompt()
    chat.say("/brunches")
    chat.see("/branches")
    chat.see("Nothing was sent")
    chat.prompt()
    chat.child.send("given up")
    chat.child.sendcontrol("c")
    chat.prompt()
    chat.say("token ghp_" + "a1B2" * 9)
    chat.see("You said")
    chat.prompt()
    chat.child.sendcontrol("d")
    assert chat.ends() == 0
    history = bridge_home / "chats" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    text = history.read_text()
    assert "日本語" in text
    assert "ghp_" not in text
    said = bridge_cli("log", "--json", cwd=repository.path).ok().json()
    messages = [entry["payload"]["text"] for entry in said if entry["kind"] == "user.message"]
    assert messages[0] == "日本語 and ünïcode 🚀"
    assert len(messages) == 2


def test_ctrl_c_cancels_a_turn_and_twice_kills_the_agent(open_chat, bridge_cli, repository):
    chat = open_chat("--new", "--harness", "scripted")
    chat.prompt()
    chat.child.send("!say at work {turn}\x1b\r!sleep 600\r")
    chat.see("at work 1")
    chat.child.sendcontrol("c")
    chat.see("turn cancelled")
    chat.prompt()
    chat.child.send("!stubborn\x1b\r!say stuck now {turn}\x1b\r!stall\r")
    chat.see("stuck now 2")
    chat.child.sendcontrol("c")
    chat.see("Ctrl-C again")
    chat.child.sendcontrol("c")
    chat.see("The agent was killed")
    chat.prompt()
    chat.say("still here")
    chat.see("You said: still here")
    chat.prompt()
    chat.say("/quit")
    assert chat.ends() == 0
    found = bridge_cli("log", "--json", cwd=repository.path).ok().json()
    ended = [entry["payload"]["status"] for entry in found if entry["kind"] == "turn.completed"]
    assert ended == ["cancelled", "cancelled", "completed"]


def test_a_divergence_is_shown_asked_about_once_and_told(open_chat, repository):
    chat = open_chat("--new", "--harness", "scripted")
    chat.prompt()
    chat.say("!read a.txt")
    chat.see("· read a.txt")
    chat.prompt()
    repository.write("a.txt", "changed\n")
    chat.say("/sid")
    chat.see("warning: ")
    chat.prompt()
    assert "≠ files" in chat.place()
    chat.say("!context")
    chat.see("send it all the same?")
    chat.child.send("n\r")
    chat.see("nothing was sent")
    chat.prompt()
    chat.say("!context")
    chat.see('"a.txt"')
    chat.prompt()
    assert "≠" not in chat.place()
    chat.child.sendcontrol("d")
    assert chat.ends() == 0


def test_what_the_agent_asks_a_person_decides(open_chat):
    chat = open_chat("--new", "--harness", "scripted")
    chat.prompt()
    for answer, outcome in (("y\r", "It was allowed."), ("\r", "It was not allowed.")):
        chat.say("!ask delete everything")
        chat.see("the agent asks: delete everything")
        chat.see("[y/N]")
        chat.child.send(answer)
        chat.see(outcome)
        chat.prompt()
    chat.child.sendcontrol("d")
    assert chat.ends() == 0
