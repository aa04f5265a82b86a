"""How a turn looks while it happens: the answer on stdout as it comes, the rest on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bridge.adapters.conversation import LiveKind, LiveText
from bridge.cli.context import Cli
from bridge.cli.rendering import cut, line_width, one_line
from bridge.control.conversing.chatting import Recorded, Report, TurnBegan, TurnEnded
from bridge.conversations.models import Entry

#: Colours of a terminal: dimmed, and back to normal.
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


class TurnDisplay:
    """Shows the turns of one chat.

    Parameters
    ----------
    is_interactive
        Whether a person watches: then reasoning is shown as well, and all of it as it comes.
    """

    def __init__(self, cli: Cli, *, is_interactive: bool) -> None:
        self._cli = cli
        self._is_interactive = is_interactive
        self._column_kind: LiveKind | None = None
        self._texts: list[str] = []
        self.turns: list[dict[str, Any]] = []
        self._entries: list[str] = []
        self._began: TurnBegan | None = None
        self._is_silent = False

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Show nothing of what the agent says meanwhile: it is no part of the conversation."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    def live(self, piece: LiveText) -> None:
        """Show a piece of text as it arrives."""
        if self._is_silent:
            return
        if self._cli.output.json_lines:
            self._cli.output.progress({"event": "text", "kind": str(piece.kind), "text": piece.text})
        if self._cli.output.as_json:
            return
        if piece.kind is LiveKind.TOOL:
            self._break()
            words = f"· {one_line(piece.text)}"
            self._cli.output.status(cut(words, line_width(self._cli.output)))
        elif piece.kind is LiveKind.MESSAGE:
            self._open(LiveKind.MESSAGE)
            self._cli.output.stream(piece.text)
        elif self._is_interactive:
            self._open(LiveKind.REASONING)
            self._cli.output.stream(piece.text)

    def report(self, report: Report) -> None:
        """Show what was recorded."""
        if self._cli.output.json_lines:
            self._cli.output.progress(_record(report))
        match report:
            case TurnBegan():
                self._began, self._entries, self._texts = report, [report.message.id], []
                if self._is_interactive and report.mode != "hot":
                    self._cli.output.status(f"({report.mode.replace('_', ' ')}: {report.reason})")
            case Recorded(entry):
                self._entries.append(entry.id)
                self._note(entry)
            case TurnEnded():
                self._end(report)

    def _note(self, entry: Entry) -> None:
        if entry.kind == "assistant.message":
            self._texts.append(str(entry.payload["text"]))
        if self._cli.output.as_json:
            return
        if entry.kind == "error":
            self._break()
            self._cli.output.status(f"! {one_line(str(entry.payload['message']))}")
        elif entry.kind == "tool.completed" and entry.payload.get("status") not in (None, "completed"):
            self._break()
            name = one_line(str(entry.payload.get("title") or entry.payload["name"]))
            self._cli.output.status(f"! {name}: {entry.payload['status']}")

    def _end(self, ended: TurnEnded) -> None:
        self._break()
        began = self._began
        self.turns.append(
            {
                "turn_id": ended.turn_id,
                "status": ended.status,
                "reason": ended.reason or None,
                "text": "\n".join(self._texts),
                "restoration": None if began is None else {"mode": str(began.mode), "reason": began.reason},
                "message_entry_id": None if began is None else began.message.id,
                "last_entry_id": ended.last.id,
                "entries": len(self._entries) + 1,
            }
        )
        if ended.status != "completed" and not self._cli.output.as_json:
            reason = f": {one_line(ended.reason)}" if ended.reason else ""
            self._cli.output.status(f"turn {ended.status}{reason}")

    def _open(self, kind: LiveKind) -> None:
        if self._column_kind is kind:
            return
        self._break()
        self._column_kind = kind
        if kind is LiveKind.REASONING and not self._cli.output.without_colour:
            self._cli.output.style(_DIM)

    def _break(self) -> None:
        """End the line that text is being written on, if there is one."""
        if self._column_kind is None:
            return
        if self._column_kind is LiveKind.REASONING and not self._cli.output.without_colour:
            self._cli.output.style(_PLAIN)
        self._column_kind = None
        self._cli.output.stream("\n")


def _record(report: Report) -> Mapping[str, Any]:
    match report:
        case TurnBegan():
            return {
                "event": "turn_started",
                "turn_id": report.turn_id,
                "entry_id": report.message.id,
                "restoration": {"mode": str(report.mode), "reason": report.reason},
            }
        case Recorded(entry):
            return {"event": "entry", "entry_id": entry.id, "kind": entry.kind, "payload": entry.payload}
        case TurnEnded():
            return {
                "event": "turn_finished",
                "turn_id": report.turn_id,
                "status": report.status,
                "reason": report.reason or None,
                "entry_id": report.last.id,
            }
