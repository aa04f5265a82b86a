"""History and completion of the chat's prompt."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from bridge.cli.chat import history
from bridge.cli.chat.completing import ChatCompleter
from bridge.cli.chat.history import PrivateHistory
from bridge.cli.chat.lines import VERBS


def test_the_history_is_private_masked_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "chats" / "history"
    kept = PrivateHistory(path)
    for line in ("hello", "two\nlines", "token ghp_" + "a1B2" * 9, "日本語"):
        kept.store_string(line)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(PrivateHistory(path).load_history_strings()) == [
        "日本語",
        "token [redacted:github-token]",
        "two\nlines",
        "hello",
    ]


def test_a_history_that_others_may_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("")
    path.chmod(0o644)
    PrivateHistory(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_behind_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "history").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        PrivateHistory(tmp_path / "history")


def test_a_history_beyond_the_limit_loses_its_older_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    kept = PrivateHistory(path)
    for number in range(100):
        kept.store_string(f"line {number}")
    monkeypatch.setattr(history, "MAX_BYTES", path.stat().st_size)
    assert len(list(PrivateHistory(path).load_history_strings())) == 100
    monkeypatch.setattr(history, "MAX_BYTES", path.stat().st_size - 1)
    found = list(PrivateHistory(path).load_history_strings())
    assert found[0] == "line 99"
    assert 40 <= len(found) <= 50


def completions(text: str) -> list[str]:
    completer = ChatCompleter(lambda: [("start", "9f3a.1"), ("9f3a.31", "user.message")])
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


def test_verbs_are_completed_and_entries_where_one_is_taken() -> None:
    assert completions("/b") == ["branches", "back"]
    assert completions("/") == list(VERBS)
    assert completions("/cd ") == ["start", "9f3a.31"]
    assert completions("/show 9f") == ["9f3a.31"]
    assert completions("/label name 9") == ["9f3a.31"]
    assert completions("/help tr") == ["tree"]


@pytest.mark.parametrize("text", ["", "hello", "//", "/cd\n", "/label ", "/cd a b", "/quit "])
def test_nothing_is_completed_elsewhere(text: str) -> None:
    assert completions(text) == []
