"""docs/conversations.md: its examples are what the commands print, and its tables are those of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bridge.conversations.facets import RULES, UNREADABLE, Facet, kinds_of
from bridge.conversations.placing import MAX_LOOK_BACK

PATH = Path(__file__).parents[3] / "docs" / "conversations.md"
PAGE = PATH.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- example: (\w+) -->\n```console\n\$ bridge ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@pytest.fixture
def printed(here, repository, say):
    """Tell the story of the page; return what each example's command prints, under the page's names."""
    session = here.json("session", "new", "--label", "retries")["id"]
    tails = {session: "20260102-030405-9f3a"}

    def run(words):
        for real, shown in tails.items():
            words = [word.replace(shown[-4:], real[-4:]) for word in words]
        ran = here(*words)
        text = ran.stdout + ran.stderr
        for session_id in {*re.findall(r"\d{8}-\d{6}-[0-9a-f]{4}", text)} - tails.keys():
            tails[session_id] = "20260102-031500-7c21"
        for real, shown in tails.items():
            text = text.replace(real, shown)
            text = re.sub(rf"\b{real[-4:]}\b", shown[-4:], text)
        return TIME.sub("2026-01-02 04:05:06", text)

    def tool(status):
        payload = {"tool_call_id": "1", "name": "bash", "input": {"command": "pytest -q"}, "status": status}
        here("append", session, "--kind", "tool.completed", "--payload", "-", stdin=json.dumps(payload).encode()).ok()

    say(session, "Try a failed charge again, three times at most")
    tool("failed")
    say(session, "Two tests fail before any change. Mend them first?", kind="assistant.message")
    say(session, "Yes, and then use the delays of the table")
    say(session, "Done: the delays come from docs/retries.md", kind="assistant.message")
    outputs = {}
    commands = {name: command for name, command, _ in EXAMPLES}
    outputs["goto"] = run(_words(commands["goto"]))
    say(session, "No, leave the tests alone")
    say(session, "Left alone; the loop is in charge.py", kind="assistant.message")
    for name in ("label", "tree", "branches", "fork"):
        outputs[name] = run(_words(commands[name]))
    fork = next(real for real, shown in tails.items() if shown.endswith("7c21"))
    say(fork, "Use a decorator instead")
    for name in ("forklog", "shared", "problems"):
        outputs[name] = run(_words(commands[name]))
    return outputs


def _words(command):
    return [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]


def test_the_examples_are_what_the_commands_print(printed):
    assert {name: text for name, _, text in EXAMPLES} == printed


def test_the_facets_are_those_of_the_code():
    rows = dict(re.findall(r"^\| `(\w+)` \| ((?:`[\w.]+`(?:, )?)+) \|$", PAGE, re.MULTILINE))
    assert {name: set(re.findall(r"`([\w.]+)`", kinds)) for name, kinds in rows.items() if name in set(Facet)} == {
        facet.value: set(kinds_of(facet)) for facet in Facet
    }


def test_every_problem_is_explained():
    for problem in {rule.problem for rule in RULES.values() if rule.problem} | {UNREADABLE}:
        assert f"`{problem}`" in PAGE


def test_the_numbers_are_those_of_the_code():
    from bridge.cli.commands.tree import DRAWN

    assert f"the last {DRAWN:,} entries are drawn" in PAGE
    assert f"among the {MAX_LOOK_BACK:,} entries above" in PAGE
