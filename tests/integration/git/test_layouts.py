"""Field cases of stamps: layouts, filters, names, environments (FC-44 to 48, 50 to 52), submodules, nesting."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.git.commits import preserve
from bridge.git.manifest import CLEAN_DIRTY_HASH, compare_manifests
from bridge.git.paths import parse_path, plain_path
from bridge.git.repository import discover
from bridge.git.worktrees import add_detached, list_worktrees
from bridge.semantics.stamps import UnknownReason


def git_says_clean(path) -> bool:
    done = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"],
        cwd=path,
        capture_output=True,
        check=True,
    )
    return done.stdout == b""


def test_fc_44_the_hash_does_not_depend_on_the_folder_or_the_way_to_it(repository, look, tmp_path):
    repository.commit("folders", fe__a="a\n", be__b="b\n")
    old = look(repository.path)
    repository.write("be/b", "changed\n")
    link = tmp_path / "link"
    link.symlink_to(repository.path / "fe")
    seen = [look(path) for path in (repository.path, repository.path / "fe", link, repository.path / "be" / "b")]
    assert len({each.state.state_digest for each in seen}) == 1
    for each in seen:
        assert [change.path for change in compare_manifests(old.manifest, each.manifest)] == [b"be/b"]


def test_fc_45_line_ends_are_judged_as_git_judges_them(repository, look):
    repository.git("config", "core.autocrlf", "false")
    repository.write("crlf.txt", b"one\r\ntwo\r\n")
    repository.commit("crlf")
    repository.write(".gitattributes", "* text=auto\n")
    repository.commit("attributes")
    repository.git("checkout", "-qb", "other", "HEAD~1")
    assert look(repository.path).is_clean is git_says_clean(repository.path)
    repository.git("checkout", "-q", "main")
    assert look(repository.path).is_clean is git_says_clean(repository.path)
    os.utime(repository.path / "crlf.txt", (1_000_000_000, 1_000_000_000))
    assert look(repository.path).is_clean is git_says_clean(repository.path)


def test_fc_45_a_clean_filter_is_honoured_and_touch_changes_nothing(repository, look):
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    repository.git("config", "filter.up.smudge", "tr A-Z a-z")
    repository.write(".gitattributes", "*.dat filter=up\n")
    repository.write("x.dat", "lower\n")
    repository.commit("filtered")
    assert look(repository.path).is_clean
    os.utime(repository.path / "x.dat", (1_000_000_000, 1_000_000_000))
    assert git_says_clean(repository.path)
    assert look(repository.path).is_clean


@pytest.mark.parametrize("is_required", [False, True])
def test_fc_45_a_missing_filter_program_is_a_typed_reason(repository, look, is_required):
    repository.git("config", "filter.up.clean", "tr a-z A-Z")
    repository.write(".gitattributes", "*.dat filter=up\n")
    repository.write("x.dat", "lower\n")
    repository.commit("filtered")
    repository.git("config", "filter.up.clean", "/nonexistent/program %f")
    repository.git("config", "filter.up.required", str(is_required).lower())
    os.utime(repository.path / "x.dat", (1_000_000_000, 1_000_000_000))
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.GIT_FAILED
    assert "filter" in seen.detail


def test_fc_46_a_worktree_of_a_bare_repository_honours_info_exclude(repository, look, tmp_path):
    bare = tmp_path / ".bare"
    repository.git("clone", "-q", "--bare", ".", bare)
    subprocess.run(["git", "worktree", "add", "-q", "../dev"], cwd=bare, check=True)
    (bare / "info").mkdir(exist_ok=True)
    (bare / "info" / "exclude").write_text("*.log\n")
    (tmp_path / "dev" / "x.log").write_text("log\n")
    seen = look(tmp_path / "dev")
    assert git_says_clean(tmp_path / "dev")
    assert seen.state.dirty_hash == look(repository.path).state.dirty_hash == CLEAN_DIRTY_HASH
    (tmp_path / "dev" / "a.txt").write_text("edited\n")
    repository.write("a.txt", "edited\n")
    assert look.hash(tmp_path / "dev") == look.hash(repository.path)
    assert look(tmp_path / "dev").state.repository_id == discover(bare).repository_id


def test_a_linked_worktree_shares_the_repository_and_not_the_worktree_id(repository, look, tmp_path):
    repository.git("worktree", "add", "-q", "--detach", tmp_path / "linked")
    here, there = look(repository.path).state, look(tmp_path / "linked").state
    assert here.repository_id == there.repository_id
    assert here.worktree_id != there.worktree_id


@pytest.mark.parametrize("options", [["--cone"], ["--cone", "--sparse-index"], ["--no-cone"]])
def test_fc_47_a_sparse_checkout_is_clean(repository, look, options):
    repository.commit("folders", a__x="x\n", b__y="y\n")
    repository.git("sparse-checkout", "set", *options, "a")
    assert not (repository.path / "b").exists()
    seen = look(repository.path, include_unobserved=True)
    assert seen.is_clean
    assert any(path.startswith(b"b") for path in seen.unobserved)
    repository.write("a/x", "changed\n")
    assert look.listed(repository.path) == {b"a/x": ".M"}


def test_fc_47_a_skip_worktree_file_that_is_gone_is_clean_and_unobserved(repository, look):
    repository.git("update-index", "--skip-worktree", "a.txt")
    (repository.path / "a.txt").unlink()
    seen = look(repository.path, include_unobserved=True)
    assert git_says_clean(repository.path)
    assert seen.is_clean
    assert seen.unobserved == (b"a.txt",)


def test_fc_47_a_staged_change_of_a_skipped_absent_file_is_a_known_state(repository, look):
    blob = repository.git("hash-object", "-w", "--stdin", stdin=b"staged\n").strip()
    repository.git("update-index", "--cacheinfo", f"100644,{blob},a.txt")
    repository.git("update-index", "--skip-worktree", "a.txt")
    (repository.path / "a.txt").unlink()
    seen = look(repository.path)
    assert seen.unknown is None
    assert not seen.manifest.rows[0].is_present


def test_fc_47_worktree_config_and_partial_clone_extensions_open(repository, look, tmp_path):
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.git("clone", "-q", "--filter=blob:none", f"file://{repository.path}", tmp_path / "partial")
    assert look(tmp_path / "partial").is_clean
    repository.git("config", "extensions.worktreeConfig", "true")
    repository.git("config", "--worktree", "core.autocrlf", "input")
    assert look(repository.path).is_clean


ODD_NAMES = [
    "café ü.txt".encode(),
    b"a -> b.txt",
    b"new\nline.txt",
    b"byte-\xff.txt",
    b" leading",
    b"trailing\r",
    b"tab\there",
    b'quote".txt',
    b"back\\slash",
    "line\u2028separator".encode(),
    "bidi\u202egnp.exe".encode(),
    b"-option",
    b":(top)magic",
    b"*",
]


def test_fc_48_every_odd_name_is_listed_once_under_its_exact_bytes(repository, look):
    root = os.fsencode(repository.path)
    for name in ODD_NAMES:
        with open(os.path.join(root, name), "wb") as file:
            file.write(name)
    repository.git("mv", "a.txt", "moved.txt")
    seen = look(repository.path)
    paths = [row.path for row in seen.manifest.rows]
    assert sorted(paths) == sorted([*ODD_NAMES, b"a.txt", b"moved.txt"])
    for path in paths:
        shown = plain_path(path)
        assert shown.isprintable()
        assert parse_path(shown) == path


def test_fc_48_odd_names_are_preserved_by_a_snapshot(repository, tmp_path):
    root = os.fsencode(repository.path)
    for name in ODD_NAMES:
        with open(os.path.join(root, name), "wb") as file:
            file.write(name)
    kept = preserve(repository.path, ref="refs/bridge/test", message="odd")
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "--name-only", kept.commit], cwd=repository.path, capture_output=True, check=True
    ).stdout.split(b"\0")
    assert set(ODD_NAMES) <= set(listed)


def test_fc_50_equal_names_with_other_untracked_bytes_are_other_states(repository, look):
    repository.write("new", "one")
    first = look.hash(repository.path)
    repository.write("new", "two")
    assert look.hash(repository.path) != first


def test_fc_50_names_and_contents_that_join_to_one_string_are_other_states(repository, look):
    repository.write("ab", "c")
    first = look.hash(repository.path)
    (repository.path / "ab").unlink()
    repository.write("a", "bc")
    assert look.hash(repository.path) != first


#: Growth of memory that hashing 3 GB may cause at most.
MAX_GROWTH_BYTES = 64 * 1024 * 1024
#: As ``truncate -s 3G file && sha256sum file`` prints it.
SHA256_OF_3_GIB_OF_ZEROS = b"305b66a59d15b252092fbda9d09711230c429f351897cbd430e7b55a35fd3b97"


def test_fc_50_a_sparse_file_of_3_gb_is_hashed_in_bounded_memory(repository, look):
    with (repository.path / "big").open("wb") as file:
        file.truncate(3 * 1024**3)
    script = (
        "import resource,sys\nfrom pathlib import Path\n"
        "from bridge.foundation.clock import SystemClock\nfrom bridge.git.observe import observe\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "seen = observe(Path(sys.argv[1]), clock=SystemClock(), timeout_seconds=100)\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(seen.manifest.rows[0].content_digest.decode(), after - before)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", script, repository.path], capture_output=True, env=environment, check=True
    )
    digest, growth = done.stdout.split()
    assert digest == SHA256_OF_3_GIB_OF_ZEROS
    unit = 1024 if sys.platform != "darwin" else 1
    assert int(growth) * unit < MAX_GROWTH_BYTES


@pytest.fixture
def other(tmp_path, repository):
    """A second repository with its own staged and untracked work."""
    path = tmp_path / "other"
    shutil.copytree(repository.path, path)
    third = type(repository)(path)
    third.write("a.txt", "other\n")
    third.git("add", "a.txt")
    third.write("untracked-in-other", "x\n")
    return third


@pytest.mark.parametrize("is_relative", [False, True])
def test_fc_51_inherited_git_variables_change_nothing(
    repository, other, look, bytes_below, monkeypatch, tmp_path, is_relative
):
    repository.write("b.txt", "mine\n")
    plain = look(repository.path)
    others, mine = bytes_below(other.path), bytes_below(repository.path)

    def place(name: str) -> str:
        path = other.path / name
        return os.path.relpath(path, repository.path) if is_relative else str(path)

    monkeypatch.setenv("GIT_DIR", place(".git"))
    monkeypatch.setenv("GIT_WORK_TREE", place("."))
    monkeypatch.setenv("GIT_INDEX_FILE", place(".git/index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", place(".git/objects"))
    monkeypatch.setenv("GIT_COMMON_DIR", place(".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fileMode")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "false")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.fileMode'='false'")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository.path.parent))
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    monkeypatch.setenv("GIT_PREFIX", "sub/")
    assert look(repository.path).state == plain.state
    assert bytes_below(repository.path) == mine
    location = discover(repository.path)
    made = add_detached(location, tmp_path / "linked", plain.state.head)
    assert made.common_dir == repository.path / ".git"
    assert {worktree.path for worktree in list_worktrees(location)} == {repository.path, tmp_path / "linked"}
    kept = preserve(repository.path, ref="refs/bridge/kept", message="kept")
    assert kept.had_uncommitted
    assert bytes_below(other.path) == others


def test_observing_changes_no_byte_of_the_repository(repository, look, bytes_below):
    repository.write("a.txt", "edited\n")
    repository.write("new", "new\n")
    os.utime(repository.path / "b.txt", (1_000_000_000, 1_000_000_000))
    before = bytes_below(repository.path)
    look(repository.path, include_unobserved=True)
    assert bytes_below(repository.path) == before


def test_observing_works_beside_a_held_index_lock(repository, look):
    (repository.path / ".git" / "index.lock").write_bytes(b"")
    repository.write("a.txt", "edited\n")
    assert look.listed(repository.path) == {b"a.txt": ".M"}
    assert (repository.path / ".git" / "index.lock").read_bytes() == b""


def test_fc_52_an_unborn_repository_has_a_state(tmp_path, repository, look):
    fresh = type(repository)(tmp_path / "fresh")
    fresh.path.mkdir()
    fresh.git("init", "-q", "-b", "main")
    empty = look(fresh.path)
    assert (empty.state.head, empty.state.ref, empty.is_clean) == ("unborn", "refs/heads/main", True)
    fresh.write("staged", "1\n")
    fresh.git("add", "staged")
    fresh.write("untracked", "2\n")
    dirty = look(fresh.path)
    assert dirty.state.head == "unborn"
    assert {row.path: row.status for row in dirty.manifest.rows} == {b"staged": "A.", b"untracked": "??"}
    fresh.commit("first")
    after = look(fresh.path)
    assert after.is_clean
    assert len(compare_manifests(dirty.manifest, after.manifest)) == 2


@pytest.fixture
def submodule(repository, tmp_path):
    """The repository with a submodule ``sub``; the submodule's own checkout is returned."""
    library = type(repository)(tmp_path / "library")
    library.path.mkdir()
    library.git("init", "-q", "-b", "main")
    library.commit("library", lib_c="int x;\n")
    repository.git("submodule", "--quiet", "add", f"file://{library.path}", "sub")
    repository.git("commit", "-qm", "submodule")
    return type(repository)(repository.path / "sub")


