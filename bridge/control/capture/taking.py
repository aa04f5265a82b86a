"""Taking events of hosts: each is recorded where its conversation stands, and answered with what is news to its agent.

One :class:`Capture` belongs to a resident controller. Events of one host's session are taken one after the other, those
of different ones side by side. All of it blocks; the door runs it in threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bridge.adapters.hosts.events import HostEvent, Moment, Source
from bridge.adapters.hosts.reading import HOSTS, read_event, read_version
from bridge.agents import store as agents
from bridge.control.capture import store as rows
from bridge.control.capture.drafts import call_id_of, drafts_of, external_id, opaque, turn_end, turn_id_of
from bridge.control.capture.mapping import begin, begin_subagent, native_id_of, workspace_of
from bridge.control.capture.model import NOTHING, Captured, Delivery, Told
from bridge.control.capture.places import CLIENT_NAME
from bridge.control.capture.settling import Settling
from bridge.control.capture.transcripts import NO_TAIL, ReadTail
from bridge.control.capture.warning import warn
from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import ExternalIdConflict, PayloadTooLarge
from bridge.conversations.models import ID_AT, EntryDraft, PreparedEntry
from bridge.conversations.store import find_external
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.foundation.logs import get_logger
from bridge.git.observe import Observation
from bridge.process.ancestry import caller_of
from bridge.process.identity import ProcessIdentity
from bridge.semantics.errors import InvalidPayload
from bridge.semantics.stamps import UNSTAMPED, Stamp
from bridge.workspaces.store import save_state

#: Bytes at the beginning of a host's own record in which its version is looked for.
HEAD_BYTES: Final = 64 * 1024
#: Host sessions whose rows are kept at hand.
MAX_KNOWN: Final = 500
#: Moments at which an agent can be told something.
_TOLD_AT: Final = frozenset({Moment.SESSION_STARTED, Moment.PROMPT})
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of an event: the answer, and whose it is."""

    told: Told
    captured: Captured | None


