"""``bridge find --deep`` with the real agents that can be held to having no tools, against the scripted model server.

What an agent offers its model stands in the requests that the server gets. The user has set up a lot for the agent,
each with a word that must not turn up in a request, or a program that must not run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest

from bridge.adapters.models.port import Trouble
from bridge.adapters.models.toolfree import TOOL_FREE
from bridge.control.controller import Controller
from bridge.control.search.deep.asking import MODEL_SECONDS, DeepFound, Depth, ask_deep
from bridge.control.search.deep.models import model_of
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from tests.e2e.agents import Installed, shell_call, wanted
from tests.e2e.modelserver import Asked, ModelServer, Refuse, Say, Scenario, Stall, Step
from tests.e2e.stage import Stage

NAMES = [name for name in TOOL_FREE if name in wanted()]
#: Stands in everything that the user has set up and that must not reach the model.
POISON = "POISONED"
#: Both of its words fit two chats, so that the index is not sure.
QUESTION = "deployment trouble"
CHATS = {
    "staging": "the deployment to staging has trouble with a certificate",
    "production": "trouble: the deployment to production was slow",
    "gardening": "how to grow tomatoes on a balcony in the north",
}
#: What the agents write in any case, below the user's home: their own notes of when they were first started.
OWN_NOTES = {"claude-code": (".claude.json", ".claude/backups/"), "pi": (".pi/agent/auth.json",)}


def poison_claude(home: Path, above: Path, traces: Path) -> None:
    """Set up what Claude Code would take up by itself: of the user, and of a project around the folder it runs in."""
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    command = {"hooks": [{"type": "command", "command": f"touch {traces}/hook; echo {POISON}"}]}
    events = ("SessionStart", "UserPromptSubmit", "InstructionsLoaded", "Stop", "SessionEnd")
    hooks = {"hooks": {event: [command] for event in events}}
    files = {
        home / ".claude" / "settings.json": json.dumps({**settings, **hooks, "outputStyle": "loud"}),
        home / ".claude" / "CLAUDE.md": POISON,
        home / ".claude" / "output-styles" / "loud.md": f"---\nname: loud\ndescription: loud\n---\n{POISON}",
        home / ".claude" / "skills" / "loud" / "SKILL.md": f"---\nname: loud\ndescription: {POISON}\n---\nloud",
        home / ".claude" / "agents" / "loud.md": f"---\nname: loud\ndescription: {POISON}\n---\nloud",
        above / "CLAUDE.md": POISON,
        above / ".claude" / "settings.json": json.dumps(hooks),
    }
    servers = {"mcpServers": {"loud": {"command": "sh", "args": ["-c", f"touch {traces}/server; cat"]}}}
    files[home / ".claude.json"] = files[above / ".mcp.json"] = json.dumps(servers)
    write(files)


def poison_pi(home: Path, above: Path, traces: Path) -> None:
    """Set up what pi would take up by itself."""
    loud = f"""\
