"""An index that is whole in itself and lacks what the entries have, or has what they have not, is seen and mended."""

from __future__ import annotations

import threading
from random import Random

import pytest

from bridge.control.checks.upkeep import check_store
from bridge.control.checks.verification import index_faults, verify
from bridge.control.search.indexing import catch_up, reindex
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.recall import checking, index, store
from bridge.recall.checking import SAMPLED_ENTRIES, Stretch, stretches
from bridge.storage import fulltext
from bridge.storage.fulltext import DIGEST_INDEX, ENTRY_INDEX

NOWHERE = Standpoint()
#: Texts with what may be counted or cut wrongly: signs, gaps, other scripts, nothing, long terms, repeats.
TEXTS = ["plain words here", "C++ and HttpServer", "悬空引用 ที่ดิน", "* * *", "x" * 5_000, "the " * 600 + "end"]
LONG = " ".join(f"w{n}" for n in range(9_000))


@pytest.fixture
def session(controller):
    """A session of all texts, indexed."""
    made = controller.recorder.create_session(NewSession(label="C# ZoneInfo")).id
    for text in TEXTS:
        say(controller, made, text)
    assert catch_up(controller)
    return made


def say(controller, session, text):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text})).id


def place_of(controller, session, sequence, part=0):
    """The number of a document, the scope it stands in, and its terms."""
    with controller.store.read() as connection:
        mark = store.mark_of(connection, session)
        number = store.places_between(connection, mark.chat, sequence, sequence)[sequence, part].number
    found = list(index.parts_of(index.terms(TEXTS[sequence - 1])))[part]
    return number, f"{index.scope_of_session(mark.chat)} {mark.scope}", found


def test_what_is_sound_is_sound(controller, session):
    checked, faults = index_faults(controller, is_whole=True)
    assert faults == []
    assert checked == len(TEXTS) + 1  # with the entry that a session begins with
    say(controller, session, LONG)
    assert index_faults(controller) == (checked, [])  # it is not indexed yet
    reindex(controller)
    assert index_faults(controller) == (checked + 1, [])


def replaced(change):
    """Put another document in the place of one, so that the index is whole in itself."""

    def damage(controller, session):
        number, scope, found = place_of(controller, session, 1)

        def run(tx):
            fulltext.remove(tx, ENTRY_INDEX, number, scope, found)
            fulltext.add(tx, ENTRY_INDEX, [(number, *change(scope, found))])

        controller.store.write(run)

    return damage


def executed(statement):
    return lambda controller, _: controller.store.write(lambda tx: tx.connection.exec_driver_sql(statement))


DAMAGES = {
    "a word less": replaced(lambda scope, found: (scope, found[:-1])),
    "a word more": replaced(lambda scope, found: (scope, [*found, "secret"])),
    "another word": replaced(lambda scope, found: (scope, [*found[:-1], "other"])),
    "another order": replaced(lambda scope, found: (scope, found[::-1])),
    "another chat": replaced(lambda scope, found: (f"s999 {scope.split(' ', 1)[1]}", found)),
    "no such scope": replaced(lambda scope, found: (scope + " kother", found)),
    "another entry": executed("UPDATE recall_documents SET sequence = 99 WHERE sequence = 1"),
    "another length": executed("UPDATE recall_documents SET length = length + 1 WHERE sequence = 2"),
    "no count": executed("DELETE FROM recall_terms WHERE term = 'plain'"),
    "no count of a label": executed("DELETE FROM recall_terms WHERE term = 'zoneinfo'"),
    "another total": executed("UPDATE recall_state SET value = value + 1 WHERE name = 'terms'"),
    "another digest": executed('UPDATE recall_marks SET digest = \'{"label":"forged"}\''),
    "another scope of a place": executed("UPDATE recall_documents SET scope = 99 WHERE sequence = 1"),
    "another place": executed("UPDATE recall_marks SET scope = 'kother'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_fc_61_an_index_that_is_whole_in_itself_and_wrong_is_seen_and_mended(controller, session, damage):
    assert controller.store.write(index.is_sound)
    DAMAGES[damage](controller, session)
    assert controller.store.write(index.is_sound)  # its own check sees nothing
    found = verify(controller, NOWHERE, None, only=("index",))
    assert {finding.code for finding in found.index.report.findings} == {"index_damaged"}
    assert all(verdict.is_healthy for verdict in verify(controller, NOWHERE, session).sessions)
    reindex(controller)
    assert verify(controller, NOWHERE, None, whole_index=True).is_healthy
    assert len(recall(controller, NOWHERE, session, "plain words").hits) == 1


def test_fc_61_a_check_of_the_store_drops_an_index_that_is_wrong(controller, session):
    DAMAGES["another word"](controller, session)
    assert [problem.code for problem in check_store(controller).problems] == ["index_damaged"]
    assert len(recall(controller, NOWHERE, session, "plain words").hits) == 1
    assert check_store(controller).is_sound


def test_documents_are_held_to_the_last_term_at_the_edges_of_pieces(controller, session):
    scope, chat = "s1 k2", 10_000
    for length in (0, 1, 31, 32, 33, 64, 65, 127, 128, 129, 300):
        words = [f"w{n}" for n in range(length)]
        chat += 1
        controller.store.write(lambda tx: fulltext.add(tx, DIGEST_INDEX, [(chat, scope, words)]))  # noqa: B023 - run at once
        with controller.store.read() as connection:
            assert fulltext.holds(connection, DIGEST_INDEX, chat, scope, words)
            assert not fulltext.holds(connection, DIGEST_INDEX, chat, scope, [*words, "more"])
            assert not fulltext.holds(connection, DIGEST_INDEX, chat, "s1", words)
            assert not fulltext.holds(connection, DIGEST_INDEX, chat + 1, scope, words)
            if length:
                assert not fulltext.holds(connection, DIGEST_INDEX, chat, scope, [*words[:-1], "other"])
                assert not fulltext.holds(connection, DIGEST_INDEX, chat, scope, words[:-1])


def test_a_sample_is_drawn_where_there_is_much(controller, session, monkeypatch):
    with controller.store.read() as connection:
        whole = [Stretch(session, 0, len(TEXTS))]
        assert stretches(connection, Random(1)) == stretches(connection, None) == whole
        monkeypatch.setattr(checking, "SAMPLED_ENTRIES", len(TEXTS) + 1)
        assert stretches(connection, Random(1)) == whole
        monkeypatch.setattr(checking, "SAMPLED_ENTRIES", 3)
        drawn = {(one.first, one.last) for seed in range(40) for one in stretches(connection, Random(seed))}
    assert drawn == {(first, first + 2) for first in range(len(TEXTS) - 1)}
    assert list(Stretch("s", 5, 2_500).pages()) == [(5, 1_000), (1_005, 1_000), (2_005, 496)]
    assert SAMPLED_ENTRIES >= 200


def test_building_anew_while_others_write_leaves_nothing_out_and_nothing_twice(controller, session):
    def write():
        for number in range(60):
            say(controller, session, f"common HttpServer word{number}")

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        reindex(controller)
    writer.join()
    found = recall(controller, NOWHERE, session, "common", limit=200)
    assert len({hit.entry.id for hit in found.hits}) == len(found.hits) == 60
    assert index_faults(controller, is_whole=True)[1] == []
