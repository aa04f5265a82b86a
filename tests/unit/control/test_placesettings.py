"""The tables [worktree] and [worker] of bridge.toml."""

from __future__ import annotations

import pytest

from bridge.control.delegations.placesettings import (
    MAX_ITEMS,
    MAX_PORTS,
    WorkerSettings,
    WorktreeSettings,
    worker_settings,
    worktree_settings,
)
from bridge.foundation.config import ConfinementMode
from bridge.foundation.errors import InvalidConfiguration


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        (tmp_path / "bridge.toml").write_text(text)
        return worktree_settings(tmp_path), worker_settings(tmp_path)

    return read_text


def test_without_a_file_or_its_tables_nothing_is_done(tmp_path, read):
    assert worktree_settings(tmp_path) == WorktreeSettings()
    assert read("[policy]\nany = 1\n") == (WorktreeSettings(), WorkerSettings())


def test_all_keys_are_read(read):
    worktree, worker = read(
        """
        [worktree]
        setup = ["npm ci", "make"]
        always = ["cp .env.example .env"]
        timeout_seconds = 60
        cache = ["node_modules", "./a/b/"]
        cache_key = ["package-lock.json"]
        ports = ["PORT", "DB_PORT"]
        [worker]
        confinement = "enforce"
        environment = ["GITHUB_TOKEN", "AWS_*"]
        writable = ["~/.npm", "/opt/cache"]
        network = "none"
        """
    )
    assert worktree.setup == ("npm ci", "make")
    assert (worktree.cache, worktree.timeout_seconds) == (("node_modules", "a/b"), 60.0)
    assert worker == WorkerSettings(
        ConfinementMode.ENFORCE, ("GITHUB_TOKEN", "AWS_*"), ("~/.npm", "/opt/cache"), is_offline=True
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[worktree]\nsetups = []", "worktree.setups"),
        ('[worktree]\nsetup = "make"', "worktree.setup"),
        ('[worktree]\nsetup = [""]', "worktree.setup"),
        ('[worktree]\nsetup = ["a\\u0000b"]', "worktree.setup"),
        ("[worktree]\ntimeout_seconds = 0", "worktree.timeout_seconds"),
        ("[worktree]\ntimeout_seconds = true", "worktree.timeout_seconds"),
        ("[worktree]\ntimeout_seconds = inf", "worktree.timeout_seconds"),
        ('[worktree]\ncache = ["made"]\ncache_key = ["lock"]', "worktree.cache"),
        ('[worktree]\nsetup = ["x"]\ncache = ["made"]', "worktree.cache_key"),
        *(
            (f'[worktree]\nsetup = ["x"]\ncache = ["{path}"]\ncache_key = ["lock"]', "worktree.cache")
            for path in ("/made", "../made", "a/../../b", ".git/x", ".")
        ),
        ('[worktree]\nports = ["1A"]', "worktree.ports"),
        ('[worktree]\nports = ["BRIDGE_X"]', "worktree.ports"),
        ('[worktree]\nports = ["A", "A"]', "worktree.ports"),
        ('[worker]\nconfinement = "on"', "worker.confinement"),
        ("[worker]\nconfinement = true", "worker.confinement"),
        ('[worker]\nnetwork = "some"', "worker.network"),
        ('[worker]\nenvironment = ["*"]', "worker.environment"),
        ('[worker]\nenvironment = ["A=b"]', "worker.environment"),
        ('[worker]\nwritable = ["relative"]', "worker.writable"),
        ('[worker]\nwritable = ["~other/x"]', "worker.writable"),
        ("worker = 1", "worker"),
        ("[worker]\nunknown = 1", "worker.unknown"),
    ],
)
def test_what_is_of_no_use_is_named(read, text, named):
    with pytest.raises(InvalidConfiguration, match=named):
        read(text)


def test_lists_have_an_end(read):
    read(f"[worktree]\nsetup = {['x'] * MAX_ITEMS}")
    with pytest.raises(InvalidConfiguration, match="at most"):
        read(f"[worktree]\nsetup = {['x'] * (MAX_ITEMS + 1)}")
    read(f"[worktree]\nports = {[f'P{number}' for number in range(MAX_PORTS)]}")
    with pytest.raises(InvalidConfiguration, match="at most"):
        read(f"[worktree]\nports = {[f'P{number}' for number in range(MAX_PORTS + 1)]}")