import fs from "node:fs";
export default function (pi) {{
  fs.writeFileSync("{traces}/extension", "");
  pi.registerTool({{ name: "{POISON}", label: "loud", description: "loud", parameters: {{ type: "object" }},
    execute: async () => ({{ content: [], details: {{}} }}) }});
}}
"""
    own = home / ".pi" / "agent"
    write(
        {
            own / "AGENTS.md": POISON,
            own / "SYSTEM.md": POISON,
            own / "APPEND_SYSTEM.md": POISON,
            own / "extensions" / "loud.ts": loud,
            own / "skills" / "loud" / "SKILL.md": f"---\nname: loud\ndescription: {POISON}\n---\nloud",
            above / "AGENTS.md": POISON,
            above / "CLAUDE.md": POISON,
            above / "deep" / ".pi" / "APPEND_SYSTEM.md": POISON,
        }
    )


def write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def traces(stage: Stage) -> Path:
    """A folder that programs leave something in that must not run."""
    path = stage.root / "traces"
    path.mkdir()
    return path


@pytest.fixture
def controller(name: str, installed: dict[str, Installed], stage: Stage, traces: Path) -> Iterator[Controller]:
    """A controller with chats and an agent that is set up for deep searches, its home full of things to leave alone."""
    agent = installed[name]
    stage.configure([agent], silence_seconds=60)
    with (stage.home / "config.toml").open("a") as file:
        file.write(f'[deep_search]\nharness = "{name}"\nprogram = "{agent.cli}"\n')
    {"claude-code": poison_claude, "pi": poison_pi}[name](stage.root / "homes" / name, stage.home, traces)
    settings = load_settings({"BRIDGE_HOME": str(stage.home)})
    with Controller(settings, clock=SystemClock(), environment=stage.environment()) as opened:
        for words in CHATS.values():
            session = opened.recorder.create_session(NewSession()).id
            opened.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": words}))
        yield opened


def mark_of(asked: Asked, words: str) -> str:
    found = re.search(rf"^(c\d+) \|.*{words}", "\n".join(asked.prompts), re.MULTILINE)
    assert found is not None, asked.prompts
    return found[1]


def looks_up_and_names(asked: Asked) -> Step:
    """Ask for other words once, then name the chat that these found."""
    if "tomatoes" not in "\n".join(asked.prompts):
        return Say('Let me see. {"lookup": "find_chats", "argument": "tomatoes"}')
    return Say(json.dumps({"chats": [{"mark": mark_of(asked, "tomatoes"), "why": "it is about growing"}]}))


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(300)
def test_an_agent_without_tools_finds_a_chat(
    name: str, controller: Controller, stage: Stage, server: ModelServer, traces: Path
) -> None:
    server.add(Scenario(QUESTION, looks_up_and_names, is_tool_free=True))
    home = stage.root / "homes" / name
    before = files_below(home)
    found = stage.json("find", "--deep", "--all", QUESTION)
    deep = found["deep"]
    assert (deep["status"], deep["lookups"], deep["model"]) == ("answered", 1, name), deep
    (pick,) = deep["picks"]
    assert found["chats"][0]["session_id"] == pick["session_id"]
    assert found["chats"][0]["title"] == CHATS["gardening"]
    # Its start is no part of what counts against it, but of the whole.
    assert 0 < deep["model_seconds"] < deep["elapsed_seconds"]
    assert len(server.seen) == 2
    for seen in server.seen:
        assert not seen.asked.body.get("tools")
        assert not seen.asked.tools
        assert POISON not in json.dumps(seen.asked.body)
    assert list(traces.iterdir()) == []
    changed = {path: content for path, content in files_below(home).items() if before.get(path) != content}
    assert all(path.startswith(OWN_NOTES[name]) for path in changed), sorted(changed)
    assert not any(word in content for content in changed.values() for word in (b"deployment", b"tomatoes"))
    left = {path.name for path in (stage.home / "deep").iterdir()}
    assert left <= {"stderr", ".pi"}
    # Figures on a hidden session; no chat of the agent's is recorded.
    assert [one["kind"] for one in stage.json("session", "list", "--all")].count("chat") == len(CHATS)


#: What a model does that goes wrong, what that is called, and how often it is asked at most.
FAULTS: dict[str, tuple[Step | str, Trouble, int]] = {
    "invented": (Say('{"chats": [{"mark": "c99", "why": "it must be"}]}'), Trouble.INVENTED, 1),
    # Pi's library asks twice more before pi hears of it.
    "quota": (Refuse(429, "come back later"), Trouble.QUOTA, 3),
    # The program may tell its model that there is no such tool before it is ended.
    "calls a tool": ("shell", Trouble.BROKEN, 2),
    "words": (Say("It is the one about staging, I think."), Trouble.BROKEN, 1),
    "greedy": (Say('{"lookup": "find_chats", "argument": "x"}'), Trouble.GREEDY, 4),
    "slow": (Stall(), Trouble.TIMED_OUT, 1),
}
#: The last three do not depend on how a program speaks: one program will do.
TRIED = {"claude-code": tuple(FAULTS), "pi": ("invented", "quota", "calls a tool")}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name in NAMES for fault in TRIED[name]], indirect=["name"]
)
def test_an_agent_that_goes_wrong_leaves_the_indexs_answer(
    name: str, controller: Controller, server: ModelServer, traces: Path, fault: str
) -> None:
    step, trouble, times = FAULTS[fault]
    played = shell_call(name, f"touch {traces}/shell") if isinstance(step, str) else step
    server.add(Scenario(QUESTION, lambda _asked: played, is_tool_free=True))
    find = partial(ask_deep, controller, Standpoint(), QUESTION, model_of(controller), all_workspaces=True)
    done: DeepFound = anyio.run(partial(find, model_seconds=1.5 if trouble is Trouble.TIMED_OUT else MODEL_SECONDS))
    assert (done.depth, done.trouble) == (Depth.FELL_BACK, trouble), done.message
    assert {chat.title for chat in done.chats} == {CHATS["staging"], CHATS["production"]}
    assert list(traces.iterdir()) == []
    # The program is gone, whatever it was at.
    assert psutil.Process().children(recursive=True) == []
    assert 1 <= len(server.requests(QUESTION)) <= times
