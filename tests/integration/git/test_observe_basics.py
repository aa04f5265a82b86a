"""A first look at observing: clean, dirty, unborn, nothing there."""

from __future__ import annotations

from bridge.foundation.clock import SystemClock
from bridge.git.manifest import CLEAN_DIRTY_HASH
from bridge.git.observe import observe
from bridge.semantics.stamps import UnknownReason


def test_a_clean_repository_has_the_fixed_clean_hash(repository):
    seen = observe(repository.path, clock=SystemClock())
    assert seen.is_clean
    assert seen.state.dirty_hash == CLEAN_DIRTY_HASH
    assert seen.state.head == repository.head()
    assert seen.state.ref == "refs/heads/main"
    assert seen.stamp.state_digest == seen.state.state_digest


def test_a_path_that_does_not_exist_is_unknown(tmp_path):
    seen = observe(tmp_path / "gone", clock=SystemClock())
    assert seen.unknown is UnknownReason.NO_PATH
    assert not seen.is_clean
