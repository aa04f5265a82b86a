"""Who is lost: by the process table of one's own machine, by the lease where that cannot be seen, never by a name."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import timedelta

import pytest

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.lost import LEASE_SECONDS, is_lost, sees_processes_of
from bridge.control.delegations.model import Attempt, Delegation, DelegationStatus, Request
from bridge.control.delegations.recovery import recover
from bridge.control.errors import TransitionRefused
from bridge.foundation.clock import SystemClock, format_timestamp, parse_timestamp
from bridge.process.identity import ProcessIdentity, identity_of
from bridge.process.machine import machine_identity
from bridge.storage.errors import RowRefused
from tests.conftest import settings_here

pytestmark = pytest.mark.usefixtures("database_url")

NOW = "2026-01-01T00:00:00.000000Z"
LATER, EARLIER = "2026-01-01T00:01:00.000000Z", "2025-12-31T23:59:00.000000Z"


def add(controller, identity, *, machine=None, lease=LATER, host=None):
    """Record a controller and return its id."""
    key = f"c{controller.clock.monotonic():.9f}"
    controller.store.write(
        lambda tx: rows.add_controller(
            tx.connection,
            key,
            identity,
            host=host or platform.node(),
            machine=machine or machine_identity(),
            build="1",
            started_at=NOW,
            lease_expires_at=lease,
        )
    )
    return key


def lost(controller, key, now=NOW):
    with controller.store.read() as connection:
        return is_lost(connection, key, now=now)


@pytest.fixture
def gone():
    """The identity of a process that ran and has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identity_of(process.pid)
    process.communicate(b"\n")
    return identity


@pytest.fixture
def here():
    return identity_of(os.getpid())


def test_on_this_machine_the_process_decides_and_not_the_lease(controller, gone, here):
    assert lost(controller, add(controller, gone, lease=LATER))
    assert not lost(controller, add(controller, here, lease=EARLIER))
    # The pid of a process that is there, with another start, is somebody else.
    assert lost(controller, add(controller, ProcessIdentity(here.pid, here.start_time + 1)))


def test_elsewhere_the_lease_decides_whatever_stands_under_the_pid_here(controller, gone, here):
    for identity in (gone, here):
        elsewhere = add(controller, identity, machine="another one", host=platform.node(), lease=NOW)
        assert not lost(controller, elsewhere, now=NOW)
        assert lost(controller, elsewhere, now=LATER)
        with controller.store.read() as connection:
            assert not sees_processes_of(connection, elsewhere)


def test_one_that_ended_in_order_is_gone_wherever_it_was(controller, here):
    key = add(controller, here, machine="another one")
    controller.store.write(lambda tx: rows.end_controller(tx.connection, key, NOW))
    assert lost(controller, key)
    assert lost(controller, "no such one")


def test_leases_are_renewed_of_the_controller_and_of_the_workers_that_run(controller, world):
    key = controller.register()
    with controller.store.read() as connection:
        first = rows.controller_by_id(connection, key).lease_expires_at
    delegation = put(controller, world, key, DelegationStatus.RUNNING)
    running, ended = Attempt(delegation.id, 2, "running", NOW), Attempt(delegation.id, 1, "ended", NOW)

    def prepare(tx):
        for attempt in (running, ended):
            rows.put_attempt(tx.connection, attempt)
        rows.update_attempt(tx.connection, delegation.id, 1, finished_at=NOW)

    controller.store.write(prepare)
    controller.renew_leases()
    with controller.store.read() as connection:
        renewed = rows.controller_by_id(connection, key).lease_expires_at
        leases = {one.number: one.lease_expires_at for one in rows.list_attempts(connection, delegation.id)}
    assert renewed > first
    assert leases == {1: None, 2: renewed}
    left = parse_timestamp(renewed) - controller.clock.now()
    assert timedelta(seconds=LEASE_SECONDS - 30) < left <= timedelta(seconds=LEASE_SECONDS)


def put(controller, world, owner, status, **more):
    moment = controller.now()
    delegation = Delegation(
        id=f"d{controller.clock.monotonic():.9f}".replace(".", ""),
        plan_id=None,
        name="far",
        parent_session_id=world.session(),
        status=status,
        request=Request(name="far", objective="x"),
        controller_id=owner,
        created_at=moment,
        updated_at=moment,
        **more,
    )
    controller.store.write(lambda tx: rows.add_delegation(tx.connection, delegation))
    return delegation


def test_work_of_a_machine_that_is_gone_is_closed_once_its_lease_is_over(controller, world, here):
    soon = format_timestamp(controller.clock.now() + timedelta(seconds=60))
    alive = put(controller, world, add(controller, here, machine="another one", lease=soon), DelegationStatus.QUEUED)
    dead = put(
        controller,
        world,
        add(controller, here, machine="another one", lease=EARLIER),
        DelegationStatus.QUEUED,
    )
    assert [one.id for one in recover(controller)] == [dead.id]
    assert world.task(alive.id).status is DelegationStatus.QUEUED


def test_a_pid_of_another_machine_is_not_ended_here(controller, world, repository):
    """The number that a lost controller noted may be anybody's on this machine."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        identity = identity_of(bystander.pid)
        owner = add(controller, identity, machine="another one", lease=EARLIER)
        task = put(controller, world, owner, DelegationStatus.RUNNING, base_commit=repository.head())
        attempt = Attempt(task.id, 1, "running", NOW, identity.pid, identity.start_time)

        def begin(recording):
            rows.put_attempt(recording.tx.connection, attempt)
            recording.open_cursor(task.parent_session_id, task.cursor_owner, world.head(task.parent_session_id))

        controller.recorder.transact(begin)
        [closed] = recover(controller, grace_seconds=0.1)
        assert closed.status is DelegationStatus.FAILED
        assert bystander.poll() is None
        assert "another machine" in world.result(task.id)["summary"]
    finally:
        bystander.kill()
        bystander.communicate()


def test_a_worker_that_was_taken_over_is_ended_by_who_had_it(controller, world):
    key = controller.register()
    task = put(controller, world, key, DelegationStatus.RUNNING)
    with controller.store.read() as connection:
        assert not rows.is_to_end(connection, task.id, key)
        assert rows.is_to_end(connection, task.id, "somebody else")


def test_a_state_leads_only_where_the_table_says_in_code_and_in_the_database(controller, world):
    task = put(controller, world, controller.register(), DelegationStatus.QUEUED)
    with pytest.raises(TransitionRefused):
        controller.recorder.transact(
            lambda recording: change_delegation(recording, task, "ended", status=DelegationStatus.COMPLETED)
        )
    for status in ("completed", "settling", "nonsense"):
        with pytest.raises(RowRefused):
            controller.store.write(
                lambda tx, status=status: rows.update_delegation(tx.connection, task.id, updated_at=NOW, status=status)
            )
    assert world.task(task.id).status is DelegationStatus.QUEUED


def test_the_heart_stops_with_its_controller(bridge_home):
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as one:
        key = one.register()
        heart = one._heart
        assert heart.is_alive()
    assert not heart.is_alive()
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as other:
        assert lost(other, key)
