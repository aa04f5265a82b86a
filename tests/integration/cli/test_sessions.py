"""Starting, listing and looking at sessions; what @ means where; registering checkouts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("database_url")


def bytes_below(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and link below a folder with its mode and content."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root, name)
            mode = path.lstat().st_mode
            content = os.fsencode(path.readlink()) if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
            found[str(path.relative_to(folder))] = (mode, content)
    return found


def test_init_writes_nothing_into_the_repository(here, repository):
    repository.write("a.txt", "changed\n")
    before = bytes_below(repository.path)
    first = here.json("init")
    assert bytes_below(repository.path) == before
    assert first["registered"] is True
    assert first["path"] == str(repository.path)
    assert first["head"] == repository.head()
    assert first["ref"] == "refs/heads/main"
    assert first["unknown"] is None


def test_init_again_is_the_same_workspace(here, repository):
    first = here.json("init")
    (repository.path / "folder").mkdir()
    again = here.json("init", "folder", "--label", "mine")
    assert (again["id"], again["registered"], again["label"]) == (first["id"], False, "mine")
    assert f"{first['id']} (registered before)" in here("init").ok().stdout


def test_init_needs_a_repository(bridge):
    refused = bridge("init", "--json")
    assert refused.error()["code"] == "not_a_repository"


def test_init_of_a_bare_repository_is_refused(bridge, tmp_path):
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "bare.git"], check=True)
    assert bridge("init", tmp_path / "bare.git", "--json").error()["code"] == "bare_repository"


def test_a_session_registers_its_checkout_and_says_so(here, repository):
    started = here("session", "new", "--label", "first").ok()
    assert started.stderr.startswith(f"registered {repository.path} as workspace w")
    session = started.stdout.strip()
    shown = here.json("session", "show", session)
    assert shown["label"] == "first"
    assert shown["workspace"]["path"] == str(repository.path)
    assert shown["active_entry_id"] == f"{session}-000000"
    assert shown["entries"] == 0
    assert "registered" not in here("session", "new").ok().stderr


def test_outside_a_repository_a_session_has_no_workspace(bridge):
    session = bridge.json("session", "new")
    assert session["workspace_id"] is None
    entry = bridge.json("append", session["id"], "--kind", "note", "--text", "hello")
    assert entry["stamp"]["unknown"] == "no_path"
    assert [found["id"] for found in bridge.json("session", "list")] == [session["id"]]


def test_no_workspace_can_be_asked_for_inside_one(here, bridge):
    loose = here.json("session", "new", "--no-workspace")
    assert loose["workspace_id"] is None
    assert here.json("session", "list") == []
    assert here("log", "--json").error()["code"] == "session_not_found"
    here("init").ok()
    assert here.json("session", "list") == []
    assert [found["id"] for found in bridge.json("session", "list")] == [loose["id"]]


def test_a_workspace_is_named_by_id_or_path(here, bridge, repository):
    workspace = here.json("init")["id"]
    for name in (workspace, str(repository.path)):
        assert bridge.json("session", "new", "--workspace", name)["workspace_id"] == workspace
    assert bridge("session", "new", "--workspace", "nowhere", "--json").error()["code"] == "workspace_not_found"


def test_options_that_exclude_each_other(here):
    for words in (
        ("session", "new", "--parent", "@", "--from", "@"),
        ("session", "new", "--workspace", ".", "--no-workspace"),
        ("session", "list", "--kind", "nonsense"),
    ):
        refused = here(*words, "--json")
        assert (refused.status, refused.error()["code"]) == (2, "usage")


def test_a_session_that_continues_another(here, session):
    child = here.json("session", "new", "--parent", session[-4:])
    assert (child["parent_session_id"], child["parent_relation"]) == (session, "continued")


def test_the_list_shows_this_workspace_and_no_workers(here, bridge, session):
    from bridge.control.controller import Controller
    from bridge.conversations.models import NewSession
    from bridge.foundation.clock import SystemClock
    from bridge.foundation.config import load_settings

    elsewhere = bridge.json("session", "new")["id"]
    workspace = here.json("session", "show", session)["workspace_id"]
    with Controller(load_settings(os.environ), clock=SystemClock(), environment={}) as controller:
        worker = controller.recorder.create_session(NewSession(kind="worker", workspace_id=workspace)).id

    def listed(*options: str) -> set[str]:
        return {found["id"] for found in here.json("session", "list", *options)}

    assert listed() == {session}
    assert listed("--kind", "worker") == {worker}
    assert listed("--kind", "worker", "--kind", "chat") == {session, worker}
    assert listed("--all") == {session, worker, elsewhere}
    assert listed("--all", "--kind", "chat") == {session, elsewhere}


def test_at_is_the_session_touched_last_in_this_workspace(here, bridge, session, say):
    other = here.json("session", "new")["id"]
    outside = bridge.json("session", "new")["id"]
    assert here.json("session", "show")["id"] == other
    say(session, "newest")
    assert here.json("session", "show", "@")["id"] == session
    assert bridge.json("session", "show", "@")["id"] == outside
    named = {"BRIDGE_SESSION": other[-4:]}
    assert here.json("session", "show", environment=named)["id"] == other
    assert (
        here("session", "show", "--json", environment={"BRIDGE_SESSION": "nope"}).error()["code"] == "session_not_found"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("log",),
        ("tree",),
        ("branches", "9f3a"),
        ("show", "9f3a.1"),
        ("context",),
        ("goto", "@", "1"),
        ("back",),
        ("label", "1", "name"),
        ("session", "show"),
        ("append", "@", "--kind", "note", "--text", "x"),
        ("status", "@"),
        ("diff", "@"),
    ],
)
@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.one_database("on a server the tests begin with a store")
def test_without_a_store_nothing_is_found_and_none_is_made(here, bridge_home, words):
    refused = here(*words, "--json")
    assert refused.error()["code"] == "session_not_found"
    assert not bridge_home.exists()


@pytest.mark.parametrize("database_kind", ["sqlite"], indirect=True)
@pytest.mark.one_database("on a server the tests begin with a store")
def test_without_a_store_lists_are_empty(here, bridge_home):
    assert here.json("session", "list") == []
    assert here.json("status", "--check") == []
    assert not bridge_home.exists()
