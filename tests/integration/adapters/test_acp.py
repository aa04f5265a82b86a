"""The client of the Agent Client Protocol with real child programs, well-behaved and not."""

from __future__ import annotations

import os
import stat
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.adapters.acp.harness import AcpHarness
from bridge.adapters.conversation import Conversation, Limits, LiveText, OpenRequest
from bridge.adapters.errors import (
    ConversationEnded,
    HarnessLoginNeeded,
    HarnessProtocolBroken,
    HarnessStartFailed,
    ModelNotOffered,
    NativeResumeFailed,
)
from bridge.adapters.permission import PermissionAnswer
from bridge.process.errors import ProgramNotFound
from bridge.process.identity import Marker, ProcessIdentity, is_running, marked_processes
from bridge.semantics.validation import validate

ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(silence_seconds=60, start_seconds=60, cancel_seconds=30, grace_seconds=0.3)
pytestmark = pytest.mark.anyio
#: An agent that greets, offers a way to log in, and wants that before anything else.
LOGIN_WANTED = """
say(id=read()["id"], result={"protocolVersion": 1, "authMethods": [{"id": "key", "name": "API key"}]})
say(id=read()["id"], error={"code": -32000, "message": "Authentication required"})
"""

Opened = Callable[..., Any]


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., OpenRequest]:
    def make(**options: Any) -> OpenRequest:
        directory = tmp_path / "work"
        directory.mkdir(exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "BRIDGE_TOKEN": "secret", "GIT_DIR": "/x"}
        settings: dict[str, Any] = {
            "directory": directory,
            "folder": tmp_path / "agent",
            "environment": environment,
            "marker": str(tmp_path),
            "limits": LIMITS,
        }
        return OpenRequest(**(settings | options))

    return make


@pytest.fixture
def harness(tmp_path: Path) -> AcpHarness:
    command = (sys.executable, "-m", "bridge.adapters.scripted", "--state", str(tmp_path / "sessions"))
    return AcpHarness("scripted", command, allowed=frozenset({"fs", "terminal", "resume", "load"}))


def program(tmp_path: Path, source: str) -> AcpHarness:
    """A harness whose program is a few lines of Python, with ``say`` and ``read`` at hand."""
    head = """
        import json, os, sys, time, signal
        def say(**message):
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
        def read():
            return json.loads(sys.stdin.readline())
        def greet():
            say(id=read()["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
            say(id=read()["id"], result={"sessionId": "s1"})
    """
    path = tmp_path / "agent.py"
    path.write_text(textwrap.dedent(head) + textwrap.dedent(source))
    return AcpHarness("odd", (sys.executable, str(path)))


