"""What two observations and the commits between them say together (FC-54, FC-55, FC-56 at this layer)."""

from __future__ import annotations

from bridge.git.history import RelationKind, changed_paths, head_relation
from bridge.git.manifest import ChangeKind, compare_manifests
from bridge.git.repository import discover


def test_fc_54_every_change_is_reported_whoever_made_it(repository, look):
    repository.commit("base", c_txt="c\n")
    then = look(repository.path)
    assert then.is_clean
    repository.write("a.txt", "by a tool\n")
    repository.git("add", "a.txt")
    repository.git("commit", "-qm", "a")
    repository.write("b.txt", "by a shell\n")
    (repository.path / "c.txt").unlink()
    repository.write("d.txt", "new\n")
    now = look(repository.path)
    location = discover(repository.path)
    relation = head_relation(location, then.state.head, now.state.head)
    assert (relation.kind, relation.ahead, relation.commits[0].subject) == (RelationKind.AHEAD, 1, "a")
    committed = changed_paths(location, then.state.head, now.state.head)
    assert [(change.status, change.path) for change in committed] == [("M", b"a.txt")]
    dirty = {
        change.path: (change.kind, change.after_status) for change in compare_manifests(then.manifest, now.manifest)
    }
    assert dirty == {
        b"b.txt": (ChangeKind.CHANGED, ".M"),
        b"c.txt": (ChangeKind.VANISHED, ".D"),
        b"d.txt": (ChangeKind.APPEARED, "??"),
    }
    assert now.state.state_digest != then.state.state_digest


def test_fc_55_a_file_that_was_deleted_then_and_is_present_now(repository, look):
    repository.commit("base", keep="keep\n")
    (repository.path / "b.txt").unlink()
    then = look(repository.path)
    repository.git("checkout", "b.txt")
    repository.write("keep", "edited\n")
    now = look(repository.path)
    found = {change.path: change.kind for change in compare_manifests(then.manifest, now.manifest)}
    assert found == {b"b.txt": ChangeKind.RESTORED, b"keep": ChangeKind.CHANGED}


def test_the_same_files_committed_in_between_change_head_and_not_silently_the_hash(repository, look):
    repository.write("a.txt", "edited\n")
    then = look(repository.path)
    repository.commit("commit it")
    now = look(repository.path)
    assert now.is_clean
    assert then.state.head != now.state.head
    assert then.state.dirty_hash != now.state.dirty_hash


def test_a_rename_of_a_dirty_file_is_one_vanished_and_one_appeared_with_equal_content(repository, look):
    then = look(repository.path)
    (repository.path / "a.txt").rename(repository.path / "moved.txt")
    now = look(repository.path)
    found = {change.path: change for change in compare_manifests(then.manifest, now.manifest)}
    assert found[b"a.txt"].kind is ChangeKind.VANISHED
    assert found[b"moved.txt"].kind is ChangeKind.APPEARED
