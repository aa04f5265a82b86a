"""``bridge export --format session-file`` and ``bridge import`` of one, as a person uses them."""

from __future__ import annotations

from bridge.transcripts.sessionfile import SessionFile, SessionTree


def test_a_session_goes_out_is_gone_on_with_and_comes_back(bridge, tmp_path):
    session = bridge.json("session", "new")["id"]
    bridge("append", session, "--kind", "user.message", "--text", "hello").ok()
    path = tmp_path / "talk.jsonl"
    bridge("export", session, "--format", "session-file", "--output", path).ok()
    tree = SessionTree(SessionFile.load(path))
    assert [message["content"] for message in tree.active_messages] == ["hello"]
    tree.append({"role": "assistant", "content": "hi"})
    done = bridge("import", path, "--json").ok().json()
    assert (done["added"], done["sessions"][0]["status"]) == (2, "created")
    assert bridge("import", path, "--json").ok().json()["added"] == 0
    assert "hi" in bridge("log", done["session_id"]).ok().stdout


def test_a_damaged_one_is_refused_with_its_constant(bridge, tmp_path):
    path = tmp_path / "talk.jsonl"
    file = SessionFile.create(path)
    file.append(None, {"role": "user", "content": "x"})
    path.write_bytes(path.read_bytes() + b"not-json\n")
    refused = bridge("import", path, "--json")
    assert refused.status == 251
    error = refused.error()
    assert (error["code"], error["details"]["constant"]) == ("session_invalid_json", "SESSION_INVALID_JSON")
    assert error["details"]["line"] == 3