async def said(conversation: Conversation, text: str, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    found = []
    async for event in conversation.prompt(text, turn_id="t1", **options):
        validate(event.kind, dict(event.payload))
        found.append((event.kind, dict(event.payload)))
    assert found[-1][0] == "turn.completed"
    return found


def kinds(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [kind for kind, _ in found]


async def test_a_turn_from_end_to_end(harness, request_for, tmp_path):
    seen: list[LiveText] = []
    started: list[ProcessIdentity] = []

    async def note(identity: ProcessIdentity) -> None:
        started.append(identity)

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha\n")
    conversation = await harness.open(request_for(live=seen.append, started=note))
    assert is_running(started[0])
    assert conversation.native_session_id == "scripted-000001"
    assert conversation.model == "scripted-1"
    found = await said(
        conversation,
        "!think hm\n!read a.txt\n!edit a.txt alpha => beta\n!run echo hi\n!plan one; two\n!usage 3 4\n!say bye",
    )
    assert kinds(found) == [
        "reasoning.completed",
        *["tool.started", "tool.completed"] * 3,
        "plan.updated",
        "assistant.message",
        "usage.updated",
        "turn.completed",
    ]
    assert (tmp_path / "work" / "a.txt").read_text() == "beta\n"
    assert found[2][1]["paths_read"] == ["a.txt"]
    assert found[4][1]["paths_written"] == ["a.txt"]
    assert found[-1][1]["status"] == "completed"
    assert "".join(piece.text for piece in seen if piece.kind == "message") == "bye"
    await conversation.close()
    await conversation.close()
    assert not is_running(started[0])


async def test_context_and_notices_stand_before_the_message_and_once(harness, request_for):
    conversation = await harness.open(request_for(context="so far"))
    found = await said(conversation, "!context", notices=["files moved"])
    assert found[0][1]["text"] == "so far\n---\nfiles moved"
    assert (await said(conversation, "!context"))[0][1]["text"] == "I was told nothing."
    await conversation.close()


async def test_the_child_gets_neither_the_controllers_variables_nor_gits(harness, request_for):
    conversation = await harness.open(request_for(additions={"EXTRA": "yes"}))
    found = await said(conversation, "!run sh -c 'echo $BRIDGE_TOKEN,$GIT_DIR,$EXTRA'")
    assert found[1][1]["output"].startswith(",,yes\n")
    await conversation.close()


@pytest.mark.parametrize("way", [(), ("--no-resume",)])
async def test_a_session_is_taken_up_again_by_either_way(harness, request_for, way):
    harness = replace(harness, command=(*harness.command, *way))
    first = await harness.open(request_for())
    await said(first, "hello")
    await first.close()
    again = await harness.open(request_for(native_session_id=first.native_session_id))
    found = await said(again, "!checkpoint")
    assert kinds(found) == ["assistant.message", "turn.completed"]  # what was played back is no event
    assert "1 messages so far" in found[0][1]["text"]
    await again.close()


async def test_a_session_that_is_gone_is_a_typed_failure(harness, request_for, tmp_path):
    with pytest.raises(NativeResumeFailed) as caught:
        await harness.open(request_for(native_session_id="scripted-000099"))
    assert caught.value.details["reason"] == "refused"
    with pytest.raises(NativeResumeFailed) as caught:
        await program(tmp_path, "greet(); read()").open(request_for(native_session_id="s"))
    assert caught.value.details["reason"] == "not_supported"
    assert marked_processes(Marker(str(tmp_path))) == []


async def test_a_model_is_chosen_or_refused(harness, request_for, tmp_path):
    conversation = await harness.open(request_for(model="scripted-2"))
    assert conversation.model == "scripted-2"
    await conversation.close()
    with pytest.raises(ModelNotOffered) as caught:
        await harness.open(request_for(model="other"))
    assert caught.value.details["offered"] == ["scripted-1", "scripted-2"]
    assert marked_processes(Marker(str(tmp_path))) == []


# -- permission, files, terminals ------------------------------------------------------------------------------


async def test_permission_is_refused_unless_somebody_allows_it(harness, request_for):
    conversation = await harness.open(request_for())
    found = await said(conversation, "!ask delete all")
    assert kinds(found)[:3] == ["tool.started", "approval.requested", "approval.resolved"]
    assert found[2][1]["decision"] == "reject_once"
    assert next(payload["status"] for kind, payload in found if kind == "tool.completed") == "denied"
    await conversation.close()

    async def allow(request: Any) -> PermissionAnswer:
        assert request.title == "delete all"
        return PermissionAnswer("yes", "test")

    conversation = await harness.open(request_for(permission=allow))
    found = await said(conversation, "!ask delete all")
    assert found[2][1]["decision"] == "allow_once"
    assert ("assistant.message", {"text": "It was allowed.", "turn_id": "t1"}) in found
    await conversation.close()


async def test_a_policy_that_fails_or_invents_an_answer_allows_nothing(harness, request_for):
    async def broken(_request: Any) -> PermissionAnswer:
        raise ValueError

    async def inventive(_request: Any) -> PermissionAnswer:
        return PermissionAnswer("root", "test")

    for policy in (broken, inventive):
        conversation = await harness.open(request_for(permission=policy))
        found = await said(conversation, "!ask x")
        assert found[2][1]["decision"] == "cancelled"
        await conversation.close()


def script(tmp_path: Path, harness: AcpHarness, *steps: str) -> AcpHarness:
    body = "\n".join(f"[[turn.step]]\n{step}" for step in steps)
    path = tmp_path / "script.toml"
    path.write_text(f"[[turn]]\nrepeat = true\n{body}\n")
    return replace(harness, command=(*harness.command, "--script", str(path)))


async def test_files_by_way_of_the_client_stay_in_the_directory(harness, request_for, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / "link").symlink_to(outside)
    (work / "folder").symlink_to(tmp_path)
    os.mkfifo(work / "pipe")
    steps = [
        'write = {path = "new/b.txt", text = "beta"}\nvia = "client"',
        'read = "new/b.txt"\nvia = "client"',
        *(
            f'read = "{path}"\nvia = "client"'
            for path in ("../outside.txt", "link", "folder/outside.txt", "pipe", "no")
        ),
        *(
            f'write = {{path = "{path}", text = "x"}}\nvia = "client"'
            for path in ("../new.txt", "link", "folder/new.txt", ".git/hooks/x", "sub/.GIT/x", "/etc/x")
        ),
    ]
    conversation = await script(tmp_path, harness, *steps).open(request_for())
    found = [payload for kind, payload in await said(conversation, "go") if kind == "tool.completed"]
    assert [payload["status"] for payload in found] == ["completed"] * 2 + ["failed"] * 11
    assert found[1]["output"] == "beta"
    assert outside.read_text() == "secret"
    assert not (tmp_path / "new.txt").exists()
    assert [path.name for path in (work / "new").iterdir()] == ["b.txt"]
    await conversation.close()


async def test_a_file_keeps_its_mode_when_it_is_replaced(harness, request_for, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "run.sh").write_text("old")
    (work / "run.sh").chmod(0o750)
    step = 'write = {path = "run.sh", text = "new"}\nvia = "client"'
    conversation = await script(tmp_path, harness, step).open(request_for())
    await said(conversation, "go")
    assert (work / "run.sh").read_text() == "new"
    assert stat.S_IMODE((work / "run.sh").stat().st_mode) == 0o750
    await conversation.close()


async def test_terminals_run_only_what_is_allowed(harness, request_for, tmp_path):
    step = 'run = ["/bin/sh", "-c", "pwd; echo out; exit 3"]\nvia = "client"'
    conversation = await script(tmp_path, harness, step).open(request_for())
    found = await said(conversation, "go")
    assert next(payload["status"] for kind, payload in found if kind == "tool.completed") == "failed"
    await conversation.close()

    async def allow(_request: Any) -> PermissionAnswer:
        return PermissionAnswer("allow", "test")

    conversation = await script(tmp_path, harness, step).open(request_for(permission=allow))
    found = await said(conversation, "go")
    output = next(payload["output"] for kind, payload in found if kind == "tool.completed")
    assert output == f"{tmp_path / 'work'}\nout\nexit status 3"
    await conversation.close()


# -- cancelling ------------------------------------------------------------------------------------------------


async def cancelled_turn(
    conversation: Conversation, text: str, act: Callable[[], Any], *, at: str
) -> list[tuple[str, dict[str, Any]]]:
    """Do something to a turn once an event of a kind came of it."""
    found: list[tuple[str, dict[str, Any]]] = []
    acted = False
    async with anyio.create_task_group() as group:
        async for event in conversation.prompt(text, turn_id="t1"):
            validate(event.kind, dict(event.payload))
            found.append((event.kind, dict(event.payload)))
            if event.kind == at and not acted:
                acted = True
                group.start_soon(act)
    return found


async def test_a_cancelled_turn_keeps_what_was_said_and_the_conversation(harness, request_for):
    conversation = await harness.open(request_for())
    found = await cancelled_turn(
        conversation, "!plan a\n!say first\n!sleep 60\n!say never", conversation.cancel, at="plan.updated"
    )
    assert kinds(found)[0] == "plan.updated"
    assert "never" not in str(found)
    assert found[-1][1]["status"] == "cancelled"
    assert conversation.is_open
    assert (await said(conversation, "still there"))[-1][1]["status"] == "completed"
    await conversation.close()


async def test_an_agent_that_does_not_heed_is_ended(harness, request_for, tmp_path):
    conversation = await harness.open(request_for(limits=replace(LIMITS, cancel_seconds=0.3)))
    found = await cancelled_turn(conversation, "!stubborn\n!plan a\n!stall", conversation.cancel, at="plan.updated")
    assert found[-1][1]["status"] == "cancelled"
    assert "did not heed" in found[-1][1]["reason"]
    assert not conversation.is_open
    assert marked_processes(Marker(str(tmp_path))) == []
    await conversation.close()


async def test_killing_ends_a_stubborn_agent_and_what_it_left(harness, request_for, tmp_path):
    conversation = await harness.open(request_for())
    found = await cancelled_turn(
        conversation, "!stubborn\n!leave 60\n!plan a\n!stall", conversation.kill, at="plan.updated"
    )
    assert found[-1][1] == {**found[-1][1], "status": "cancelled", "reason": "The agent was killed."}
    assert marked_processes(Marker(str(tmp_path))) == []
    with pytest.raises(ConversationEnded):
        await said(conversation, "hello")
    await conversation.close()


async def test_a_question_is_withdrawn_when_its_turn_is_cancelled(harness, request_for):
    async def think(_request: Any) -> PermissionAnswer:
        await anyio.sleep(60)
        raise AssertionError

    conversation = await harness.open(request_for(permission=think))
    found = await cancelled_turn(conversation, "!ask x", conversation.cancel, at="approval.requested")
    assert [payload["decision"] for kind, payload in found if kind == "approval.resolved"] == ["cancelled"]
    assert found[-1][1]["status"] == "cancelled"
    await conversation.close()


# -- misbehaviour in a turn ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directive", "limits", "code", "words"),
    [
        ("!crash 7", {}, "crashed", "exit status 7"),
        ("!stall", {"silence_seconds": 4}, "stalled", "said nothing"),
        ("!huge 300000", {"message_bytes": 100_000}, "protocol_broken", "above the limit"),
        ("!huge 100000\n!huge 100000", {"turn_bytes": 150_000}, "output_limit", "150000 bytes"),
        ("!fail no luck", {}, "agent_error", "no luck"),
        ("\n".join(["!rubbish {]"] * 4), {"malformed_messages": 3}, "protocol_broken", "no messages"),
    ],
)
async def test_faults_end_the_turn_with_a_typed_cause(harness, request_for, tmp_path, directive, limits, code, words):
    conversation = await harness.open(request_for(limits=replace(LIMITS, **limits)))
    found = await said(conversation, f"!say before\n{directive}\n!sleep 5")
    fault = next(payload for kind, payload in found if kind == "error")
    assert fault["code"] == code
    assert words in fault["message"]
    assert found[-1][1]["status"] == "failed"
    assert "assistant.message" in kinds(found)
    await conversation.close()
    assert marked_processes(Marker(str(tmp_path))) == []


async def test_an_agent_that_a_signal_ended_is_told_apart(harness, request_for):
    steps = 'crash = "SIGKILL"'
    path = request_for().directory.parent
    conversation = await script(path, harness, steps).open(request_for())
    found = await said(conversation, "go")
    assert "signal 9" in found[-1][1]["reason"]
    await conversation.close()


@pytest.mark.parametrize(
    "rubbish", ["no json", "[1]", '"x"', "{}", '{"id": "a", "result": 1}', '{"method": 3}', '{"id": 1}']
)
async def test_some_rubbish_is_kept_and_survived(harness, request_for, rubbish):
    conversation = await harness.open(request_for())
    found = await said(conversation, f"!rubbish {rubbish}\n!say fine")
    assert ("provider.unknown", rubbish) in [(kind, payload.get("raw")) for kind, payload in found]
    assert found[-1][1]["status"] == "completed"
    await conversation.close()


async def test_requests_that_make_no_sense_are_answered_and_survived(tmp_path, request_for):
    source = """
        greet()
        prompt = read()
        for number, (method, params) in enumerate([("fs/read_text_file", {"path": 3}), ("fs/read_text_file", []),
                                                   ("no/such", {}), ("terminal/create", {"command": "true"})]):
            say(id=number, method=method, params=params)
            sys.stderr.write(json.dumps(read()) + "\\n")
        say(method="session/update", params={"sessionId": "other", "update": {"sessionUpdate": "plan"}})
        say(method="session/update", params=[1])
        say(method="what/ever", params={})
        say(id=prompt["id"], result={"stopReason": "max_tokens"})
        read()
    """
    conversation = await program(tmp_path, source).open(request_for())
    found = await said(conversation, "go")
    assert kinds(found) == ["turn.completed"]
    assert found[0][1]["reason"] == "max_tokens"
    answers = (tmp_path / "agent" / "stderr.log").read_text()
    assert answers.count('"error"') == 4
    await conversation.close()


async def test_a_flood_on_standard_error_ends_the_turn(tmp_path, request_for):
    source = """
        greet()
        read()
        while True:
            sys.stderr.write("x" * 10000)
    """
    request = request_for(limits=replace(LIMITS, stderr_bytes=100_000))
    conversation = await program(tmp_path, source).open(request)
    found = await said(conversation, "go")
    assert next(payload["code"] for kind, payload in found if kind == "error") == "output_limit"
    await conversation.close()
    assert (tmp_path / "agent" / "stderr.log").stat().st_size <= 100_000


async def test_the_last_words_of_a_crash_are_told(tmp_path, request_for):
    conversation = await program(tmp_path, 'greet(); read(); sys.exit("out of tokens")').open(request_for())
    assert "out of tokens" in (await said(conversation, "go"))[-1][1]["reason"]
    await conversation.close()


async def test_an_agent_that_nobody_reads_for_is_held_back_and_nothing_is_lost(harness, request_for):
    steps = "\n".join(f"!plan {number}" for number in range(3000))
    conversation = await harness.open(request_for())
    count = 0
    async for event in conversation.prompt(steps, turn_id="t1"):
        if count == 0:
            await anyio.sleep(0.5)
        count += event.kind == "plan.updated"
    assert count == 3000
    await conversation.close()


async def test_who_stops_listening_leaves_no_turn_behind(harness, request_for):
    conversation = await harness.open(request_for())
    events = conversation.prompt("!plan a\n!sleep 30", turn_id="t1")
    await anext(events)
    await events.aclose()
    with pytest.raises(ConversationEnded):
        await said(conversation, "hello")
    await conversation.close()


# -- misbehaviour at the start ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("sys.exit(4)", HarnessStartFailed, "exit status 4"),
        ("time.sleep(60)", HarnessStartFailed, "did not answer"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", HarnessStartFailed, "did not answer"),
        ("os.close(1); time.sleep(60)", HarnessStartFailed, "before a session was open"),
        ("print('hello\\n' * 50); sys.stdout.flush(); time.sleep(60)", HarnessProtocolBroken, "no messages"),
        ("sys.stdout.write('x' * 500000); sys.stdout.flush(); time.sleep(60)", HarnessProtocolBroken, "limit"),
        ("say(id=read()['id'], result={'protocolVersion': 9})", HarnessProtocolBroken, "version 9"),
        ("say(id=read()['id'], result=[])", HarnessProtocolBroken, "no object"),
        ("say(id=read()['id'], error={'code': 1, 'message': 'not today'})", HarnessStartFailed, "not today"),
        (
            "say(id=read()['id'], result={'protocolVersion': 1}); say(id=read()['id'], result={})",
            HarnessProtocolBroken,
            "id",
        ),
        (
            LOGIN_WANTED,
            HarnessLoginNeeded,
            "API key",
        ),
    ],
)
async def test_a_start_that_fails_is_typed_and_leaves_nothing(tmp_path, request_for, source, error, words):
    # Short only where the time itself is what ends it: a busy machine takes its time to start a program.
    limits = replace(LIMITS, start_seconds=1.5 if words == "did not answer" else 60, message_bytes=200_000)
    with pytest.raises(error) as caught:
        await program(tmp_path, source).open(request_for(limits=limits))
    assert words in caught.value.message
    assert marked_processes(Marker(str(tmp_path))) == []


async def test_a_program_that_is_not_there(request_for):
    with pytest.raises(ProgramNotFound):
        await AcpHarness("gone", ("no-such-agent-program",)).open(request_for())


async def test_a_cancelled_start_leaves_nothing(tmp_path, request_for):
    with anyio.move_on_after(1.0):
        await program(tmp_path, "time.sleep(60)").open(request_for())
    assert marked_processes(Marker(str(tmp_path))) == []
