"""A worker's place, through the installed program and with the defaults of a first use."""

from __future__ import annotations

import json
import sys

#: Needs what the setup makes.
TEST = """
import json, unittest, calc

class Calc(unittest.TestCase):
    def test_add(self):
        with open("made/data.json") as file:
            known = json.load(file)
        assert calc.add(*known["terms"]) == known["sum"]
"""
MAKE = """
import json, os

os.mkdir("made")
with open("made/data.json", "w") as file:
    json.dump({"terms": [1, 2], "sum": 3}, file)
"""
PLAN = """
[[worker]]
id = "w"
objective = "run the tests, then write"
command = ["/bin/sh", "-c", "{line}"]
"""


def test_a_worker_runs_the_tests_of_the_project_from_its_first_minute(bridge_cli, repository, tmp_path, monkeypatch):
    monkeypatch.delenv("BRIDGE_CONFINEMENT")
    repository.write("calc.py", "def add(a, b):\n    return a + b\n")
    repository.write("test_calc.py", TEST)
    repository.write("make_data.py", MAKE)
    repository.write(".gitignore", "made/\n__pycache__/\nlocal.env\n")
    repository.write(".worktreeinclude", "local.env\n")
    setup = json.dumps([f"{sys.executable} make_data.py"])
    repository.write("bridge.toml", f'[worktree]\nsetup = {setup}\nports = ["PORT"]\n')
    repository.commit("a project")
    repository.write("local.env", "SECRET=1\n")
    line = f"{sys.executable} -m unittest -q test_calc && test -f local.env && test $PORT -gt 0 && echo ok > done.txt"
    (tmp_path / "plan.toml").write_text(PLAN.format(line=line))
    bridge_cli("init", cwd=repository.path).ok()
    bridge_cli("run", str(tmp_path / "plan.toml"), cwd=repository.path).ok()
    result = bridge_cli("result", "w", "--json", cwd=repository.path).ok().json()
    payload = result.get("payload", result)
    assert (payload["status"], payload["files_changed"]) == ("completed", ["done.txt"]), payload
    assert not (repository.path / "made").exists()
    bridge_cli("verify", cwd=repository.path).ok()
