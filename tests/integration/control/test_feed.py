"""Following the store: everything once and in order, over reconnects, for slow ones as well."""

from __future__ import annotations

import asyncio
import json
import os
import threading

import anyio
import pytest

from bridge.control import feed as feeds
from bridge.control.controller import Controller
from bridge.control.errors import EventCursorUnknown
from bridge.control.feed import BEGINNING, Event, Interest, Lagged, close_feed, event_cursor, feed_of
from bridge.control.resident import end_resident
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.integrity.store import last_position
from bridge.storage.copying import copy_store
from bridge.storage.errors import StoreClosed
from bridge.storage.store import Store

pytestmark = pytest.mark.anyio


@pytest.fixture
def controller(bridge_home, database_url):
    settings = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": database_url})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
async def feed(controller):
    yield feed_of(controller)
    await end_resident(controller)


@pytest.fixture
def session(controller):
    return controller.recorder.create_session(NewSession()).id


def say(controller, session, text="x"):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text}))


async def take(subscription, count):
    found = []
    with anyio.fail_after(60):
        while len(found) < count:
            found += await subscription.receive()
    return found


def facts(event):
    return json.loads(event.encoded)["facts"]


async def test_what_is_recorded_arrives_in_order_with_its_facts(feed, controller, session):
    subscription = feed.subscribe(Interest(), feed.place_of(None))
    entry = say(controller, session)
    controller.recorder.label(session, entry.id, "start")
    controller.recorder.back(session)
    found = await take(subscription, 3)
    assert [one.type for one in found] == ["entry.appended", "label.set", "head.moved"]
    shown = json.loads(found[0].encoded)
    assert (shown["session_id"], shown["chain_id"], shown["workspace_id"]) == (session, session, None)
    assert shown["facts"]["entry_id"] == entry.id
    assert shown["facts"]["kind"] == "user.message"
    assert shown["facts"]["head"] == entry.id
    assert facts(found[1]) == {"name": "start", "entry_id": entry.id, "previous_entry_id": None}


async def test_another_process_is_followed_as_well(feed, controller, session, another_controller):
    subscription = feed.subscribe(Interest(), feed.place_of(None))
    entry = say(another_controller(), session)
    (found,) = await take(subscription, 1)
    assert facts(found)["entry_id"] == entry.id


@pytest.fixture
def another_controller(bridge_home, database_url):
    opened = []

    def make():
        settings = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": database_url})
        opened.append(Controller(settings, clock=SystemClock(), environment=os.environ))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


async def test_a_cursor_goes_on_where_it_was_left_also_with_another_controller(
    feed, controller, session, another_controller
):
    first = feed.subscribe(Interest(), feed.place_of(None))
    for number in range(3):
        say(controller, session, str(number))
    found = await take(first, 3)
    first.close()
    later = say(controller, session, "later")
    other = another_controller()
    again = feed_of(other).subscribe(Interest(), feed_of(other).place_of(found[1].cursor))
    missed = await take(again, 2)
    assert [facts(one)["entry_id"] for one in missed] == [facts(found[2])["entry_id"], later.id]
    assert again.cursor == missed[-1].cursor
    await end_resident(other)


async def test_from_the_beginning_everything_comes_page_by_page(feed, controller, session, monkeypatch):
    monkeypatch.setattr(feeds, "PAGE", 2)
    entries = [say(controller, session, str(number)).id for number in range(5)]
    subscription = feed.subscribe(Interest(types=("entry.appended",)), feed.place_of(BEGINNING))
    found = await take(subscription, 5)
    assert [facts(one)["entry_id"] for one in found] == entries


async def test_only_what_is_of_interest(feed, controller, session):
    other = controller.recorder.create_session(NewSession(workspace_id=None)).id
    place = feed.place_of(None)
    one = feed.subscribe(Interest(session_id=session), place)
    labels = feed.subscribe(Interest(types=("label.set",)), place)
    nothing = feed.subscribe(Interest(workspace_id="w"), place)
    say(controller, other)
    entry = say(controller, session)
    controller.recorder.label(session, entry.id, "here")
    assert [found.type for found in await take(one, 2)] == ["entry.appended", "label.set"]
    assert [found.type for found in await take(labels, 1)] == ["label.set"]
    with anyio.move_on_after(0.1):
        await nothing.receive()
        pytest.fail("nothing of that workspace happened")
    # The stored ones are chosen in the same way as the kept ones.
    again = feed.subscribe(Interest(session_id=session), place)
    assert [found.type for found in await take(again, 2)] == ["entry.appended", "label.set"]


