"""Import of a transcript of Claude Code against the standard ``json`` module over the same lines, in one run.

``python tests/benchmarks/importing.py [MEGABYTES [SCALE]]``: prints lines per second, the rate as a part of the
module's, and the peak of the memory. What tools give back is SCALE times as long, 1 unless given; ``2000 32`` shows
that memory does not grow with the file. The store is a file in a temporary folder.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from bridge.control.controller import Controller
from bridge.control.exchange.formats import take_in
from bridge.control.exchange.imported import ImportRequest
from bridge.control.exchange.sources import Source
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

WORDS = ("parser", "takes", "a", "comma", "after", "the", "last", "element", "and", "test", "naïve", "über", "日本語")
SESSION = "5a5a5a5a-0000-4000-8000-00000000beef"
#: Lines that are compared with json.loads at most: all of a large file would not fit into memory.
COMPARED_LINES = 20_000


def generate(path: Path, size: int, scale: int = 1) -> int:
    """Write a transcript of about so many bytes, what tools give back so many times as long; return its lines."""
    choose = random.Random(1)
    written = count = 0
    parent = None

    def words(least: int, most: int) -> str:
        return " ".join(choose.choices(WORDS, k=choose.randint(least, most)))

    with path.open("w", encoding="utf-8") as out:
        while written < size:
            number, step = divmod(count, 4)
            key = str(uuid.UUID(int=choose.getrandbits(128), version=4))
            usage = {"input_tokens": 4, "cache_creation_input_tokens": 1200, "cache_read_input_tokens": 31_000}
            usage = {**usage, "output_tokens": choose.randint(20, 900), "service_tier": "standard"}
            shell = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": "/home/somebody/project",
                "sessionId": SESSION,
                "version": "2.1.197",
                "gitBranch": "main",
                "uuid": key,
                "timestamp": f"2026-05-{1 + number % 28:02d}T10:{count % 60:02d}:00.{count % 1000:03d}Z",
            }
            reply = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
            if step == 0:
                line = {**shell, "type": "user", "message": {"role": "user", "content": words(5, 60)}}
            elif step == 1:
                content = [{"type": "text", "text": words(20, 200)}]
                message = {**reply, "content": content, "stop_reason": None, "usage": usage}
                line = {**shell, "type": "assistant", "requestId": f"req_{number}", "message": message}
            elif step == 2:
                call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": "src/a.py"}}
                message = {**reply, "content": [call], "stop_reason": "tool_use", "usage": usage}
                line = {**shell, "type": "assistant", "requestId": f"req_{number}", "message": message}
            else:
                text = words(100 * scale, 600 * scale)
                content = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}]
                file = {"filePath": "src/a.py", "content": text, "numLines": 40, "startLine": 1, "totalLines": 40}
                line = {**shell, "type": "user", "message": {"role": "user", "content": content}}
                line["toolUseResult"] = {"type": "text", "file": file}
            encoded = json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
            out.write(encoded)
            written += len(encoded.encode())
            parent, count = key, count + 1
    return count


def timed(work) -> tuple[float, float]:
    """Return how long something took, and how much of it the processors worked for this process."""
    begun = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def median_of(work, rounds: int = 5) -> tuple[float, float]:
    """Return the medians of what :func:`timed` says: what takes a moment is disturbed as a whole, or not at all."""
    times = [timed(work) for _ in range(rounds)]
    return statistics.median(time for time, _ in times), statistics.median(used for _, used in times)


def peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 50_000_000
    scale = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{SESSION}.jsonl"
        count = generate(path, size, scale)
        settings = load_settings({"BRIDGE_HOME": str(Path(folder) / "home")})
        with Controller(settings, clock=SystemClock(), environment=os.environ) as controller:
            started = peak_megabytes()
            importing = timed(lambda: take_in(controller, Source(path), ImportRequest()))
            peak = peak_megabytes()
            again = timed(lambda: take_in(controller, Source(path), ImportRequest()))
            store = sum(one.stat().st_size for one in (Path(folder) / "home").glob("bridge.db*"))
        with path.open("rb") as stream:
            lines = [line for line, _ in zip(stream, range(COMPARED_LINES), strict=False)]
        loading = median_of(lambda: [json.loads(line) and None for line in lines])
        rate, module = count / importing[0], len(lines) / loading[0]
        by_processor = (count / importing[1]) / (len(lines) / loading[1])
        print(f"{count} lines, {path.stat().st_size / 1e6:.0f} MB; store {store / 1e6:.0f} MB")
        print(
            f"import  {rate:8.0f}/s  json.loads {module:.0f}/s: {rate / module:.2f} of its rate, "
            f"{by_processor:.2f} by processor time"
        )
        print(f"again   {again[0]:.2f} s; peak {peak} MB, {started} before")


if __name__ == "__main__":
    main()
