"""Finding chats with the installed command."""

from __future__ import annotations

import json
import sqlite3


def test_a_chat_is_found_and_the_index_built_anew(bridge_cli, repository, tmp_path):
    here = repository.path
    bridge_cli("init", cwd=here).ok()
    made = {}
    for label, text in (("Login trouble", "the login page breaks with POL-358"), ("Weather", "it rains on the roof")):
        session = bridge_cli("session", "new", "--label", label, "--json", cwd=here).ok().json()["id"]
        bridge_cli("append", session, "--kind", "user.message", "--text", text, cwd=here).ok()
        made[label] = session
    ran = bridge_cli("find", "POL-358 today", "--json", cwd=here).ok().json()
    assert [chat["session_id"] for chat in ran["chats"]] == [made["Login trouble"]]
    assert ran["confident"]
    assert ran["question"]["time"] == "today"
    assert "breaks" not in json.dumps(ran["chats"][0]["label"])
    assert "Login trouble" in bridge_cli("find", "login", cwd=here).ok().stdout
    nothing = bridge_cli("find", "login last year", cwd=here).ok()
    assert nothing.stdout == ""
    assert "looked only at the time of: last year" in nothing.stderr
    assert "give letters or digits" in bridge_cli("find", " * ", cwd=here).ok().stderr
    # What looks like an option and is none is a word, and words need no quotes of the shell.
    loose = bridge_cli("find", "login", "page", "-x", "--no-cache", "--json", cwd=here).ok().json()
    assert [chat["session_id"] for chat in loose["chats"]] == [made["Login trouble"]]
    assert loose["question"]["unseen"] == ["-x", "--no-cache"]
    hits = bridge_cli("recall", "breaks", "-x", "--session", made["Login trouble"], "--json", cwd=here).ok().json()
    assert (len(hits["hits"]), hits["relaxed"]) == (1, True)
    elsewhere = bridge_cli("find", "login", cwd=tmp_path).ok()
    assert (elsewhere.stdout, "--all" in elsewhere.stderr) == ("", True)
    assert bridge_cli("find", "login", "--all", "--json", cwd=tmp_path).ok().json()["chats"]
    done = bridge_cli("db", "reindex", "--json", cwd=here).ok().json()
    assert done == {"entries": 4, "sessions": 2}
    assert bridge_cli("find", "rains", "--json", cwd=here).ok().json()["chats"][0]["session_id"] == made["Weather"]


def test_fc_61_doctor_and_verify_say_that_an_index_lacks_what_is_recorded(bridge_cli, bridge_home, repository):
    here = repository.path
    bridge_cli("init", cwd=here).ok()
    session = bridge_cli("session", "new", "--json", cwd=here).ok().json()["id"]
    bridge_cli("append", session, "--kind", "user.message", "--text", "the needle", cwd=here).ok()
    assert bridge_cli("find", "needle", "--json", cwd=here).ok().json()["chats"]

    def told():
        checks = {one["name"]: one for one in bridge_cli("doctor", "--json", cwd=here).json()["checks"]}
        return checks["search_index"]["status"], bridge_cli("verify", "--json", cwd=here).json()["status"]

    assert told() == ("ok", "healthy")
    with sqlite3.connect(bridge_home / "bridge.db") as connection:
        connection.execute("UPDATE recall_documents SET sequence = 99 WHERE sequence = 1")
    connection.close()
    assert told() == ("warning", "faulty")
    assert "db reindex" in bridge_cli("doctor", cwd=here).stdout
    bridge_cli("db", "reindex", cwd=here).ok()
    assert told() == ("ok", "healthy")
    assert bridge_cli("verify", "--whole-index", "--only", "index", cwd=here).ok()
