"""Each change of what is stored is one event, in the change's own transaction; and no type of event is only a word."""

from __future__ import annotations

import json
from io import BytesIO

import pytest

from bridge.control.access.tokens import mint, revoke_all
from bridge.control.checks.upkeep import check_store
from bridge.control.checks.verification import read_root, verify
from bridge.control.delegations.adoption.adopting import adopt
from bridge.control.delegations.adoption.discarding import discard
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.sessions import initialise
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import NewSession
from bridge.integrity.events import EVENTS
from bridge.integrity.store import StoredEvent
from bridge.storage.tables import metadata
from tests.databases import behind
from tests.mutants import opened

NOWHERE = Standpoint()

#: Tables whose changes are events. Derived ones, running processes and what a database keeps of itself are not.
RECORDED = (
    "agent_tokens",
    "attempts",
    "branch_cursors",
    "delegations",
    "entry_labels",
    "plans",
    "session_entries",
    "session_heads",
    "sessions",
    "submissions",
    "workspace_links",
)
#: Types that the use cases below do not bring about; each has tests of its own, but for what removes.
ELSEWHERE = {
    "access.refused",
    "approval.decided",
    "approval.requested",
    "capture.taken_in",
    "delegation.cancel_requested",
    "delegation.claimed",
    "delegation.closed",
    "delegation.inspected",
    "delegation.message_handed_over",
    "delegation.message_sent",
    "delegation.objects_kept",
    "delegation.place_failed",
    "delegation.place_prepared",
    "delegation.queued",
    "delegation.result_submitted",
    "delegation.superseded",
    "entries.imported",
    "entry.erased",
    "quota.lifted",
    "quota.paused",
    "session.removed",
    "store.upgraded",
    "workspace.relinked",
    "worktree.taken_up",
}


class Watch:
    """What was recorded since the last look."""

    def __init__(self, controller):
        self.controller = controller
        self.seen: set[str] = set()
        self.position = 0
        self.rows = self._rows()
        self.events()

    def events(self) -> list[StoredEvent]:
        query = (
            "SELECT o.position, a.chain_id, a.ordinal, a.event_type, a.created_at, a.event_hash, a.body"
            " FROM event_order o JOIN audit_events a ON a.chain_id = o.chain_id AND a.ordinal = o.ordinal"
            f" WHERE o.position > {self.position} ORDER BY o.position"
        )
        with self.controller.store.read() as connection:
            found = connection.exec_driver_sql(query).all()
        self.position = found[-1][0] if found else self.position
        return [StoredEvent(*row[1:]) for row in found]

    def changed(self) -> set[str]:
        before, self.rows = self.rows, self._rows()
        return {name for name in RECORDED if before[name] != self.rows[name]}

    def types(self) -> list[str]:
        """Return the types of the new events, after a look at their facts."""
        found = self.events()
        for event in found:
            known = EVENTS[event.event_type]
            body = set(json.loads(event.body)["body"])
            assert set(known.facts) <= body <= {*known.facts, *known.optional}, event
        self.seen |= {event.event_type for event in found}
        return [event.event_type for event in found]

    def _rows(self):
        with self.controller.store.read() as connection:
            return {
                name: sorted(map(repr, connection.execute(metadata.tables[name].select()).all())) for name in RECORDED
            }


def test_each_use_case_writes_its_event(world, tmp_path, database_url):
    controller, recorder = world.controller, world.controller.recorder
    watch = Watch(controller)

    def did(*types: str) -> None:
        assert watch.types() == list(types)
        # A change without an event would be one that nobody sees to have been there.
        assert not watch.changed() or types

    session = recorder.create_session(NewSession(label="one")).id
    did("session.created")
    first = world.say(session, "first")
    did("entry.appended")
    second = world.say(session, "second")
    did("entry.appended")
    recorder.move_head(session, first)
    did("head.moved")
    recorder.move_head(session, first)
    did()
    recorder.label(session, first, "name")
    did("label.set")
    recorder.transact(lambda recording: recording.remove_label(session, "name"))
    did("label.removed")
    recorder.transact(lambda recording: recording.open_cursor(session, "turn", first))
    did("cursor.opened")
    recorder.transact(lambda recording: recording.move_cursor(session, "turn", second))
    did("cursor.moved")
    recorder.transact(lambda recording: recording.close_cursor(session, "turn"))
    did("cursor.closed")
    recorder.transact(lambda recording: recording.update_session(session, label="two"))
    did("session.updated")
    recorder.fork(second, NewSession(parent_session_id=session, parent_relation="forked"))
    did("session.created")
    read_root(controller, NOWHERE, session)
    did("root.sealed")
    mint(controller, session, purpose="test", lifetime_seconds=60)
    did("agent.token_minted")
    revoke_all(controller, session)
    did("agent.token_revoked")
    with pytest.raises(RuntimeError):
        recorder.transact(lambda recording: _append_and_fail(recording, session))
    did()
    _import(controller, tmp_path)
    did("session.imported")
    world.repo.git("clone", "-q", str(world.repo.path), str(tmp_path / "other"))
    initialise(controller, tmp_path / "other")
    did("workspace.registered")
    _damage_and_mend(controller, first, did)
    _delegations(world, watch)
    assert verify(controller, NOWHERE, None).is_healthy
    assert watch.seen | ELSEWHERE == EVENTS.keys()


def _append_and_fail(recording, session):
    recording.update_session(session, label="never")
    raise RuntimeError("undone")


def _import(controller, folder):
    file = BytesIO()
    with opened(folder / "elsewhere") as there:
        session = there.recorder.create_session(NewSession()).id
        export_session(there, NOWHERE, ExportRequest(session=session), file.write)
    import_session(controller, file)


def _damage_and_mend(controller, entry, did):
    head = "UPDATE session_heads SET next_sequence = {} WHERE session_id = ?"
    for sequence, event in ((1, "session.quarantined"), (3, "session.released")):
        with behind(controller.store.url) as connection:
            connection.execute(head.format(sequence), (entry.rpartition("-")[0],))
        check_store(controller)
        did(event)


def _delegations(world, watch):
    """Run tasks; adopt the commits of one, discard those of another."""
    line = "echo x > {0}.txt; git add -A; git commit -qm {0}"
    world.run("".join(world.shell(name, line.format(name)) for name in ("one", "two")), dirty="ignore")
    types = watch.types()
    assert types.count("delegation.ended") == 2
    assert types[-1] == "plan.finished"
    adopt(world.controller, world.task("one"))
    assert "delegation.adopted" in watch.types()
    discard(world.controller, world.task("two"))
    assert "delegation.discarded" in watch.types()
    assert watch.changed()