async def test_a_slow_one_is_told_and_loses_nothing(feed, controller, session, monkeypatch):
    monkeypatch.setattr(feeds, "KEPT_EVENTS", 10)
    monkeypatch.setattr(feeds, "PAGE", 7)
    subscription = feed.subscribe(Interest(), feed.place_of(None))
    await anyio.to_thread.run_sync(wait_until_seen, feed, controller)
    say(controller, session, "first")
    (first,) = await take(subscription, 1)
    entries = [say(controller, session, str(number)).id for number in range(40)]
    await anyio.to_thread.run_sync(wait_until_seen, feed, controller)
    found = await take(subscription, 41)
    lagged = [one for one in found if isinstance(one, Lagged)]
    assert lagged == [Lagged(first.cursor, 40)]
    assert [facts(one)["entry_id"] for one in found if isinstance(one, Event)] == entries
    last = say(controller, session, "last")
    (again,) = await take(subscription, 1)
    assert facts(again)["entry_id"] == last.id


def wait_until_seen(feed, controller):
    with controller.store.read() as connection:
        last = last_position(connection)
    gate = threading.Event()
    for _ in range(3000):
        if feed._seen >= last:
            return
        gate.wait(0.01)
    raise AssertionError("the feed did not come so far")


async def test_writers_never_wait_for_subscribers(feed, controller, session):
    # Nobody takes anything from these.
    for _ in range(20):
        feed.subscribe(Interest(), feed.place_of(None))
    with anyio.fail_after(60):
        for number in range(50):
            await anyio.to_thread.run_sync(say, controller, session, str(number))


@pytest.mark.parametrize(
    "cursor", ["", "x", "1", "0.00000000", "1.zzzzzzzz", "999999.00000000", "1.00000000", "0" * 40]
)
async def test_a_cursor_that_names_no_event_here_is_refused(feed, session, cursor):
    with pytest.raises(EventCursorUnknown):
        feed.place_of(cursor)


async def test_a_cursor_holds_in_a_copy_until_the_two_go_on_apart(feed, controller, session, tmp_path):
    say(controller, session)
    place, cursor = feed.place_of(None)
    url = f"sqlite:///{tmp_path}/copy/bridge.db"
    with Store.open(url) as copied:
        copy_store(controller.store, copied)
    settings = load_settings({"BRIDGE_HOME": str(tmp_path), "BRIDGE_DATABASE_URL": url})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as other:
        # A copy has the same events in the same order, and a cursor names an event by its hash.
        assert feed_of(other).place_of(cursor) == (place, cursor)
        say(other, session)
        with other.store.read() as connection:
            theirs = event_cursor(connection)
        say(controller, session)
        with pytest.raises(EventCursorUnknown):
            feed.place_of(theirs)


async def test_what_is_undone_is_no_event(feed, controller, session):
    subscription = feed.subscribe(Interest(), feed.place_of(None))

    def fail(recording):
        recording.event(session, "label.set", {})
        raise RuntimeError("undone")

    with pytest.raises(RuntimeError):
        controller.recorder.transact(fail)
    say(controller, session)
    (found,) = await take(subscription, 1)
    assert found.type == "entry.appended"


async def test_closing_the_store_ends_the_wait(feed, controller, session):
    subscription = feed.subscribe(Interest(), feed.place_of(None))
    waiting = asyncio.ensure_future(take(subscription, 1))
    await asyncio.sleep(0.05)
    await anyio.to_thread.run_sync(controller.close)
    with pytest.raises(StoreClosed):
        await waiting


async def test_the_thread_ends_when_nobody_listens_and_begins_again(feed, controller, session):
    subscription = feed.subscribe(Interest(), feed.place_of(None))
    thread = feed._thread
    assert thread is not None
    subscription.close()
    await anyio.to_thread.run_sync(thread.join, 30)
    assert not thread.is_alive()
    place = feed.place_of(None)
    entry = say(controller, session)
    again = feed.subscribe(Interest(), place)
    (found,) = await take(again, 1)
    assert facts(found)["entry_id"] == entry.id
    close_feed(controller)


async def test_workspaces_and_their_chains(feed, controller, repository):
    from bridge.control.sessions import SessionRequest, start_session
    from bridge.control.standpoint import Standpoint

    place = feed.place_of(None)
    started = start_session(controller, Standpoint(directory=repository.path), SessionRequest())
    workspace = started.workspace.id
    controller.recorder.transact(lambda recording: recording.event(f"workspace:{workspace}", "worktree.created", {}))
    say(controller, started.session.id)
    for subscription in (
        feed.subscribe(Interest(workspace_id=workspace), place),
        feed.subscribe(Interest(workspace_id=workspace), feed.place_of(BEGINNING)),
    ):
        found = await take(subscription, 4)
        assert [one.type for one in found] == [
            "workspace.registered",
            "session.created",
            "worktree.created",
            "entry.appended",
        ]
        assert {one.workspace_id for one in found} == {workspace}
