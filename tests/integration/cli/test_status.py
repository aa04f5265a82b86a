"""Stamps through append and show, and divergence through status and diff."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def now(here) -> str:
    """The dirty hash of this moment, as status tells it."""
    (report,) = here.json("status")
    return report["dirty_hash"]["now"]


def by_path(report) -> dict[str, dict]:
    return {path["path"]: path for path in report["paths"]}


@pytest.fixture
def submodule(repository, tmp_path):
    """A submodule ``sub`` of the repository, committed."""
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "-b", "main", origin], check=True)
    (origin / "s.txt").write_text("s\n")
    subprocess.run(["git", "add", "-A"], cwd=origin, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "s"], cwd=origin, check=True)
    repository.git("submodule", "add", "-q", str(origin), "sub")
    repository.commit("with a submodule")
    return repository.path / "sub"


def edit_again(repository, _submodule):
    repository.write("a.txt", "edited twice\n")


def edit_untracked(repository, _submodule):
    repository.write("new.txt", "other\n")


def make_executable(repository, _submodule):
    (repository.path / "b.txt").chmod(0o755)


def retarget_link(repository, _submodule):
    (repository.path / "link").unlink()
    (repository.path / "link").symlink_to("b.txt")


def stage(repository, _submodule):
    repository.git("add", "a.txt")


def commit_in_submodule(_repository, submodule):
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "more"], cwd=submodule, check=True)


@pytest.mark.parametrize(
    "change", [edit_again, edit_untracked, make_executable, retarget_link, stage, commit_in_submodule]
)
def test_a_change_of_content_changes_the_dirty_hash(here, repository, submodule, session, say, change):
    repository.write("a.txt", "edited\n")
    repository.write("new.txt", "untracked\n")
    (repository.path / "link").symlink_to("a.txt")
    first = here.json("show", say(session, "before"))["stamp"]["dirty_hash"]
    assert here.json("status", session)["divergence"] == "aligned"
    change(repository, submodule)
    report = here.json("status", session)
    assert report["divergence"] == "diverged"
    assert report["dirty_hash"]["then"] == first
    second = here.json("show", say(session, "after"))["stamp"]["dirty_hash"]
    assert report["dirty_hash"]["now"] == second != first
    assert here("status", "--check").status == 0


def test_what_is_no_change_of_content_changes_nothing(here, repository, session, say, hermetic_environment):
    repository.write("a.txt", "edited\n")
    repository.write("new.txt", "untracked\n")
    first = here.json("show", say(session, "before"))["stamp"]
    os.utime(repository.path / "a.txt", (1, 1))
    os.utime(repository.path / "b.txt", (1, 1))
    config = hermetic_environment / ".gitconfig"
    config.write_text(
        config.read_text()
        + "[status]\n\trenames = copies\n\tshowUntrackedFiles = no\n\trelativePaths = true\n"
        + "[core]\n\tquotePath = false\n\tfsmonitor = /bin/false\n[color]\n\tui = always\n"
    )
    report = here.json("status", session, "--check")
    assert report["divergence"] == "aligned"
    second = here.json("show", say(session, "after"))["stamp"]
    assert second["state_digest"] == first["state_digest"]


def test_status_of_a_checkout_lists_its_open_sessions(here, repository, session, say):
    say(session, "one")
    other = here.json("session", "new", "--label", "other")["id"]
    assert here("status", "--check").status == 0
    repository.write("a.txt", "edited\n")
    reports = here.json("status")
    assert [(report["session_id"], report["divergence"]) for report in reports] == [
        (other, "diverged"),
        (session, "diverged"),
    ]
    checked = here("status", "--check")
    assert checked.status == 1
    assert len(checked.stdout.splitlines()) == 2
    say(session, "two")
    assert here("status", session, "--check").status == 0
    assert here("status", "--check").status == 1


def test_status_of_one_session_names_the_paths(here, repository, session, say):
    payload = b'{"tool_call_id":"1","name":"edit","paths_written":["a.txt"]}'
    here("append", session, "--kind", "tool.completed", "--payload", "-", stdin=payload).ok()
    repository.write("a.txt", "by somebody else\n")
    repository.write("c.txt", "new\n")
    text = here("status", "@").ok().stdout
    assert text.splitlines() == [
        "diverged: 2 paths changed since this conversation's last turn, 1 it had used",
        "paths: 1 uncommitted, 1 untracked",
        '  changed   "a.txt"  (clean -> modified, edited here)',
        '  appeared  "c.txt"  (absent -> untracked)',
    ]
    told = here("status", "--agent").ok().stdout
    assert told.startswith('1 file you read or edited changed after your last turn: "a.txt".')
    assert here.json("status", session, "--agent")["agent_text"] == told.rstrip("\n")


def test_outside_a_repository_a_checkout_has_no_status(bridge):
    assert bridge("status", "--json").error()["code"] == "not_a_repository"
    session = bridge.json("session", "new")["id"]
    report = bridge("status", session, "--check", "--json")
    assert report.status == 1
    assert (report.json()["divergence"], report.json()["reason"]) == ("unknown", "no_path")


def test_diff_compares_with_the_entry_that_is_named(here, repository, session, say):
    first = say(session, "one")
    repository.commit("second", a_txt="changed\n")
    say(session, "two")
    assert here.json("status", session)["divergence"] == "aligned"
    report = here.json("diff", first)
    assert (report["entry_id"], report["divergence"]) == (first, "diverged")
    assert by_path(report)["a.txt"]["committed"] is True
    text = here("diff", "1").ok().stdout
    head = repository.head()[:10]
    assert text.splitlines() == [
        f'diverged: HEAD moved forward by 1 commit, newest "second", 1 path changed since entry {session[-4:]}.1',
        "commits since:",
        f'  {head}  "second"',
        "paths: 1 committed",
        '  committed  "a.txt"  (clean -> clean, in a commit)',
    ]
    assert here("diff", "2").ok().stdout == (
        f'aligned: files are as they were at entry {session[-4:]}.2 ("main", {head})\n'
    )


def test_fc_44_the_current_folder_plays_no_part(here, repository, session, say, tmp_path):
    repository.commit("folders", fe__a="a\n", be__b="b\n")
    say(session, "before")
    repository.write("be/b", "changed\n")
    (tmp_path / "linked").symlink_to(repository.path)
    places = [repository.path, repository.path / "fe", repository.path / "be", tmp_path / "linked" / "fe"]
    reports = [here.json("status", cwd=place) for place in places]
    assert all(report == reports[0] for report in reports)
    assert list(by_path(reports[0][0])) == ["be/b"]
    hashes = {
        here.json("append", session, "--kind", "note", "--text", "x", cwd=place)["stamp"]["dirty_hash"]
        for place in places
    }
    assert hashes == {reports[0][0]["dirty_hash"]["now"]}


def test_fc_48_every_name_is_reported_once_and_reversibly(here, repository, session, say):
    repository.commit("x", x="moved content, long enough to be known again\n")
    say(session, "before")
    names = ["café ü.txt".encode(), b"a -> b.txt", b"new\nline.txt", b"odd\xff", b" lead and trail\r"]
    for name in names:
        Path(os.fsdecode(os.fsencode(repository.path) + b"/" + name)).write_bytes(name)
    repository.git("mv", "x", "y")
    report = here.json("status", session)
    found = by_path(report)
    assert set(found) == {"café ü.txt", "a -> b.txt", r'"new\nline.txt"', r'"odd\xff"', r'" lead and trail\r"', "y"}
    assert (found["y"]["change"], found["y"]["old_path"]) == ("renamed", "x")
    text = here("status", session).ok().stdout
    assert r'renamed   "x" -> "y"' in text
    assert r'"new\nline.txt"' in text


def test_fc_51_inherited_git_variables_mean_nothing(here, repository, session, say, tmp_path):
    other = tmp_path / "x"
    subprocess.run(["git", "init", "-q", "-b", "main", other], check=True)
    (other / "f").write_text("f\n")
    subprocess.run(["git", "add", "f"], cwd=other, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "x"], cwd=other, check=True)
    (other / "f").write_text("changed, so that the index would be refreshed\n")
    stamp = here.json("show", say(session, "before"))["stamp"]
    kept = {path: path.read_bytes() for path in (other / ".git").rglob("*") if path.is_file()}
    for folder in (str(other), os.path.relpath(other, repository.path)):
        inherited = {
            "GIT_DIR": f"{folder}/.git",
            "GIT_WORK_TREE": folder,
            "GIT_INDEX_FILE": f"{folder}/.git/index",
            "GIT_OBJECT_DIRECTORY": f"{folder}/.git/objects",
        }
        entry = here.json("append", session, "--kind", "note", "--text", "x", environment=inherited)
        assert entry["stamp"]["state_digest"] == stamp["state_digest"]
        assert here.json("status", session, environment=inherited)["divergence"] == "aligned"
        assert here.json("init", environment=inherited)["path"] == str(repository.path)
        assert here.json("diff", "1", environment=inherited)["divergence"] == "aligned"
    assert {path: path.read_bytes() for path in (other / ".git").rglob("*") if path.is_file()} == kept


def test_fc_52_a_repository_without_a_commit(bridge, tmp_path):
    young = tmp_path / "young"
    subprocess.run(["git", "init", "-q", "-b", "main", young], check=True)
    (young / "staged").write_text("s\n")
    (young / "untracked").write_text("u\n")
    subprocess.run(["git", "add", "staged"], cwd=young, check=True)
    assert bridge.json("init", young)["head"] == "unborn"
    session = bridge.json("session", "new", cwd=young)["id"]
    entry = bridge.json("append", session, "--kind", "note", "--text", "x", cwd=young)
    assert entry["stamp"]["head"] == "unborn"
    assert entry["stamp"]["ref"] == "refs/heads/main"
    assert bridge.json("status", session)["divergence"] == "aligned"
    (young / "untracked").write_text("edited\n")
    assert list(by_path(bridge.json("status", session))) == ["untracked"]
    subprocess.run(["git", "commit", "-q", "-m", "first"], cwd=young, check=True)
    report = bridge.json("status", session)
    assert (report["head"]["relation"], report["head"]["ahead"]) == ("ahead", 1)
    assert {path: change["change"] for path, change in by_path(report).items()} == {
        "staged": "committed",
        "untracked": "changed",
    }


def test_fc_54_changes_by_tools_shells_and_people_are_all_reported(here, repository, session, say):
    repository.commit("files", a="1\n", b="1\n", c="1\n")
    say(session, "e1")
    repository.write("a", "by a tool\n")
    repository.git("commit", "-q", "-am", "commit a")
    repository.write("b", "by a shell\n")
    (repository.path / "c").unlink()
    repository.write("d", "new\n")
    report = here.json("diff", "1")
    assert report["divergence"] == "diverged"
    assert [commit["subject"] for commit in report["head"]["commits"]] == ["commit a"]
    told = {path: (change["change"], change["after"], change["committed"]) for path, change in by_path(report).items()}
    assert told == {
        "a": ("committed", "clean", True),
        "b": ("changed", "modified", False),
        "c": ("vanished", "deleted", False),
        "d": ("appeared", "untracked", False),
    }
    assert {path: change["standing"] for path, change in by_path(report).items()} == {
        "a": "committed",
        "b": "uncommitted",
        "c": "uncommitted",
        "d": "untracked",
    }
