"""``bridge rpc --stdio`` as another program uses it."""

from __future__ import annotations

import json
import subprocess


def lines(*requests):
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


def request(identity, method, **params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def test_a_conversation_over_pipes(bridge_cli):
    with subprocess.Popen(
        [*bridge_cli.command, "rpc", "--stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=bridge_cli.directory,
        env=bridge_cli.environment(),
    ) as process:

        def ask(identity, method, **params):
            process.stdin.write(lines(request(identity, method, **params)))
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        session = ask(1, "sessions/new")["result"]["id"]
        for number in range(3):
            ask(2, "sessions/append", session=session, kind="user.message", text=f"word{number}")
        found = ask(3, "sessions/search_session_entries", session=session, query="word2")["result"]
        assert [hit["sequence"] for hit in found["hits"]] == [3]
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    # What was answered is there for everybody else.
    assert len(bridge_cli("log", session, "--json").ok().json()) == 3


def test_input_from_a_file_and_lines_that_are_nothing(bridge_cli, tmp_path):
    ran = bridge_cli("rpc", "--stdio", stdin=b"\n  \n{\n" + lines(request(1, "sessions/list")).rstrip(b"\n")).ok()
    answers = [json.loads(line) for line in ran.stdout_bytes.splitlines()]
    assert [one.get("error", {}).get("code") for one in answers] == [-32700, None]
    assert ran.stderr == ""


def test_roles_and_usage(bridge_cli):
    assert bridge_cli("rpc").status == 2
    assert bridge_cli("rpc", "--stdio", "--role", "agent").status == 2
    assert bridge_cli("rpc", "--stdio", "--role", "agent", "--session", "nope").status == 19
    session = bridge_cli("session", "new", "--json").ok().json()["id"]
    sent = lines(
        request(1, "sessions/list"), request(2, "sessions/context"), request(3, "sessions/context", session="x")
    )
    ran = bridge_cli("rpc", "--stdio", "--role", "agent", "--session", session, stdin=sent).ok()
    answers = [json.loads(line) for line in ran.stdout_bytes.splitlines()]
    first, second, third = sorted(answers, key=lambda one: one["id"])
    assert first["error"]["data"]["code"] == "method_not_found"
    assert second["result"]["session_id"] == session
    assert third["error"]["data"]["code"] == "session_not_found"
    watched = bridge_cli("rpc", "--stdio", "--role", "observer", stdin=lines(request(1, "sessions/new"))).ok()
    assert json.loads(watched.stdout)["error"]["data"]["details"]["reason"] == "not_permitted"
