"""Fifty workers at once, each a process that is talked to: no result is lost, none is another's, nothing is left."""

from __future__ import annotations

import anyio
import pytest

from bridge.control.controller import Controller
from bridge.control.delegations.model import AdoptionStatus, DelegationStatus
from bridge.foundation.clock import SystemClock
from tests.conftest import settings_here
from tests.manyworkers import environment, policy_table, run_many

WORKERS = 50


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("confinement", ["auto", "off"])
def test_fifty_workers_at_once_lose_no_result(bridge_home, repository, monkeypatch, confinement):
    monkeypatch.setenv("BRIDGE_CONFINEMENT", confinement)
    repository.write("bridge.toml", policy_table(WORKERS))
    repository.commit("policy")
    with Controller(settings_here(), clock=SystemClock(), environment=environment()) as controller:
        many = anyio.run(run_many, controller, repository.path, WORKERS)
    assert [one.status for one, _ in many.ended] == [DelegationStatus.COMPLETED] * WORKERS
    assert len({one.result_entry_id for one, _ in many.ended}) == WORKERS
    for number, (one, result) in enumerate(many.ended):
        assert result["data"] == {"number": number}
        assert result["files_changed"] == [f"own-{number}.txt"]
        assert one.adoption_status is AdoptionStatus.PENDING
        assert repository.git("show", f"{one.result_commit}:own-{number}.txt") == str(number)
    assert not (repository.path / ".git/objects/info/alternates").exists()
    repository.git("fsck", "--strict", "--no-dangling")
