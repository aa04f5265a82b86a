"""Divergence of recorded conversations: stamps from the store, files from the disk, order from the payloads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bridge.control.divergence import checkout_status, relative_paths, session_divergence
from bridge.control.observing import Observer
from bridge.control.recording import Recorder
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import FixedClock, SystemClock
from bridge.git.repository import discover
from bridge.semantics.stamps import UnknownReason
from bridge.storage.store import Store
from bridge.workspaces.divergence import Divergence, Side
from bridge.workspaces.registration import register
from bridge.workspaces.store import save_state

MOMENT = "2026-01-02T03:04:05.000000Z"


class Desk:
    """A store, a recorder and an observer: what a session needs to be recorded and stamped."""

    def __init__(self, store):
        self.store = store
        self.recorder = Recorder(store, FixedClock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))
        self.observer = Observer(SystemClock())

    def register(self, path):
        location = discover(path)
        return self.store.write(lambda tx: register(tx, location, moment=MOMENT)).workspace

    def session(self, workspace=None, **values):
        return self.recorder.create_session(
            NewSession(workspace_id=None if workspace is None else workspace.id, **values)
        )

    def append(self, session, kind="user.message", payload=None, workspace_id=None, **values):
        workspace_id = workspace_id or session.workspace_id
        seen = self.observer.stamp_session(self.store, workspace_id)
        draft = EntryDraft(kind=kind, payload=payload or {"text": "hello"}, **values)
        return self.recorder.append_now(
            session.id, draft, seen.stamp, first=lambda recording: save_state(recording.tx, seen, recording.moment)
        )

    def tool(self, session, **fields):
        return self.append(session, "tool.completed", {"tool_call_id": "1", "name": "t", **fields})

    def divergence(self, session, **options):
        return session_divergence(self.store, self.observer, session.id, **options)

    def status(self, path):
        return checkout_status(self.store, self.observer, path)


@pytest.fixture
def desk(bridge_home):
    with Store.open(f"sqlite:///{bridge_home / 'bridge.db'}") as store:
        yield Desk(store)


def ranks(found):
    return [(change.difference.path, change.rank.name) for change in found.report.changes]


def test_a_session_is_aligned_with_what_it_was_stamped_with(desk, repository):
    session = desk.session(desk.register(repository.path))
    repository.write("a.txt", "edited\n")
    entry = desk.append(session)
    found = desk.divergence(session)
    assert found.report.is_aligned
    assert found.entry.id == entry.id
    assert found.to_json()["divergence"] == "aligned"
    assert found.to_json()["active_entry_id"] == entry.id


def test_fc_54_what_the_conversation_used_comes_first(desk, repository):
    repository.commit("files", z="1\n", y="1\n", b="1\n", c="1\n")
    session = desk.session(desk.register(repository.path))
    desk.tool(session, paths_read=["y"])
    desk.tool(session, paths_written=["./z"], paths_read=["z"])
    for name in ("b", "y", "z"):
        repository.write(name, "2\n")
    repository.git("commit", "-q", "-m", "z", "z")
    found = desk.divergence(session)
    assert ranks(found) == [(b"z", "EDITED"), (b"y", "READ"), (b"b", "OTHER")]
    assert found.report.head.ahead == 1
    assert [path["used"] for path in found.to_json()["paths"]] == ["edited", "read", None]


def test_an_older_entry_can_be_compared(desk, repository):
    session = desk.session(desk.register(repository.path))
    first = desk.append(session)
    repository.write("a.txt", "edited\n")
    desk.append(session)
    assert desk.divergence(session).report.is_aligned
    found = desk.divergence(session, entry_id=first.id)
    assert ranks(found) == [(b"a.txt", "OTHER")]


def test_checkpoints_and_results_name_edited_files(desk, repository):
    session = desk.session(desk.register(repository.path))
    desk.append(
        session,
        "checkpoint",
        {"summary": "s", "decisions": [], "files_touched": ["a.txt", '"b\\x2etxt"'], "open_work": []},
    )
    repository.write("a.txt", "2\n")
    repository.write("b.txt", "2\n")
    assert ranks(desk.divergence(session)) == [(b"a.txt", "EDITED"), (b"b.txt", "EDITED")]


def test_only_the_active_path_counts_as_this_conversation(desk, repository):
    session = desk.session(desk.register(repository.path))
    start = desk.append(session)
    left = desk.tool(session, paths_written=["a.txt"])
    desk.recorder.move_head(session.id, start.id)
    desk.tool(session, paths_written=["b.txt"])
    repository.write("a.txt", "2\n")
    repository.write("b.txt", "2\n")
    assert ranks(desk.divergence(session)) == [(b"b.txt", "EDITED"), (b"a.txt", "OTHER")]
    assert ranks(desk.divergence(session, entry_id=left.id)) == [(b"a.txt", "EDITED"), (b"b.txt", "OTHER")]


def test_a_session_without_workspace_is_unknown(desk):
    session = desk.session()
    desk.append(session)
    found = desk.divergence(session)
    assert found.report.divergence is Divergence.UNKNOWN
    assert (found.report.unknown.reason, found.report.unknown.side) == (UnknownReason.NO_PATH, Side.THEN)


def test_an_unstamped_entry_is_unknown(desk, repository):
    session = desk.session(desk.register(repository.path))
    desk.recorder.append_now(session.id, EntryDraft(kind="note", payload={"text": "n"}))
    found = desk.divergence(session)
    assert found.report.unknown.reason is UnknownReason.UNSTAMPED


def test_a_folder_that_is_gone_is_unknown_now(desk, repository, tmp_path):
    session = desk.session(desk.register(repository.path))
    desk.append(session)
    repository.path.rename(tmp_path / "elsewhere")
    found = desk.divergence(session)
    assert (found.report.unknown.reason, found.report.unknown.side) == (UnknownReason.NO_PATH, Side.NOW)


def test_a_missing_state_is_unavailable(desk, repository):
    session = desk.session(desk.register(repository.path))
    seen = desk.observer.observe(repository.path)
    desk.recorder.append_now(session.id, EntryDraft(kind="note", payload={"text": "n"}), seen.stamp)
    found = desk.divergence(session)
    assert found.report.unknown.reason is UnknownReason.BASE_UNAVAILABLE


def test_an_unknown_session_is_a_typed_error(desk):
    with pytest.raises(SessionNotFound):
        session_divergence(desk.store, desk.observer, "20260102-030405-ffff")


def test_an_entry_of_another_version_leaves_the_report_standing(desk, repository):
    session = desk.session(desk.register(repository.path))
    entry = desk.tool(session, paths_written=["a.txt"])
    desk.tool(session, paths_written=["b.txt"])

    def age(tx):
        tx.connection.exec_driver_sql("DROP TRIGGER session_entries_no_update")
        tx.connection.exec_driver_sql(
            "UPDATE session_entries SET semantic_schema_version = 3 WHERE id = ?", (entry.id,)
        )

    desk.store.write(age)
    repository.write("a.txt", "2\n")
    repository.write("b.txt", "2\n")
    found = desk.divergence(session)
    assert ranks(found) == [(b"b.txt", "EDITED"), (b"a.txt", "OTHER")]
    assert found.problem.code == "unsupported_semantic_version"
    assert found.to_json()["problem"]["code"] == "unsupported_semantic_version"


def test_fc_44_the_status_of_a_checkout_covers_its_open_sessions_from_anywhere_in_it(desk, repository, tmp_path):
    repository.commit("folders", fe__a="1\n", be__b="1\n")
    workspace = desk.register(repository.path)
    elsewhere = desk.session()
    desk.append(elsewhere)
    first, second, done = (desk.session(workspace) for _ in range(3))
    hidden = desk.session(workspace, kind="hidden")
    for session in (first, second, done, hidden):
        desk.append(session)
    desk.tool(second, paths_read=["be/b"])
    desk.recorder.transact(lambda recording: recording.update_session(done.id, status="closed"))
    repository.write("be/b", "2\n")
    (tmp_path / "link").symlink_to(repository.path)
    for path in (repository.path, repository.path / "fe", tmp_path / "link" / "fe"):
        status = desk.status(path)
        assert status.workspace.id == workspace.id
        assert {found.session.id: ranks(found) for found in status.sessions} == {
            first.id: [(b"be/b", "OTHER")],
            second.id: [(b"be/b", "READ")],
        }
        assert not status.is_aligned


def test_the_status_of_a_folder_outside_any_repository(desk, tmp_path):
    status = desk.status(tmp_path)
    assert (status.workspace, status.sessions) == (None, ())
    assert status.observation.unknown is UnknownReason.NOT_A_REPOSITORY
    assert status.is_aligned


def test_the_status_of_a_linked_worktree_is_its_own(desk, repository, tmp_path):
    main = desk.session(desk.register(repository.path))
    repository.git("worktree", "add", "-q", "-b", "side", tmp_path / "side")
    side = desk.session(desk.register(tmp_path / "side"))
    desk.append(main)
    desk.append(side)
    assert [found.session.id for found in desk.status(tmp_path / "side").sessions] == [side.id]
    assert [found.session.id for found in desk.status(repository.path).sessions] == [main.id]


@pytest.mark.parametrize(
    ("recorded", "path"),
    [
        ("a/b", b"a/b"),
        ("./a//b/", b"a/b"),
        ("/root/a", b"a"),
        ("/rooted/a", None),
        ("/root/../etc/passwd", None),
        ("../a", None),
        ("", None),
        ('"new\\nline"', b"new\nline"),
        ('"byte\\xff"', b"byte\xff"),
        ('"half', b'"half'),
    ],
)
def test_recorded_paths_become_relative_bytes(recorded, path, tmp_path):
    root = type(tmp_path)("/root")
    assert relative_paths([recorded], root) == (frozenset() if path is None else frozenset({path}))
