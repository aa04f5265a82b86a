"""Random operations with adversarial timing: no recalled answer may differ from an exact one.

``make soak`` runs it longer; SOAK_SEED and SOAK_OPERATIONS choose another course.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from bridge.control.watched import COOKIE_FOLDER, CachedObserver
from bridge.foundation.clock import SystemClock
from bridge.git import meaning
from bridge.git.observe import observe
from bridge.git.remembering import RememberingLook

SEED = int(os.environ.get("SOAK_SEED", "20260102"))
#: Operations of the default run.
OPERATIONS = int(os.environ.get("SOAK_OPERATIONS", "10000"))
#: Sizes of the batches after which is asked. Single operations are the hardest to hear; each kind is then as likely.
BATCHES = (1, 1, 1, 1, 1, 1, 5, 50, 150, 400)
#: Least share of unchanged queries, asked at once after quiet, that must be recalled.
LEAST_RECALLED = 0.30
#: Most files that are kept; beyond it one is removed for each that is made.
MOST_FILES = 80
MOST_FOLDERS = 25
#: Operations that use one listing of the files.
LISTING_OPERATIONS = 12

pytestmark = pytest.mark.timeout(300 + OPERATIONS // 20)


@pytest.fixture(autouse=True)
def settings_settle_soon(monkeypatch):
    """Let the share of recalled answers not depend on how much of a second a thousand operations take."""
    monkeypatch.setattr(meaning, "SETTLING_SECONDS", 0.05)


class Playground:
    """A repository with a nested one, a submodule and a linked worktree, and random operations on it."""

    def __init__(self, repository, aside: Path, randomness: random.Random) -> None:
        self.repository = repository
        self.root = repository.path
        self.aside = aside
        self.random = randomness
        self.count = 0
        #: A file that is always there.
        self.steady = self.root / "steady.txt"
        self.nested = type(repository)(self.root / "nested")
        self.linked = type(repository)(aside / "linked")
        self._furnish()
        self.folders: list[str] = []
        self.files: list[str] = []
        self.look_around()
        self._table = [
            (self.edit, 20), (self.overwrite, 8), (self.append_in_place, 8), (self.create, 14),
            (self.create_in_new_folder, 14), (self.replace_atomically, 10), (self.move_in, 4), (self.remove, 12),
            (self.remove_folder, 2), (self.rename_file, 6), (self.rename_folder, 4), (self.change_mode, 5),
            (self.link, 3), (self.swap_kind, 2), (self.touch, 3), (self.backdate, 4), (self.nested_edit, 4),
            (self.nested_git, 0.6), (self.sub_edit, 2), (self.sub_git, 0.4), (self.index_only, 3), (self.commit, 1.2),
            (self.ref, 1.5), (self.switch, 0.5), (self.pseudo_ref, 1), (self.exclude, 1), (self.ignore, 1),
            (self.attributes, 0.3), (self.new_repository, 0.2), (self.foreign_commit, 0.5), (self.configure, 0.02),
            (self.global_ignore, 0.02),
        ]  # fmt: skip

    def _furnish(self) -> None:
        for number in range(40):
            self.repository.write(f"d{number % 8}/e{number % 3}/f{number}", f"{number}\n")
        self.repository.commit("files", steady_txt="alpha\n")
        source = type(self.repository)(self.aside / "source")
        source.path.mkdir(parents=True)
        source.git("init", "-q", "-b", "main")
        source.commit("one", file="1\n")
        source.commit("two", file="2\n")
        self.repository.git("submodule", "--quiet", "add", str(source.path), "sub")
        self.repository.commit("submodule")
        self.nested.path.mkdir()
        self.nested.git("init", "-q", "-b", "main")
        self.nested.commit("inner", file="x\n")
        self.repository.git("branch", "other", "HEAD~1")
        self.repository.git("worktree", "add", "-q", "--detach", self.linked.path)

    def step(self, *, is_single: bool = False) -> None:
        """Do one operation; what has become impossible is no matter."""
        operations, weights = zip(*self._table, strict=True)
        self.count += 1
        if self.count >= self.listed_at + LISTING_OPERATIONS:
            self.look_around()
        try:
            self.random.choices(operations, None if is_single else weights)[0]()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, FileExistsError):
            self.overwrite()
            self.look_around()

    def git(self, *arguments: str, where: Path | None = None) -> None:
        subprocess.run(["git", *arguments], cwd=where or self.root, capture_output=True, check=False)

    def text(self) -> str:
        return f"{self.count} {self.random.random()}\n" * self.random.choice((1, 1, 200))

    def look_around(self) -> None:
        """List what is there; what an operation then finds gone or changed in kind is no matter."""
        root = str(self.root)
        self.folders, self.files = [root], []
        for top in [root, *(f"{root}/d{number}" for number in range(8))]:
            for folder, folders, files in os.walk(top):
                if ".git" in folders:
                    folders.remove(".git")
                if top == root:
                    folders.clear()
                elif folder != top:
                    self.folders.append(folder)
                self.files += [f"{folder}/{name}" for name in files if name != self.steady.name]
        self.listed_at = self.count

    def file(self) -> Path:
        path = Path(self.random.choice(self.files))
        if path.is_symlink():
            raise FileNotFoundError(path)
        return path

    def folder(self) -> Path:
        return Path(self.random.choice(self.folders))

    def fresh(self) -> str:
        return self.random.choice(("n{}", "{}.o", "ü{}", "x {}")).format(self.count)

    # files

    def edit(self) -> None:
        self.file().write_text(self.text())

    def overwrite(self) -> None:
        self.steady.write_text(self.random.choice(("alpha\n", "Alpha\n", "beta\n")))

    def append_in_place(self) -> None:
        with self.file().open("r+b", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            file.write(b"+")

    def create(self) -> None:
        if len(self.files) > MOST_FILES:
            self.remove()
        (self.folder() / self.fresh()).write_text(self.text())

    def create_in_new_folder(self) -> None:
        if len(self.folders) > MOST_FOLDERS:
            self.remove_folder()
        folder = self.root / f"d{self.random.randrange(8)}" / f"m{self.count}" / "deep"
        folder.mkdir(parents=True)
        (folder / "at-once").write_text(self.text())
        if self.random.random() < 0.3:
            (folder / "at-once").unlink()

    def replace_atomically(self) -> None:
        target = self.file()
        temporary = target.with_name(f".{target.name}.tmp")
        temporary.write_text(self.text())
        temporary.replace(target)

    def move_in(self) -> None:
        if self.random.random() < 0.5:
            (self.aside / "moving").write_text(self.text())
        else:
            (self.aside / "moving" / "deep").mkdir(parents=True, exist_ok=True)
            (self.aside / "moving" / "deep" / "file").write_text(self.text())
        (self.aside / "moving").rename(self.folder() / self.fresh())

    def remove(self) -> None:
        self.file().unlink()

    def remove_folder(self) -> None:
        folder = self.folder()
        if folder != self.root:
            shutil.rmtree(folder)

    def rename_file(self) -> None:
        self.file().rename(self.folder() / self.fresh())

    def rename_folder(self) -> None:
        source, target = self.folder(), self.folder()
        if source != self.root and not target.is_relative_to(source):
            source.rename(target / f"r{self.count}")
            if self.random.random() < 0.5:
                (target / f"r{self.count}" / "after").write_text(self.text())

    def change_mode(self) -> None:
        file = self.file()
        file.chmod(file.stat().st_mode ^ 0o111)

    def link(self) -> None:
        (self.folder() / self.fresh()).symlink_to(self.random.choice(("a.txt", "nowhere", "d1")))

    def swap_kind(self) -> None:
        file = self.file()
        file.unlink()
        file.mkdir()
        if self.random.random() < 0.7:
            (file / "inner").write_text(self.text())

    def touch(self) -> None:
        self.file().touch()

    def backdate(self) -> None:
        """Change a file so that neither its size nor its time of writing tells."""
        file = self.file()
        before, content = file.stat(), file.read_bytes()
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:] if content else b"")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    # repositories

    def nested_edit(self) -> None:
        (self.nested.path / self.random.choice(("file", "g", "h"))).write_text(self.text())

    def nested_git(self) -> None:
        self.git("add", "-A", where=self.nested.path)
        if self.random.random() < 0.6:
            self.git("commit", "-qm", "x", where=self.nested.path)

    def sub_edit(self) -> None:
        (self.root / "sub" / self.random.choice(("file", "g"))).write_text(self.random.choice(("1\n", "2\n", "3\n")))

    def sub_git(self) -> None:
        where = self.root / "sub"
        if self.random.random() < 0.5:
            self.git("add", "-A", where=where)
        else:
            self.git("checkout", "-qf", self.random.choice(("HEAD~1", "main")), where=where)

    def index_only(self) -> None:
        name = str(self.file().relative_to(self.root))
        choice = self.random.randrange(6)
        if choice == 0:
            self.git("add", name)
        elif choice == 1:
            self.git("reset", "-q", "--", name)
        elif choice == 2:
            self.git("update-index", self.random.choice(("--chmod=+x", "--chmod=-x")), "a.txt")
        elif choice == 3:
            self.git("update-index", self.random.choice(("--assume-unchanged", "--no-assume-unchanged")), "b.txt")
        elif choice == 4:
            self.git("rm", "-q", "--cached", name)
        else:
            self.git("add", "-A", "--", ".", ":!nested")

    def commit(self) -> None:
        self.git("commit", "-q", "--allow-empty", "-m", "x", *self.random.choice(((), ("--amend",), ("a.txt",))))

    def ref(self) -> None:
        self.git(*self.random.choice((
            ("update-ref", "refs/heads/main", "HEAD~1"), ("update-ref", "HEAD", "other"), ("pack-refs", "--all"),
            ("reset", "-q", "--soft", "HEAD~1"), ("branch", "-f", f"b/{self.count % 5}/c"), ("tag", f"t{self.count}"),
        )))  # fmt: skip

    def switch(self) -> None:
        self.git(*self.random.choice((
            ("symbolic-ref", "HEAD", "refs/heads/other"), ("symbolic-ref", "HEAD", "refs/heads/main"),
            ("checkout", "-qf", "main"), ("checkout", "-qf", "--detach"), ("checkout", "-qf", "other"),
        )))  # fmt: skip

    def pseudo_ref(self) -> None:
        path = self.root / ".git" / self.random.choice(("CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"))
        if path.exists():
            path.unlink()
        else:
            path.write_text("0" * 40 + "\n")

    def exclude(self) -> None:
        folder = self.random.choice((self.root, self.nested.path))
        (folder / ".git" / "info" / "exclude").write_text(self.random.choice(("", "*.o\n", "n*\n", "x *\n", "g\n")))

    def ignore(self) -> None:
        (self.folder() / ".gitignore").write_text(self.random.choice(("", "*.o\n", "m*\n", "at-once\n")))

    def attributes(self) -> None:
        (self.root / ".gitattributes").write_text(self.random.choice(("", "* text=auto\n", "*.o binary\n")))

    def new_repository(self) -> None:
        folder = self.root / f"d{self.random.randrange(8)}" / f"repo{self.count}"
        folder.mkdir(parents=True)
        self.git("init", "-q", where=folder)
        (folder / "file").write_text(self.text())

    def foreign_commit(self) -> None:
        """What another worktree does to what is shared."""
        self.git("commit", "-q", "--allow-empty", "-m", "x", where=self.linked.path)
        if self.random.random() < 0.5:
            self.git("update-ref", "refs/heads/main", "HEAD", where=self.linked.path)

    def configure(self) -> None:
        self.git("config", "core.fileMode", self.random.choice(("true", "false")))

    def global_ignore(self) -> None:
        path = Path(os.environ["HOME"]) / ".config" / "git" / "ignore"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.random.choice(("", "x *\n")))


class DisturbedLook:
    """Observes for real while, as the test says, things change before, during and after."""

    def __init__(self, playground: Playground) -> None:
        self._playground = playground
        self.disturb = False

    def __call__(self, path, **options):
        if not self.disturb:
            return observe(path, **options)
        playground = self._playground
        for _ in range(playground.random.randrange(3)):
            playground.step()
        meanwhile = threading.Thread(target=lambda: [playground.step() for _ in range(3)])
        meanwhile.start()
        seen = observe(path, **options)
        meanwhile.join()
        for _ in range(playground.random.randrange(3)):
            playground.step()
        return seen


def truth(path):
    """What an exact look says now: the state and every row."""
    return facts(observe(path, clock=SystemClock(), timeout_seconds=60))


def facts(seen):
    return seen.state, None if seen.manifest is None else seen.manifest.rows, seen.unknown


def test_no_stale_answer_in_random_operations(repository, tmp_path, bridge_home):
    randomness = random.Random(SEED)
    playground = Playground(repository, tmp_path / "aside", randomness)
    look = DisturbedLook(playground)
    memory = RememberingLook(bridge_home / COOKIE_FOLDER, look=look, watch_at_request=1)
    observer = CachedObserver(SystemClock(), 60.0, state_directory=bridge_home, memory=memory)
    asked = recalled = compared = 0
    try:
        while playground.count < OPERATIONS:
            size = randomness.choice(BATCHES)
            for _ in range(size):
                playground.step(is_single=size == 1)
            look.disturb = randomness.random() < 0.25
            seen = observer.observe(repository.path)
            was_disturbed, look.disturb = look.disturb, False
            if seen.confirmed_at is not None:
                compared += 1
                assert facts(seen) == truth(repository.path), f"stale after operation {playground.count}"
            if was_disturbed:
                seen = observer.observe(repository.path)
                compared += 1
                assert facts(seen) == truth(repository.path), f"stale after operation {playground.count}"
            asked += 1
            again = observer.observe(repository.path)
            if again.confirmed_at is not None:
                recalled += 1
                compared += 1
                assert facts(again) == truth(repository.path), f"stale after operation {playground.count}"
        figures = observer.figures()
    finally:
        observer.close()
    print(f"{playground.count} operations, {asked} asked after quiet, {recalled} recalled, {compared} compared")
    assert recalled >= LEAST_RECALLED * asked, figures


def test_no_answer_is_older_than_what_was_finished_when_it_was_asked_for(repository, bridge_home):
    """Another thread writes without a pause; an answer must show at least the number that was written before."""
    memory = RememberingLook(bridge_home / COOKIE_FOLDER, watch_at_request=1)
    observer = CachedObserver(SystemClock(), 60.0, state_directory=bridge_home, memory=memory)
    randomness = random.Random(SEED + 1)
    target = repository.path / "a.txt"
    numbers = {hashlib.sha256(f"{number:08}\n".encode()).hexdigest().encode(): number for number in range(5_000)}
    target.write_text(f"{0:08}\n")
    finished, over = 0, threading.Event()

    def write() -> None:
        nonlocal finished
        for number in range(1, 800):
            if over.is_set():
                return
            text = f"{number:08}\n"
            if number % 3:
                temporary = target.with_name("new.tmp")
                temporary.write_text(text)
                temporary.replace(target)
            else:
                with target.open("r+b", buffering=0) as file:
                    file.write(text.encode())
            finished = number
            time.sleep(randomness.choice((0.0, 0.0, 0.001, 0.03)))

    writer = threading.Thread(target=write)
    writer.start()
    recalled = 0
    try:
        while writer.is_alive():
            least = finished
            seen = observer.observe(repository.path)
            if seen.manifest is None:
                continue  # it changed again and again while it was read
            digests = {row.path: row.content_digest for row in seen.manifest.rows}
            assert numbers[digests[b"a.txt"]] >= least, f"recalled: {seen.confirmed_at is not None}"
            recalled += seen.confirmed_at is not None
    finally:
        over.set()
        writer.join()
        observer.close()
    assert recalled > 0
