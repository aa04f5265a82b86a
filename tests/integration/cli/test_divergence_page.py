"""docs/divergence.md: its examples are what the commands print, and its tables name every word there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bridge.conversations.turns import AGENT_KINDS
from bridge.git import rewrites, walk
from bridge.git.history import RelationKind
from bridge.git.rewrites import RewrittenBy
from bridge.semantics.stamps import UnknownReason
from bridge.workspaces import attribution
from bridge.workspaces.pathchanges import Change, Standing

PAGE = (Path(__file__).parents[3] / "docs" / "divergence.md").read_text(encoding="utf-8")


def example(name):
    found = re.search(rf"<!-- example: {name} -->\n```console\n\$ ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1], found[2]


@pytest.fixture
def scene(here, repository, say):
    """The story that the page tells. Returns what each example's command prints, under the page's names."""
    for name in ("src/app.py", "src/util.py", "docs/index.md", "uv.lock"):
        repository.write(name, f"first version of {name}\n")
    repository.commit("Start")
    parsing = here.json("session", "new", "--label", "parsing")["id"]
    guide = here.json("session", "new", "--label", "guide")["id"]

    def tool(session, **fields):
        payload = json.dumps({"tool_call_id": "1", "name": "tool", **fields}).encode()
        here("append", session, "--kind", "tool.completed", "--payload", "-", stdin=payload).ok()

    say(parsing, "Make parsing faster")
    tool(parsing, paths_read=["src/util.py"])
    repository.write("src/app.py", "a faster version\n")
    tool(parsing, paths_written=["src/app.py"])
    say(guide, "Write a guide")
    repository.write("docs/guide.md", "# Guide\n")
    say(parsing, "Done", kind="assistant.message")
    say(guide, "Done", kind="assistant.message")
    repository.git("commit", "-q", "-m", "Parse faster", "src/app.py")
    repository.write("src/util.py", "another version\n")
    repository.write("uv.lock", "another version\n")
    repository.write("scratch.txt", "x\n")

    def run(*words):
        text = here(*words).ok().stdout
        for session, tail in ((parsing, "9f3a"), (guide, "7c21")):
            text = text.replace(session, f"20260102-030405-{tail}").replace(session[-4:], tail)
        return text

    path = next(
        path for path in json.loads(run("diff", f"{parsing[-4:]}.1", "--json"))["paths"] if "guide" in path["path"]
    )
    return {
        "checkout": run("status"),
        "entry": run("diff", f"{parsing[-4:]}.1"),
        "agent": run("status", parsing, "--agent"),
        "json": json.dumps(path, indent=2) + "\n",
    }


@pytest.mark.parametrize("name", ["checkout", "entry", "agent", "json"])
def test_the_examples_are_what_the_commands_print(scene, name):
    assert example(name)[1] == scene[name]


@pytest.mark.parametrize("words", [RelationKind, RewrittenBy, Change, Standing, UnknownReason])
def test_every_word_is_explained(words):
    for word in words:
        assert f"`{word}`" in PAGE


def test_the_kinds_and_budgets_are_those_of_the_code():
    for kind in AGENT_KINDS:
        assert f"`{kind}`" in PAGE
    text = " ".join(PAGE.split())
    assert f"{walk.MAX_WALKED_COMMITS:,} commits are walked" in text
    assert f"for up to {walk.COUNT_SECONDS:g} s" in text
    assert f"{rewrites.MAX_TREE_CANDIDATES:,} new commits" in text
    assert f"the newest {rewrites.MAX_PATCH_CANDIDATES} on either side" in text
    assert f"at most {rewrites.MAX_PATCH_BYTES >> 20} MiB a commit and {rewrites.MAX_SEARCH_BYTES >> 20} MiB" in text
    assert f"for at most {rewrites.SEARCH_SECONDS:g} s" in text
    assert (
        f"{attribution.MAX_SESSIONS} sessions, the newest {attribution.MAX_ENTRIES:,} entries of each, "
        f"{attribution.MAX_STEPS} neighbours that differ, {attribution.MAX_ROWS:,} manifest rows, "
        f"{attribution.MAX_HEAD_MOVES} moves of HEAD, {attribution.ATTRIBUTION_SECONDS:g} s"
    ) in text
