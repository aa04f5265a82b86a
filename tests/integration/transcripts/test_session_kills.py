"""A commit that ends at any of its system calls leaves the old generation or the new one, and the next one works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
WORK = Path(__file__).with_name("session_work.py")


def kill_at_every_call(tmp_path, make):
    plan = tmp_path / "plan.json"
    folder = tmp_path / "runs"
    folder.mkdir()
    plan.write_text(json.dumps({"module": str(WORK), "make": make, "look": "look", "folder": str(folder)}))
    done = subprocess.run(
        [sys.executable, str(TESTS / "killing.py"), str(plan)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(TESTS.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stops"] >= 2
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="ptrace as Linux has it")
@pytest.mark.parametrize(
    ("make", "before", "calls"),
    [
        ("creation", 0, 15),
        ("commit", 1, 25),
        ("second_commit_after_a_kill", 0, 25),
        ("commit_after_a_torn_tail", 1, 25),
    ],
)
def test_killed_at_every_system_call_the_file_is_one_generation(tmp_path, make, before, calls):
    found = kill_at_every_call(tmp_path, make)
    looks = found["found"]
    assert found["stops"] / 2 >= calls, "a commit has at least so many system calls"
    assert {look["generation"] for look in looks} <= {"whole", "none"}
    assert [look["after"] for look in looks if look["after"]] == []
    counts = [look["entries"] for look in looks]
    assert counts == sorted(counts), "once it is new it stays new"
    if make == "creation":
        assert (looks[0]["generation"], looks[-1]["generation"]) == ("none", "whole")
        assert {look["generation"] for look in looks} == {"none", "whole"}
    else:
        assert set(counts) == {before, before + 1}
        assert len({look["size"] for look in looks}) == 2
    if make == "commit_after_a_torn_tail":
        assert all(look["torn"] == (look["entries"] == before) for look in looks)
        assert all(look["kept"] == [True] for look in looks)
