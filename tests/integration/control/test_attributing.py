"""Whose turns paths changed in, through real stamps of real sessions in one checkout."""

from __future__ import annotations

import pytest

from bridge.control import attributing
from bridge.control.divergence import session_divergence
from bridge.control.observing import Observer
from bridge.control.recording import Recorder
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.git.repository import discover
from bridge.storage.store import Store
from bridge.workspaces.registration import register
from bridge.workspaces.store import save_state

MOMENT = "2026-01-02T03:04:05.000000Z"
PAYLOADS = {
    "user.message": {"text": "do it"},
    "assistant.message": {"text": "done"},
    "tool.completed": {"tool_call_id": "1", "name": "t"},
    "turn.started": {"turn_id": "t"},
    "turn.completed": {"turn_id": "t"},
    "note": {"text": "n"},
}


class Desk:
    """Sessions of one checkout that are stamped as they are recorded."""

    def __init__(self, store, repository):
        self.store, self.repository = store, repository
        self.recorder = Recorder(store, SystemClock())
        self.observer = Observer(SystemClock())
        location = discover(repository.path)
        self.workspace = store.write(lambda tx: register(tx, location, moment=MOMENT)).workspace

    def session(self):
        return self.recorder.create_session(NewSession(workspace_id=self.workspace.id)).id

    def say(self, session_id, kind, **values):
        seen = self.observer.stamp_session(self.store, self.workspace.id)
        draft = EntryDraft(kind=kind, payload=PAYLOADS[kind], **values)
        return self.recorder.append_now(
            session_id, draft, seen.stamp, first=lambda recording: save_state(recording.tx, seen, recording.moment)
        ).id

    def since(self, entry_id):
        session_id = entry_id.rpartition("-")[0]
        return session_divergence(self.store, self.observer, session_id, entry_id=entry_id).to_json()

    def told(self, entry_id):
        """What is told of each path: entries, sessions whose turn runs, and whether nobody's turn did."""
        return {
            path["path"]: (
                [one["entry_id"] for one in path["attributed_to"]],
                path["during_running_turns"],
                path["outside_turns"],
            )
            for path in self.since(entry_id)["paths"]
        }


@pytest.fixture
def desk(bridge_home, repository):
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as store:
        yield Desk(store, repository)


def test_a_turn_is_told_from_what_happened_between_turns(desk, repository):
    one = desk.session()
    start = desk.say(one, "user.message")
    repository.write("a.txt", "by the turn\n")
    tool = desk.say(one, "tool.completed")
    repository.write("new.txt", "by the turn\n")
    end = desk.say(one, "assistant.message")
    repository.write("b.txt", "by a person\n")
    desk.say(one, "user.message")
    repository.write("late.txt", "since the last stamp, of a turn that runs\n")
    assert desk.told(start) == {
        "a.txt": ([tool], [], False),
        "b.txt": ([], [], True),
        "late.txt": ([], [one], False),
        "new.txt": ([end], [], False),
    }
    assert desk.since(start)["attribution"]["is_complete"]
    assert desk.told(end) == {"b.txt": ([], [], True), "late.txt": ([], [one], False)}


def test_overlapping_turns_are_both_named(desk, repository):
    one, two = desk.session(), desk.session()
    start = desk.say(one, "user.message")
    desk.say(two, "user.message")
    repository.write("a.txt", "by either\n")
    first, second = desk.say(one, "assistant.message"), desk.say(two, "assistant.message")
    repository.write("b.txt", "by a person\n")
    assert desk.told(start) == {"a.txt": ([first, second], [], False), "b.txt": ([], [], True)}


def test_an_overlapping_turn_that_still_runs_is_named_beside(desk, repository):
    one, two = desk.session(), desk.session()
    start = desk.say(one, "turn.started")
    desk.say(two, "turn.started")
    repository.write("a.txt", "by either\n")
    first = desk.say(one, "turn.completed")
    assert desk.told(start) == {"a.txt": ([first], [two], False)}
    second = desk.say(two, "turn.completed")
    assert desk.told(start) == {"a.txt": ([first, second], [], False)}


def test_another_sessions_turn_after_the_own_one(desk, repository):
    one, two = desk.session(), desk.session()
    desk.say(one, "user.message")
    leaf = desk.say(one, "assistant.message")
    desk.say(two, "user.message")
    repository.write("a.txt", "by the other\n")
    other = desk.say(two, "tool.completed")
    assert desk.told(leaf) == {"a.txt": ([other], [], False)}


@pytest.fixture
def upstream(desk, repository, tmp_path):
    """Another clone whose commits the repository can pull."""
    repository.git("clone", "-q", repository.path, tmp_path / "upstream")
    repository.git("remote", "add", "origin", tmp_path / "upstream")
    other = type(repository)(tmp_path / "upstream")
    other.commit("upstream", b_txt="upstream\n", theirs_txt="theirs\n")
    return other


def pull(repository):
    repository.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main")


@pytest.mark.parametrize("kind", ["fast-forward", "merge"])
def test_a_pull_between_turns_is_nobodys(desk, repository, upstream, kind):
    if kind == "merge":
        repository.commit("own", own_txt="own\n")
    one = desk.session()
    start = desk.say(one, "user.message")
    repository.write("a.txt", "by the turn\n")
    end = desk.say(one, "assistant.message")
    pull(repository)
    desk.say(one, "user.message")
    desk.say(one, "assistant.message")
    nobody = ([], [], True)
    assert desk.told(start) == {"a.txt": ([end], [], False), "b.txt": nobody, "theirs.txt": nobody}
    assert desk.told(end) == {"b.txt": nobody, "theirs.txt": nobody}


