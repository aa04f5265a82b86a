"""``bridge chat``: talk to an agent, with everything recorded."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.adapters.conversation import ConversationHarness
    from bridge.adapters.permission import PermissionAnswer, PermissionRequest
    from bridge.cli.chat.prompting import PromptedChat
    from bridge.control.controller import Controller


@command(progress=True, exits={1: "Without a terminal: a turn failed or was cancelled."})
def chat(
    cli: Cli,
    session: Annotated[
        str | None, typer.Argument(help="Session, as id, tail or label. Default: @, or a new one where there is none.")
    ] = None,
    *,
    new: Annotated[bool, typer.Option("--new", help="Start a session.")] = False,
    label: Annotated[str | None, typer.Option("--label", help="Label of the new session.")] = None,
    harness: Annotated[
        str | None,
        typer.Option("--harness", help="Who answers. Default: the session's, chat_harness, or the only one installed."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Model, by the harness's own name.")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Without a terminal: each line of the input is a message or a verb.")
    ] = False,
) -> int:
    """Talk to an agent

    On a terminal: a prompt that shows the entry where you are, and whether the files are as they were there. What you
    type is a message under that entry; what begins with a slash is a verb (/help). Ctrl-C cancels a turn, a second
    one ends the agent, Ctrl-D leaves.

    Without a terminal all of the standard input is one message, and the answer goes to standard output.

    The harness is a program that speaks the Agent Client Protocol; bridge doctor lists those that are installed, and
    --harness scripted needs no model. Everything is recorded with the state of the files, turn by turn.
    """
    import anyio

    from bridge.cli.chat.choosing import choose_harness, find_chat, start_chat
    from bridge.cli.composition import open_controller
    from bridge.cli.rendering import one_line
    from bridge.cli.standing import standpoint_of
    from bridge.control.conversing.sweeping import sweep
    from bridge.foundation.ids import short_session

    if session is not None and new:
        raise UsageInvalid("--new starts a session; leave SESSION out.")
    if label is not None and not new:
        raise UsageInvalid("--label names the session that --new starts.")
    with open_controller(cli) as controller:
        for left in sweep(controller):
            told = f"an earlier chat of {short_session(left.session_id)} was cut off"
            cli.output.status(f"{told}; {left.processes} of its processes were ended" if left.processes else told)
        here = standpoint_of(cli)
        session_id = None if new else find_chat(controller, here, session)
        # Before a session is made for it: one that nobody can talk in would be left behind.
        talker, is_found = choose_harness(cli, controller, session_id, harness)
        is_made = session_id is None
        if session_id is None:
            session_id = start_chat(controller, here, label=label, harness=talker.name)
        if is_found or is_made:
            cli.output.status(f"session {short_session(session_id)}, talking to {one_line(talker.name)}")
        talk = partial(_talk, cli, controller, session_id, talker, model=model, by_line=lines)
        return anyio.run(talk)


async def _talk(
    cli: Cli,
    controller: Controller,
    session_id: str,
    harness: ConversationHarness,
    *,
    model: str | None,
    by_line: bool,
) -> int:
    from bridge.adapters.permission import refuse
    from bridge.cli.chat.acting import Actions
    from bridge.cli.chat.driving import stopped_by_signals
    from bridge.cli.chat.showing import TurnDisplay
    from bridge.control.conversing.chatting import Chat, ChatOptions

    is_interactive = sys.stdin.isatty() and cli.output.stdout_is_terminal and not cli.output.as_json
    display = TurnDisplay(cli, is_interactive=is_interactive)
    prompted: list[PromptedChat] = []

    async def permission(request: PermissionRequest) -> PermissionAnswer:
        return await (prompted[0].permission(request) if prompted else refuse(request))

    options = ChatOptions(directory=cli.directory, model=model, permission=permission, live=display.live)
    talking = Chat(controller, session_id, harness, options)
    actions = Actions(cli, controller, talking)
    status = 0
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stopped_by_signals())
        stack.push_async_callback(talking.close)
        stack.push_async_callback(actions.close)
        if is_interactive:
            from bridge.cli.chat.prompting import PromptedChat as Prompted

            prompted.append(Prompted(cli, controller, talking, actions, display))
            status = await prompted[0].run()
        else:
            from bridge.cli.chat.piping import PipedChat

            status = await PipedChat(cli, talking, actions, display, by_line=by_line).run()
    if cli.output.as_json and display.turns:
        cli.output.emit({"session_id": session_id, "harness": harness.name, "turns": display.turns})
    return status
