"""A repository that was moved or cloned anew: proven, relinked, and its old stamps compared as before."""

from __future__ import annotations

import os
import shutil

import pytest

from bridge.control.comparing import status_here, status_of, text_difference_to
from bridge.control.contents.restoring import restore_files
from bridge.control.controller import Controller
from bridge.control.relinking import relink_candidates, relink_workspace
from bridge.control.sessions import AppendRequest, SessionRequest, append_entry, initialise, start_session
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.repository import discover
from bridge.git.roots import root_commits
from bridge.integrity.chain import verify_chain
from bridge.integrity.verify import verify_session
from bridge.storage.tables import workspace_roots
from bridge.workspaces.errors import RelinkRefused
from bridge.workspaces.models import WorkspaceStatus
from bridge.workspaces.store import get_workspace, list_links, list_roots


class Desk:
    def __init__(self, controller, path):
        self.controller = controller
        self.path = path
        self.session = None

    def start(self, path=None):
        path = path or self.path
        self.session = start_session(self.controller, Standpoint(directory=path), SessionRequest()).session
        return self.session

    def append(self, path=None):
        request = AppendRequest(kind="note", text="hello")
        place = Standpoint(directory=path or self.path)
        return append_entry(self.controller, place, self.session.id, request).entry

    def status(self, session=None):
        return status_of(self.controller, Standpoint(), (session or self.session).id).report

    def workspace(self, session=None):
        with self.controller.store.read() as connection:
            return get_workspace(connection, (session or self.session).workspace_id)


@pytest.fixture
def desk(bridge_home, repository):
    bridge_home.mkdir()
    (bridge_home / "config.toml").write_text('snapshots = "dirty"\n')
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as controller:
        built = Desk(controller, repository.path)
        built.start()
        yield built


@pytest.fixture
def moved(tmp_path):
    return tmp_path / "moved" / "repository"


def move(desk, moved):
    moved.parent.mkdir()
    desk.path.rename(moved)
    return moved


def refused(run):
    with pytest.raises(RelinkRefused) as caught:
        run()
    return caught.value.details["reason"]


def test_a_moved_repository_is_relinked_and_its_stamps_compare(desk, repository, moved):
    repository.write("a.txt", "dirty\n")
    entry = desk.append()
    before = desk.workspace()
    move(desk, moved)
    assert str(desk.status().unknown.reason) == "no_path"
    assert [found.id for found in relink_candidates(desk.controller, moved)] == [before.id]
    done = relink_workspace(desk.controller, moved)
    assert done.workspace.id == before.id
    assert done.workspace.folder == moved
    assert done.proof.shared_roots == root_commits(discover(moved))
    report = desk.status()
    assert report.is_aligned, report
    assert report.then.state_digest != entry.state_digest, "compared under the new ids"
    (moved / "a.txt").write_text("again\n")
    assert [change.difference.path for change in desk.status().changes] == [b"a.txt"]
    assert relink_candidates(desk.controller, moved) == []


def test_old_stamps_are_not_edited_and_the_change_is_audited(desk, repository, moved):
    entry = desk.append()
    before = desk.workspace()
    move(desk, moved)
    relink_workspace(desk.controller, moved)
    with desk.controller.store.read() as connection:
        assert verify_session(connection, desk.session.id).is_valid
        chain = verify_chain(connection, before.id)
        (link,) = list_links(connection, before.id)
    assert chain.is_valid
    assert chain.checked == 2
    assert (link.old_repository_id, link.new_repository_id) == (
        before.repository_id,
        discover(moved).repository_id,
    )
    assert desk.status().then.head == repository_head(moved)
    assert entry.state_digest is not None


def repository_head(path):
    from bridge.git.process import run_git

    return run_git(["rev-parse", "HEAD"], cwd=path).text


def test_contents_that_were_kept_are_found_after_moving(desk, repository, moved, tmp_path):
    repository.write("a.txt", "dirty\n")
    entry = desk.append()
    move(desk, moved)
    (moved / "a.txt").write_text("now\n")
    relink_workspace(desk.controller, moved)
    made = restore_files(desk.controller, Standpoint(), entry.id, tmp_path / "restored").made
    assert made.missing == ()
    assert (tmp_path / "restored" / "a.txt").read_text() == "dirty\n"
    (patch,) = text_difference_to(desk.controller, Standpoint(), entry.id).patches
    assert [line.content for hunk in patch.patch.hunks for line in hunk.lines] == [b"dirty", b"now"]


def test_moved_twice(desk, moved, tmp_path):
    desk.append()
    move(desk, moved)
    relink_workspace(desk.controller, moved)
    second = tmp_path / "second"
    moved.rename(second)
    relink_workspace(desk.controller, second)
    assert desk.status().is_aligned
    with desk.controller.store.read() as connection:
        assert len(list_links(connection, desk.session.workspace_id)) == 2


