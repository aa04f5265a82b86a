"""``bridge find --deep`` and ``/find`` with a model that is set up in config.toml, against a scripted server."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

import pytest
from anyio import to_thread

from bridge.adapters.acp.harness import AcpHarness
from bridge.cli.chat.acting import Actions
from bridge.cli.chat.lines import parse
from bridge.cli.context import Cli
from bridge.cli.output import Output
from bridge.control.controller import Controller
from bridge.control.conversing.chatting import Chat, ChatOptions
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from tests.conftest import settings_here
from tests.prepared import run_command
from tests.scriptedmodel import ModelServer, answer
from tests.serving import ROOT

QUESTION = "deployment trouble"


@pytest.fixture
def environment(bridge_home, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRIDGE_", "GIT_"))}
    return {**kept, "BRIDGE_HOME": str(bridge_home), "BRIDGE_CONTROLLER": "off", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def chats(bridge_home):
    found = []
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as controller:
        for words in ("trouble with the deployment to staging", "the deployment made trouble in production"):
            found.append(controller.recorder.create_session(NewSession(workspace_id="w")).id)
            for kind in ("user.message", "assistant.message"):
                controller.recorder.append_now(found[-1], EntryDraft(kind=kind, payload={"text": words}))
    return found


def set_up(bridge_home, server):
    table = f'[deep_search]\nmodel = "openai:scripted"\nbase_url = "{server.url}"\napi_key_variable = "SCRIPTED_KEY"\n'
    (bridge_home / "config.toml").write_text(table)


def run(environment, *words):
    done = run_command(list(words), cwd="/", environment=environment)
    return SimpleNamespace(returncode=done.returncode, stdout=done.stdout.decode(), stderr=done.stderr.decode())


def test_a_model_that_is_set_up_is_asked(bridge_home, environment, chats):
    with ModelServer(answer("c2", why="it says staging")) as server:
        set_up(bridge_home, server)
        done = run({**environment, "SCRIPTED_KEY": "k"}, "find", QUESTION, "--all", "--deep", "--json")
        plain = run(environment, "find", QUESTION, "--all", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["deep"]["status"] == "answered"
    (pick,) = found["deep"]["picks"]
    assert pick["why"] == "it says staging"
    assert found["chats"][0]["session_id"] == pick["session_id"]
    assert len(server.bodies) == 1
    assert "deep" not in json.loads(plain.stdout)


def test_without_one_it_says_so_and_answers_all_the_same(environment, chats):
    done = run(environment, "find", QUESTION, "--all", "--deep")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert "no model is set up" in done.stderr
    assert run(environment, "find", QUESTION, "--deep", "--offset", "2").returncode == 2


PROGRAM = """\
import json, os, sys
open(os.environ["STARTS"], "a").write("started\\n")
for line in sys.stdin:
    if json.loads(line)["type"] == "control_request":
        print(json.dumps({"type": "control_response", "response": {"subtype": "success"}}), flush=True)
        continue
    print(json.dumps({"type": "system", "subtype": "init", "tools": [], "mcp_servers": []}))
    answer = json.dumps({"chats": [{"mark": "c2", "why": "it fits"}]})
    print(json.dumps({"type": "result", "result": answer}), flush=True)
"""


@pytest.mark.anyio
async def test_in_a_chat_an_unsure_search_starts_the_model_that_the_deep_one_asks(bridge_home, chats, tmp_path, capsys):
    starts, program = tmp_path / "starts", tmp_path / "program"
    (tmp_path / "program.py").write_text(PROGRAM)
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path / 'program.py'}\n")
    program.chmod(0o700)
    (bridge_home / "config.toml").write_text(
        f'[deep_search]\nharness = "claude-code"\nprogram = "{program}"\n'
        f'[harness.claude-code]\ncommand = ["claude-agent-acp"]\nenv = {{ STARTS = "{starts}" }}\n'
    )
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as controller:
        session = controller.recorder.create_session(NewSession(workspace_id="w")).id
        harness = AcpHarness("scripted", (sys.executable, "-m", "bridge.adapters.scripted"), allowed=frozenset())
        chat = Chat(controller, session, harness, ChatOptions(directory=tmp_path))
        cli = Cli(Output(sys.stdout, sys.stderr), os.environ, SystemClock(), working_directory=tmp_path)
        actions = Actions(cli, controller, chat)
        await to_thread.run_sync(actions.perform, parse("/find staging production"))
        assert not starts.exists() or starts.read_text() == "started\n"
        await to_thread.run_sync(actions.perform, parse(f"/find {QUESTION}"))
        assert "it fits" not in capsys.readouterr().out
        await to_thread.run_sync(actions.perform, parse(f"/find --deep {QUESTION}"))
        told = capsys.readouterr()
        assert "it fits" in told.out
        assert "claude-code named 1 of these" in told.err
        # Started ahead, by the search before; used once.
        assert starts.read_text() == "started\n"
        await actions.close()
