"""A later semantic version is one module and one folder: proved by putting both into a copy of Bridge.

The made-up version 3 gives messages a language and has a kind of its own. Its Bridge reads what today's wrote, writes
its own contract, and refuses what lies before version 2; today's Bridge refuses what the later one wrote.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULE = """
from bridge.semantics.contracts import Kind
from bridge.semantics.versions import v2

KINDS = {
    **v2.KINDS,
    "user.message": Kind("user.message", ("text", "language"), is_conversational=True),
    "mood": Kind("mood", ("word",)),
}


def from_previous(kind, payload):
    return {**payload, "language": "unknown"} if kind == "user.message" else payload
"""


@pytest.fixture
def later(tmp_path, bridge_home, repository):
    """Runs the command line of the later Bridge."""
    copy = tmp_path / "later"
    for name in ("bridge", "schema"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "bridge" / "semantics" / "versions" / "v3.py").write_text(MODULE)
    semantic = copy / "schema" / "semantic"
    shutil.copytree(semantic / "v2", semantic / "v3")
    for file in (semantic / "v3").rglob("*.json"):
        file.write_text(file.read_text().replace("/semantic/v2/", "/semantic/v3/"))
    message = json.loads((semantic / "v3" / "user.message.json").read_text())
    message["required"] = ["text", "language"]
    message["properties"]["language"] = {"type": "string"}
    (semantic / "v3" / "user.message.json").write_text(json.dumps(message))
    mood = {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}
    (semantic / "v3" / "mood.json").write_text(json.dumps(mood))
    environment = {
        "PYTHONPATH": str(copy),
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "BRIDGE_HOME": str(bridge_home),
        "LC_ALL": "C.UTF-8",
    }

    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "bridge", *words, "--json"],
            cwd=repository.path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def answer(done: subprocess.CompletedProcess):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error(done: subprocess.CompletedProcess) -> dict:
    return json.loads(done.stderr.splitlines()[-1])["error"]


def test_one_module_and_one_folder_are_a_version(here, say, session, later, bridge_home):
    say(session, "from before")
    # It reads what today's Bridge wrote as its own contract would have it, and the stored bytes stay.
    assert json.dumps(answer(later("context", session))).count("from before") >= 1
    stored = answer(later("show", f"{session}-000001"))
    assert (stored["semantic_schema_version"], stored["payload"]) == (2, {"text": "from before"})
    # It writes and checks its own.
    assert error(later("append", session, "--kind", "user.message", "--text", "hi"))["code"] == "invalid_payload"
    done = later("append", session, "--kind", "note", "--text", "from after")
    assert answer(done)["semantic_schema_version"] == 3
    text = json.dumps(answer(later("context", session)))
    assert "from before" in text
    assert "from after" in text
    # Today's Bridge refuses the path, names entry and versions, and shows the row.
    refused = here("context", session, "--json").error()
    assert refused["code"] == "unsupported_semantic_version"
    assert refused["details"] == {"entry": f"{session}-000002", "found": 3, "supported": [1, 2]}
    assert here.json("show", f"{session}-000002")["readable"] is False
    # What lies before the version before is out of reach for the later one.
    with closing(sqlite3.connect(bridge_home / "bridge.db")) as connection:
        connection.execute("DROP TRIGGER session_entries_no_update")
        connection.execute(f"UPDATE session_entries SET semantic_schema_version = 1 WHERE id = '{session}-000001'")
        connection.commit()
    refused = error(later("context", session))
    assert refused["code"] == "unsupported_semantic_version"
    assert refused["details"] == {"entry": f"{session}-000001", "found": 1, "supported": [2, 3]}
    listed = answer(later("session", "list"))
    assert [one["unreadable"]["found"] for one in listed] == [[1]]


def test_the_new_kind_is_known(session, later, tmp_path):
    payload = tmp_path / "mood.json"
    payload.write_text('{"word": "good"}')
    made = answer(later("append", session, "--kind", "mood", "--payload", str(payload)))
    assert (made["kind"], made["semantic_schema_version"]) == ("mood", 3)
    payload.write_text("{}")
    refused = error(later("append", session, "--kind", "mood", "--payload", str(payload)))
    assert (refused["code"], refused["details"]["fields"][0]["path"]) == ("invalid_payload", "/word")
