"""The text between a stamp and now: where it is known, from where, and what is said where it is not."""

from __future__ import annotations

import os

import pytest

import bridge.workspaces.patching as module
from bridge.cli.patchview import patched_text
from bridge.control.comparing import text_difference_to
from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, SessionRequest, append_entry, start_session
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.patches import text_patch


class Desk:
    def __init__(self, controller, repository):
        self.controller = controller
        self.path = repository.path
        self.standpoint = Standpoint(directory=repository.path)
        self.session = start_session(controller, self.standpoint, SessionRequest()).session

    def append(self):
        request = AppendRequest(kind="note", text="hello")
        return append_entry(self.controller, self.standpoint, self.session.id, request).entry.id

    def diff(self, entry, *paths, directory=None):
        return text_difference_to(self.controller, Standpoint(directory=directory or self.path), entry, paths)

    def patches(self, entry, *paths, **options):
        return {patch["path"]: patch for patch in self.diff(entry, *paths, **options).to_json()["patches"]}


@pytest.fixture
def open_desk(bridge_home, repository):
    opened = []

    def run(config='snapshots = "dirty"\n'):
        bridge_home.mkdir(exist_ok=True)
        (bridge_home / "config.toml").write_text(config)
        settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
        opened.append(Controller(settings, clock=SystemClock(), environment=os.environ))
        return Desk(opened[-1], repository)

    yield run
    for controller in opened:
        controller.close()


@pytest.fixture
def desk(open_desk):
    return open_desk()


def lines(patch):
    return [line for hunk in patch["hunks"] for line in hunk["lines"]]


def test_what_was_committed_then_is_known_without_snapshots(open_desk, repository):
    desk = open_desk("")
    entry = desk.append()
    repository.write("a.txt", "alpha\nmore\n")
    repository.commit("b", b_txt="new beta\n")
    repository.write("new", "new\n")
    (repository.path / "a.txt").chmod(0o755)
    patches = desk.patches(entry)
    assert lines(patches["a.txt"]) == [" alpha", "+more"]
    assert (patches["a.txt"]["old_mode"], patches["a.txt"]["new_mode"]) == ("100644", "100755")
    assert lines(patches["b.txt"]) == ["-beta", "+new beta"]
    assert lines(patches["new"]) == ["+new"]
    assert patches["new"]["old_mode"] is None


def test_what_was_dirty_then_is_known_if_it_was_kept(desk, repository):
    repository.write("a.txt", "alpha\nthen\n")
    repository.write("untracked", "then\n")
    (repository.path / "b.txt").unlink()
    (repository.path / "link").symlink_to("one")
    entry = desk.append()
    repository.write("a.txt", "alpha\nnow\n")
    (repository.path / "untracked").unlink()
    repository.write("b.txt", "back\n")
    (repository.path / "link").unlink()
    (repository.path / "link").symlink_to("two")
    patches = desk.patches(entry)
    assert lines(patches["a.txt"]) == [" alpha", "-then", "+now"]
    assert lines(patches["untracked"]) == ["-then"]
    assert lines(patches["b.txt"]) == ["+back"]
    assert [line for line in lines(patches["link"]) if line[0] != "\\"] == ["-one", "+two"]
    assert patches["link"]["new_mode"] == "120000"


def test_what_is_not_known_is_said_to_be_unknown(open_desk, repository):
    desk = open_desk("")
    repository.write("a.txt", "then\n")
    entry = desk.append()
    repository.write("a.txt", "now\n")
    patches = desk.patches(entry)
    assert (patches["a.txt"]["status"], patches["a.txt"]["reason"]) == ("unknown", "not_kept")
    assert patches["a.txt"]["hunks"] is None
    assert "(the content is not known (not_kept))" in patched_text(desk.diff(entry))


def test_a_commit_that_is_gone_leaves_its_files_unknown(desk, repository):
    repository.commit("second", a_txt="second\n")
    entry = desk.append()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    repository.write("a.txt", "now\n")
    patches = desk.patches(entry)
    assert (patches["a.txt"]["status"], patches["a.txt"]["reason"]) == ("unknown", "commit_missing")


def test_binary_same_and_nested_are_told_apart(desk, repository):
    repository.write("binary", b"one\0\n")
    repository.write("staged", "staged\n")
    entry = desk.append()
    repository.write("binary", b"two\0\n")
    repository.git("add", "staged")
    nested = repository.path / "nested"
    nested.mkdir()
    type(repository)(nested).git("init", "-q")
    type(repository)(nested).commit("n", n="n\n")
    statuses = {path: patch["status"] for path, patch in desk.patches(entry).items()}
    assert statuses == {"binary": "binary", "staged": "same", "nested": "repository"}


