"""``bridge find``: find a chat by what was spoken of in it, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.cli.output import Output
    from bridge.control.search.deep.asking import DeepFound
    from bridge.control.search.finding import FoundChats


@command()
def find(
    cli: Cli,
    query: Annotated[str, typer.Argument(help="Words, and perhaps when it was. Nothing in it is an operator.")],
    *,
    everywhere: Annotated[bool, typer.Option("--all", help="Chats of every workspace, and of none.")] = False,
    workers: Annotated[bool, typer.Option("--workers", help="Sessions of workers as well.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="At most so many chats, up to 50.", min=1, max=50)] = 4,
    offset: Annotated[int, typer.Option("--offset", help="Leave out so many of the best.", min=0)] = 0,
    deep: Annotated[
        bool, typer.Option("--deep", help="Ask a model where the index is not sure; see config.toml, deep_search.")
    ] = False,
) -> int:
    """Find a chat by what was spoken of in it, and when

    Looks through the chats of this workspace, ended ones too, the best match first; it lists chats, not what was said.
    "yesterday", "last 3 days", "since june" or "in march" bound the time, "with codex" the agent program, quotes hold
    words together. A word that is unknown may be unfinished, or have one typing error.

    --deep asks the model that is set up, if the index is not sure: it gets short cards of chats, may look up three
    things, and has eight seconds; secrets are masked. Whatever goes wrong, the index's answer stands and says so.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.search.finding import find_chats

    if deep:
        if offset:
            raise UsageInvalid("--deep and --offset exclude each other: a model names the best chats.")
        return _find_deep(cli, query, everywhere=everywhere, workers=workers, limit=limit)
    with open_existing(cli) as controller:
        found = find_chats(
            controller,
            standpoint_of(cli),
            query,
            all_workspaces=everywhere,
            include_workers=workers,
            limit=limit,
            offset=offset,
        )
    cli.output.emit(found.to_json(), "\n".join(_lines(found, cli.output)) or None)
    for line in _remarks(found, offset):
        cli.output.status(line)
    return 0


def _find_deep(cli: Cli, query: str, *, everywhere: bool, workers: bool, limit: int) -> int:
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.search.deep.asking import find_deep
    from bridge.control.search.deep.models import model_of

    with open_existing(cli) as controller:
        done = find_deep(
            controller,
            standpoint_of(cli),
            query,
            model_of(controller),
            all_workspaces=everywhere,
            include_workers=workers,
            limit=limit,
        )
    show_deep(cli, done, limit=limit)
    return 0


def show_deep(cli: Cli, done: DeepFound, *, limit: int) -> None:
    """Print what a deep search found."""
    from bridge.control.search.deep.asking import Depth

    shown = replace(done.found, chats=done.chats[:limit])
    whys = {one.chat.session.id: one.why for one in done.picks}
    lines = []
    for chat, line in zip(shown.chats, _lines(shown, cli.output), strict=True):
        lines.append(line)
        if whys.get(chat.session.id):
            lines.append(f"    {whys[chat.session.id]}")
    cli.output.emit(done.to_json(), "\n".join(lines) or None)
    if done.depth is Depth.ANSWERED:
        cli.output.status(f"{done.model} named {len(done.picks)} of these, in {done.elapsed_seconds:.1f} s")
    elif done.depth is Depth.FELL_BACK:
        cli.output.warn(f"this is the index's answer: {done.message}", code=f"deep_{done.trouble}")
    if not done.is_recorded:
        cli.output.warn("what the model used could not be recorded", code="deep_not_recorded")
    for remark in _remarks(shown, 0):
        cli.output.status(remark)


def _lines(found: FoundChats, output: Output) -> list[str]:
    from bridge.cli.rendering import MIN_TEXT_WIDTH, cut, line_width, local_time
    from bridge.foundation.ids import short_session

    lines = []
    for place, chat in enumerate(found.chats):
        mark = "*" if place == 0 and found.found.is_confident else "~" if chat.is_active is False else " "
        session = chat.session
        start = f"{mark} {short_session(session.id)}  {local_time(session.updated_at)}  {session.status}  "
        lines.append(start + cut(chat.title, max(line_width(output) - len(start), MIN_TEXT_WIDTH)))
    return lines


def _remarks(found: FoundChats, offset: int) -> list[str]:
    question = found.found.question
    lines = []
    if question.is_empty:
        lines.append("there is no word to look for; give letters or digits")
    elif found.is_nowhere:
        lines.append("there is no workspace here to search; --all looks through every one")
    elif not found.chats:
        lines.append("no chat was found; --all looks beyond this workspace")
    elif found.found.is_relaxed:
        lines.append("no chat has every word; these have some of them")
    if question.window is not None:
        lines.append(f"looked only at the time of: {question.window.phrase}")
    if question.harness is not None:
        lines.append(f"looked only at chats with {question.harness}")
    if question.unseen:
        lines.append("never seen: " + " ".join(question.unseen[:10]))
    if not found.is_complete:
        lines.append(
            f"{found.missing_entries} new entries are not looked through yet; ask again, or: bridge db reindex"
        )
    if found.unreadable:
        named = ", ".join(session_id for session_id, _ in found.unreadable[:5])
        lines.append(f"{len(found.unreadable)} chats cannot be read and were not looked through: {named}")
    if found.has_more:
        lines.append(f"there are more: --offset {offset + len(found.chats)}")
    return lines
