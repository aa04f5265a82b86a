"""What comparing two HEADs costs against ``git rev-list --count`` of the same two, as ratios in one run.

    python tests/benchmarks/history.py [--commits 60000] [--rounds 9]

Both start the same git in the same repository; runs alternate, medians and best runs are compared. Rows: 100 commits
apart; both ends of the history; a branch of ten commits that left at the beginning; the same cut by its budget.
Nothing here asserts anything.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bridge.git.history import HeadRelation, head_relation
from bridge.git.repository import discover

SIDE_COMMITS = 10
SIDE_LEAVES_AT = 100


def commits(length: int) -> Iterator[bytes]:
    """Yield ``git fast-import`` input: ``main`` that changes one file, and a ``side`` that leaves early."""
    for number in range(length + SIDE_COMMITS):
        is_side = number >= length
        minute = number if not is_side else length // 2 + number - length
        branch, text = (b"side", b"side%d\n") if is_side else (b"main", b"main%d\n")
        body = text % number
        parent = number if number != length else SIDE_LEAVES_AT
        yield b"commit refs/heads/%b\nmark :%d\ncommitter B <b@localhost> %d +0000\ndata %d\n%b\n" % (
            branch,
            number + 1,
            1_600_000_000 + 60 * minute,
            len(body),
            body,
        )
        yield b"from :%d\n" % parent if number else b""
        yield b"M 100644 inline %b.txt\ndata %d\n%b\n" % (branch, len(body), body)


def build(root: Path, length: int) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=b"".join(commits(length)), check=True)


def commit_at(root: Path, name: str) -> str:
    return subprocess.run(
        ["git", "rev-parse", name], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


def measure(first: Callable[[], object], second: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for index, call in ((0, first), (1, second)) if number % 2 else ((1, second), (0, first)):
            started = time.perf_counter()
            call()
            if number:  # the first round warms both up
                times[index].append(time.perf_counter() - started)
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{'row':32} {'bridge':>9} {'git':>9} {'ratio':>6} {'best':>6}  answer")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repository"
        build(root, options.commits)
        location = discover(root)
        first, last = commit_at(root, f"main~{options.commits - 1}"), commit_at(root, "main")
        rows: list[tuple[str, str, str, float]] = [
            ("100 commits apart", commit_at(root, "main~100"), last, 5.0),
            ("both ends, forward", first, last, 5.0),
            ("both ends, back", last, first, 5.0),
            ("old branch of ten", commit_at(root, "side"), last, 5.0),
            ("both ends, cut by the budget", first, last, 0.0),
        ]
        for name, old, new, seconds in rows:

            def ours(old: str = old, new: str = new, seconds: float = seconds) -> HeadRelation:
                return head_relation(location, old, new, count_seconds=seconds)

            def theirs(old: str = old, new: str = new) -> object:
                command = ["git", "rev-list", "--count", "--left-right", f"{old}...{new}"]
                return subprocess.run(command, cwd=root, capture_output=True, check=True)

            mine, gits = measure(ours, theirs, options.rounds)
            ratio = statistics.median(mine) / statistics.median(gits)
            answer = ours()
            print(
                f"{name:32} {statistics.median(mine) * 1e3:7.0f}ms {statistics.median(gits) * 1e3:7.0f}ms {ratio:6.2f}"
                f" {min(mine) / min(gits):6.2f}  {answer.kind} +{answer.ahead} -{answer.behind} cut={answer.is_cut}"
            )


if __name__ == "__main__":
    main()