def test_a_new_commit_in_a_submodule_changes_the_hash(repository, submodule, look):
    hashes = [look.hash(repository.path)]
    assert hashes == [CLEAN_DIRTY_HASH]
    for text in ("int y;\n", "int z;\n"):
        submodule.commit(text, lib_c=text)
        hashes.append(look.hash(repository.path))
    assert len(set(hashes)) == 3


def test_work_inside_a_submodule_changes_the_hash(repository, submodule, look):
    hashes = [look.hash(repository.path)]
    submodule.write("lib.c", "one\n")
    hashes.append(look.hash(repository.path))
    submodule.write("lib.c", "two\n")
    hashes.append(look.hash(repository.path))
    submodule.write("new.c", "one\n")
    hashes.append(look.hash(repository.path))
    submodule.write("new.c", "two\n")
    hashes.append(look.hash(repository.path))
    assert len(set(hashes)) == 5


@pytest.mark.parametrize("setting", ["all", "dirty", "untracked"])
def test_a_submodule_that_is_configured_to_be_ignored_is_still_seen(repository, submodule, look, setting):
    submodule.write("new.c", "one\n")
    before = look.hash(repository.path)
    repository.git("config", "submodule.sub.ignore", setting)
    assert look.hash(repository.path) == before


def test_a_submodule_inside_a_submodule_is_followed(repository, submodule, look, tmp_path):
    submodule.git("submodule", "--quiet", "add", f"file://{tmp_path / 'library'}", "inner")
    submodule.git("commit", "-qm", "inner")
    repository.git("commit", "-qam", "inner")
    assert look(repository.path).is_clean
    inner = submodule.path / "inner" / "lib.c"
    inner.write_text("one\n")
    first = look.hash(repository.path)
    inner.write_text("two\n")
    assert look.hash(repository.path) != first


