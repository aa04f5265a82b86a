"""Lines over a socket pair: limits, stalls, descriptors, peers that do not read."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.rpc.resident.wire import MAX_DESCRIPTORS, LineTooLong, PeerStalled, Wire


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def lines_of(wire: Wire) -> list[bytes | str]:
    found: list[bytes | str] = []
    while True:
        try:
            line = await wire.receive()
        except LineTooLong:
            found.append("too long")
            continue
        if line is None:
            return found
        found.append(line)


async def test_lines_come_one_by_one_and_what_has_no_end_is_none(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100)
    theirs.sendall(b"one\ntwo\n\nthree")
    theirs.close()
    assert await lines_of(wire) == [b"one", b"two", b""]
    wire.close()


@pytest.mark.parametrize(("size", "is_fit"), [(10, True), (11, False)])
async def test_the_longest_line(pair, size, is_fit):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=10)
    theirs.sendall(b"x" * size + b"\nnext\n")
    theirs.close()
    assert await lines_of(wire) == [b"x" * size if is_fit else "too long", b"next"]
    wire.close()


@given(st.lists(st.integers(0, 30), max_size=20), st.lists(st.integers(1, 40), min_size=1, max_size=10))
def test_how_bytes_are_cut_makes_no_difference(sizes, cuts):
    async def run() -> None:
        ours, theirs = socket.socketpair()
        wire = Wire(ours, max_bytes=12)
        data = b"".join(b"x" * size + b"\n" for size in sizes)
        reading = asyncio.get_running_loop().create_task(lines_of(wire))
        place, turn = 0, 0
        while place < len(data):
            step = cuts[turn % len(cuts)]
            theirs.sendall(data[place : place + step])
            place, turn = place + step, turn + 1
            await asyncio.sleep(0)
        theirs.close()
        assert await reading == [b"x" * size if size <= 12 else "too long" for size in sizes]
        wire.close()

    asyncio.run(run())


async def test_a_line_without_end_takes_no_memory(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=1000)

    def flood() -> None:
        for _ in range(400):
            theirs.sendall(b"x" * 65536)
        theirs.sendall(b"\nafter\n")

    flooding = asyncio.get_running_loop().run_in_executor(None, flood)
    with pytest.raises(LineTooLong):
        await wire.receive()
    assert await wire.receive() == b"after"
    await flooding
    assert len(wire._buffer) <= 1000
    wire.close()


async def test_half_a_line_has_to_be_finished_in_time(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100, line_seconds=0.05)
    theirs.sendall(b"half")
    with pytest.raises(PeerStalled):
        await asyncio.wait_for(wire.receive(), 5)
    wire.close()


async def test_silence_between_lines_may_last(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100, line_seconds=0.01)
    asyncio.get_running_loop().call_later(0.1, theirs.sendall, b"late\n")
    assert await wire.receive() == b"late"
    wire.close()


async def test_a_line_may_be_due(pair):
    ours, _ = pair
    wire = Wire(ours, max_bytes=100)
    with pytest.raises(PeerStalled):
        await wire.receive(within_seconds=0.02)
    wire.close()


async def test_descriptors_come_with_a_line_and_surplus_ones_are_closed(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100)
    reading, writing = os.pipe()
    for _ in range(2):
        rights = array.array("i", [writing] * MAX_DESCRIPTORS)
        theirs.sendmsg([b"line\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        assert await wire.receive() == b"line"
    os.close(writing)
    taken = wire.take_descriptors()
    assert len(taken) == MAX_DESCRIPTORS
    assert not any(os.get_inheritable(number) for number in taken)
    os.write(taken[0], b"through")
    for number in taken:
        os.close(number)
    # Nobody holds the writing end any more: the surplus ones were closed as well.
    assert os.read(reading, 100) == b"through"
    assert os.read(reading, 100) == b""
    os.close(reading)
    wire.close()


async def test_descriptors_that_nobody_took_are_closed_with_the_wire(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100)
    reading, writing = os.pipe()
    rights = array.array("i", [writing])
    theirs.sendmsg([b"line\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.close(writing)
    await wire.receive()
    wire.close()
    assert os.read(reading, 1) == b""
    os.close(reading)


async def test_a_peer_that_does_not_read_is_given_up(pair):
    ours, _ = pair
    wire = Wire(ours, max_bytes=100, send_seconds=0.05)
    with pytest.raises(TimeoutError):
        await wire.send(b"x" * 10_000_000)
    with pytest.raises(BrokenPipeError):
        await wire.send(b"more")


async def test_a_large_line_arrives_whole(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100)
    data = os.urandom(3_000_000).replace(b"\n", b"x")

    def read() -> bytes:
        found = bytearray()
        while not found.endswith(b"\n"):
            found += theirs.recv(65536)
        return bytes(found)

    reading = asyncio.get_running_loop().run_in_executor(None, read)
    await wire.send(data)
    assert await reading == data + b"\n"
    wire.close()


async def test_a_peer_that_has_gone_is_noticed_before_it_is_read(pair):
    ours, theirs = pair
    wire = Wire(ours, max_bytes=100)
    assert not wire.has_gone()
    assert not wire.is_cut()
    theirs.shutdown(socket.SHUT_WR)
    assert wire.has_gone()
    assert not wire.is_cut()
    theirs.close()
    assert wire.is_cut()
    wire.close()
    wire.close()
    assert await wire.receive() is None
