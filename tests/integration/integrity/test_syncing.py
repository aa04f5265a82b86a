"""A copy of a session that is kept up to date over ``sessions/sync``: no byte too many, nothing believed."""

from __future__ import annotations

import json

import pytest

from bridge.control.checks.syncing import changes_since
from bridge.control.checks.verification import read_root
from bridge.control.removal.erasing import erase
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.rpc.mirroring import METHOD, MirrorDiverged, SessionMirror

NOWHERE = Standpoint()


class Far:
    """A store at the other end of a wire that counts bytes, and may alter what comes back."""

    def __init__(self, controller, *, page=1000):
        self.controller = controller
        self.page = page
        self.answers = []
        self.alter = lambda answer: answer

    def __call__(self, method, params):
        assert method == METHOD
        found = changes_since(
            self.controller,
            NOWHERE,
            params["session"],
            session_root=params["session_root"],
            known=params.get("known"),
            limit=self.page,
        )
        text = json.dumps(found.to_json())
        self.answers.append(text)
        return self.alter(json.loads(text))

    @property
    def statuses(self):
        return [json.loads(text)["status"] for text in self.answers]


@pytest.fixture
def session(controller):
    made = controller.recorder.create_session(NewSession(label="s")).id
    for number in range(6):
        say(controller, made, f"entry {number}")
    return made


def say(controller, session_id, text, parent=None):
    draft = EntryDraft(kind="user.message", payload={"text": text}, parent_entry_id=parent)
    return controller.recorder.append_now(session_id, draft)


def is_the_same(controller, mirror):
    return mirror.root == read_root(controller, NOWHERE, mirror.session_id).session_root


def test_a_copy_follows_entries_branches_head_and_labels(controller, session):
    far, mirror = Far(controller), SessionMirror(session)
    assert mirror.update(far) == 7
    assert mirror.update(far) == 0
    assert far.statuses == ["full", "current"]
    last = say(controller, session, "one more")
    assert mirror.update(far) == 1
    aside = say(controller, session, "aside", parent=f"{session}-000002")
    controller.recorder.label(session, aside.id, "branch")
    controller.recorder.label(session, last.id, "main")
    assert mirror.update(far) == 1
    answer = json.loads(far.answers[-1])
    assert [point["entry_id"] for point in answer["branch_points"]] == [f"{session}-000002"]
    assert (mirror.active_entry_id, mirror.labels) == (last.id, {"branch": aside.id, "main": last.id})
    controller.recorder.move_head(session, aside.id)
    controller.recorder.transact(lambda recording: recording.remove_label(session, "main"))
    assert mirror.update(far) == 0
    assert (mirror.active_entry_id, mirror.labels) == (aside.id, {"branch": aside.id})
    assert is_the_same(controller, mirror)
    assert far.statuses[2:] == ["changed", "changed", "current"]


def test_a_branch_point_that_nothing_changed_below_is_not_sent(controller, session):
    say(controller, session, "aside", parent=f"{session}-000002")
    far, mirror = Far(controller), SessionMirror(session)
    mirror.update(far)
    assert len(json.loads(far.answers[-1])["branch_points"]) == 1
    # Below another child of the root: the branch point at 2 keeps its hash.
    say(controller, session, "elsewhere", parent=f"{session}-000000")
    mirror.update(far)
    assert [point["entry_id"] for point in json.loads(far.answers[-1])["branch_points"]] == [f"{session}-000000"]


def test_a_root_that_nobody_was_given_means_everything(controller, session):
    far = Far(controller)
    for root, known in ((None, None), ("0" * 64, None), ("0" * 64, 6)):
        answer = far(METHOD, {"session": session, "session_root": root, "known": known})
        assert (answer["status"], len(answer["entries"])) == ("full", 7)
    held = answer["session_root"]
    assert far(METHOD, {"session": session, "session_root": held})["status"] == "current"
    # What the caller says it holds is not what the root covers.
    assert far(METHOD, {"session": session, "session_root": held, "known": 3})["status"] == "full"


def test_a_root_given_out_otherwise_is_known_as_well(controller, session):
    root = read_root(controller, NOWHERE, session).session_root
    say(controller, session, "one more")
    answer = Far(controller)(METHOD, {"session": session, "session_root": root})
    assert (answer["status"], len(answer["entries"])) == ("changed", 1)


def test_a_long_listing_comes_in_pages(controller, session):
    far, mirror = Far(controller, page=3), SessionMirror(session)
    assert mirror.update(far) == 7
    assert [json.loads(text)["hasMore"] for text in far.answers] == [True, True, False]
    for number in range(4):
        say(controller, session, f"more {number}")
    assert mirror.update(far) == 4
    assert is_the_same(controller, mirror)


def test_an_erased_entry_changes_no_copy(controller, session):
    far, mirror = Far(controller), SessionMirror(session)
    mirror.update(far)
    erase(controller, NOWHERE, f"{session}-000003")
    assert mirror.update(far) == 0
    assert SessionMirror(session).update(far) == 7


@pytest.mark.parametrize(
    "alter",
    [
        lambda answer: answer | {"session_root": "0" * 64},
        lambda answer: answer | {"entries": answer["entries"][:-1]},
        lambda answer: answer | {"entries": [*answer["entries"][:-1], answer["entries"][-1] | {"kind": "note"}]},
        lambda answer: answer | {"entries": list(reversed(answer["entries"]))},
        lambda answer: (
            answer
            | {"branch_points": [{"entry_id": answer["entries"][0]["id"], "subtree_hash": "0" * 64, "children": []}]}
        ),
    ],
    ids=["root", "missing", "altered", "order", "branches"],
)
def test_nothing_is_believed(controller, session, alter):
    far = Far(controller)
    far.alter = alter
    with pytest.raises(MirrorDiverged):
        SessionMirror(session).update(far)


def test_a_copy_that_went_wrong_is_fetched_anew(controller, session):
    far, mirror = Far(controller), SessionMirror(session)
    mirror.update(far)
    say(controller, session, "one more")
    unaltered = [{"entries": []}, {}]
    far.alter = lambda answer: answer | unaltered.pop(0)
    assert mirror.update(far) == 8
    assert is_the_same(controller, mirror)
    assert far.statuses == ["full", "changed", "full"]


def test_bytes_follow_the_change(controller, session):
    far, mirror = Far(controller), SessionMirror(session)
    mirror.update(far)
    sizes = []
    for count in (1, 300):
        for number in range(count):
            say(controller, session, f"more {number}")
        mirror.update(far)
        say(controller, session, "the change")
        mirror.update(far)
        sizes.append(len(far.answers[-1]))
    assert abs(sizes[0] - sizes[1]) < 100
    assert max(sizes) < 2_000
