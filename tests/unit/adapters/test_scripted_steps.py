"""What the scripted agent can be told."""

from __future__ import annotations

import pytest

from bridge.adapters.errors import ScriptInvalid
from bridge.adapters.scripted.playing import Player
from bridge.adapters.scripted.sessions import SessionFolder
from bridge.adapters.scripted.steps import MAX_SCRIPT_BYTES, STEPS, directives, read_script


def test_directives_are_lines_of_their_own():
    found = directives("please\n!say hi there\n  !write a/b.txt one\\ntwo\n!nonsense x\n!edit f old => new\n!stall")
    assert [(step.name, step.value) for step in found] == [
        ("say", "hi there"),
        ("write", {"path": "a/b.txt", "text": "one\ntwo\n"}),
        ("edit", {"path": "f", "old": "old", "new": "new"}),
        ("stall", True),
    ]
    assert directives("!!say no\nsay no") == ()


def test_every_step_can_be_played():
    assert all(hasattr(Player, f"_do_{name}") for name in STEPS)


def test_a_script_in_either_form(tmp_path):
    (tmp_path / "a.toml").write_text('[[turn]]\nmatch = "x"\nrepeat = true\n[[turn.step]]\nsay = "hi"\npieces = 2\n')
    (tmp_path / "a.json").write_text('{"turn": [{"match": "x", "repeat": true, "step": [{"say": "hi", "pieces": 2}]}]}')
    assert read_script(tmp_path / "a.toml") == read_script(tmp_path / "a.json")


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "turn = 3",
        "[[turn]]\nsteps = []",
        '[[turn]]\n[[turn.step]]\nshout = "x"',
        '[[turn]]\n[[turn.step]]\nsay = "x"\nthink = "y"',
        "[[turn]]\n[[turn.step]]\nsay = 3",
        '[[turn]]\n[[turn.step]]\nwrite = {path = "x"}',
        '[[turn]]\n[[turn.step]]\nsay = "x"\nvolume = 3',
    ],
)
def test_a_script_that_cannot_be_played_is_refused(tmp_path, text):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ScriptInvalid):
        read_script(tmp_path / "s.toml")


def test_a_script_at_the_limit_and_beyond(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("turn = []\n".rjust(MAX_SCRIPT_BYTES))
    assert read_script(path) == ()
    path.write_text("turn = []\n".rjust(MAX_SCRIPT_BYTES + 1))
    with pytest.raises(ScriptInvalid, match="more than"):
        read_script(path)
    with pytest.raises(ScriptInvalid):
        read_script(tmp_path / "missing.toml")


def test_sessions_are_numbered_and_found_again(tmp_path):
    folder = SessionFolder(tmp_path / "sessions")
    first, second = folder.new("/a"), folder.new("/b")
    assert (first.id, second.id) == ("scripted-000001", "scripted-000002")
    first.said.append(("user", "hi"))
    folder.save(first)
    assert SessionFolder(tmp_path / "sessions").load(first.id) == first
    assert folder.load("../scripted-000001") is None
    (tmp_path / "sessions" / "scripted-000002.json").write_text("{")
    assert folder.load(second.id) is None
    assert not SessionFolder(None).is_durable
