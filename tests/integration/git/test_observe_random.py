"""Random sequences of git and file operations: the stamp against git status and the bytes of the listed paths.

After each step git is asked what ``--porcelain`` prints and what ``--porcelain=v2`` lists, and the listed paths are
read without Bridge's help. The stamp must be clean exactly when the first prints nothing; equal answers and bytes
must have one dirty hash, different ones never; where git complains or a listed path cannot be read, the stamp must
be unknown and name its reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from bridge.foundation.clock import SystemClock
from bridge.git.digestcache import MemoryDigestCache
from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.git.observe import observe
from bridge.semantics.stamps import UnknownReason

#: The id of the user who owns nothing.
NOBODY = 65534
#: Steps of one sequence, and how many of the profile's examples become one.
STEPS = 45
SHARE = 4
#: Steps that each of the two tests must have compared, with the profile of everyday.
LEAST_STEPS = 1_000

LIST = ["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=none"]
PRINT = ["status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"]
TEXTS = [b"", b"one\n", b"two\n", b"one\r\n", b"ONE\n"]
FILES = [b"a", b"b", b"folder/c", b"folder/d", b"script", b"link", b"deep/er/x"]
NAMES = st.sampled_from(
    [
        *FILES,
        b"A",
        b"folder",
        b"deep",
        b"new\nline",
        b"byte-\xff",
        b" leading",
        b'quo"te\\',
        b":(top)a",
        b"ignored.log",
        b"excluded.tmp",
        b"deep/er/y z",
        b"sub/lib.c",
        b"sub/new",
        b"nested/file",
    ]
)
TRACKED = st.sampled_from(FILES)
BRANCHES = st.sampled_from(["main", "side"])
FIXED = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_EDITOR": "true",
}

#: Shrinking a failure takes many more runs than passing, and a longer profile longer.
pytestmark = pytest.mark.timeout(9 * settings().max_examples)


def git(folder: Path | bytes, *arguments: str | bytes, accept: bool = True) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if not accept and done.returncode:
        raise AssertionError(f"git {arguments}: {done.stderr.decode(errors='replace')}")
    return done.stdout if done.returncode == 0 else b""


def make_template(folder: Path) -> dict[bytes, str]:
    """Make the repository that every sequence starts from; return the ids of the blobs of all texts."""
    library, root = folder / "library", folder / "template"
    for path in (library, root):
        path.mkdir()
        git(path, "init", "-q", "-b", "main", accept=False)
    (library / "lib.c").write_text("int x;\n")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "library", accept=False)
    (root / ".gitignore").write_text("*.log\n")
    for name in FILES:
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"one\n")
    (root / "script").chmod(0o755)
    (root / "link").unlink()
    (root / "link").symlink_to("a")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub", accept=False)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first", accept=False)
    git(root, "checkout", "-qb", "side")
    (root / "a").write_text("side\n")
    (root / "b").unlink()
    (root / "folder" / "d").unlink()
    (root / "folder" / "d").symlink_to("c")
    (root / "script").chmod(0o644)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "side", accept=False)
    git(root, "checkout", "-q", "main")
    (root / "a").write_text("main\n")
    (root / "b").write_text("main\n")
    git(root, "commit", "-qam", "main", accept=False)
    blobs = {}
    for text in TEXTS:
        (folder / "text").write_bytes(text)
        blobs[text] = git(root, "hash-object", "-w", folder / "text").decode().strip()
    (root / ".git" / "info").mkdir(exist_ok=True)
    return blobs


class Unknowable(Exception):
    """Raised by the truth when a listed path cannot be read."""


class Worktree(RuleBasedStateMachine):
    """One repository and the truth about it."""

    template: Path
    blobs: dict[bytes, str]
    #: Over all sequences: what states each hash stood for, and how many were compared.
    hashes: dict[str, set[bytes]]
    counts: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="bridge-random-")).resolve()
        self.root = self.folder / "repository"
        shutil.copytree(self.template, self.root, symlinks=True)
        self.truths: dict[bytes, str] = {}
        self.cache = MemoryDigestCache()
        self.closed: list[tuple[bytes, int]] = []

    def teardown(self) -> None:
        self.reopen()
        shutil.rmtree(self.folder)

    # Files

    def place(self, name: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), name)

    def make_room(self, name: bytes) -> bytes:
        """Remove what stands at a path and what stands in the way to it; return the path."""
        self.reopen()
        folder = os.fsencode(self.root)
        for part in name.split(b"/")[:-1]:
            folder = os.path.join(folder, part)
            if not os.path.isdir(folder) or os.path.islink(folder):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(folder)
                os.mkdir(folder)
        path = self.place(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return path

    def reopen(self) -> None:
        """Give back what was closed, wherever git has put it since."""
        while self.closed:
            path, mode = self.closed.pop()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.chmod(path, mode)
            for folder, folders, files in os.walk(os.fsencode(self.root)):
                for name in [*folders, *files]:
                    found = os.path.join(folder, name)
                    status = os.lstat(found)
                    least = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
                    is_closed = not stat.S_ISLNK(status.st_mode) and status.st_mode & least != least
                    if is_closed and b"/.git/" not in found:
                        os.chmod(found, stat.S_IMODE(status.st_mode) | least)

    @rule(name=NAMES, text=st.sampled_from(TEXTS))
    def write(self, name: bytes, text: bytes) -> None:
        self.reopen()
        path = self.place(name)
        if not os.path.isfile(path) or os.path.islink(path):
            path = self.make_room(name)
        with open(path, "wb") as file:
            file.write(text)

    @rule(name=NAMES, text=st.sampled_from(TEXTS))
    def replace(self, name: bytes, text: bytes) -> None:
        (self.folder / "temporary").write_bytes(text)
        os.rename(self.folder / "temporary", self.make_room(name))

    @rule(name=NAMES, destination=st.sampled_from([b"a", b"b", b"nowhere", b"folder"]))
    def symlink(self, name: bytes, destination: bytes) -> None:
        os.symlink(destination, self.make_room(name))

    @rule(name=NAMES, inner=st.sampled_from([b"a", b"one", b"x.log"]))
    def turn_into_folder(self, name: bytes, inner: bytes) -> None:
        self.make_room(name)
        os.mkdir(self.place(name))
        self.write(name + b"/" + inner, b"one\n")

    @rule(name=NAMES, is_socket=st.booleans())
    def special(self, name: bytes, is_socket: bool) -> None:
        path = self.make_room(name)
        if not is_socket:
            os.mkfifo(path)
            return
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)

    @rule(name=NAMES)
    def remove(self, name: bytes) -> None:
        if os.path.lexists(self.place(name)):
            self.make_room(name)

    @rule(name=NAMES, other=NAMES)
    def move(self, name: bytes, other: bytes) -> None:
        is_apart = not other.startswith(name) and not name.startswith(other)
        if is_apart and os.path.lexists(self.place(name)):
            target = self.make_room(other)
            if os.path.lexists(self.place(name)):
                os.rename(self.place(name), target)

    @rule(name=NAMES, mode=st.sampled_from([0o644, 0o755, 0o600]))
    def chmod(self, name: bytes, mode: int) -> None:
        path = self.place(name)
        if os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, mode)

    @rule(name=NAMES, moment=st.sampled_from([1, 1_000_000_000, 4_000_000_000]))
    def touch(self, name: bytes, moment: int) -> None:
        if os.path.lexists(self.place(name)):
            os.utime(self.place(name), (moment, moment), follow_symlinks=False)

    # The index

    @rule(name=NAMES)
    def stage(self, name: bytes) -> None:
        git(self.root, "--literal-pathspecs", "add", "-A", "--", name)

    @rule()
    def stage_everything(self) -> None:
        git(self.root, "add", "-A")

    @rule(name=NAMES)
    def intend_to_add(self, name: bytes) -> None:
        git(self.root, "--literal-pathspecs", "add", "-N", "--", name)

    @rule(name=NAMES, text=st.sampled_from(TEXTS), mode=st.sampled_from([b"100644", b"100755", b"120000"]))
    def change_the_index_alone(self, name: bytes, text: bytes, mode: bytes) -> None:
        git(self.root, "update-index", "--add", "--cacheinfo", mode, self.blobs[text], name)

    @rule(name=NAMES)
    def unstage(self, name: bytes) -> None:
        git(self.root, "--literal-pathspecs", "rm", "-r", "-q", "--cached", "--", name)

    @rule(name=NAMES)
    def git_rm(self, name: bytes) -> None:
        git(self.root, "--literal-pathspecs", "rm", "-r", "-q", "-f", "--", name)

    @rule(name=TRACKED, other=NAMES)
    def git_mv(self, name: bytes, other: bytes) -> None:
        git(self.root, "mv", "-f", b"./" + name, b"./" + other)

    @rule(
        name=TRACKED,
        flag=st.sampled_from(["assume-unchanged", "no-assume-unchanged", "skip-worktree", "no-skip-worktree"]),
    )
    def hide(self, name: bytes, flag: str) -> None:
        git(self.root, "update-index", f"--{flag}", name)

    # History

    @rule(option=st.sampled_from(["--no-verify", "--amend"]))
    def commit(self, option: str) -> None:
        git(self.root, "commit", "-q", option, "-m", "x")

    @rule(how=st.sampled_from(["--soft", "--mixed", "--hard"]), where=st.sampled_from(["HEAD", "HEAD~1", "side"]))
    def reset(self, how: str, where: str) -> None:
        git(self.root, "reset", "-q", how, where)

    @rule(branch=BRANCHES, option=st.sampled_from(["--detach", "--force", "--merge", "--quiet"]))
    def switch(self, branch: str, option: str) -> None:
        git(self.root, "switch", option, branch)

    @rule(branch=BRANCHES, name=TRACKED)
    def checkout_a_path(self, branch: str, name: bytes) -> None:
        git(self.root, "checkout", branch, "--", name)

    @rule(command=st.sampled_from(["merge", "rebase", "cherry-pick", "revert"]), branch=BRANCHES)
    def begin(self, command: str, branch: str) -> None:
        git(self.root, command, branch)

    @rule(command=st.sampled_from(["merge", "rebase", "cherry-pick", "revert"]))
    def abort(self, command: str) -> None:
        git(self.root, command, "--abort")

    @rule(command=st.sampled_from([["push"], ["push", "-u"], ["push", "--staged"], ["pop"], ["pop", "--index"]]))
    def stash(self, command: list[str]) -> None:
        git(self.root, "stash", *command)

    # What lies inside, and what git is told about all of it

    @rule(name=st.sampled_from([b"nested", b"folder", b"deep/er", b"a"]), has_commit=st.booleans())
    def nest(self, name: bytes, has_commit: bool) -> None:
        if os.path.lexists(self.place(name + b"/.git")):
            return
        if not os.path.isdir(self.place(name)) or os.path.islink(self.place(name)):
            self.write(name + b"/file", b"one\n")
        git(self.root, "init", "-q", "-b", "main", b"./" + name)
        if has_commit:
            git(self.place(name), "add", "-A")
            git(self.place(name), "commit", "-qm", "x")

    @rule(command=st.sampled_from(["commit", "deinit", "update", "sync"]))
    def submodule(self, command: str) -> None:
        if command == "commit":
            if os.path.lexists(self.place(b"sub/.git")):
                git(self.place(b"sub"), "add", "-A")
                git(self.place(b"sub"), "commit", "-qm", "x")
            return
        options = ["-f", "sub"] if command == "deinit" else ["--init"] if command == "update" else []
        git(self.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", command, *options)

    @rule(command=st.sampled_from(["set --cone folder", "set --no-cone /a /sub", "reapply", "disable"]))
    def sparse(self, command: str) -> None:
        git(self.root, "sparse-checkout", *command.split())

    @rule(patterns=st.sampled_from([b"", b"*.tmp\n", b"deep\n", b"nested\n", b"*\n!a\n"]))
    def exclude(self, patterns: bytes) -> None:
        (self.root / ".git" / "info" / "exclude").write_bytes(patterns)

    @rule(value=st.sampled_from(["true", "false", "input"]))
    def autocrlf(self, value: str) -> None:
        git(self.root, "config", "core.autocrlf", value)

    @rule(value=st.sampled_from(["true", "false"]))
    def file_mode(self, value: str) -> None:
        git(self.root, "config", "core.fileMode", value)

    @rule(value=st.sampled_from(["* text=auto\n", "*.c -text\n", "a eol=crlf\n"]))
    def attributes(self, value: str) -> None:
        self.write(b".gitattributes", value.encode())

    @precondition(lambda self: os.geteuid() != 0)
    @rule(name=NAMES, mode=st.sampled_from([0, 0o200, 0o300, 0o400]))
    def close(self, name: bytes, mode: int) -> None:
        self.reopen()
        path = self.place(name)
        if os.path.lexists(path) and not os.path.islink(path):
            self.closed.append((path, stat.S_IMODE(os.stat(path).st_mode)))
            os.chmod(path, mode)

    # The truth

    @invariant()
    def the_observation_is_the_truth(self) -> None:
        self.counts["steps"] += 1
        printed = subprocess.run(["git", *PRINT], cwd=self.root, capture_output=True, check=False)
        seen = observe(self.root, clock=SystemClock(), timeout_seconds=60, digests=self.cache)
        try:
            truth = self.truth(printed)
        except Unknowable:
            self.counts["unknown"] += 1
            assert seen.unknown in {UnknownReason.UNREADABLE_PATH, UnknownReason.GIT_FAILED}, printed
            assert not seen.is_clean
            return
        assert seen.unknown is None, (seen.unknown, seen.unknown_path, seen.detail)
        assert seen.is_clean == (printed.stdout == b"")
        assert (seen.state.dirty_hash == CLEAN_DIRTY_HASH) == seen.is_clean
        self.counts["clean"] += seen.is_clean
        assert self.truths.setdefault(truth, seen.state.dirty_hash) == seen.state.dirty_hash, "one state, two hashes"
        assert len(set(self.truths.values())) == len(self.truths), "two states share a dirty hash"
        self.hashes.setdefault(seen.state.dirty_hash, set()).add(truth)

    def truth(self, printed: subprocess.CompletedProcess[bytes]) -> bytes:
        """Everything git status distinguishes and every byte below the listed paths, as one digest."""
        if printed.returncode or _is_complaint(printed.stderr):
            raise Unknowable(printed.stderr)
        if not printed.stdout:
            return b"clean"
        config = (self.root / ".git" / "config").read_bytes()
        state = self.inside(os.fsencode(self.root), counts_mode=b"filemode = false" not in config.lower())
        return hashlib.sha256(printed.stdout + b"\0" + state).digest()

    def inside(self, folder: bytes, *, counts_mode: bool) -> bytes:
        listed = subprocess.run(["git", *LIST, "--no-renames"], cwd=folder, capture_output=True, check=False)
        if listed.returncode or _is_complaint(listed.stderr):
            raise Unknowable(listed.stderr)
        parts = []
        for line in listed.stdout.split(b"\0"):
            if line[:1] not in {b"1", b"u", b"?"}:
                continue
            fields = line.split(b" ", {b"1": 8, b"u": 10, b"?": 1}[line[:1]])
            mode = None if line[:1] == b"?" else fields[5 if line[:1] == b"1" else 6]
            path = os.path.join(folder, fields[-1].removesuffix(b"/"))
            parts += [line, self.below(path, mode, counts_mode=counts_mode, is_stale=line[3:4] == b".")]
        return b"\0".join([b"%d" % len(part) + part for part in parts])

    def below(self, path: bytes, mode: bytes | None, *, counts_mode: bool, is_stale: bool) -> bytes:
        """Return what stands at a listed path of which git says that it has a mode; None for an untracked one."""
        if mode == b"000000":
            # A repository without a commit in a tracked file's place, which git does not mention.
            is_hidden = os.path.realpath(path) == path and os.path.lexists(path + b"/.git")
            return self.repository(path) if is_hidden else b"absent"
        if mode == b"160000" or (mode is None and os.path.isdir(path) and not os.path.islink(path)):
            return self.repository(path)
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                return b"link " + os.readlink(path)
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    is_executable = mode is None and counts_mode and bool(status.st_mode & 0o100)
                    return b"file %d " % is_executable + file.read()
        except (FileNotFoundError, NotADirectoryError):
            if is_stale:  # hidden from git, which takes the index's word for it
                return b"hidden and absent"
        except PermissionError as error:
            raise Unknowable(path) from error
        raise Unknowable(path)

    def repository(self, path: bytes) -> bytes:
        if not os.path.lexists(path + b"/.git"):
            return b"no repository"
        head = git(path, "rev-parse", "-q", "--verify", "HEAD")
        config = Path(os.fsdecode(git(path, "rev-parse", "--path-format=absolute", "--git-common-dir").strip()))
        counts_mode = b"filemode = false" not in (config / "config").read_bytes().lower()
        return head + self.inside(path, counts_mode=counts_mode)


def _is_complaint(stderr: bytes) -> bool:
    """Return whether git said that it left something out; a hint about line ends is none."""
    return any(
        not line.startswith(b"warning: ") or b"could not open directory" in line for line in stderr.splitlines() if line
    )


def run(template: Path, blobs: dict[bytes, str], *, examples: int | None = None) -> dict[str, int]:
    counts = dict.fromkeys(("steps", "unknown", "clean"), 0)
    hashes: dict[str, set[bytes]] = {}
    members = {"template": template, "blobs": blobs, "hashes": hashes, "counts": counts}
    machine = type("Worktree", (Worktree,), members)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples or settings().max_examples // SHARE,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
    assert all(len(states) == 1 for states in hashes.values()), "two states share a dirty hash"
    return counts


@pytest.fixture
def fixed_commits(monkeypatch):
    for name, value in FIXED.items():
        monkeypatch.setenv(name, value)


def test_random_work_is_stamped_truly(tmp_path, fixed_commits):
    counts = run(tmp_path / "template", make_template(tmp_path))
    assert counts["steps"] >= LEAST_STEPS
    assert min(counts.values()) > 0


def test_random_work_with_unreadable_files_is_stamped_truly(fixed_commits, ordinary_account):
    """For root nothing is unreadable, so as root this runs under another identity."""
    counts = run(ordinary_account / "template", make_template(ordinary_account))
    assert counts["steps"] >= LEAST_STEPS
    assert min(counts.values()) > 0


@pytest.fixture
def ordinary_account(monkeypatch):
    """A folder of the ordinary user as whom the test then runs; pytest's own folders are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="bridge-random-"))
    try:
        if os.geteuid() != 0:
            yield folder
            return
        # What hypothesis imports late may lie where only root can read.
        warm = folder / "warm"
        warm.mkdir()
        run(warm / "template", make_template(warm), examples=1)
        shutil.rmtree(warm)
        os.chown(folder, NOBODY, NOBODY)
        monkeypatch.setenv("HOME", str(folder))
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        try:
            yield folder
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
