"""``bridge init --relink``, the hints that offer it, and ``bridge diff --patch``, as a person meets them."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def session(bridge_cli, repository):
    made = bridge_cli("session", "new", "--json", cwd=repository.path).ok().json()
    bridge_cli("append", made["id"], "--kind", "note", "--text", "x", cwd=repository.path).ok()
    return made


@pytest.fixture
def moved(repository, session, tmp_path):
    return repository.path.rename(tmp_path / "moved")


def test_a_moved_repository_is_offered_and_relinked(bridge_cli, session, moved):
    looked = bridge_cli("status", cwd=moved)
    assert looked.status == 0
    offered = f"bridge init --relink --workspace {session['workspace_id']}"
    assert "warning: this repository has the history of workspace" in looked.stderr
    assert offered in looked.stderr
    as_json = bridge_cli("status", "--json", cwd=moved)
    assert as_json.json() == []
    assert json.loads(as_json.stderr)["warning"]["code"] == "relink_offered"
    done = bridge_cli("init", "--relink", "--json", cwd=moved).ok().json()
    assert done["workspace_id"] == session["workspace_id"]
    assert done["relinked"] is True
    assert done["path"] == str(moved)
    assert done["shared_roots"]
    assert bridge_cli("status", "--check", cwd=moved).ok().stderr == ""
    again = bridge_cli("init", "--relink", "--workspace", session["workspace_id"], cwd=moved).ok()
    assert "stood here already" in again.stdout


def test_init_registers_and_offers(bridge_cli, session, moved):
    registered = bridge_cli("init", cwd=moved).ok()
    assert "(new)" in registered.stdout
    assert "bridge init --relink --workspace" in registered.stderr
    done = bridge_cli("init", "--relink", cwd=moved).ok()
    assert f"workspace   {session['workspace_id']} (relinked)" in done.stdout or "relinked" in done.stdout


def test_what_cannot_be_proven_is_refused(bridge_cli, repository, session, tmp_path):
    clone = tmp_path / "clone"
    repository.git("clone", "-q", str(repository.path), str(clone))
    refused = bridge_cli("init", "--relink", "--json", cwd=clone)
    assert refused.status == 74
    assert refused.error()["details"]["reason"] == "no_candidate"
    assert bridge_cli("init", "--relink", "--label", "x", cwd=clone).status == 2
    assert bridge_cli("init", "--workspace", "w1", cwd=clone).status == 2
    assert bridge_cli("status", cwd=clone).ok().stderr.startswith("no open session")


def test_diff_shows_text(bridge_cli, repository, session):
    repository.write("a.txt", "alpha\nbeta\n")
    repository.write("new\x1b", "new\n")
    shown = bridge_cli("diff", "@", "--patch", cwd=repository.path).ok().stdout
    assert '--- "then/a.txt"\n+++ "now/a.txt"\n@@ -1 +1,2 @@\n alpha\n+beta\n' in shown
    assert '--- /dev/null\n+++ "now/new\\x1b"\n@@ -0,0 +1 @@\n+new\n' in shown
    one = bridge_cli("diff", "@", "a.txt", "--patch", "--json", cwd=repository.path).ok().json()
    assert [patch["path"] for patch in one["patches"]] == ["a.txt"]
    assert one["patches"][0]["hunks"][0]["lines"] == [" alpha", "+beta"]
    assert one["divergence"] == "diverged"
    assert bridge_cli("diff", "@", "a.txt", cwd=repository.path).status == 2


def test_a_word_that_is_no_mode_of_snapshots_is_refused(bridge_cli, bridge_home):
    bridge_home.mkdir()
    (bridge_home / "config.toml").write_text('snapshots = "all"\n')
    refused = bridge_cli("session", "list", "--json")
    assert refused.status == 5
    assert 'snapshots must be "off" or "dirty"' in refused.error()["message"]
