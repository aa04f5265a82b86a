"""``bridge import`` of other programs' transcripts, as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

from tests.serving import MAIN, ROOT
from tests.transcripts import chain, claude, lines, write


def test_a_transcript_is_taken_in_shown_and_written_again(bridge, tmp_path):
    path = write(tmp_path / "t.jsonl", *chain("u1", "a1"), claude("u2", "lost"))
    dry = bridge("import", path, "--dry-run")
    assert (dry.status, "would be taken in, 3 entries added" in dry.stdout) == (1, True)
    done = bridge("import", path)
    assert done.status == 1
    offset = len(lines(*chain("u1", "a1")))
    assert f"line 3, byte {offset}: dangling_reference: the parent lost is not here" in done.stdout
    told = bridge("import", path, "--json").ok().json()
    session = told["session_id"]
    assert (told["added"], told["format"], told["lines"], told["skipped"]) == (0, "claude-code", 3, 3)
    assert "(gap: lost, which came before, is not here) words of u2" in bridge("log", session).ok().stdout
    (link,) = bridge.json("show", f"{session.rsplit('-', 1)[-1]}.3")["links"]
    assert (link["relation"], link["key"], link["entry_id"]) == ("parent", "lost", None)
    assert "parent lost, which is not here" in bridge("show", f"{session.rsplit('-', 1)[-1]}.3").ok().stdout
    again = tmp_path / "again.jsonl"
    written = bridge("export", session, "--format", "raw", "--output", again, "--json").ok().json()
    assert (written["exact"], written["entries"]) == (True, 3)
    assert again.read_bytes() == path.read_bytes()
    assert bridge("export", bridge.json("session", "new")["id"], "--format", "raw", "--json").error()["code"] == (
        "no_raw_lines"
    )


def test_folders_are_gone_through_and_the_agents_own_are_found(bridge, tmp_path):
    home = tmp_path / "somebody"
    write(home / ".claude/projects/p/s.jsonl", *chain("u1", "a1"))
    write(home / ".pi/agent/sessions/x/y_p.jsonl", {"type": "session", "version": 9, "id": "p", "cwd": "/n"})
    found = bridge("import", "--discover", "--json", environment={"HOME": str(home)})
    assert found.status == 1
    told = found.json()
    assert (told["added"], told["sessions"], told["problems"]) == (2, 1, 1)
    assert told["files"][1]["findings"][0]["kind"] == "unsupported_transcript_version"
    again = bridge("import", home / ".claude", "--json-lines")
    events = [json.loads(line) for line in again.ok().stderr.splitlines()]
    assert [(event["event"], event["added"]) for event in events] == [("file", 0)]


def test_what_cannot_be_is_said(bridge, tmp_path):
    assert bridge("import").status == 2
    assert bridge("import", "x", "--discover").status == 2
    assert bridge("import", "-", "--watch").status == 2
    assert bridge("import", tmp_path, "--format", "nonsense", "--watch").status == 2
    assert bridge("import", tmp_path / "none", "--watch", "--json").error()["code"] == "import_unreadable"
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    assert bridge("import", tmp_path / "empty.jsonl", "--json").error()["code"] == "transcript_empty"
    (tmp_path / "x.jsonl").write_bytes(b'{"a":1}\n')
    named = bridge("import", tmp_path / "x.jsonl", "--format", "nonsense", "--json").error()
    assert (named["code"], "claude-code" in named["hint"]) == ("unknown_transcript_format", True)
    seen = bridge("import", tmp_path / "x.jsonl", "--json").error()
    assert seen["details"]["seen"] == "JSON lines with the keys a"


def test_raw_lines_stay_as_they_are_where_the_configuration_says_so(bridge, bridge_home, tmp_path):
    secret = "ghp_" + "a1B2" * 9
    path = write(tmp_path / "t.jsonl", claude("u1", None, text=secret))
    session = bridge("import", path, "--json").ok().json()["session_id"]
    exported = bridge("export", session, "--format", "raw")
    assert (secret in exported.stdout, "not as they were" in exported.stderr) == (False, True)
    (bridge_home / "config.toml").write_text('[import]\nraw = "unredacted"\n')
    bridge("import", path).ok()
    assert secret in bridge("export", session, "--format", "raw").ok().stdout


def test_watching_ends_on_a_signal_and_tells_what_it_did(tmp_path):
    path = write(tmp_path / "f" / "t.jsonl", *chain("u1"))
    environment = {**os.environ, "BRIDGE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", MAIN, "import", str(tmp_path / "f"), "--watch", "--json-lines"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert json.loads(child.stderr.readline())["added"] == 1
        with path.open("ab") as file:
            file.write(lines(*chain("u1", "a1")[1:]))
        assert json.loads(child.stderr.readline())["added"] == 2
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert json.loads(out)["added"] == 2
