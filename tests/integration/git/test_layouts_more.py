"""Further layouts, filters and file types that git users have; each is judged as git status judges it."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess

import pytest

from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.semantics.stamps import UnknownReason

NOBODY = 65534


def printed(path) -> bytes:
    return subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"],
        cwd=path,
        capture_output=True,
        check=True,
    ).stdout


@pytest.fixture
def judged(look):
    """The dirty hash, after holding "clean" against git."""

    def hash_of(path):
        seen = look(path)
        assert seen.unknown is None, (seen.unknown, seen.unknown_path, seen.detail)
        assert seen.is_clean == (printed(path) == b"")
        return seen.state.dirty_hash

    return hash_of


@pytest.fixture
def partial(repository, tmp_path):
    """A clone without contents whose origin is gone, so that whoever wants more than it has must fail."""
    origin = type(repository)(tmp_path / "origin")
    shutil.copytree(repository.path, origin.path)
    origin.commit("more", deep__file="deep\n", a_txt="newer\n")
    origin.git("config", "uploadpack.allowFilter", "true")
    clone = type(repository)(tmp_path / "partial")
    origin.git("clone", "-q", "--filter=blob:none", f"file://{origin.path}", clone.path)
    shutil.rmtree(origin.path)
    return clone


def test_a_partial_clone_is_judged_without_its_origin(partial, judged):
    assert judged(partial.path) == CLEAN_DIRTY_HASH
    os.utime(partial.path / "a.txt", (1_000_000_000, 1_000_000_000))
    assert judged(partial.path) == CLEAN_DIRTY_HASH
    partial.write("a.txt", "edited\n")
    first = judged(partial.path)
    partial.git("add", "a.txt")
    assert judged(partial.path) != first


def test_a_partial_clone_on_a_commit_whose_contents_are_missing_is_a_known_state(partial, judged):
    partial.git("update-ref", "--no-deref", "HEAD", "HEAD~1")
    assert judged(partial.path) != CLEAN_DIRTY_HASH


#: A filter as large-file tools have it: the index holds a pointer, the worktree the content.
POINTER_CLEAN = "sh -c 'printf \"version 1\\noid sha256:%s\\n\" $(sha256sum | cut -c1-64)'"


@pytest.fixture
def large_files(repository):
    repository.git("config", "filter.large.clean", POINTER_CLEAN)
    repository.git("config", "filter.large.smudge", "cat")
    repository.git("config", "filter.large.required", "true")
    repository.write(".gitattributes", "*.bin filter=large -text\n")
    repository.write("x.bin", b"\0one\r\n" * 1_000)
    repository.commit("large")
    return repository


def test_lfs_like_pointers_are_clean_and_their_files_digested_by_their_own_bytes(large_files, look, judged):
    assert large_files.git("cat-file", "-p", "HEAD:x.bin").startswith("version 1\noid sha256:")
    assert judged(large_files.path) == CLEAN_DIRTY_HASH
    os.utime(large_files.path / "x.bin", (1_000_000_000, 1_000_000_000))
    assert judged(large_files.path) == CLEAN_DIRTY_HASH
    hashes = []
    for content in (b"\0two", b"\0tri"):
        large_files.write("x.bin", content)
        hashes.append(judged(large_files.path))
        row = look(large_files.path).manifest.rows[0]
        assert row.content_digest == hashlib.sha256(content).hexdigest().encode()
    assert len({CLEAN_DIRTY_HASH, *hashes}) == 3


def test_a_pointer_that_was_not_replaced_by_its_content_is_what_git_says(large_files, judged):
    pointer = large_files.git("cat-file", "-p", "HEAD:x.bin")
    (large_files.path / "x.bin").write_text(pointer)
    assert judged(large_files.path) != CLEAN_DIRTY_HASH  # cleaned again, it is a pointer to a pointer
    large_files.git("config", "filter.large.clean", "cat")
    large_files.git("update-index", "-q", "--really-refresh", "x.bin")
    assert judged(large_files.path) == CLEAN_DIRTY_HASH


def test_a_missing_filter_process_is_a_typed_reason(large_files, look):
    large_files.git("config", "--unset", "filter.large.clean")
    large_files.git("config", "filter.large.process", "/nonexistent/filter-process")
    os.utime(large_files.path / "x.bin", (1_000_000_000, 1_000_000_000))
    seen = look(large_files.path)
    assert seen.unknown is UnknownReason.GIT_FAILED
    assert "filter" in seen.detail


def test_a_working_tree_encoding_is_judged_as_git_judges_it(repository, judged):
    repository.write(".gitattributes", "*.txt16 text working-tree-encoding=UTF-16LE\n")
    repository.write("x.txt16", "grüße\n".encode("utf-16-le"))
    repository.commit("encoded")
    assert judged(repository.path) == CLEAN_DIRTY_HASH
    repository.write("x.txt16", "Grüße\n".encode("utf-16-le"))
    assert judged(repository.path) != CLEAN_DIRTY_HASH


@pytest.mark.parametrize("value", ["true", "input", "false"])
@pytest.mark.parametrize("text", [b"one\r\ntwo\r\n", b"one\ntwo\n", b"one\r\ntwo\n"])
def test_line_ends_under_every_setting(repository, judged, value, text):
    repository.git("config", "core.autocrlf", "false")
    repository.write("x", b"one\ntwo\n")
    repository.commit("lf")
    repository.git("config", "core.autocrlf", value)
    repository.write("x", text)
    judged(repository.path)


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_case_change_of_a_name_under_both_settings(repository, judged, value):
    repository.git("config", "core.ignoreCase", value)
    (repository.path / "a.txt").rename(repository.path / "A.TXT")
    first = judged(repository.path)
    repository.git("mv", "-f", "b.txt", "B.txt")
    assert judged(repository.path) != first


def test_the_global_excludes_at_their_default_place_are_honoured(repository, judged, hermetic_environment):
    repository.write("x.log", "log\n")
    first = judged(repository.path)
    (hermetic_environment / ".config" / "git").mkdir(parents=True)
    (hermetic_environment / ".config" / "git" / "ignore").write_text("*.log\n")
    assert judged(repository.path) == CLEAN_DIRTY_HASH != first


def test_info_exclude_of_the_common_directory_holds_in_linked_worktrees(repository, judged, tmp_path):
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    (repository.path / ".git" / "info").mkdir(exist_ok=True)
    (repository.path / ".git" / "info" / "exclude").write_text("*.log\n")
    (tmp_path / "linked" / "x.log").write_text("log\n")
    assert judged(tmp_path / "linked") == CLEAN_DIRTY_HASH


def test_a_linked_worktree_within_the_worktree_is_a_nested_repository(repository, look, judged):
    repository.git("worktree", "add", "-q", "--detach", "inside")
    first = judged(repository.path)
    assert look.listed(repository.path) == {b"inside": "??"}
    (repository.path / "inside" / "a.txt").write_text("edited\n")
    assert judged(repository.path) != first


@pytest.mark.parametrize("way", ["symlink", "file"])
def test_a_git_directory_elsewhere_is_followed(repository, judged, look, tmp_path, way):
    if way == "file":
        repository.git("init", "-q", "--separate-git-dir", tmp_path / "elsewhere")
    else:
        shutil.move(repository.path / ".git", tmp_path / "elsewhere")
        (repository.path / ".git").symlink_to(tmp_path / "elsewhere")
    assert judged(repository.path) == CLEAN_DIRTY_HASH
    repository.write("a.txt", "edited\n")
    assert judged(repository.path) != CLEAN_DIRTY_HASH
    assert look(repository.path).location.git_dir == tmp_path / "elsewhere"


@pytest.mark.parametrize(
    "options",
    [["--split-index"], ["--index-version", "4"], ["--untracked-cache"], ["--force-write-index"]],
    ids=lambda options: options[0],
)
def test_every_form_of_the_index_is_read_and_left_alone(repository, judged, look, options):
    repository.git("update-index", *options)
    assert judged(repository.path) == CLEAN_DIRTY_HASH
    repository.write("a.txt", "edited\n")
    repository.write("new/file", "new\n")
    os.utime(repository.path / "b.txt", (1_000_000_000, 1_000_000_000))

    def index():
        # Whoever reads a shared index, git status too, renews its time, lest it be taken for forgotten.
        files = [path for path in (repository.path / ".git").iterdir() if "index" in path.name]
        return {path: (path.read_bytes(), "shared" in path.name or path.stat().st_mtime_ns) for path in files}

    before = index()
    assert not look(repository.path, include_unobserved=True).is_clean
    assert index() == before


def test_an_orphan_branch_is_unborn_with_everything_staged(repository, look, judged):
    repository.git("checkout", "-q", "--orphan", "fresh")
    seen = look(repository.path)
    assert (seen.state.head, seen.state.ref) == ("unborn", "refs/heads/fresh")
    assert {row.status for row in seen.manifest.rows} == {"A."}
    judged(repository.path)


def make_special(kind, path):
    if kind == "fifo":
        os.mkfifo(path)
        return
    # The name of a socket is short, wherever the tests run.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"/proc/self/fd/{folder}/{path.name}" if os.path.isdir("/proc/self/fd") else str(path))
    finally:
        os.close(folder)


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_an_untracked_fifo_or_socket_is_not_listed(repository, judged, kind):
    make_special(kind, repository.path / "special")
    assert judged(repository.path) == CLEAN_DIRTY_HASH
    repository.write("new", "new\n")
    assert judged(repository.path) != CLEAN_DIRTY_HASH


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_a_fifo_or_socket_in_a_tracked_files_place_is_unknown_by_name(repository, look, kind):
    (repository.path / "a.txt").unlink()
    make_special(kind, repository.path / "a.txt")
    assert printed(repository.path) != b""
    seen = look(repository.path)
    assert (seen.unknown, seen.unknown_path) == (UnknownReason.UNREADABLE_PATH, b"a.txt")
    assert seen.detail == "it is neither a file nor a symlink"


def test_a_folder_replaced_by_a_symlink_to_itself_is_unknown_by_name(repository, look):
    """git says so on stderr, leaves the files in it out, and ends as if all were well."""
    repository.commit("folder", folder__file="one\n")
    shutil.rmtree(repository.path / "folder")
    (repository.path / "folder").symlink_to("folder")
    seen = look(repository.path)
    assert (seen.unknown, seen.unknown_path) == (UnknownReason.UNREADABLE_PATH, b"folder/file")


SHAPES = ["absent", "file", "folder", "link", "executable", "repository"]


def shape(repository, name, wanted):
    path = repository.path / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if wanted in {"file", "executable"}:
        path.write_text("alpha\n")
        path.chmod(0o755 if wanted == "executable" else 0o644)
    elif wanted == "link":
        path.symlink_to("b.txt")
    elif wanted != "absent":
        path.mkdir()
        (path / "inner").write_text("alpha\n")
        if wanted == "repository":
            repository.git("init", "-q", name)


@pytest.mark.parametrize("is_tracked", [True, False], ids=["tracked", "untracked"])
def test_every_swap_of_shapes_is_a_state_of_its_own_and_the_way_back_leads_back(repository, judged, is_tracked):
    name = "a.txt" if is_tracked else "new"
    hashes = {}
    for wanted in [*SHAPES, *reversed(SHAPES)]:
        shape(repository, name, wanted)
        found = judged(repository.path)
        assert hashes.setdefault(wanted, found) == found
    assert len(set(hashes.values())) == len(SHAPES)


@pytest.fixture
def conflict(repository):
    """A merge that conflicts in content, by deletion on either side, by addition on both, and in type."""
    repository.commit("base", content="base\n", ours_gone="base\n", theirs_gone="base\n", type="base\n")
    repository.git("checkout", "-qb", "theirs")
    repository.git("rm", "-q", "theirs.gone")
    (repository.path / "type").unlink()
    (repository.path / "type").symlink_to("a.txt")
    repository.commit("theirs", content="theirs\n", ours_gone="theirs\n", both="theirs\n")
    repository.git("checkout", "-q", "main")
    repository.git("rm", "-q", "ours.gone")
    repository.commit("ours", content="ours\n", theirs_gone="ours\n", both="ours\n", type="ours\n")
    repository.git("merge", "theirs", check=False)
    return repository


def test_real_conflicts_are_listed_and_every_step_of_resolving_is_seen(conflict, look, judged):
    listed = look.listed(conflict.path)
    assert listed[b"content"] == "UU"
    assert listed[b"both"] == "AA"
    assert listed[b"ours.gone"] == "DU"
    assert listed[b"theirs.gone"] == "UD"
    assert look(conflict.path).state.operation == "merge"
    hashes = [judged(conflict.path)]
    for name in ("content", "both", "ours.gone", "theirs.gone"):
        conflict.write(name, f"resolved {name}\n")
        hashes.append(judged(conflict.path))
        conflict.git("add", name)
        hashes.append(judged(conflict.path))
    (conflict.path / "content").unlink()
    hashes.append(judged(conflict.path))
    assert len(set(hashes)) == len(hashes)


@pytest.fixture
def library(repository, tmp_path):
    made = type(repository)(tmp_path / "library")
    made.path.mkdir()
    made.git("init", "-q", "-b", "main")
    made.commit("library", lib_c="int x;\n")
    return made


def test_a_submodule_that_is_staged_dirty_and_detached_is_told_apart(repository, library, judged):
    repository.git("submodule", "--quiet", "add", f"file://{library.path}", "sub")
    added = judged(repository.path)
    repository.git("commit", "-qm", "sub")
    sub = type(repository)(repository.path / "sub")
    hashes = [added, judged(repository.path)]
    sub.commit("next", lib_c="int y;\n")
    hashes.append(judged(repository.path))
    repository.git("add", "sub")
    hashes.append(judged(repository.path))
    sub.write("lib.c", "dirty\n")
    hashes.append(judged(repository.path))
    sub.git("add", "lib.c")
    hashes.append(judged(repository.path))
    assert len(set(hashes)) == len(hashes)


def test_a_submodule_in_conflict_is_a_known_state(repository, library, judged):
    repository.git("submodule", "--quiet", "add", f"file://{library.path}", "sub")
    repository.git("commit", "-qm", "sub")
    sub = type(repository)(repository.path / "sub")
    base = sub.head()
    for branch in ("theirs", "main"):
        repository.git("checkout", "-q", "-B", branch)
        sub.git("checkout", "-q", base)
        sub.commit(branch, lib_c=f"{branch}\n")
        repository.git("commit", "-qam", branch)
        if branch == "theirs":
            repository.git("reset", "-q", "--soft", "HEAD")
            repository.git("checkout", "-q", "-B", "main", "HEAD~1")
    repository.git("merge", "theirs", check=False)
    first = judged(repository.path)
    assert b"U" in printed(repository.path)[:2]
    sub.write("lib.c", "resolved\n")
    assert judged(repository.path) != first


def test_a_nested_repository_of_another_owner_is_unknown_by_name(repository, look):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    inner = type(repository)(repository.path / "nested")
    inner.path.mkdir()
    inner.git("init", "-q")
    inner.write("file", "one\n")
    for root, folders, files in os.walk(inner.path):
        for name in [".", *folders, *files]:
            os.lchown(os.path.join(root, name), NOBODY, NOBODY)
    seen = look(repository.path)
    assert (seen.unknown, seen.unknown_path) == (UnknownReason.GIT_FAILED, b"nested")
    assert "dubious ownership" in seen.detail


def test_a_linked_worktree_is_reached_through_a_symlink_and_from_a_subfolder(repository, look, tmp_path):
    repository.commit("folders", deep__file="deep\n")
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    (tmp_path / "linked" / "deep" / "file").write_text("edited\n")
    (tmp_path / "way").symlink_to(tmp_path / "linked" / "deep")
    seen = [look(path) for path in (tmp_path / "linked", tmp_path / "linked" / "deep", tmp_path / "way")]
    assert len({each.state.state_digest for each in seen}) == 1
    assert [row.path for row in seen[0].manifest.rows] == [b"deep/file"]


@pytest.mark.parametrize("options", [["--object-format=sha256"], ["--ref-format=reftable"]], ids=lambda o: o[0])
def test_every_format_of_repositories_that_this_git_has(repository, look, judged, tmp_path, options):
    made = type(repository)(tmp_path / "made")
    done = subprocess.run(["git", "init", "-q", *options, str(made.path)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"this git has no {options[0]}: {done.stderr.decode().splitlines()[0]}")
    assert look(made.path).state.head == "unborn"
    made.commit("first", a_txt="one\n")
    assert judged(made.path) == CLEAN_DIRTY_HASH
    made.git("checkout", "-qb", "other")
    assert look(made.path).state.ref == "refs/heads/other"
    made.write("a.txt", "two\n")
    first = judged(made.path)
    made.git("add", "a.txt")
    assert judged(made.path) != first
    made.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    assert judged(tmp_path / "linked") == CLEAN_DIRTY_HASH
    assert look(tmp_path / "linked").state.ref is None


def test_a_folder_with_many_levels_and_long_names_is_listed(repository, look, judged):
    name = "/".join(["d" * 200] * 15)
    folder = repository.path / name
    folder.mkdir(parents=True)
    (folder / "file").write_text("one\n")
    first = judged(repository.path)
    (folder / "file").write_text("two\n")
    assert judged(repository.path) != first
    assert look.listed(repository.path) == {f"{name}/file".encode(): "??"}
