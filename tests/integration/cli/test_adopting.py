"""``bridge task adopt`` as people type it: previews, several at once, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLAN = """
[[worker]]
id = "a"
objective = "do a"
command = ["/bin/sh", "-c", "echo 1 >> a.txt"]

[[worker]]
id = "b"
objective = "do b"
command = ["/bin/sh", "-c", "echo 2 > a.txt; echo 1 >> b.txt"]

[[worker]]
id = "c"
objective = "do c"
command = ["/bin/sh", "-c", "echo 1 >> c.txt"]
"""


def test_a_preview_then_several_at_once(bridge: Any, repository: Any, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    bridge("init", cwd=repository.path).ok()
    bridge("run", tmp_path / "plan.toml", cwd=repository.path).ok()
    seen = bridge("task", "adopt", "a", "b", "--dry-run", cwd=repository.path)
    assert seen.status == 1
    assert "conflict (with a): a.txt" in seen.stdout
    assert "would not be adopted" in seen.stdout
    assert (
        bridge("task", "adopt", "a", "c", "--dry-run", "--json", cwd=repository.path).ok().json()["is_adoptable"]
        is True
    )
    both = bridge("task", "adopt", "a", "b", "--json", cwd=repository.path)
    assert (both.status, both.error()["code"], both.error()["details"]["with_tasks"]) == (
        101,
        "adoption_conflict",
        ["a"],
    )
    assert bridge("task", "adopt", "a", "--squash", "--pick", cwd=repository.path).status == 2
    done = bridge("task", "adopt", "a", "c", "--check", "test -s c.txt", cwd=repository.path).ok()
    assert "a: adopted 1 file(s) into refs/heads/main" in done.stdout
    assert "check passed" in done.stdout
    assert "undo: test " in done.stdout
    listed = {
        task["name"]: task["adoption_status"] for task in bridge("task", "list", "--json", cwd=repository.path).json()
    }
    assert listed == {"a": "adopted", "b": "pending", "c": "adopted"}
    bridge("task", "discard", "b", cwd=repository.path).ok()
    tasks = json.loads(bridge("task", "list", "--json", cwd=repository.path).stdout)
    assert [task["kept_reason"] for task in tasks] == [None] * 3
    assert repository.git("worktree", "list").count("\n") == 1