class Capture:
    """Takes events for a controller. Safe to share between threads; to be closed before the controller is.

    Parameters
    ----------
    read_tail
        Reads what is new in a host's own record; none is read unless given.
    """

    def __init__(self, controller: Controller, *, read_tail: ReadTail = NO_TAIL) -> None:
        self._controller = controller
        self._read_tail = read_tail
        self._guard = threading.Lock()
        self._locks: dict[tuple[str, str], threading.RLock] = {}
        self._known: dict[tuple[str, str], Captured] = {}
        #: Calls of tools that were begun and not ended, by host's session.
        self._tools: dict[tuple[str, str], set[str]] = {}
        self._settling = Settling(self._settle)

    def take(self, delivery: Delivery) -> Taken:
        """Record an event and return what its host is to be told. Nothing is done outside of registered checkouts.

        Raises
        ------
        DatabaseBusy, DatabaseFailed
            If it could not be written; it can be taken again later.
        """
        event = read_event(delivery.host, delivery.raw)
        if event is None:
            return Taken(NOTHING, None)
        with self._lock_of(event.host, event.session):
            return self._take(delivery, event)

    def too_late(self, taken: Taken) -> None:
        """Note that an answer reached nobody: it is owed to the agent, and counted."""
        captured = taken.captured
        if captured is None:
            return
        with self._lock_of(captured.host, captured.native_id.partition("/")[0]):
            current = self._find(captured.host, captured.native_id) or captured
            owed = taken.told.context or current.owed_text
            after = replace(current, owed_text=owed)

            def run(recording: RecordingTransaction) -> None:
                rows.update_captured(recording.tx.connection, after)
                rows.count_trouble(recording.tx.connection, captured.host, late=1)

            self._controller.recorder.transact(run)
            self._keep(after)

    def close(self) -> None:
        """Close the turns that have ended and wait for quiet, as the files are now. Safe to call twice."""
        for key in self._settling.stop():
            try:
                self._settle(key, is_over=True)
            except BridgeError:
                _log.exception("a turn could not be closed", action="capture_close_failed", host=key[0])

    # -- one event ---------------------------------------------------------------------------------------------

    def _take(self, delivery: Delivery, event: HostEvent) -> Taken:
        controller = self._controller
        process = self._process(delivery, event)
        captured = self._find(event.host, event.session)
        workspace_id = None if captured is None else captured.workspace_id
        workspace = None
        if captured is None:
            workspace = workspace_of(controller, event)
            if workspace is None:
                return Taken(NOTHING, None)
            workspace_id = workspace.id
        elif not delivery.is_live and self._is_recorded(captured, delivery):
            return Taken(NOTHING, captured)
        observation = controller.observer.stamp_session(controller.store, workspace_id) if delivery.is_live else None
        if observation is not None:
            controller.keeper.keep(observation)
        if captured is None and workspace is not None:
            captured = begin(controller, event, workspace, process=process, observation=observation)
            self._forget_process(process)
        assert captured is not None, "an event is of a session that is recorded, or was made just now"  # noqa: S101
        if event.subagent is not None:
            return Taken(NOTHING, self._take_of_subagent(delivery, event, captured, observation))
        if process is not None and captured.process != process:
            captured = replace(captured, process=process)
        if event.transcript is not None and event.transcript != captured.transcript:
            captured = replace(captured, transcript=event.transcript, transcript_offset=0)
        captured = self._before(event, captured, observation)
        told = NOTHING
        if observation is not None and event.moment in _TOLD_AT and event.source is not Source.COMPACT:
            warned = warn(controller, captured, observation, is_start=self._is_start(event, captured))
            told, captured = warned.told, warned.captured
        captured = self._record(delivery, event, captured, observation)
        self._after(event, captured, observation)
        return Taken(told, captured)

    def _is_start(self, event: HostEvent, captured: Captured) -> bool:
        return event.moment is Moment.SESSION_STARTED or captured.is_fresh

    def _before(self, event: HostEvent, captured: Captured, observation: Observation | None) -> Captured:
        """Bring the turn into order before an event is recorded: one that ended, or was broken off, is closed."""
        key = (event.host, event.session)
        if event.moment in {Moment.TOOL_STARTED, Moment.TOOL_COMPLETED}:
            # The turn goes on: a hook of somebody's sent the agent back to work.
            self._settling.forget(key)
            return captured
        if (
            event.moment in {Moment.PROMPT, Moment.SESSION_STARTED, Moment.SESSION_ENDED}
            and captured.turn_id is not None
        ):
            was_ended = self._settling.forget(key)
            if was_ended:
                captured = self._closed(captured, observation)
            elif event.moment is not Moment.SESSION_ENDED and event.source is not Source.COMPACT:
                captured = self._broken_off(captured, observation)
        if event.moment is Moment.SESSION_STARTED and event.source in {Source.RESUME, Source.FORK}:
            captured = replace(captured, is_fresh=observation is None or captured.is_fresh)
        return captured

    def _record(
        self, delivery: Delivery, event: HostEvent, captured: Captured, observation: Observation | None
    ) -> Captured:
        if event.moment is Moment.PROMPT:
            captured = replace(captured, turn_id=turn_id_of(event, delivery.id), is_fresh=False)
        drafts = drafts_of(event, captured, delivery.id)
        # What is recorded at a start says nothing of what the agent knows of the files.
        is_base = event.moment not in {Moment.SESSION_STARTED, Moment.SESSION_ENDED}
        return self._write(
            captured, drafts, observation, is_base=is_base, event_name=event.name, is_live=delivery.is_live
        )

    def _after(self, event: HostEvent, captured: Captured, observation: Observation | None) -> None:
        key = (event.host, event.session)
        tools = self._tools.setdefault(key, set())
        if event.tool is not None:
            call = call_id_of(event.tool, captured.turn_id)
            (tools.add if event.moment is Moment.TOOL_STARTED else tools.discard)(call)
        elif event.moment is Moment.TURN_ENDED:
            tools.clear()
            if observation is not None:
                self._settling.begin(key, observation.stamp.state_digest)
            elif captured.turn_id is not None:
                # Nobody knows how the files were then, and waiting would not tell.
                self._closed(captured, None)

    def _take_of_subagent(
        self, delivery: Delivery, event: HostEvent, parent: Captured, observation: Observation | None
    ) -> Captured:
        controller = self._controller
        captured = self._find(event.host, native_id_of(event))
        if captured is None:
            captured = begin_subagent(controller, event, parent, observation)
        elif not delivery.is_live and self._is_recorded(captured, delivery):
            return captured
        drafts = drafts_of(event, captured, delivery.id)
        after = self._write(
            captured, drafts, observation, is_base=True, event_name=event.name, is_live=delivery.is_live
        )
        if event.moment is Moment.SUBAGENT_ENDED and captured.agent_id is not None:
            agent_id, moment = captured.agent_id, controller.now()
            controller.store.write(
                lambda tx: agents.update_agent(tx.connection, agent_id, updated_at=moment, status="ended")
            )
        # What a sub-agent does to the files is its session's own doing: the turn is not over before it is quiet.
        key = (event.host, event.session)
        if observation is not None and self._settling.forget(key):
            self._settling.begin(key, observation.stamp.state_digest)
        return after

    # -- the end of a turn -------------------------------------------------------------------------------------

    def _settle(self, key: tuple[str, str], *, is_over: bool = False) -> bool:
        """Look whether the files of a turn that ended are quiet, and close it if so; return whether it is closed."""
        with self._lock_of(*key):
            captured = self._find(*key)
            if captured is None or captured.turn_id is None:
                self._settling.forget(key)
                return True
            observation = self._controller.observer.stamp_session(self._controller.store, captured.workspace_id)
            if not is_over and not self._settling.is_quiet(key, observation.stamp.state_digest):
                return False
            self._settling.forget(key)
            self._controller.keeper.keep(observation)
            self._closed(captured, observation)
            return True

    def _closed(self, captured: Captured, observation: Observation | None) -> Captured:
        """Record what the hooks did not see of a turn, and its end, stamped with the files as they are now."""
        turn_id = captured.turn_id or ""
        captured, seen = self._with_tail(captured)
        after = replace(captured, turn_id=None)
        return self._write(after, [*seen, turn_end(captured, turn_id)], observation, is_base=True)

    def _broken_off(self, captured: Captured, observation: Observation | None) -> Captured:
        """Record the end of a turn that was never told of.

        What a tool that was at work then did to the files cannot be told from what others did: it is not news.
        """
        key = (captured.host, captured.native_id)
        was_at_work = bool(self._tools.pop(key, None))
        turn_id = captured.turn_id or ""
        captured, seen = self._with_tail(captured)
        drafts = [*seen, turn_end(captured, turn_id, is_whole=False)]
        after = replace(captured, turn_id=None)
        if was_at_work:
            return self._write(after, drafts, observation, is_base=True)
        # Stamped by nobody: the files may have changed since the last thing that was seen of the turn.
        return self._write(after, drafts, None, is_base=False)

    def _with_tail(self, captured: Captured) -> tuple[Captured, Sequence[EntryDraft]]:
        """Return what is new in the host's own record; a record that cannot be read is passed over, and logged."""
        if captured.transcript is None:
            return captured, ()
        try:
            tail = self._read_tail(self._controller, captured)
        except (BridgeError, OSError) as error:
            _log.warning(
                "a transcript could not be read", action="transcript_unread", host=captured.host, why=str(error)
            )
            return captured, ()
        self._note_version(captured)
        return replace(captured, transcript_offset=tail.offset), tail.drafts

    def _note_version(self, captured: Captured) -> None:
        if captured.transcript is None or captured.transcript_offset:
            return
        try:
            with Path(captured.transcript).open("rb") as file:
                version = read_version(captured.host, file.read(HEAD_BYTES))
        except OSError:
            return
        if version is not None:
            self._controller.store.write(lambda tx: rows.note_version(tx.connection, captured.host, version))

    # -- writing -----------------------------------------------------------------------------------------------

    def _write(
        self,
        captured: Captured,
        drafts: Iterable[EntryDraft],
        observation: Observation | None,
        *,
        is_base: bool,
        event_name: str | None = None,
        is_live: bool = True,
    ) -> Captured:
        """Record entries and the session's row in one transaction, and return the session as it is then."""
        stamp = UNSTAMPED if observation is None else observation.stamp
        prepared = [self._prepared(draft, stamp) for draft in drafts]

        def run(recording: RecordingTransaction) -> Captured:
            connection = recording.tx.connection
            if observation is not None:
                save_state(recording.tx, observation, recording.moment)
            last: str | None = None
            for entry in prepared:
                try:
                    last = recording.append(captured.session_id, entry).row[ID_AT]
                except ExternalIdConflict:
                    # Taken before, by a controller that read it otherwise: what is there stays.
                    continue
            after = replace(captured, last_event_at=recording.moment)
            if is_base and last is not None:
                # After what nobody stamped it is not known what the agent knows of the files, until the next stamp.
                after = replace(after, base_entry_id=None if observation is None else last)
            rows.update_captured(connection, after)
            if event_name is not None:
                rows.note_event(connection, captured.host, event_name, recording.moment, is_live=is_live)
            return after

        after = self._controller.recorder.transact(run)
        self._keep(after)
        return after

    def _prepared(self, draft: EntryDraft, stamp: Stamp) -> PreparedEntry:
        recorder = self._controller.recorder
        try:
            return recorder.prepare(draft, stamp)
        except (InvalidPayload, NotCanonical, PayloadTooLarge) as error:
            return recorder.prepare(opaque(draft, f"{error.code}: {error.message}"), stamp)

    # -- what is known -----------------------------------------------------------------------------------------

    def _find(self, host: str, native_id: str) -> Captured | None:
        found = self._known.get((host, native_id))
        if found is None:
            with self._controller.store.read() as connection:
                found = rows.find_captured(connection, host, native_id)
            if found is not None:
                self._keep(found)
        return found

    def _keep(self, captured: Captured) -> None:
        with self._guard:
            self._known.pop((captured.host, captured.native_id), None)
            self._known[captured.host, captured.native_id] = captured
            while len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]

    def _forget_process(self, process: ProcessIdentity | None) -> None:
        """Read anew what is known of the sessions of a process: the one that it forked was changed by that."""
        with self._guard:
            stale = [key for key, known in self._known.items() if process is not None and known.process == process]
            for key in stale:
                del self._known[key]

    def _is_recorded(self, captured: Captured, delivery: Delivery) -> bool:
        """Tell whether an event that was kept by its client had been taken all the same."""
        with self._controller.store.read() as connection:
            found = find_external(connection, captured.session_id, captured.source, external_id(delivery.id))
        return found is not None

    def _process(self, delivery: Delivery, event: HostEvent) -> ProcessIdentity | None:
        """Return the host's process; asked for where sessions begin and go on, since it costs a look at several."""
        if delivery.parent is None or not delivery.is_live:
            return None
        is_known = self._find(event.host, event.session) is not None
        if event.moment is not Moment.SESSION_STARTED and is_known:
            return None
        return caller_of(delivery.parent, CLIENT_NAME)

    def _lock_of(self, host: str, session: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault((host, session), threading.RLock())


def known_hosts() -> tuple[str, ...]:
    """Return the names of the hosts that events are taken of."""
    return tuple(HOSTS)
