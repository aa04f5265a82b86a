"""What a confined worker can and cannot do, with real processes, a real repository and its real git."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import anyio
import pytest

from bridge.control.delegations.delegating import Wanted, delegator_of, end_delegations
from bridge.control.delegations.model import Request
from bridge.control.delegations.preparing import lent_folder
from bridge.control.standpoint import Standpoint
from bridge.foundation.config import ConfinementMode
from bridge.git.process import run_git
from bridge.process import confinement

pytestmark = [
    pytest.mark.usefixtures("confined"),
    pytest.mark.skipif(confinement.available() is not None, reason="this kernel has no Landlock"),
]

#: Tries each line of shell and says which ended with status 0.
TRIES = """
import json, os, subprocess, sys
lines = json.loads(os.environ["LINES_TO_TRY"])
done = {line: subprocess.run(["sh", "-c", line], capture_output=True).returncode == 0 for line in lines}
hand_in(data=done)
"""


def tried(world, lines, name="w", **keys):
    """Run lines of shell in a worker and return which succeeded."""
    text = world.worker(name, TRIES, environment={"LINES_TO_TRY": json.dumps(lines)}, **keys)
    world.run(text)
    result = world.result(name)
    assert result["status"] == "completed", result
    return result["data"]


def test_a_worker_writes_in_its_own_place_and_nowhere_else(world, tmp_path):
    main, home = world.repo.path, Path(os.environ["HOME"])
    world.run(world.shell("other", "echo kept > kept.txt"))
    other = world.worktree("other")
    allowed = [
        "echo new > new.txt && mkdir -p deep/er && mv new.txt deep/er/",
        'echo x > "$TMPDIR/x" && test "$BRIDGE_WORKTREE" = "$PWD"',
        "echo x > /dev/null",
        f"cat {main}/a.txt {home}/.gitconfig",
        f"{json.dumps(sys.executable)} -c 'import multiprocessing; multiprocessing.Lock()'",
    ]
    refused = [
        f"echo x > {main}/a.txt",
        f"echo x > {main}/new.txt",
        f"rm {main}/b.txt",
        f"git -C {main} config user.name x",
        "git config user.name x",
        f"echo x > {main}/.git/config",
        f"echo x > {main}/.git/hooks/pre-commit",
        f"echo x > {main}/.git/refs/heads/other",
        f"echo x > {main}/.git/HEAD",
        "git branch other",
        "git tag other",
        "git update-ref refs/heads/main HEAD~0 --create-reflog && git update-ref refs/heads/new HEAD",
        f"echo x > {other}/kept.txt",
        f"rm {other}/.git",
        f"echo x > {home}/.profile",
        f"echo x > {tmp_path}/elsewhere",
        f"echo x > {world.controller.settings.home}/bridge.db",
        f"rm -rf {world.controller.settings.home}/tasks/{world.task('other').id}",
        f"rm -rf {main}/.git/objects/*",
        f"kill -0 {os.getpid()}",
    ]
    before = sorted(
        (path, path.stat().st_mtime_ns) for path in (main / ".git").rglob("*") if "worktrees" not in str(path)
    )
    found = tried(world, allowed + refused)
    assert [line for line in allowed if not found[line]] == []
    assert [line for line in refused if found[line]] == []
    assert main.joinpath("a.txt").read_text() == "alpha\n"
    gone = [path for path, _ in before if not path.exists()]
    assert gone == []


WORK = """
def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout
pathlib.Path("n.txt").write_text("one")
git("add", "-A"); git("commit", "-qm", "one")
pathlib.Path("n.txt").write_text("two")
git("commit", "-qa", "--amend", "-m", "two")
git("merge", "-q", "--no-edit", "side")
git("reset", "-q", "--hard", "HEAD~1")
git("rebase", "-q", "side")
assert "cherry" not in git("status"), git("status")
assert git("log", "--format=%s").split() == ["two", "side", "first"]
# A repository that a test makes has its objects to itself, and a tool without GIT_* works as well.
kept = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in kept}
own = pathlib.Path(os.environ["TMPDIR"], "own")
subprocess.run(["git", "init", "-q", str(own)], check=True)
subprocess.run("echo x > x && git add x && git commit -qm x", shell=True, cwd=own, env=clean, check=True)
assert any((own / ".git/objects").glob("??/*"))
pathlib.Path("m.txt").write_text("more")
subprocess.run("git add m.txt && git commit -qm more", shell=True, env=clean, check=True)
"""


def test_commit_amend_merge_and_rebase_work_and_their_commits_are_the_result(world):
    world.repo.git("switch", "-qc", "side")
    world.repo.commit("side", s_txt="side\n")
    world.repo.git("switch", "-q", "main")
    world.run(world.worker("w", WORK + "hand_in()"))
    result = world.result("w")
    assert (result["status"], result["files_changed"]) == ("completed", ["m.txt", "n.txt", "s.txt"]), result["summary"]
    assert result["risks"] == []
    commit = result["result_commit"]
    assert world.repo.git("log", "--format=%s", commit).split() == ["more", "two", "side", "first"]
    # Nothing is left of the lent folder, and nothing is missing without it.
    assert not lent_folder(world.controller, world.task("w").id).exists()
    assert not (world.repo.path / ".git/objects/info/alternates").exists()
    assert (world.repo.path / ".git/worktrees" / world.task("w").id / "commondir").read_text() == "../..\n"
    world.repo.git("fsck", "--strict", "--no-dangling")


DURING = """
pathlib.Path("n.txt").write_text("new")
subprocess.run("git add -A && git commit -qm new", shell=True, check=True)
pathlib.Path(os.environ["READY"]).touch()
wait_for(os.environ["GO"])
pathlib.Path("late.txt").write_text("late")
subprocess.run("git rev-parse main side && git add -A && git commit -qm late", shell=True, check=True)
hand_in()
"""


def test_the_users_git_works_while_a_worker_does_and_after(world, tmp_path):
    signs = tmp_path / "signs"
    signs.mkdir()
    world.repo.commit("signs", bridge_toml=f'[worker]\nwritable = ["{signs}"]\n')
    world.repo.git("branch", "side")
    ready, go = signs / "ready", signs / "go"
    said = []

    def use_git():
        try:
            for _ in range(3000):
                if ready.exists():
                    break
                threading.Event().wait(0.01)
            for words in (
                ("log", "--all", "--oneline"),
                ("fsck", "--strict", "--no-dangling"),
                ("gc", "-q", "--prune=now"),
                ("pack-refs", "--all"),
                ("worktree", "list"),
                ("status", "--porcelain"),
            ):
                said.append(world.repo.git(*words))
        finally:
            go.touch()

    user = threading.Thread(target=use_git)
    user.start()
    world.run(world.worker("w", DURING, environment={"READY": str(ready), "GO": str(go)}))
    user.join()
    assert len(said) == 6
    assert "new" in said[0]
    result = world.result("w")
    assert (result["status"], result["files_changed"]) == ("completed", ["late.txt", "n.txt"])
    world.repo.git("gc", "-q", "--prune=now")
    world.repo.git("fsck", "--strict")
    assert world.repo.git("show", f"{result['result_commit']}:late.txt") == "late"


def test_a_reader_writes_nothing_in_its_worktree(world):
    allowed = ["git status", "git log", 'echo x > "$TMPDIR/x"', "cat a.txt"]
    refused = [
        "echo x > new.txt",
        "echo x > a.txt",
        "rm a.txt",
        "git commit --allow-empty -m x",
        "mkdir d",
        "git add .",
    ]
    found = tried(world, allowed + refused, write="read_only")
    assert found == {**dict.fromkeys(allowed, True), **dict.fromkeys(refused, False)}
    assert world.result("w")["files_changed"] == []


def test_an_offline_worker_reaches_nothing(world):
    if confinement.landlock_abi() < confinement.NETWORK_ABI:
        pytest.skip("this kernel's Landlock knows no network")
    world.repo.commit("offline", bridge_toml='[worker]\nnetwork = "none"\n')
    line = f"{sys.executable} -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'"
    assert tried(world, [line]) == {line: False}


LISTENING = f"{sys.executable} -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'"


def single(world, line, **request):
    """Run a line of shell as a single delegation and return its result."""

    async def main():
        delegator = delegator_of(world.controller)
        asked = Request(name="w", objective="x", command=("/bin/sh", "-c", line), timeout_seconds=60.0, **request)
        wanted = Wanted(request=asked, session=world.session())
        with anyio.fail_after(100):
            found = await delegator.wait((await delegator.request(Standpoint(directory=world.repo.path), wanted)).id)
        await end_delegations(world.controller)
        return found

    anyio.run(main)
    return world.result("w")


@pytest.mark.skipif(
    confinement.landlock_abi() < confinement.NETWORK_ABI, reason="this kernel's Landlock knows no network"
)
@pytest.mark.parametrize(
    ("network", "policy", "status"),
    [
        (None, "", "completed"),
        (True, "", "completed"),
        (False, "", "failed"),
        (None, "[policy]\nnetwork = false\n", "failed"),
        (None, "[policy.roles.implementation]\nnetwork = false\n", "failed"),
        (None, "[policy.roles.other]\nnetwork = false\n", "completed"),
    ],
)
def test_the_network_is_kept_from_the_one_worker_it_is_to_be_kept_from(world, network, policy, status):
    world.repo.commit("policy", bridge_toml=policy)
    assert single(world, LISTENING, network=network)["status"] == status


def test_one_that_asks_for_the_network_where_the_checkout_keeps_it_from_all_is_not_started(world, tmp_path):
    world.repo.commit("offline", bridge_toml='[worker]\nnetwork = "none"\n')
    found = single(world, f"touch {tmp_path}/ran", network=True)
    assert (found["status"], found["failure_class"]) == ("failed", "confinement_refused")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("abi", [0, confinement.NETWORK_ABI - 1])
def test_where_the_network_cannot_be_kept_from_it_a_worker_that_must_not_have_it_is_not_started(
    world, monkeypatch, tmp_path, abi
):
    monkeypatch.setattr(confinement, "landlock_abi", lambda: abi)
    found = single(world, f"touch {tmp_path}/ran", network=False)
    assert (found["status"], found["failure_class"]) == ("failed", "confinement_refused")
    assert "network_unenforced" in found["summary"]
    assert not (tmp_path / "ran").exists()


def test_unconfined_a_worker_that_must_not_have_the_network_is_not_started(world):
    world.repo.commit("off", bridge_toml='[worker]\nconfinement = "off"\n')
    assert single(world, "true", network=False)["failure_class"] == "confinement_refused"


def test_switched_off_a_worker_may_write_anywhere_and_shares_the_repositorys_objects(world, tmp_path):
    world.repo.commit("off", bridge_toml='[worker]\nconfinement = "off"\n')
    world.run(world.shell("w", f"echo x > {tmp_path}/elsewhere && echo n > n && git add n && git commit -qm n"))
    assert world.result("w")["status"] == "completed"
    assert (tmp_path / "elsewhere").exists()


def test_a_persons_own_word_goes_before_the_checkouts(world, another_controller, tmp_path, monkeypatch):
    world.repo.commit("off", bridge_toml='[worker]\nconfinement = "off"\n')
    monkeypatch.setenv("BRIDGE_CONFINEMENT", "enforce")
    world.run(world.shell("w", f"echo x > {tmp_path}/elsewhere"), controller=another_controller())
    assert world.result("w")["status"] == "failed"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", list(ConfinementMode))
def test_where_the_kernel_cannot_it_is_said_or_refused(world, another_controller, monkeypatch, mode):
    monkeypatch.setattr(confinement, "landlock_abi", lambda: 0)
    monkeypatch.setenv("BRIDGE_CONFINEMENT", str(mode))
    world.run(world.shell("w", "echo n > n.txt"), controller=another_controller())
    result = world.result("w")
    notes = [entry.payload["text"] for entry in world.path(world.task("w").worker_session_id) if entry.kind == "note"]
    if mode is ConfinementMode.ENFORCE:
        assert (result["status"], result["failure_class"]) == ("failed", "confinement_refused")
        assert "landlock_unavailable" in result["summary"]
    else:
        assert result["status"] == "completed"
        assert any("landlock_unavailable" in note for note in notes) is (mode is ConfinementMode.AUTO)


def test_a_worker_that_turns_its_pointers_elsewhere_gains_nothing(world, tmp_path):
    # The git that looks at its work is not confined: with a configuration of its own the worker would run programs.
    body = """
