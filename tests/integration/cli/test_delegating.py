"""``bridge delegate`` and what follows and steers its workers, with and without a resident controller."""

from __future__ import annotations

import json
import os
import sys
import threading

import pytest

from tests.serving import ROOT, resident, until

RESULT = '!result {"status": "completed", "summary": "done"}'


@pytest.fixture
def here(bridge, repository, monkeypatch):
    """The command line in a repository, where no controller runs."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    bridge.directory = repository.path
    return bridge


def test_one_task_in_this_process(here):
    done = here("delegate", "make", "a file", "--name", "one", "--run", "sh -c 'echo hi > new.txt; echo printed'").ok()
    assert done.stdout.startswith("one: completed\n")
    assert "changed new.txt" in done.stdout
    [task] = here.json("task", "list")
    assert (task["objective"], task["status"], task["adoption_status"]) == ("make a file", "completed", "pending")
    changes = here.json("task", "diff", "one", "--patch")
    assert changes["files"] == [{"status": "A", "path": "new.txt", "old_path": None, "additions": 1, "deletions": 0}]
    assert "+hi\n" in changes["patch"]
    assert here("task", "diff", "one").ok().stdout == "A  new.txt  +1 -0\n"
    said = here.json("task", "log", "one")
    assert [one["kind"] for one in said if "kind" in one][-1] == "worker.result"
    assert {"attempt": 1, "name": "stdout.log", "text": "printed\n"} in said
    followed = here("task", "log", "one", "--follow").ok().stdout
    assert "stdout.log| printed" in followed
    replayed = here.json("task", "show", "one", "--replay")
    assert replayed["same"] is True
    assert replayed["stored"]["outcome"] == "approved"


def test_a_worker_that_fails_is_status_one_and_can_be_tried_again(here, tmp_path):
    line = f"sh -c 'echo again >> tried.txt; test -e {tmp_path}/ready'"
    assert here("delegate", "x", "--name", "a", "--run", line).status == 1
    (tmp_path / "ready").touch()
    again = here.json("task", "retry", "a", "--feedback", "it is ready")
    assert (again["status"], again["result"]["files_changed"]) == ("completed", ["tried.txt"])
    assert "it is ready" in again["request"]["objective"]
    with open(here("task", "path", again["id"]).ok().stdout.strip() + "/tried.txt") as file:  # noqa: PTH123 - one line
        assert file.read() == "again\nagain\n"
    assert [task["adoption_status"] for task in here.json("task", "list")] == ["superseded", "pending"]


def test_a_decision_that_would_be_another_now_says_so(here, monkeypatch):
    here("delegate", "x", "--name", "a", "--run", "true").ok()
    from bridge.agents import policy

    monkeypatch.setattr(policy, "CHECKS", (lambda *_: policy._reject(policy.Reason.ROLE_UNKNOWN, "no"),))
    done = here("task", "show", "a", "--replay", "--json")
    assert done.status == 1
    assert done.json()["same"] is False


def test_policy_is_read_from_the_checkout_and_what_is_wrong_in_it_starts_nothing(here, repository):
    repository.commit("policy", **{"bridge.toml": "[policy]\nharnesses = ['codex']\n"})
    refused = here("delegate", "x", "--name", "a", "--run", "true", "--json")
    assert refused.status == 1
    assert refused.json()["decision"]["reason"] == "harness_not_allowed"
    assert here.json("task", "show", "a", "--replay")["same"] is True
    repository.commit("policy", **{"bridge.toml": "[policy]\nmax_runing = 1\n"})
    wrong = here("delegate", "x", "--name", "b", "--run", "true", "--json")
    assert wrong.error()["code"] == "invalid_configuration"
    assert "max_runing" in wrong.error()["message"]
    assert [task["name"] for task in here.json("task", "list")] == ["a"]


def test_a_refusal_that_is_not_policys_replays_policys_own_answer(here, repository):
    repository.write("loose.txt")
    here("delegate", "x", "--name", "a", "--run", "true", "--dirty", "ignore").ok()
    replayed = here.json("task", "show", "a", "--replay")
    assert replayed["same"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-",), "There is no text"),
        (("x", "--run", "'"), "no command line"),
        (("x", "--run", ""), "empty"),
        (("x", "--schema", "nowhere.json"), "cannot be used as a schema"),
    ],
)
def test_what_cannot_be_asked(here, words, message):
    done = here("delegate", *words, "--json")
    assert done.status == 2
    assert message in done.error()["message"]
    assert here.json("task", "list") == []


def test_without_a_controller_nothing_outlives_the_command(here):
    done = here("delegate", "x", "--run", "true", "--no-wait", "--json", environment={"BRIDGE_CONTROLLER": "off"})
    assert done.error()["code"] == "controller_needed"
    assert here.json("task", "list") == []


def test_nobody_to_tell_or_to_answer(here):
    here("delegate", "x", "--name", "a", "--run", "true").ok()
    assert here("task", "send", "a", "hello", "--json").error()["code"] == "task_already_ended"
    assert here("approve", "q12345", "--json").error()["code"] == "approval_not_found"
    assert here("task", "resume", "--all", "--json").error()["code"] == "quota_not_paused"
    assert here("task", "resume", "--json").status == 2
    assert here.json("approvals") == []


def test_a_worker_in_the_controller_is_followed_told_and_answered(here, repository, bridge_home, tmp_path):
    """What an operator does with a worker that outlives the command that asked for it."""
    repository.commit("policy", **{"bridge.toml": '[policy.approvals]\ndefault = "ask"\n'})
    gate = tmp_path / "gate"
    script = f"!run sh -c 'echo part > part.txt; while [ ! -e {gate} ]; do sleep 0.05; done'"
    environment = {**os.environ, "BRIDGE_HOME": str(bridge_home), "PYTHONPATH": str(ROOT)}
    auto = {"BRIDGE_CONTROLLER": "auto"}
    with resident(environment):
        asked = here.json("delegate", script, "--name", "a", "--harness", "scripted", "--no-wait", environment=auto)
        assert not asked["ended"] if "ended" in asked else asked["status"] == "queued"
        until(lambda: here.json("task", "diff", "a")["files"] if _is_running(here) else None)
        here("task", "send", "a", "!ask more\n" + RESULT).ok()
        followed = []
        follower = threading.Thread(target=lambda: followed.append(_follow(environment, repository.path)))
        follower.start()
        gate.touch()
        [approval] = until(lambda: here.json("approvals"))
        assert approval["title"] == "more"
        here("approve", approval["id"], "--reason", "fine").ok()
        follower.join(60)
        ended = until(lambda: _ended(here))
    assert ended["status"] == "completed"
    assert ended["result"]["files_changed"] == ["part.txt"]
    kinds = [one["kind"] for one in followed[0] if "kind" in one]
    assert kinds.count("user.message") == 2
    assert "approval.resolved" in kinds
    assert kinds[-1] == "worker.result"


def _is_running(here):
    return here.json("task", "show", "a")["status"] == "running"


def _ended(here):
    found = here.json("task", "show", "a")
    return found if found["finished_at"] is not None else None


def _follow(environment, directory):
    """Follow in a process of its own, as a person would beside the others."""
    import subprocess

    from tests.serving import MAIN

    done = subprocess.run(
        [sys.executable, "-c", MAIN, "task", "log", "a", "--follow", "--json"],
        env=environment,
        cwd=directory,
        capture_output=True,
        timeout=90,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
