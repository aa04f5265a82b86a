"""Lines from a descriptor: whole, bounded, and never waited for twice."""

from __future__ import annotations

import os

import anyio
import pytest

from bridge.rpc.stdio import LineReader, LineTooLong

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    open_ = [reading, writing]
    yield open_
    for descriptor in open_:
        os.close(descriptor)


def close_writing(pipe):
    os.close(pipe.pop())


async def every(reader):
    found = []
    while True:
        try:
            line = await reader.receive()
        except LineTooLong:
            found.append("too long")
            continue
        if line is None:
            return found
        found.append(line)


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\n", [b"a\r"]),
        (b"12345678\n123456789\nx\n", [b"12345678", "too long", b"x"]),
        (b"y" * 5000 + b"\nz\n", ["too long", b"z"]),
        (b"y" * 5000, ["too long"]),
        (b"12345678", [b"12345678"]),
        (b"123456789", ["too long"]),
    ],
)
async def test_lines_and_the_limit_at_its_edge(pipe, sent, lines):
    os.write(pipe[1], sent)
    close_writing(pipe)
    assert await every(LineReader(pipe[0], max_bytes=8)) == lines


async def test_a_line_may_come_in_pieces(pipe):
    reader = LineReader(pipe[0])

    async def write():
        for piece in (b"a", b"b\nc", b"\n"):
            os.write(pipe[1], piece)
            await anyio.sleep(0.01)
        close_writing(pipe)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        assert await every(reader) == [b"ab", b"c"]


async def test_a_plain_file_is_read_like_a_pipe(tmp_path):
    (tmp_path / "in").write_bytes(b"a\nb\n")
    descriptor = os.open(tmp_path / "in", os.O_RDONLY)
    try:
        assert await every(LineReader(descriptor)) == [b"a", b"b"]
    finally:
        os.close(descriptor)