common = subprocess.run(["git", "rev-parse", "--git-dir"], capture_output=True, text=True, check=True).stdout.strip()
subprocess.run(["git", "init", "-q", "evil"], check=True)
pathlib.Path("evil/.git/config").write_text(
    "[core]\\n\\trepositoryformatversion = 0\\n[filter \\"x\\"]\\n\\tclean = touch " + os.environ["MARK"] + "; cat\\n"
)
pathlib.Path(".gitattributes").write_text("* filter=x\\n")
pathlib.Path("a.txt").write_text("changed")
pathlib.Path(common, "commondir").write_text(os.path.abspath("evil/.git") + "\\n")
if os.environ["HOW"] == "both":
    os.unlink(".git")
    pathlib.Path(".git").write_text("gitdir: " + os.path.abspath("evil/.git") + "\\n")
hand_in()
"""
    mark = tmp_path / "ran"
    for how in ("commondir", "both"):
        world.run(world.worker(how, body, environment={"MARK": str(mark), "HOW": how}))
        assert not mark.exists()
    assert world.result("commondir")["status"] == "completed"
    assert "a.txt" in world.result("commondir")["files_changed"]
    kept = world.task("both")
    assert kept.kept_reason
    assert (world.worktree("both") / "a.txt").read_text() == "changed"


def test_objects_that_cannot_be_brought_over_stay_and_nothing_is_lost(world):
    # The worker damages its own objects: the result says what git shows, and the folder is not given up.
    line = (
        "echo n > n && git add n && git commit -qm n && b=$(git rev-parse HEAD:n)"
        ' && o=$(git rev-parse --git-common-dir)/objects && f="$o/$(echo $b | cut -c1-2)/$(echo $b | cut -c3-)"'
        ' && chmod u+w "$f" && echo rubbish > "$f" && echo other > other.txt'
    )
    world.run(world.shell("w", line))
    task = world.task("w")
    assert lent_folder(world.controller, task.id).exists()
    assert "delegation.objects_kept" in [kind for kind, _ in world.events(task.parent_session_id)]
    assert (world.worktree("w") / "other.txt").read_text() == "other\n"
    assert run_git(["log", "-1", "--format=%s"], cwd=world.worktree("w")).text == "n"
