"""The environment of git, and the two parsers of plumbing output that need no repository."""

from __future__ import annotations

import pytest

from bridge.git.errors import GitFailed, GitMissing, GitTimedOut
from bridge.git.history import parse_raw_diff
from bridge.git.merging import parse_merge
from bridge.git.process import run_git, scrubbed, stream_git


def test_git_variables_are_dropped_but_for_those_that_name_configuration():
    found = scrubbed(
        {
            "PATH": "/bin",
            "HOME": "/home/me",
            "GIT_DIR": "/elsewhere",
            "GIT_CONFIG_COUNT": "1",
            "GIT_AUTHOR_NAME": "Me",
            "GIT_CONFIG_GLOBAL": "/home/me/git",
            "GIT_TERMINAL_PROMPT": "1",
        }
    )
    assert found == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "GIT_CONFIG_GLOBAL": "/home/me/git",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_MESSAGES": "C",
    }
    assert scrubbed({"GIT_AUTHOR_NAME": "Me"}, keep={"GIT_AUTHOR_NAME"})["GIT_AUTHOR_NAME"] == "Me"


def test_messages_are_english_and_the_character_set_stays():
    found = scrubbed({"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de:en", "LANG": "de_DE.UTF-8"})
    assert found["LC_MESSAGES"] == "C"
    assert found["LC_CTYPE"] == "de_DE.UTF-8"
    assert "LC_ALL" not in found
    assert "LANGUAGE" not in found


def test_a_failure_carries_status_and_words(tmp_path):
    with pytest.raises(GitFailed) as caught:
        run_git(["rev-parse", "HEAD"], cwd=tmp_path)
    assert caught.value.details["status"] == 128
    assert "not a git repository" in caught.value.details["stderr"]
    assert caught.value.message.startswith("git rev-parse in ")


def test_a_missing_folder_and_a_missing_git_are_told_apart(tmp_path, monkeypatch):
    with pytest.raises(GitFailed, match="could not be started"):
        run_git(["version"], cwd=tmp_path / "absent")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing):
        run_git(["version"], cwd=tmp_path)


def test_the_time_limit_ends_what_git_started_too(tmp_path):
    marker = tmp_path / "marker"
    alias = f"alias.slow=!trap '' TERM; (sleep 3; touch {marker}) & sleep 30"
    with pytest.raises(GitTimedOut) as caught:
        run_git(["-c", alias, "slow"], cwd=tmp_path, timeout_seconds=0.3)
    assert caught.value.details["timeout_seconds"] == 0.3
    assert not marker.exists()


def test_a_stream_ends_with_its_block(tmp_path):
    run_git(["init", "-q"], cwd=tmp_path)
    with stream_git(["-c", "alias.yes=!yes", "yes"], cwd=tmp_path, timeout_seconds=60) as lines:
        assert next(iter(lines)) == b"y\n"


def test_raw_diff_of_a_rename_and_a_change():
    ids = b"a" * 40 + b" " + b"b" * 40
    found = parse_raw_diff(b":100644 100755 " + ids + b" M\0x\ny\0:100644 100644 " + ids + b" R087\0old\0new\0")
    assert [(row.status, row.path, row.old_path, row.similarity) for row in found] == [
        ("M", b"x\ny", None, None),
        ("R", b"new", b"old", 87),
    ]
    assert parse_raw_diff(b"") == []
    with pytest.raises(ValueError, match="malformed"):
        parse_raw_diff(b"garbage\0")


def test_a_merge_output_with_conflicts_and_messages():
    output = (
        b"t" * 40 + b"\0"
        b"100644 " + b"a" * 40 + b" 1\tx\ty\0"
        b"100644 " + b"b" * 40 + b" 2\tx\ty\0"
        b"\0"
        b"2\0x\ty\0z\0CONFLICT (contents)\0CONFLICT (content): Merge conflict in x\n\0"
    )
    found = parse_merge(output, is_clean=False)
    assert found.tree == "t" * 40
    assert [(conflict.path, sorted(conflict.stages)) for conflict in found.conflicts] == [(b"x\ty", [1, 2])]
    assert [(message.kind, message.paths) for message in found.messages] == [("CONFLICT (contents)", (b"x\ty", b"z"))]
    assert parse_merge(b"t" * 40 + b"\0\0", is_clean=True).is_clean
    for damaged in (b"t\0\0", b"t\0" + b"100644 a 1\0\0"):
        with pytest.raises(ValueError):
            parse_merge(damaged, is_clean=False)
