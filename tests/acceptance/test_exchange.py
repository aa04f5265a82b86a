"""Export and import as a person types them: whole files or none, pipes, forms for people."""

from __future__ import annotations

import json
import os
import subprocess

import pytest


@pytest.fixture
def session(bridge_cli):
    started = bridge_cli("session", "new", "--label", "talk", "--json").ok().json()["id"]
    bridge_cli("append", started, "--kind", "user.message", "--text", "say\u2028it\u0085all").ok()
    return started


@pytest.fixture
def elsewhere(tmp_path):
    """The home of another store."""
    return {"BRIDGE_HOME": str(tmp_path / "another-home")}


def test_a_session_moves_to_another_store_and_back(bridge_cli, session, elsewhere):
    bridge_cli("export", session, "-o", "talk.jsonl").ok()
    written = (bridge_cli.directory / "talk.jsonl").read_bytes()
    planned = bridge_cli("import", "talk.jsonl", "--dry-run", "--json", environment=elsewhere).ok().json()
    assert (planned["dry_run"], planned["added"]) == (True, 2)
    assert bridge_cli("session", "show", session, environment=elsewhere).status == 46
    taken = bridge_cli("import", "talk.jsonl", environment=elsewhere).ok()
    assert taken.stdout == f"{session}: taken in, 2 entries added\n"
    assert bridge_cli("verify", environment=elsewhere).ok().stdout.startswith(session[-4:])
    assert (
        bridge_cli("export", session, environment=elsewhere).ok().stdout_bytes.split(b"\n")[1:]
        == written.split(b"\n")[1:]
    )
    again = bridge_cli("import", "-", stdin=written, environment=elsewhere).ok()
    assert again.stdout == f"{session}: all 2 entries are here already; nothing changes\n"
    bridge_cli("append", session, "--kind", "note", "--text", "grown", environment=elsewhere).ok()
    grown = bridge_cli("export", session, environment=elsewhere).ok().stdout_bytes
    home = bridge_cli("import", "-", "--json", stdin=grown).ok().json()
    assert [(one["status"], one["added"]) for one in home["sessions"]] == [("continued", 1)]
    bridge_cli("verify").ok()


def test_copies_that_went_apart_become_forks(bridge_cli, session, elsewhere):
    data = bridge_cli("export", session).ok().stdout_bytes
    bridge_cli("import", "-", stdin=data, environment=elsewhere).ok()
    for env in (elsewhere, {}):
        bridge_cli("append", session, "--kind", "note", "--text", f"in {len(env)}", environment=env).ok()
    data = bridge_cli("export", session).ok().stdout_bytes
    taken = bridge_cli("import", "-", "--json", stdin=data, environment=elsewhere).ok().json()["sessions"]
    (fork,) = (one["session_id"] for one in taken if one["status"] == "forked")
    assert "in 0" in bridge_cli("log", fork, environment=elsewhere).ok().stdout
    assert "in 0" not in bridge_cli("log", session, environment=elsewhere).ok().stdout


def test_damage_and_missing_files_are_typed_errors(bridge_cli, session, elsewhere):
    data = bridge_cli("export", session).ok().stdout_bytes
    broken = bridge_cli("import", "-", "--json", stdin=data.replace(b"say", b"sAy"), environment=elsewhere)
    assert (broken.status, broken.error()["code"]) == (125, "transcript_invalid")
    assert broken.error()["details"]["reason"] == "payload_altered"
    assert broken.error()["details"]["line"] == 3
    newer = bridge_cli("import", "-", "--json", stdin=data.replace(b'"format_version":1', b'"format_version":99'))
    assert (newer.status, newer.error()["details"]["found"]) == (249, 99)
    assert bridge_cli("import", "nowhere.jsonl", "--json").error()["code"] == "import_unreadable"


def test_a_file_is_replaced_only_when_asked_for_and_links_stay(bridge_cli, session):
    folder = bridge_cli.directory
    (folder / "real.html").write_text("old")
    (folder / "link.html").symlink_to("real.html")
    refused = bridge_cli("export", session, "--format", "html", "-o", "link.html", "--json")
    assert (refused.status, refused.error()["code"]) == (2, "usage")
    bridge_cli("export", session, "--format", "html", "-o", "link.html", "--force").ok()
    assert (folder / "link.html").is_symlink()
    assert (folder / "real.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in folder.iterdir() if "html" in path.name) == ["link.html", "real.html"]
    os.mkfifo(folder / "pipe")
    assert bridge_cli("export", session, "-o", "pipe", "--force").status == 2
    assert bridge_cli("export", session, "--force").status == 2
    (folder / "readonly").mkdir()
    assert bridge_cli("export", session, "-o", "no/such/folder", "--json").error()["code"] == "output_failed"


def test_forms_for_people(bridge_cli, session):
    text = bridge_cli("export", session, "--format", "markdown").ok().stdout
    assert "# Session" in text
    assert "> say⟨U+2028⟩it⟨U+0085⟩all" in text
    told = bridge_cli("export", session, "--format", "html", "--scope", "active", "-o", "x.html", "--json").ok().json()
    assert (told["entries"], told["format"], told["scope"]) == (1, "html", "active")


def test_a_reader_that_goes_away_ends_it_quietly(bridge_cli, session):
    payload = json.dumps({"text": "x" * 1_000_000})
    bridge_cli("append", session, "--kind", "note", "--payload", "-", stdin=payload.encode()).ok()
    for form in ("jsonl", "html", "markdown"):
        with subprocess.Popen(
            [*bridge_cli.command, "export", session, "--format", form],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=bridge_cli.directory,
            env=bridge_cli.environment(),
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            child.stdout.read(10)
            child.stdout.close()
            assert child.stderr.read() == b""
            assert child.wait(60) in {0, -13, 141}
