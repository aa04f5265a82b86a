"""A worktree that works: set up before the worker starts, with ports, variables and what another setup made."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from bridge.control.delegations import ports, setups
from bridge.control.delegations.model import DelegationStatus
from bridge.control.delegations.placesettings import WorktreeSettings
from bridge.control.delegations.ports import reserve_ports
from bridge.control.delegations.setupcache import MAX_KEPT, SetupCache
from bridge.control.delegations.tasks import request_cancel
from bridge.control.errors import NoFreePort
from bridge.git.repository import discover


def settle(world, **tables):
    """Commit a ``bridge.toml`` with these tables, and an ignore file for what setups make."""
    lines = []
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    world.repo.write(".gitignore", "made/\n__pycache__/\n.pytest_cache/\n*.local\nran\n")
    world.repo.write("bridge.toml", "\n".join(lines) + "\n")
    world.repo.write("lock", "1\n")
    world.repo.commit("settle")


def notes(world, name="w"):
    session = world.task(name).worker_session_id
    return "\n".join(entry.payload["text"] for entry in world.path(session) if entry.kind == "note")


def prepared(world, name="w"):
    events = world.events(world.task(name).parent_session_id)
    return [body for kind, body in events if kind == "delegation.place_prepared"]


def log_of(world, name="w"):
    return (world.controller.settings.tasks / world.task(name).id / "setup.log").read_text()


def test_a_worker_can_run_the_tests_of_its_project_at_once(world):
    world.repo.write("calc.py", "def add(a, b):\n    return a + b\n")
    test = "import unittest, settings_local, calc\nclass T(unittest.TestCase):\n"
    world.repo.write(
        "test_calc.py", test + "    def test(self):\n        assert calc.add(1, 2) == settings_local.THREE\n"
    )
    world.repo.write("make.sh", "mkdir -p made && echo THREE = 3 > made/settings_local.py\n")
    settle(world, worktree={"setup": ["sh make.sh"]})
    line = f"PYTHONPATH=made {sys.executable} -m unittest -q test_calc && echo done > result.txt"
    world.run(world.shell("w", line, owned_paths=["result.txt"]))
    result = world.result("w")
    assert (result["status"], result["files_changed"], result["risks"]) == ("completed", ["result.txt"], [])
    assert "$ sh make.sh" in log_of(world)
    assert "set up in" in notes(world)
    assert prepared(world)[0]["setup_lines"] == 1
    assert prepared(world)[0]["unignored"] == 0


def test_included_files_and_setup_come_before_the_worker_and_are_not_its_work(world):
    world.repo.write(".worktreeinclude", "*.local\n")
    settle(world, worktree={"setup": ["test -f secret.local && mkdir made && cp secret.local made/copy"]})
    world.repo.write("secret.local", "secret\n")
    world.run(world.shell("w", "cat made/copy && echo x > own.txt", owned_paths=["own.txt"]))
    assert (world.result("w")["status"], world.result("w")["files_changed"]) == ("completed", ["own.txt"])


def test_what_a_setup_changes_and_git_does_not_ignore_is_said(world):
    settle(world, worktree={"setup": ["echo x > visible.txt"]})
    world.run(world.shell("w", "true"))
    assert "visible.txt" in notes(world)
    assert prepared(world)[0]["unignored"] == 1


@pytest.mark.parametrize(
    ("line", "seconds", "why"),
    [("echo words; exit 3", 60, "exit status 3"), ("sleep 60", 0.3, "0.3 seconds are over")],
    ids=["fails", "takes too long"],
)
def test_a_setup_that_fails_ends_the_delegation_and_loses_nothing(world, line, seconds, why):
    settle(world, worktree={"setup": ["echo kept > kept.txt", line, "echo never"], "timeout_seconds": seconds})
    world.run(world.shell("w", "echo never > n.txt"))
    result = world.result("w")
    assert (result["status"], result["failure_class"]) == ("failed", "setup_failed")
    log = world.controller.settings.tasks / world.task("w").id / "setup.log"
    assert why in result["summary"]
    assert str(log) in result["summary"]
    assert "never" not in log.read_text().replace("$ echo never", "")
    assert world.details("w")["attempts"] == []
    assert why in notes(world)
    # What the first line made is in the worktree, which stays, and under the result's ref.
    assert (world.worktree("w") / "kept.txt").read_text() == "kept\n"


def test_a_setup_is_ended_when_the_task_is_cancelled(world, monkeypatch):
    settle(world, worktree={"setup": ["sleep 60"]})
    run_line = setups._run_line

    async def cancel_then_run(*words):
        request_cancel(world.controller, world.task("w"))
        return await run_line(*words)

    monkeypatch.setattr(setups, "_run_line", cancel_then_run)
    world.run(world.shell("w", "true"))
    assert world.task("w").status is DelegationStatus.CANCELLED


def test_a_file_of_settings_that_is_of_no_use_starts_nothing(world):
    settle(world, worktree={"setups": []})
    world.run(world.shell("w", "true"))
    result = world.result("w")
    assert (result["status"], result["failure_class"]) == ("failed", "invalid_configuration")
    assert "worktree.setups" in result["summary"]


def test_a_reader_is_set_up_as_well_and_a_shared_checkout_is_not(world):
    settle(world, worktree={"setup": ["mkdir made"]})
    world.run(world.shell("reader", "test -d made", write="read_only"))
    assert world.result("reader")["status"] == "completed"
    world.run(world.shell("shared", "test ! -e made", write="shared"))
    assert world.result("shared")["status"] == "completed"
    assert not (world.repo.path / "made").exists()


# What another setup made

CACHED = {
    "setup": ['echo ran >> ran; mkdir -p made/bin; echo "#!$PWD/made/x" > made/bin/tool; ln -s $PWD/lock made/link'],
    "always": ["echo always >> ran"],
    "cache": ["made"],
    "cache_key": ["lock"],
}
LOOK = "cat ran made/bin/tool; readlink made/link; pwd; test -e made/link"


def test_an_outcome_is_taken_over_until_the_lock_file_changes(world):
    settle(world, worktree=CACHED)
    for name in ("one", "two"):
        world.run(world.shell(name, LOOK))
    one, two = (world.result(name)["summary"].split("\n") for name in ("one", "two"))
    assert one[:2] == ["ran", "always"]
    assert two[0] == "always"
    # The path of the worktree it was made in is the other's by now.
    assert two[1:] == [f"#!{two[-1]}/made/x", f"{two[-1]}/lock", two[-1]]
    assert prepared(world, "one")[0]["is_kept"] is True
    assert prepared(world, "two")[0]["restored_files"] == 2
    world.repo.write("lock", "2\n")
    world.repo.commit("another lock")
    world.run(world.shell("three", LOOK))
    assert world.result("three")["summary"].startswith("ran\nalways")


def test_two_at_once_make_it_once(world):
    settle(world, worktree=CACHED)
    world.run(world.shell("one", LOOK) + world.shell("two", LOOK))
    firsts = sorted(world.result(name)["summary"].split("\n")[0] for name in ("one", "two"))
    assert firsts == ["always", "ran"]


def test_a_failed_setup_is_not_kept(world):
    settle(world, worktree={**CACHED, "setup": ["mkdir made; exit 1"]})
    world.run(world.shell("w", "true"))
    repository = discover(world.repo.path).repository_id[:12]
    assert {path.suffix for path in (world.controller.settings.setups / repository).iterdir()} == {".lock"}


def test_kept_outcomes_share_nothing_and_the_oldest_goes(tmp_path):
    settings = WorktreeSettings(setup=("x",), cache=("made", "gone"), cache_key=("lock",))
    cache = SetupCache(tmp_path / "kept", settings)
    for number in range(MAX_KEPT + 1):
        tree = tmp_path / f"tree{number}"
        (tree / "made").mkdir(parents=True)
        (tree / "made/file").write_text("as made")
        (tree / "made/file").chmod(0o444)
        (tree / "made").chmod(0o555)
        (tree / "lock").write_text(str(number))
        assert cache.keep(cache.key(tree), tree)
        assert not cache.keep(cache.key(tree), tree)
    last, first = tmp_path / f"tree{MAX_KEPT}", tmp_path / "tree0"
    assert cache.restore(cache.key(first), tmp_path / "none") is None
    (tmp_path / "new").mkdir()
    assert cache.restore(cache.key(last), tmp_path / "new") == 1
    copy = tmp_path / "new/made/file"
    assert (copy.stat().st_mode & 0o777, copy.stat().st_nlink) == (0o444, 1)
    copy.chmod(0o644)
    copy.write_text("changed")
    (tmp_path / "newer").mkdir()
    cache.restore(cache.key(last), tmp_path / "newer")
    assert (tmp_path / "newer/made/file").read_text() == "as made"
    # Where the commit has something in the place, nothing is put over it.
    assert cache.restore(cache.key(last), last) is None


# Ports


def test_workers_get_ports_of_their_own_and_others_get_them_afterwards(world):
    settle(world, worktree={"ports": ["PORT", "DB_PORT"]})
    world.run(world.shell("one", "echo $PORT $DB_PORT") + world.shell("two", "echo $PORT $DB_PORT"))
    given = [int(word) for name in ("one", "two") for word in world.result(name)["summary"].split()]
    assert len(set(given)) == 4
    assert all(ports.FIRST_PORT <= number <= ports.LAST_PORT for number in given)
    assert f"PORT={given[0]}" in notes(world, "one")


def test_a_port_is_held_until_it_is_given_back_and_none_is_that_is_used(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        with pytest.raises(NoFreePort):
            reserve_ports(tmp_path, ["A"], first=used, last=used)
    one = reserve_ports(tmp_path, ["A"], first=used, last=used)
    assert one.environment == {"A": str(used)}
    with pytest.raises(NoFreePort):
        reserve_ports(tmp_path, ["A"], first=used, last=used)
    one.release()
    one.release()
    reserve_ports(tmp_path, ["A"], first=used, last=used).release()


# What workers inherit


def test_a_worker_inherits_no_secrets_but_those_that_are_named(world, another_controller, monkeypatch):
    settle(world, worker={"environment": ["DEPLOY_*"]})
    for name in ("GITHUB_TOKEN", "DEPLOY_TOKEN", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "PLAIN"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("STORE", "postgresql://user:password@host/db")
    names = "_TOKEN=|_KEY=|_SOCK=|^PLAIN=|^STORE=|^BRIDGE_WORKTREE=|^PATH=|^HOME="
    world.run(world.shell("w", f"env | grep -E '{names}' | cut -d= -f1"), controller=another_controller())
    names = set(world.result("w")["summary"].split())
    assert {"DEPLOY_TOKEN", "OPENAI_API_KEY", "PLAIN", "BRIDGE_WORKTREE", "PATH", "HOME"} <= names
    assert names.isdisjoint({"GITHUB_TOKEN", "SSH_AUTH_SOCK", "STORE"})
