"""Which session and which harness a chat is about, before anything is started."""

from __future__ import annotations

from typing import Final

from bridge.adapters.conversation import ConversationHarness
from bridge.adapters.talkers import SCRIPTED, talker, talkers
from bridge.cli.context import Cli
from bridge.control.controller import Controller
from bridge.control.errors import HarnessNotChosen
from bridge.control.lineage.waking import wake
from bridge.control.standpoint import Standpoint, current_session, find_session
from bridge.conversations.forest import require_session

_MANY: Final = "Several are installed"


def find_chat(controller: Controller, standpoint: Standpoint, reference: str | None) -> str | None:
    """Return the full id of the session meant: the current one without a reference, None if there is none."""
    with controller.store.read() as connection:
        if reference is not None:
            return find_session(connection, standpoint, reference)
        return current_session(connection, standpoint)


def start_chat(controller: Controller, standpoint: Standpoint, *, label: str | None, harness: str) -> str:
    """Make a session for a chat, which continues the one before it, and return its id."""
    return wake(controller, standpoint, label=label, harness=harness).session.id


def choose_harness(
    cli: Cli, controller: Controller, session_id: str | None, named: str | None
) -> tuple[ConversationHarness, bool]:
    """Return the adapter of the harness, and whether it was merely the only one found.

    The option comes first, then what the session was held with, then the setting, then the only one installed.

    Raises
    ------
    HarnessNotChosen
        If none of these says which.
    UnknownHarness
        If it is none that can be talked to.
    """
    settings = cli.settings
    there = talkers(settings.harness, state=settings.home, search_path=cli.environment.get("PATH"))
    names = {found.name for found in there}
    recorded = None
    if session_id is not None:
        with controller.store.read() as connection:
            recorded = require_session(connection, session_id).harness
    # What runs plans, or was captured from outside, is in the same field and cannot always be talked to.
    chosen = named or (recorded if recorded in names else None) or settings.chat_harness
    if chosen is not None:
        return talker(chosen, settings.harness, state=settings.home), False
    installed = [found.name for found in there if found.program is not None and found.name != SCRIPTED]
    if len(installed) == 1:
        return talker(installed[0], settings.harness, state=settings.home), True
    told = f"{_MANY}: {', '.join(installed)}." if installed else "No known harness is installed."
    raise HarnessNotChosen(
        f"Nothing says which harness to talk to. {told}",
        hint="Name one with --harness, or chat_harness in config.toml. --harness scripted needs no model.",
        details={"installed": installed},
    )