def test_a_pull_inside_a_turn_came_with_older_commits(desk, repository, upstream, monkeypatch):
    one = desk.session()
    start = desk.say(one, "user.message")
    pull(repository)
    middle = desk.say(one, "tool.completed")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@4000000000 +0000")  # a commit of now, as far as git goes
    repository.commit("own", own_txt="own\n")
    end = desk.say(one, "assistant.message")
    told = {
        path["path"]: [(one["entry_id"], one["came_with_older_commits"]) for one in path["attributed_to"]]
        for path in desk.since(start)["paths"]
    }
    assert told == {"b.txt": [(middle, True)], "own.txt": [(end, False)], "theirs.txt": [(middle, True)]}


def test_an_edit_and_its_commit_in_two_turns_name_both(desk, repository):
    one = desk.session()
    start = desk.say(one, "user.message")
    repository.write("a.txt", "edited\n")
    edited = desk.say(one, "assistant.message")
    desk.say(one, "user.message")
    repository.commit("take it")
    committed = desk.say(one, "assistant.message")
    assert desk.told(start) == {"a.txt": ([edited, committed], [], False)}


def test_renames_count_under_both_names(desk, repository):
    repository.commit("long", long_txt="a text that is long enough to be known again\n" * 3)
    one = desk.session()
    start = desk.say(one, "user.message")
    repository.git("mv", "long.txt", "longer.txt")
    end = desk.say(one, "assistant.message")
    (path,) = desk.since(start)["paths"]
    assert (path["change"], [one["entry_id"] for one in path["attributed_to"]]) == ("renamed", [end])


def test_a_commit_that_is_gone_makes_it_incomplete(desk, repository):
    one = desk.session()
    start = desk.say(one, "user.message")
    repository.commit("lost", a_txt="lost\n")
    desk.say(one, "assistant.message")
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "-q", "--prune=now")
    repository.write("b.txt", "later\n")
    value = desk.since(start)
    assert value["attribution"]["is_complete"] is False


def test_another_worktrees_sessions_are_not_asked(desk, repository, tmp_path):
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    location = discover(tmp_path / "linked")
    linked = desk.store.write(lambda tx: register(tx, location, moment=MOMENT)).workspace
    other = desk.recorder.create_session(NewSession(workspace_id=linked.id)).id
    one = desk.session()
    start = desk.say(one, "user.message")
    desk.say(one, "assistant.message")
    desk.say(other, "user.message")
    repository.write("a.txt", "by a person\n")
    desk.say(other, "assistant.message")
    assert desk.told(start) == {"a.txt": ([], [], True)}


def busy(desk, repository, count):
    """Record one turn of ``count`` edits after its message; return its entries."""
    one = desk.session()
    entries = [desk.say(one, "user.message")]
    for number in range(count):
        repository.write(f"{number}.txt", "x\n")
        entries.append(desk.say(one, "tool.completed"))
    return entries


@pytest.mark.parametrize(
    ("limit", "left"), [("MAX_STEPS", 4), ("MAX_STEPS", 3), ("MAX_ENTRIES", 6), ("MAX_ENTRIES", 5)]
)
def test_budgets_leave_out_the_oldest_and_say_so(desk, repository, monkeypatch, limit, left):
    entries = busy(desk, repository, 4)
    # Four edits are four steps; the session has five entries and its root.
    monkeypatch.setattr(attributing, limit, left)
    value = desk.since(entries[0])
    assert value["attribution"]["is_complete"] == (left in {4, 6} or limit == "MAX_ENTRIES")
    if limit == "MAX_STEPS" and left == 3:
        assert [len(path["attributed_to"]) for path in value["paths"]] == [0, 1, 1, 1]


def test_budgets_of_rows_moves_sessions_and_time(desk, repository, monkeypatch):
    entries = busy(desk, repository, 3)
    with monkeypatch.context() as patched:
        patched.setattr(attributing, "MAX_ROWS", 1)
        assert not desk.since(entries[0])["attribution"]["is_complete"]
    with monkeypatch.context() as patched:
        patched.setattr(attributing, "ATTRIBUTION_SECONDS", 0.0)
        assert not desk.since(entries[0])["attribution"]["is_complete"]
    repository.commit("all")
    last = desk.say(entries[0].rpartition("-")[0], "assistant.message")
    assert [path["attributed_to"][-1]["entry_id"] for path in desk.since(entries[0])["paths"]] == [last] * 3
    with monkeypatch.context() as patched:
        patched.setattr(attributing, "MAX_HEAD_MOVES", 0)
        assert not desk.since(entries[0])["attribution"]["is_complete"]
    busy(desk, repository, 0)
    with monkeypatch.context() as patched:
        patched.setattr(attributing, "MAX_SESSIONS", 2)
        assert desk.since(entries[0])["attribution"]["is_complete"]
        patched.setattr(attributing, "MAX_SESSIONS", 1)
        assert not desk.since(entries[0])["attribution"]["is_complete"]


def test_the_stored_stamps_stay_byte_for_byte(desk, repository):
    entries = busy(desk, repository, 2)
    before = rows(desk.store)
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "all")
    repository.git("commit", "-q", "--amend", "-m", "all again")
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=all", "--all")
    repository.git("gc", "-q", "--prune=now")
    for entry in entries:
        desk.since(entry)
    assert rows(desk.store) == before


def rows(store):
    tables = ("sessions", "session_entries", "session_heads", "repository_states", "manifests", "manifest_pages")
    with store.read() as connection:
        return {
            table: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1, 2")]
            for table in tables
        }
