"""The proxy: lines through, requests that are lost, handshakes repeated, nothing sent twice."""

from __future__ import annotations

import json
import os
import socket
import threading

import pytest

from bridge.cli import agentdoor
from bridge.control.access import tokens
from bridge.rpc import messages
from bridge.rpc.mcp import proxy
from bridge.rpc.mcp.proxy import Proxy, Unreachable


class Scene:
    """A proxy in a thread, its agent's pipes, and the controllers that it connected to."""

    def __init__(self, connects):
        self.peers, self.connects = [], list(connects)
        self.source, self.agent_in = os.pipe()
        self.agent_out, self.target = os.pipe()
        self.problem = "still running"
        self.connected = threading.Semaphore(0)
        self.thread = threading.Thread(target=self.run)
        self.answers = os.fdopen(self.agent_out, "rb")
        self.thread.start()

    def run(self):
        self.problem = Proxy(self.connect, source=self.source, target=self.target).run()
        os.close(self.target)

    def connect(self):
        outcome = self.connects.pop(0)
        if isinstance(outcome, dict):
            raise Unreachable(outcome)
        mine, theirs = socket.socketpair()
        theirs.settimeout(20)
        self.peers.append(theirs)
        self.connected.release()
        return mine, outcome

    def say(self, **message):
        os.write(self.agent_in, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def hear(self):
        return json.loads(self.answers.readline())

    def peer(self, number=0):
        assert self.connected.acquire(timeout=20)
        return self.peers[number], self.peers[number].makefile("rb")

    def end(self):
        if self.agent_in is not None:
            os.close(self.agent_in)
            self.agent_in = None
        self.thread.join(20)
        assert not self.thread.is_alive()
        for peer in self.peers:
            peer.close()
        self.answers.close()
        os.close(self.source)
        return self.problem


@pytest.fixture
def scene(request):
    found = Scene(getattr(request, "param", [b"", b"", b""]))
    yield found
    if found.thread.is_alive():
        found.end()


def test_lines_pass_as_they_are_in_both_directions(scene):
    peer, lines = scene.peer()
    scene.say(id=1, method="tools/list", params={"_meta": {"x": "é"}})
    assert json.loads(lines.readline())["params"] == {"_meta": {"x": "é"}}
    for piece in (
        b'{"jsonrpc":"2.0",',
        b'"method":"notifications/progress"}\n{"jsonrpc":"2.0","id":1,"re',
        b'sult":{}}\n',
    ):
        peer.sendall(piece)
    assert scene.hear()["method"] == "notifications/progress"
    assert scene.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    lines.close()
    assert scene.end() is None


def test_what_waits_is_lost_once_and_half_an_answer_is_not_passed_on(scene):
    peer, lines = scene.peer()
    scene.say(id=1, method="initialize", params={"clientInfo": {"name": "a"}})
    scene.say(method="notifications/initialized")
    first = json.loads(lines.readline())
    peer.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    assert scene.hear()["result"] == {}
    assert json.loads(lines.readline())["method"] == "notifications/initialized"
    for identity in (2, "2"):
        scene.say(id=identity, method="tools/call")
        lines.readline()
    peer.sendall(b'{"jsonrpc":"2.0","id":2,"resu')
    lines.close()
    peer.close()
    lost = [scene.hear(), scene.hear()]
    assert [one["id"] for one in lost] == [2, "2"]
    assert {one["error"]["data"]["code"] for one in lost} == {"controller_lost"}
    # A word without a question connects nobody; the next question does, with the handshake first, and only itself.
    scene.say(method="notifications/cancelled", params={"requestId": 2})
    scene.say(id=3, method="tools/call")
    peer, lines = scene.peer(1)
    repeated = json.loads(lines.readline())
    assert (repeated["method"], repeated["params"]) == ("initialize", first["params"])
    assert repeated["id"] not in (1, 2, 3)
    peer.sendall(json.dumps({"jsonrpc": "2.0", "id": repeated["id"], "result": {}}).encode() + b"\n")
    assert json.loads(lines.readline())["method"] == "notifications/initialized"
    assert json.loads(lines.readline())["id"] == 3
    peer.sendall(b'{"jsonrpc":"2.0","id":3,"result":{"x":1}}\n')
    assert scene.hear() == {"jsonrpc": "2.0", "id": 3, "result": {"x": 1}}
    lines.close()
    assert scene.end() is None


GONE = {"code": 224, "message": "gone", "data": {"code": "controller_unavailable"}}


@pytest.mark.parametrize("scene", [[GONE, GONE, GONE, b""]], indirect=True)
def test_who_cannot_be_reached_is_tried_once_for_each_request(scene):
    for identity in (1, 2):
        scene.say(id=identity, method="tools/list")
        assert scene.hear() == {"jsonrpc": "2.0", "id": identity, "error": GONE}
    scene.say(id=3, method="tools/list")
    peer, lines = scene.peer()
    assert json.loads(lines.readline())["id"] == 3
    peer.sendall(b'{"jsonrpc":"2.0","id":3,"result":{}}\n')
    assert scene.hear()["id"] == 3
    lines.close()
    assert scene.end() is None


@pytest.mark.parametrize("scene", [[GONE]], indirect=True)
def test_the_last_problem_is_told_at_the_end(scene):
    assert scene.end() == GONE


def test_the_end_of_the_input_waits_a_moment_for_answers(scene, monkeypatch):
    monkeypatch.setattr(proxy, "DRAIN_SECONDS", 20.0)
    peer, lines = scene.peer()
    scene.say(id=1, method="tools/list")
    os.close(scene.agent_in)
    scene.agent_in = None
    lines.readline()
    peer.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    assert scene.hear()["id"] == 1
    lines.close()
    scene.end()


@pytest.mark.parametrize("excess", [0, 1])
def test_the_longest_message_passes_and_one_byte_more_is_refused(scene, excess):
    _, lines = scene.peer()
    frame = len(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": ""}))
    message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": "x" * (proxy.MAX_MESSAGE_BYTES - frame + excess)}
    writer = threading.Thread(target=scene.say, kwargs=message)
    reader = threading.Thread(target=lambda: None if excess else found.append(lines.readline()))
    found = []
    writer.start()
    reader.start()
    writer.join(30)
    reader.join(30)
    if excess:
        assert scene.hear()["error"]["data"]["details"]["limit"] == proxy.MAX_MESSAGE_BYTES
    else:
        assert len(found[0]) == proxy.MAX_MESSAGE_BYTES + 1
    lines.close()
    scene.end()


def test_an_agent_that_does_not_listen_any_more_ends_it(scene):
    peer, lines = scene.peer()
    scene.answers.close()
    peer.sendall(b'{"jsonrpc":"2.0","method":"x"}\n')
    scene.thread.join(20)
    assert not scene.thread.is_alive()
    lines.close()
    os.close(scene.agent_in)
    os.close(scene.source)
    peer.close()


def test_what_is_written_twice_is_the_same():
    assert proxy.MAX_MESSAGE_BYTES == messages.MAX_MESSAGE_BYTES
    assert (agentdoor.TOKEN_VARIABLE, agentdoor.TOKEN_FILE_VARIABLE) == (
        tokens.TOKEN_VARIABLE,
        tokens.TOKEN_FILE_VARIABLE,
    )
    assert proxy.lost_error()["code"] == 224
