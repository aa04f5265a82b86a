"""The dirty hash: what changes it, what does not, and that "clean" means what git status means."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from bridge.git.manifest import CLEAN_DIRTY_HASH, ContentKind
from bridge.semantics.stamps import UnknownReason


def git_says_clean(path) -> bool:
    done = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"],
        cwd=path,
        capture_output=True,
        check=True,
    )
    return done.stdout == b""


def test_a_clean_repository_has_the_fixed_clean_hash(repository, look):
    seen = look(repository.path)
    assert seen.is_clean
    assert seen.state.dirty_hash == CLEAN_DIRTY_HASH
    assert seen.state.head == repository.head()
    assert seen.state.ref == "refs/heads/main"
    assert seen.state.operation is None
    assert seen.stamp.state_digest == seen.state.state_digest


def test_a_second_edit_to_a_modified_file_changes_the_hash(repository, look):
    hashes = [look.hash(repository.path)]
    for text in ("one\n", "two\n"):
        repository.write("a.txt", text)
        hashes.append(look.hash(repository.path))
    assert len(set(hashes)) == 3


def test_an_edit_inside_an_untracked_file_changes_the_hash(repository, look):
    repository.write("new/deep.txt", "one\n")
    first = look.hash(repository.path)
    repository.write("new/deep.txt", "two\n")
    assert look.hash(repository.path) != first


def test_a_chmod_changes_the_hash(repository, look):
    clean = look.hash(repository.path)
    (repository.path / "a.txt").chmod(0o755)
    assert look.hash(repository.path) != clean


def test_a_chmod_of_an_untracked_file_changes_the_hash(repository, look):
    file = repository.write("new.sh", "#!/bin/sh\n")
    file.chmod(0o644)
    first = look.hash(repository.path)
    file.chmod(0o755)
    assert look.hash(repository.path) != first


def test_a_symlink_retarget_changes_the_hash(repository, look):
    link = repository.path / "link"
    link.symlink_to("a.txt")
    untracked = look.hash(repository.path)
    repository.git("add", "link")
    repository.git("commit", "-qm", "link")
    assert look(repository.path).is_clean
    hashes = [untracked]
    for target in ("b.txt", "nowhere"):
        link.unlink()
        link.symlink_to(target)
        hashes.append(look.hash(repository.path))
    assert len(set(hashes)) == 3


def test_a_symlink_is_digested_by_its_target_text_and_never_followed(repository, look, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("one\n")
    (repository.path / "link").symlink_to(outside)
    first = look(repository.path)
    outside.write_text("two\n")
    assert look.hash(repository.path) == first.state.dirty_hash
    assert first.manifest.rows[0].content_kind is ContentKind.LINK


def test_a_staged_only_change_changes_the_hash(repository, look):
    clean = look.hash(repository.path)
    repository.write("a.txt", "staged\n")
    unstaged = look.hash(repository.path)
    repository.git("add", "a.txt")
    staged = look.hash(repository.path)
    repository.write("a.txt", "alpha\n")
    staged_and_back = look.hash(repository.path)
    assert len({clean, unstaged, staged, staged_and_back}) == 4


def test_an_unstaged_deletion_and_a_staged_one_differ(repository, look):
    (repository.path / "a.txt").unlink()
    unstaged = look.hash(repository.path)
    repository.git("rm", "-q", "--cached", "a.txt")
    assert look.hash(repository.path) != unstaged


def test_touch_does_not_change_the_hash(repository, look):
    repository.write("a.txt", "dirty\n")
    repository.write("new.txt", "new\n")
    first = look.hash(repository.path)
    for name in ("a.txt", "b.txt", "new.txt"):
        os.utime(repository.path / name, (1_000_000_000, 1_000_000_000))
    assert look.hash(repository.path) == first


def test_touching_a_clean_tree_leaves_it_clean(repository, look):
    os.utime(repository.path / "a.txt", (1_000_000_000, 1_000_000_000))
    assert look(repository.path).is_clean


def test_file_folder_and_symlink_swaps_each_change_the_hash(repository, look):
    hashes = [look.hash(repository.path)]
    target = repository.path / "a.txt"
    target.unlink()
    hashes.append(look.hash(repository.path))
    target.mkdir()
    repository.write("a.txt/inner", "alpha\n")
    hashes.append(look.hash(repository.path))
    (target / "inner").unlink()
    target.rmdir()
    target.symlink_to("b.txt")
    hashes.append(look.hash(repository.path))
    assert len(set(hashes)) == 4


def test_the_same_content_as_file_and_as_symlink_differ(repository, look):
    repository.write("x", "b.txt")
    as_file = look.hash(repository.path)
    (repository.path / "x").unlink()
    (repository.path / "x").symlink_to("b.txt")
    assert look.hash(repository.path) != as_file


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status.renames", "copies"),
        ("status.relativePaths", "true"),
        ("status.showUntrackedFiles", "no"),
        ("status.short", "true"),
        ("status.branch", "true"),
        ("status.showStash", "true"),
        ("status.aheadBehind", "true"),
        ("status.submoduleSummary", "true"),
        ("core.quotePath", "false"),
        ("core.fsmonitor", "/nonexistent/fsmonitor-hook"),
        ("core.untrackedCache", "true"),
        ("core.preloadIndex", "false"),
        ("color.ui", "always"),
        ("column.ui", "always"),
        ("diff.renames", "copies"),
        ("diff.ignoreSubmodules", "all"),
        ("diff.mnemonicPrefix", "true"),
        ("advice.statusHints", "false"),
    ],
)
def test_presentation_settings_change_nothing(repository, look, name, value):
    repository.git("mv", "a.txt", "café ü.txt")
    repository.write("b.txt", "edited\n")
    repository.write("new/one.txt", "one\n")
    before = look(repository.path)
    repository.git("config", name, value)
    after = look(repository.path)
    assert after.state == before.state
    assert after.manifest == before.manifest


def test_fsmonitor_true_changes_nothing_and_starts_no_hook(repository, look, tmp_path):
    hook = tmp_path / "hook"
    marker = tmp_path / "ran"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\nprintf 'token\\0'\n")
    hook.chmod(0o755)
    repository.write("a.txt", "edited\n")
    before = look.hash(repository.path)
    repository.git("config", "core.fsmonitor", str(hook))
    assert look.hash(repository.path) == before
    assert not marker.exists()


def test_core_file_mode_false_is_honoured_as_git_honours_it(repository, look):
    with_mode = look(repository.path)
    repository.git("config", "core.fileMode", "false")
    (repository.path / "a.txt").chmod(0o755)
    seen = look(repository.path)
    assert git_says_clean(repository.path)
    assert seen.is_clean
    assert seen.state.settings_digest != with_mode.state.settings_digest


def test_with_file_mode_false_the_executable_bit_of_untracked_files_does_not_count(repository, look):
    repository.git("config", "core.fileMode", "false")
    file = repository.write("new.sh", "x")
    file.chmod(0o644)
    first = look.hash(repository.path)
    file.chmod(0o755)
    assert look.hash(repository.path) == first


def test_a_changed_meaning_setting_is_seen_although_settings_are_remembered(repository, look):
    old = time.time() - 100
    os.utime(repository.path / ".git" / "config", (old, old))
    first = look(repository.path)
    assert look(repository.path).state == first.state
    repository.git("config", "core.autocrlf", "input")
    second = look(repository.path)
    assert second.state.settings_digest != first.state.settings_digest
    repository.git("config", "--unset", "core.autocrlf")
    assert look(repository.path).state.settings_digest == first.state.settings_digest


def test_a_setting_in_an_included_file_is_part_of_the_digest(repository, look, hermetic_environment):
    extra = hermetic_environment / "extra.inc"
    with (hermetic_environment / ".gitconfig").open("a") as file:
        file.write("[include]\n\tpath = extra.inc\n")
    first = look(repository.path).state.settings_digest
    extra.write_text("[core]\n\tautocrlf = input\n")
    assert look(repository.path).state.settings_digest != first


def test_the_users_global_excludes_are_honoured(repository, look, hermetic_environment):
    (hermetic_environment / "ignore").write_text("*.log\n")
    repository.write("x.log", "log\n")
    assert not look(repository.path).is_clean
    repository.git("config", "--global", "core.excludesFile", "~/ignore")
    assert git_says_clean(repository.path)
    assert look(repository.path).is_clean


def test_ignored_files_are_not_part_of_the_state(repository, look):
    repository.commit("ignore", _gitignore="*.log\n")
    clean = look.hash(repository.path)
    repository.write("x.log", "log\n")
    assert look.hash(repository.path) == clean


def test_detached_head_has_no_ref(repository, look):
    repository.git("checkout", "-q", "--detach")
    seen = look(repository.path)
    assert seen.state.ref is None
    assert seen.state.head == repository.head()


def test_a_branch_called_like_a_full_ref_is_told_from_it(repository, look):
    repository.git("checkout", "-qb", "refs/odd")
    assert look(repository.path).state.ref == "refs/heads/refs/odd"
    repository.git("update-ref", "refs/odd", "HEAD")
    repository.git("symbolic-ref", "HEAD", "refs/odd")
    assert look(repository.path).state.ref == "refs/odd"


def test_states_on_two_branches_at_one_commit_differ_in_ref_alone(repository, look):
    first = look(repository.path).state
    repository.git("checkout", "-qb", "other")
    second = look(repository.path).state
    assert (first.head, first.dirty_hash) == (second.head, second.dirty_hash)
    assert first.state_digest != second.state_digest


@pytest.mark.parametrize("operation", ["merge", "rebase", "am", "cherry-pick", "revert", "bisect"])
def test_an_operation_in_progress_is_part_of_the_state(repository, look, operation):
    repository.git("checkout", "-qb", "side")
    side = repository.commit("side", a_txt="side\n")
    patch = repository.git("format-patch", "--stdout", "-1", side)
    repository.git("checkout", "-q", "main")
    main = repository.commit("main", a_txt="main\n")
    before = look(repository.path).state
    commands = {
        "merge": ["merge", "side"],
        "rebase": ["rebase", "side"],
        "am": ["am", "-3"],
        "cherry-pick": ["cherry-pick", side],
        "revert": ["revert", "--no-edit", "HEAD~1"],
        "bisect": ["bisect", "start"],
    }
    if operation == "revert":
        repository.commit("again", a_txt="again\n")
        commands["revert"] = ["revert", "--no-edit", main]
    repository.git(*commands[operation], check=False, stdin=patch.encode() if operation == "am" else b"")
    seen = look(repository.path)
    assert seen.state.operation == operation
    assert seen.state != before


def test_every_combination_of_conflict_stages_is_told_apart(repository, look):
    """Index entries at stages 1, 2, 3 in all seven combinations, on seven paths."""
    blobs = [
        repository.git("hash-object", "-w", "--stdin", stdin=text).strip() for text in (b"base", b"ours", b"theirs")
    ]
    lines = []
    for mask in range(1, 8):
        for stage in range(3):
            if mask & (1 << stage):
                lines.append(f"100644 {blobs[stage]} {stage + 1}\tconflict{mask}\n")
    repository.git("update-index", "--index-info", stdin="".join(lines).encode())
    listed = look.listed(repository.path)
    assert {listed[f"conflict{mask}".encode()] for mask in range(1, 8)} == {"DD", "AU", "UD", "UA", "DU", "AA", "UU"}
    before = look.hash(repository.path)
    repository.git("update-index", "--index-info", stdin=f"100755 {blobs[0]} 1\tconflict7\n".encode())
    assert look.hash(repository.path) != before


def test_intent_to_add_is_told_from_untracked(repository, look):
    repository.write("new.txt", "new\n")
    untracked = look.hash(repository.path)
    repository.git("add", "-N", "new.txt")
    assert look.hash(repository.path) != untracked


def test_case_changes_of_a_name_change_the_hash(repository, look):
    (repository.path / "a.txt").rename(repository.path / "A.txt")
    first = look.hash(repository.path)
    (repository.path / "A.txt").rename(repository.path / "a.TXT")
    assert look.hash(repository.path) != first


def test_fifos_and_sockets_are_what_git_makes_of_them(repository, look):
    os.mkfifo(repository.path / "pipe")
    assert git_says_clean(repository.path)
    assert look(repository.path).is_clean
    (repository.path / "a.txt").unlink()
    os.mkfifo(repository.path / "a.txt")
    seen = look(repository.path, timeout_seconds=20)
    assert not seen.is_clean


def test_an_unreadable_file_makes_the_stamp_unknown(ordinary_user, look):
    ordinary_user.write("secret.txt", "secret\n").chmod(0)
    seen = look(ordinary_user.path)
    assert seen.unknown is UnknownReason.UNREADABLE_PATH
    assert seen.unknown_path == b"secret.txt"
    assert "Permission denied" in seen.detail
    assert not seen.is_clean


def test_an_unreadable_untracked_folder_makes_the_stamp_unknown(ordinary_user, look):
    """git only warns about it and leaves it out, with exit status 0."""
    folder = ordinary_user.write("closed/secret.txt", "secret\n").parent
    folder.chmod(0)
    seen = look(ordinary_user.path)
    folder.chmod(0o700)
    assert seen.unknown is UnknownReason.UNREADABLE_PATH
    assert seen.unknown_path == b"closed"


def test_a_tracked_file_in_an_unreadable_folder_makes_the_stamp_unknown(ordinary_user, look):
    ordinary_user.commit("folder", folder__a_txt="a\n")
    folder = ordinary_user.path / "folder"
    folder.chmod(0)
    seen = look(ordinary_user.path)
    folder.chmod(0o700)
    assert seen.unknown is UnknownReason.UNREADABLE_PATH
    assert seen.unknown_path.startswith(b"folder")


def test_a_path_that_does_not_exist_is_unknown(tmp_path, look):
    assert look(tmp_path / "gone").unknown is UnknownReason.NO_PATH
    assert look(None).unknown is UnknownReason.NO_PATH


def test_a_folder_outside_any_repository_is_unknown(tmp_path, look):
    seen = look(tmp_path)
    assert seen.unknown is UnknownReason.NOT_A_REPOSITORY
    assert seen.stamp.state_digest is None


def test_a_broken_git_file_does_not_lead_to_the_enclosing_repository(repository, look):
    folder = repository.path / "broken"
    folder.mkdir()
    (folder / ".git").write_text("gitdir: /nonexistent/elsewhere\n")
    assert look(folder).unknown is UnknownReason.NOT_A_REPOSITORY


def test_a_bare_repository_is_unknown(repository, look, tmp_path):
    repository.git("clone", "-q", "--bare", ".", tmp_path / "bare")
    assert look(tmp_path / "bare").unknown is UnknownReason.BARE_REPOSITORY
    assert look(repository.path / ".git").unknown is UnknownReason.BARE_REPOSITORY


def test_core_bare_in_a_git_folder_is_unknown(repository, look):
    repository.git("config", "core.bare", "true")
    assert look(repository.path).unknown is UnknownReason.BARE_REPOSITORY


def test_a_time_limit_that_passes_is_unknown(repository, look):
    seen = look(repository.path, timeout_seconds=0.0)
    assert seen.unknown is UnknownReason.TIMED_OUT
    repository.git("config", "filter.slow.clean", "sleep 30; cat")
    repository.write(".gitattributes", "*.slow filter=slow\n")
    repository.write("x.slow", "x\n")
    subprocess.run(["git", "-c", "filter.slow.clean=cat", "add", "-A"], cwd=repository.path, check=True)
    repository.write("x.slow", "y\n")
    started = time.monotonic()
    seen = look(repository.path, timeout_seconds=1.0)
    assert seen.unknown is UnknownReason.TIMED_OUT
    assert time.monotonic() - started < 15


def test_a_corrupt_index_is_unknown_and_carries_gits_words(repository, look):
    (repository.path / ".git" / "index").write_bytes(b"x")
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.GIT_FAILED
    assert "index" in seen.detail


def test_a_safe_directory_refusal_carries_gits_words(repository, look, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs another owner")
    monkeypatch.delenv("SUDO_UID", raising=False)
    for root, folders, files in os.walk(repository.path):
        for name in [".", *folders, *files]:
            os.lchown(os.path.join(root, name), 65534, 65534)
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.GIT_FAILED
    assert "dubious ownership" in seen.detail


def test_an_unsupported_extension_is_unknown(repository, look):
    repository.git("config", "core.repositoryFormatVersion", "1")
    repository.git("config", "extensions.fromTheFuture", "true")
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.UNSUPPORTED_FEATURE


def test_a_missing_git_program_is_a_typed_reason(repository, look, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    seen = look(repository.path)
    assert seen.unknown is UnknownReason.GIT_FAILED
    assert "not found" in seen.detail


def test_hidden_paths_are_named_unobserved(repository, look):
    repository.git("update-index", "--assume-unchanged", "a.txt")
    repository.git("update-index", "--skip-worktree", "b.txt")
    repository.write("a.txt", "hidden edit\n")
    seen = look(repository.path, include_unobserved=True)
    assert git_says_clean(repository.path)
    assert seen.is_clean
    assert seen.unobserved == (b"a.txt", b"b.txt")
    assert look(repository.path).unobserved == ()


def test_a_sha256_repository_is_observed(tmp_path, look):
    path = tmp_path / "sha256"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(path)], check=True)
    (path / "a").write_text("a\n")
    subprocess.run(["git", "add", "a"], cwd=path, check=True)
    subprocess.run(["git", "commit", "-qm", "a"], cwd=path, check=True)
    seen = look(path)
    assert seen.is_clean
    assert len(seen.state.head) == 64


def test_a_shallow_clone_is_observed(repository, look, tmp_path):
    repository.commit("second", a_txt="2\n")
    repository.git("clone", "-q", "--depth=1", f"file://{repository.path}", tmp_path / "shallow")
    seen = look(tmp_path / "shallow")
    assert seen.is_clean
    assert seen.state.head == repository.head()


def test_core_worktree_elsewhere_is_followed(repository, look, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("a.txt", "b.txt"):
        (elsewhere / name).write_bytes((repository.path / name).read_bytes())
    repository.git("config", "core.worktree", str(elsewhere))
    seen = look(repository.path)
    assert seen.location.worktree_root == elsewhere
    assert seen.is_clean
    (elsewhere / "a.txt").write_text("edited\n")
    assert look.listed(repository.path) == {b"a.txt": ".M"}


def test_the_same_files_in_another_clone_are_another_state(repository, look, tmp_path):
    repository.git("clone", "-q", ".", tmp_path / "clone")
    here, there = look(repository.path).state, look(tmp_path / "clone").state
    assert here.dirty_hash == there.dirty_hash
    assert here.state_digest != there.state_digest