def test_filters_do_not_show_as_changes(desk, repository):
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    repository.git("config", "filter.up.smudge", "tr A-Z a-z")
    repository.write("x.up", "small\n")
    repository.write("y.txt", b"one\r\ntwo\r\n")
    repository.commit("files", _gitattributes="*.up filter=up\ny.txt text eol=crlf\n")
    entry = desk.append()
    repository.write("x.up", "small\nmore\n")
    repository.write("y.txt", b"one\r\nchanged\r\n")
    patches = desk.patches(entry)
    assert lines(patches["x.up"]) == [" small", "+more"]
    assert lines(patches["y.txt"]) == [" one\r", "-two\r", "+changed\r"]


def test_the_size_of_a_file_is_limited_at_its_edge(desk, repository, monkeypatch):
    monkeypatch.setattr(module, "MAX_PATCH_FILE_BYTES", 8)
    repository.commit("files", edge="1234567\n", over="12345678\n")
    repository.write("kept-over", "123456789\n")
    entry = desk.append()
    for name in ("edge", "over", "kept-over"):
        repository.write(name, "x\n")
    repository.write("now-over", "123456789\n")
    statuses = {path: patch["status"] for path, patch in desk.patches(entry).items()}
    assert statuses == {"edge": "text", "over": "too_large", "kept-over": "too_large", "now-over": "too_large"}


def test_the_number_of_files_and_all_text_are_limited(desk, repository, monkeypatch):
    entry = desk.append()
    for number in range(4):
        repository.write(f"new{number}", "12345678\n")
    monkeypatch.setattr(module, "MAX_PATCH_BYTES", 9)
    statuses = [patch["status"] for patch in desk.patches(entry).values()]
    assert statuses == ["text", "text", "too_large", "too_large"]
    monkeypatch.setattr("bridge.control.comparing.MAX_PATCH_FILES", 3)
    found = desk.diff(entry)
    assert (len(found.patches), found.omitted) == (3, 1)
    assert "and 1 more paths" in patched_text(found)


def test_paths_are_relative_to_where_one_stands(desk, repository, tmp_path):
    repository.commit("files", d__x="x\n", d__y="y\n", e__x="x\n", dx="x\n")
    entry = desk.append()
    for name in ("d/x", "d/y", "e/x", "dx"):
        repository.write(name, "now\n")
    assert set(desk.patches(entry, "d")) == {"d/x", "d/y"}
    assert set(desk.patches(entry, "d/x", "dx")) == {"d/x", "dx"}
    inside = repository.path / "d"
    assert set(desk.patches(entry, "x", directory=inside)) == {"d/x"}
    assert set(desk.patches(entry, "../e", directory=inside)) == {"e/x"}
    assert set(desk.patches(entry, ".", directory=inside)) == {"d/x", "d/y"}
    assert set(desk.patches(entry, "d", directory=tmp_path)) == {"d/x", "d/y"}
    assert set(desk.patches(entry, '"d\\x2fx"')) == {"d/x"}
    assert set(desk.patches(entry, str(inside))) == {"d/x", "d/y"}
    assert set(desk.patches(entry, str(tmp_path))) == set()
    assert set(desk.patches(entry, "..")) == set()


def test_a_rename_is_compared_with_the_old_name(desk, repository):
    entry = desk.append()
    repository.write("long", "a line that is long enough to tell\n" * 5)
    repository.commit("long")
    entry = desk.append()
    repository.git("mv", "long", "renamed")
    patches = desk.patches(entry)
    assert patches["renamed"]["old_path"] == "long"
    assert patches["renamed"]["status"] == "same"


def test_names_and_contents_cannot_drive_the_terminal(desk, repository):
    name = "odd\n\x1b[31m\xff".encode("latin-1").decode("utf-8", "surrogateescape")
    repository.write(name, "then\n")
    entry = desk.append()
    repository.write(name, b"\x1b[2J\xff\n")
    text = patched_text(desk.diff(entry))
    assert '+++ "now/odd\\n\\x1b[31m\\xff"' in text
    (patch,) = desk.patches(entry).values()
    assert lines(patch) == ["-then", "+\x1b[2J\\xff"]


def test_nothing_differs(desk, repository):
    repository.write("a.txt", "dirty\n")
    found = desk.diff(desk.append())
    assert found.patches == ()
    assert found.to_json()["divergence"] == "aligned"


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (b"", b"a\n", ["@@ -0,0 +1 @@", "+a"]),
        (b"a\n", b"", ["@@ -1 +0,0 @@", "-a"]),
        (b"a", b"a\n", ["@@ -1 +1 @@", "-a", "\\ No newline at end of file", "+a"]),
        (b"a\n", b"a", ["@@ -1 +1 @@", "-a", "+a", "\\ No newline at end of file"]),
    ],
)
def test_hunks_are_those_of_a_unified_diff(old, new, wanted):
    patch = text_patch(old, new)
    shown = [text for hunk in patch.hunks for text in (hunk.header, *_shown(hunk))]
    assert shown == wanted


def _shown(hunk):
    return [line.origin + line.content.decode() for line in hunk.lines]