def test_a_new_clone_is_known_by_its_root_commit(desk, repository, moved, tmp_path):
    repository.git("branch", "published")
    repository.commit("never pushed", c="c\n")
    desk.append()
    url = f"file://{repository.path}"
    repository.git("clone", "-q", "-b", "published", "--single-branch", url, str(moved))
    shutil.rmtree(repository.path)
    done = relink_workspace(desk.controller, moved)
    assert done.proof.stamped_head is None
    report = desk.status()
    assert str(report.divergence) == "diverged"
    assert str(report.head.kind) == "missing"


def test_without_recorded_roots_a_stamped_commit_is_the_proof(desk, repository, moved):
    desk.append()
    desk.controller.store.write(lambda tx: tx.execute(workspace_roots.delete()))
    head = repository.head()
    move(desk, moved)
    assert relink_workspace(desk.controller, moved).proof.stamped_head == head
    with desk.controller.store.read() as connection:
        assert list_roots(connection, desk.session.workspace_id) == list(root_commits(discover(moved)))


def test_a_repository_with_another_history_is_refused(desk, repository, moved, tmp_path):
    workspace = desk.workspace()
    move(desk, moved)
    other = tmp_path / "other"
    other.mkdir()
    foreign = type(repository)(other)
    foreign.git("init", "-q")
    foreign.commit("another first", x="x\n")
    assert relink_candidates(desk.controller, other) == []
    assert refused(lambda: relink_workspace(desk.controller, other)) == "no_candidate"
    assert refused(lambda: relink_workspace(desk.controller, other, workspace.id)) == "no_shared_root"
    assert desk.workspace() == workspace


def test_a_repository_that_is_still_in_its_place_is_not_taken_from_it(desk, repository, moved):
    repository.git("clone", "-q", str(repository.path), str(moved))
    assert relink_candidates(desk.controller, moved) == []
    assert refused(lambda: relink_workspace(desk.controller, moved)) == "no_candidate"
    assert refused(lambda: relink_workspace(desk.controller, moved, desk.session.workspace_id)) == "in_place"


def test_a_shallow_clone_proves_nothing(desk, repository, moved):
    repository.commit("second", c="c\n")
    repository.git("clone", "-q", "--depth=1", f"file://{repository.path}", str(moved))
    shutil.rmtree(repository.path)
    assert refused(lambda: relink_workspace(desk.controller, moved)) == "shallow"
    assert refused(lambda: relink_workspace(desk.controller, moved, desk.session.workspace_id)) == "shallow"
    assert relink_candidates(desk.controller, moved) == []


def test_two_workspaces_that_fit_are_told_apart_by_name(desk, repository, moved, tmp_path):
    copy = tmp_path / "copy"
    repository.git("clone", "-q", str(repository.path), str(copy))
    second = desk.start(copy)
    shutil.rmtree(copy)
    move(desk, moved)
    assert refused(lambda: relink_workspace(desk.controller, moved)) == "ambiguous"
    assert relink_workspace(desk.controller, moved, second.workspace_id).workspace.id == second.workspace_id


def test_sessions_that_were_started_in_the_new_place_meanwhile_come_along(desk, moved):
    first = desk.session
    desk.append()
    move(desk, moved)
    second = desk.start(moved)
    assert second.workspace_id != first.workspace_id
    done = relink_workspace(desk.controller, moved, first.workspace_id)
    assert (done.absorbed.id, done.moved_sessions) == (second.workspace_id, 1)
    here = status_here(desk.controller, moved)
    assert {found.session.id for found in here.sessions} == {first.id, second.id}
    assert here.is_aligned
    with desk.controller.store.read() as connection:
        assert get_workspace(connection, second.workspace_id).status is WorkspaceStatus.REMOVED
        assert verify_session(connection, second.id).is_valid


def test_linked_worktrees_follow(desk, repository, moved, tmp_path):
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "-q", "-b", "side", str(linked))
    side = desk.start(linked)
    assert desk.workspace(side).parent_id is not None
    move(desk, moved)
    type(repository)(moved).git("worktree", "repair")
    done = relink_workspace(desk.controller, moved)
    assert len(done.links) == 2
    assert desk.status(side).is_aligned


def test_relinking_what_stands_there_already_changes_nothing(desk, repository):
    done = relink_workspace(desk.controller, repository.path, desk.session.workspace_id)
    assert done.links == ()
    with desk.controller.store.read() as connection:
        assert list_links(connection, desk.session.workspace_id) == []


def test_stashes_and_notes_are_no_history(desk, repository):
    repository.write("untracked", "x\n")
    repository.git("stash", "-u", "-q")
    repository.git("notes", "add", "-m", "note")
    assert root_commits(discover(repository.path)) == (repository.head(),)


def test_a_repository_without_commits_has_no_roots(desk, tmp_path, repository):
    path = tmp_path / "unborn"
    path.mkdir()
    type(repository)(path).git("init", "-q")
    assert root_commits(discover(path)) == ()
    workspace = initialise(desk.controller, path).registration.workspace
    with desk.controller.store.read() as connection:
        assert list_roots(connection, workspace.id) == []
