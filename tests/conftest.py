"""What every test stands on: a hermetic git, no inherited environment, state paths that raise."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from bridge.foundation.config import Settings, load_settings
from bridge.foundation.logs import configure_on_first_use

pytest_plugins = ["tests.databases"]
# As below: the next run would rewrite the assertions of all tests anew.
sys.dont_write_bytecode = False

# No example is too slow: a busy machine must not fail a test.
settings.register_profile("bridge", deadline=None)
# For ``make soak``: the tests that go by the number of examples go on for long.
settings.register_profile("soak", deadline=None, max_examples=4_000)
settings.load_profile("bridge")

#: A fixed identity and fixed times, so that commit ids are the same on every machine.
GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Test Author",
    "GIT_AUTHOR_EMAIL": "author@example.invalid",
    "GIT_COMMITTER_NAME": "Test Committer",
    "GIT_COMMITTER_EMAIL": "committer@example.invalid",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_TERMINAL_PROMPT": "0",
}


#: Tests that take longest. They go first, or one of them would be left when all others are done.
LONG = (
    "tests/integration/git/test_watch_random.py",
    "tests/integration/git/test_observe_random.py",
    "tests/integration/storage/test_later_schema.py::test_killed",
    "tests/integration/storage/test_killed_upgrades.py",
    "tests/integration/rpc/test_lifecycle.py",
)


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell that starts a run in the background has it ignored, by heirs too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long tests first; all others stay in the order in which they were shuffled."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(autouse=True)
def hermetic_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give each test a HOME of its own and no BRIDGE_*, GIT_* or XDG_* variable of the caller's."""
    home = tmp_path_factory.mktemp("home")
    _be_hermetic(monkeypatch, home)
    return home


def _be_hermetic(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("BRIDGE_", "GIT_", "XDG_")):
            monkeypatch.delenv(name)
    # Hundreds of processes of the tests would compile all of Bridge, each for itself.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("HOME", str(home))
    # No test finds, or leaves behind, a resident controller that it did not start itself.
    monkeypatch.setenv("BRIDGE_CONTROLLER", "off")
    # Workers of tests tell that they run by files beside their worktrees; what is about their borders says so.
    monkeypatch.setenv("BRIDGE_CONFINEMENT", "off")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    for name, value in GIT_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (home / ".gitconfig").write_text('[init]\n\tdefaultBranch = main\n[protocol "file"]\n\tallow = always\n')


@pytest.fixture(autouse=True)
def default_state_path_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the platform's default state directory unusable: a test that reaches it has forgotten BRIDGE_HOME."""

    def refuse(*_args: object, **_kwargs: object) -> str:
        raise AssertionError("a test reached the default state directory")

    monkeypatch.setattr("bridge.foundation.config.platformdirs.user_state_dir", refuse)


@pytest.fixture(autouse=True)
def logging_as_at_start() -> Iterator[None]:
    """Take back what a command run in this process set up: its streams are closed by then."""
    yield
    structlog.reset_defaults()
    configure_on_first_use(None)


@pytest.fixture
def bridge_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A fresh state directory, also named by BRIDGE_HOME for child processes.

    A test that uses ``database_url`` (``pytest.mark.usefixtures``) has its store there, also in child processes.
    """
    home = tmp_path / "bridge-home"
    monkeypatch.setenv("BRIDGE_HOME", str(home))
    if "database_url" in request.fixturenames and request.getfixturevalue("database_kind") == "postgresql":
        monkeypatch.setenv("BRIDGE_DATABASE_URL", request.getfixturevalue("database_url"))
    return home


def settings_here() -> Settings:
    """Return the settings that a child process of the test would have."""
    return load_settings({name: value for name, value in os.environ.items() if name.startswith("BRIDGE_")})


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio alone, the only event loop that Bridge is run on."""
    return "asyncio"


class GitRepository:
    """A real repository for a test; every method runs the git program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *arguments: str | Path, check: bool = True, stdin: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", *map(str, arguments)], cwd=self.path, capture_output=True, input=stdin, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"git {arguments}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="surrogateescape")

    def write(self, name: str, content: str | bytes = "content\n") -> Path:
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, message: str = "change", **files: str) -> str:
        """Write ``files`` (double underscores stand for slashes, a single one for a dot), add all, commit; the id."""
        for name, content in files.items():
            self.write(name.replace("__", "/").replace("_", "."), content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()


@pytest.fixture(scope="session")
def first_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that :func:`repository` copies."""
    path = tmp_path_factory.mktemp("first") / "repository"
    path.mkdir()
    with pytest.MonkeyPatch.context() as environment:
        # Made before any test has its environment.
        _be_hermetic(environment, tmp_path_factory.mktemp("home"))
        repo = GitRepository(path)
        repo.git("init", "-q", "-b", "main")
        repo.commit("first", a_txt="alpha\n", b_txt="beta\n")
    return path


@pytest.fixture
def repository(tmp_path: Path, first_repository: Path) -> GitRepository:
    """A repository on branch ``main`` with one commit holding ``a.txt`` and ``b.txt``."""
    path = tmp_path / "repository"
    shutil.copytree(first_repository, path, symlinks=True)
    repo = GitRepository(path)
    # The index knows the files by their inodes and times.
    repo.git("update-index", "-q", "--refresh")
    return repo
