"""``bridge serve --http`` as a browser's program uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import contextmanager

import httpx


@contextmanager
def serving(bridge_cli, *words):
    """Run a controller in the foreground; give the facts that it prints when it answers."""
    with subprocess.Popen(
        [*bridge_cli.command, "serve", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=bridge_cli.directory,
        env=bridge_cli.environment(),
    ) as process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def door_of(facts, bridge_home):
    told = bridge_home / "run" / "http.json"
    deadline = time.monotonic() + 60
    while not told.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    door = json.loads(told.read_bytes())
    assert door["url"] == facts["http"]
    return door


def test_calls_over_http_and_the_end_of_the_door(bridge_cli, bridge_home):
    with serving(bridge_cli, "--http", "0") as (process, facts):
        assert facts["http"].startswith("http://127.0.0.1:")
        door = door_of(facts, bridge_home)
        headers = {"Authorization": f"Bearer {door['operator']}"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "sessions/new", "params": {"label": "web"}}
        with httpx.Client(base_url=door["url"], headers=headers, trust_env=False, timeout=60) as client:
            session = client.post("/rpc", json=call).json()["result"]["id"]
            assert client.post("/rpc", json=call, headers={"Authorization": "Bearer x"}).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert not (bridge_home / "run" / "http.json").exists()
    assert bridge_cli("session", "show", session, "--json").ok().json()["label"] == "web"


def test_it_does_not_end_while_a_page_is_connected(bridge_cli, bridge_home):
    with serving(bridge_cli, "--http", "127.0.0.1:0", "--idle-timeout", "6") as (process, facts):
        door = door_of(facts, bridge_home)
        headers = {"Authorization": f"Bearer {door['observer']}"}
        with (
            httpx.Client(base_url=door["url"], headers=headers, trust_env=False, timeout=60) as client,
            client.stream("GET", "/events") as stream,
        ):
            lines = stream.iter_lines()
            next(lines)
            time.sleep(9)
            assert process.poll() is None
        assert process.wait(timeout=60) == 0


def test_without_being_asked_no_port_is_opened(bridge_cli, bridge_home):
    with serving(bridge_cli) as (_, facts):
        assert "http" not in facts
        assert not (bridge_home / "run" / "http.json").exists()


def test_what_cannot_be_opened(bridge_cli):
    with serving(bridge_cli, "--http", "0") as (_, facts):
        port = facts["http"].rpartition(":")[2]
    for words, status in (
        (("--http", "x"), 2),
        (("--http", "70000"), 2),
        (("--http-name", "x"), 2),
        (("--http", "0", "--status"), 2),
        (("--http", "nowhere.invalid:0"), 212),
    ):
        assert bridge_cli("serve", *words).status == status, words
    # A failed start leaves no place taken.
    with serving(bridge_cli, "--http", port):
        pass