def test_a_submodule_that_is_not_initialised_is_clean(repository, submodule, look, tmp_path):
    repository.git("clone", "-q", ".", tmp_path / "clone")
    assert look(tmp_path / "clone").is_clean


def test_a_staged_submodule_without_repository_is_a_known_state(repository, submodule, look, tmp_path):
    repository.git("clone", "-q", ".", tmp_path / "clone")
    clone = type(repository)(tmp_path / "clone")
    clone.git("update-index", "--cacheinfo", f"160000,{repository.head()},sub")
    seen = look(clone.path)
    assert seen.unknown is None
    assert not seen.is_clean


def test_an_unreadable_submodule_makes_the_stamp_unknown(repository, submodule, look):
    git_dir = repository.path / ".git" / "modules" / "sub"
    submodule.write("lib.c", "edited\n")
    (git_dir / "index").write_bytes(b"x")
    seen = look(repository.path)
    assert seen.unknown is not None
    assert not seen.is_clean


@pytest.fixture
def nested(repository):
    """An untracked repository inside the repository, without a commit yet."""
    path = repository.path / "vendor" / "nested"
    path.mkdir(parents=True)
    inner = type(repository)(path)
    inner.git("init", "-q", "-b", "main")
    return inner


def test_a_nested_repository_is_followed_by_head_and_content(repository, nested, look):
    hashes = [look.hash(repository.path)]
    nested.write("file", "one\n")
    hashes.append(look.hash(repository.path))
    nested.write("file", "two\n")
    hashes.append(look.hash(repository.path))
    nested.commit("first")
    hashes.append(look.hash(repository.path))
    nested.commit("empty")
    hashes.append(look.hash(repository.path))
    assert len(set(hashes)) == 5
    assert look.listed(repository.path) == {b"vendor/nested": "??"}


def test_repositories_nested_too_deep_are_a_typed_reason(repository, look, monkeypatch):
    monkeypatch.setattr("bridge.git.observe.MAX_NESTED_DEPTH", 2)
    path = repository.path
    for depth in range(3):
        path = path / f"level{depth}"
        path.mkdir()
        type(repository)(path).git("init", "-q")
        (path / "file").write_text("x")
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.UNSUPPORTED_FEATURE
    assert seen.unknown_path == b"level0/level1/level2"
    shutil.rmtree(path)
    assert look(repository.path).unknown is None


def test_a_path_inside_a_nested_repository_is_that_repositorys(repository, nested, look):
    nested.write("file", "one\n")
    assert look(nested.path).location.root == nested.path
    assert isinstance(look(nested.path / "file").location.root, Path)
