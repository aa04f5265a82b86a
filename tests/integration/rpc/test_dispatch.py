"""Messages as bytes: their form, batches, notifications, limits, errors, callers."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from bridge.control.standpoint import Standpoint
from bridge.foundation.errors import error_classes
from bridge.rpc import roles
from bridge.rpc.messages import MAX_BATCH, MAX_ID_CHARACTERS, MAX_MESSAGE_BYTES
from bridge.rpc.methods.table import METHODS
from bridge.rpc.roles import Caller, Role

SHOW = {"jsonrpc": "2.0", "id": 1, "method": "sessions/list"}


def encoded(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("message", "code", "reason"),
    [
        (b"", -32700, "parse_error"),
        (b"{", -32700, "parse_error"),
        (b"\xff", -32700, "parse_error"),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0"}', -32700, "parse_error"),
        (b"NaN", -32700, "parse_error"),
        (b"[" * 100_000, -32700, "parse_error"),
        (b"1", -32600, "not_an_object"),
        (b"[]", -32600, "batch_size"),
        (encoded([SHOW] * (MAX_BATCH + 1)), -32600, "batch_size"),
        (encoded({**SHOW, "extra": 1}), -32600, "unknown_member"),
        (encoded({**SHOW, "jsonrpc": "1.0"}), -32600, "version"),
        (encoded({**SHOW, "id": 1.5}), -32600, "id"),
        (encoded({**SHOW, "id": True}), -32600, "id"),
        (encoded({**SHOW, "id": "x" * (MAX_ID_CHARACTERS + 1)}), -32600, "id"),
        (encoded({**SHOW, "id": {}}), -32600, "id"),
        (encoded({**SHOW, "method": 1}), -32600, "method"),
        (encoded({**SHOW, "params": "x"}), -32600, "params"),
    ],
)
def test_what_is_no_request_is_a_typed_error(send, message, code, reason):
    answer = send(message)
    assert answer["error"]["code"] == code
    assert answer["error"]["data"]["code"] == "invalid_request"
    assert answer["error"]["data"]["details"]["reason"] == reason


def test_the_size_limit_at_its_edge_is_named(send):
    padding = b" " * (MAX_MESSAGE_BYTES - len(encoded(SHOW)))
    assert "result" in send(encoded(SHOW) + padding)
    refused = send(encoded(SHOW) + padding + b" ")["error"]
    assert refused["data"]["details"] == {"reason": "too_large", "limit": MAX_MESSAGE_BYTES}


def test_ids_come_back_as_they_were(send):
    for identity in (0, -1, 2**63, "", "x" * MAX_ID_CHARACTERS, None):
        assert send(encoded({**SHOW, "id": identity}))["id"] == identity
    assert send(encoded({**SHOW, "id": 7, "extra": 1}))["id"] == 7


def test_a_notification_is_done_and_not_answered(send, call):
    notice = {"jsonrpc": "2.0", "method": "sessions/new", "params": {"label": "quiet"}}
    assert send(encoded(notice)) is None
    assert send(encoded({"jsonrpc": "2.0", "method": "no/such"})) is None
    assert [one["label"] for one in call("sessions/list")["sessions"]] == ["quiet"]


def test_a_batch_is_answered_in_order_without_its_notifications(send):
    batch = [{**SHOW, "id": 1}, {"jsonrpc": "2.0", "method": "sessions/list"}, 5, {**SHOW, "id": 2, "method": "nope"}]
    answers = send(encoded(batch))
    assert [one["id"] for one in answers] == [1, None, 2]
    assert [one.get("error", {}).get("code") for one in answers] == [None, -32600, -32601]
    assert send(encoded([{"jsonrpc": "2.0", "method": "sessions/list"}])) is None
    assert len(send(encoded([SHOW] * MAX_BATCH))) == MAX_BATCH


def test_params_are_given_by_name_and_unknown_ones_refused(send, call):
    by_position = send(encoded({**SHOW, "params": [1]}))["error"]
    assert (by_position["code"], by_position["data"]["code"]) == (-32602, "invalid_params")
    refused = call("sessions/list", unheard_of=1, fails=True)
    assert refused["data"]["details"]["fields"] == [{"path": "/unheard_of", "message": "is not a known field"}]
    session = call("sessions/new")["id"]
    for params in ({}, {"text": "x", "payload": {"text": "x"}}, {"text": "x", "parent": "1", "cursor": "c"}):
        assert call("sessions/append", session=session, kind="note", fails=True, **params)["code"] == -32602


def test_errors_carry_the_codes_of_the_command_line(call):
    assert {cls.code for cls in error_classes()} >= {"head_moved"}
    session = call("sessions/new")["id"]
    first = call("sessions/append", session=session, kind="user.message", text="one")
    call("sessions/append", session=session, kind="user.message", text="two")
    refused = call(
        "sessions/append", session=session, kind="user.message", text="three", expected_head=first["id"], fails=True
    )
    assert refused["code"] == 50
    assert refused["data"]["code"] == "head_moved"
    assert refused["data"]["details"]["expected"] == first["id"]
    assert refused["data"]["hint"]
    assert call("sessions/show", session="nope", fails=True)["data"]["code"] == "session_not_found"
    assert call("delegations/show", task="nope", fails=True)["data"]["code"] == "task_not_found"
    assert call("references/resolve", reference="nope", fails=True)["data"]["code"] == "reference_not_found"


def test_a_fault_ends_one_call_and_is_not_told_in_detail(send, monkeypatch):
    def fail(_call, _params):
        raise RuntimeError("secret detail")

    broken = METHODS["sessions/list"].__class__(
        **{name: getattr(METHODS["sessions/list"], name) for name in METHODS["sessions/list"].__slots__} | {"run": fail}
    )
    monkeypatch.setattr("bridge.rpc.dispatch.METHODS", {**METHODS, "sessions/list": broken})
    with capture_logs() as logged:
        answers = send(encoded([SHOW, {**SHOW, "method": "integrity/verify"}]))
    assert [one["action"] for one in logged] == ["call_failed"]
    assert answers[0]["error"]["data"]["code"] == "internal_error"
    assert "secret" not in json.dumps(answers)
    assert "result" in answers[1]


def test_pages_say_whether_there_is_more_and_go_on_by_keys(call):
    made = [call("sessions/new")["id"] for _ in range(5)]
    assert call("sessions/list", limit=4)["hasMore"] is True
    whole = call("sessions/list", limit=5)
    assert (whole["hasMore"], whole["next"]) == (False, None)
    first = call("sessions/list", limit=2)
    # What is touched meanwhile is not listed again, and nothing else moves.
    call("sessions/append", session=first["sessions"][-1]["id"], kind="note", text="touched")
    second = call("sessions/list", limit=2, page=first["next"])
    third = call("sessions/list", limit=2, page=second["next"])
    assert third["next"] is None
    listed = [one["id"] for page in (first, second, third) for one in page["sessions"]]
    assert listed == [one["id"] for one in whole["sessions"]]
    assert sorted(listed) == sorted(made)


def walk(call, method, name, *, key, forwards, **params):
    """Return what all pages of a method hold, and how many pages there were."""
    found, pages = [], 0
    while True:
        answer = call(method, **params)
        page = answer[name]
        found = [*found, *page] if forwards else [*page, *found]
        pages += 1
        if not answer["hasMore"]:
            return found, pages
        params[key] = page[-1 if forwards else 0].get("id") or page[0]["leaf_entry_id"]


def test_every_list_has_pages_that_hold_all_of_it_once(call):
    session = call("sessions/new")["id"]
    texts = [call("sessions/append", session=session, kind="user.message", text=str(n))["id"] for n in range(7)]
    call("sessions/goto", session=session, entry=texts[2])
    call("sessions/append", session=session, kind="user.message", text="another branch")
    for method, name, key, forwards in (
        ("sessions/log", "entries", "before", False),
        ("sessions/tree", "nodes", "after", True),
        ("sessions/branches", "branches", "before", False),
    ):
        whole, pages = walk(call, method, name, key=key, forwards=forwards, session=session)
        assert pages == 1
        for limit in (1, 2, 3):
            found, pages = walk(call, method, name, key=key, forwards=forwards, session=session, limit=limit)
            assert found == whole
            assert pages == -(-len(whole) // limit)
    forth, _ = walk(call, "sessions/log", "entries", key="after", forwards=True, session=session, after="1", limit=2)
    assert [one["sequence"] for one in forth] == [2, 3, 8]
    missed = call("sessions/log", session=session, after="7", fails=True)
    assert missed["data"]["code"] == "entry_not_on_path"
    assert call("sessions/log", session=session, facets=["tools"])["entries"] == []


def test_an_agent_is_bound_and_nobody_else_is():
    with pytest.raises(ValueError, match="bound"):
        Caller(Role.AGENT, Standpoint())
    with pytest.raises(ValueError, match="bound"):
        Caller(Role.OPERATOR, Standpoint(), "20260101-000000-ffff")


def test_every_listed_error_is_published():
    known = set(error_classes())
    for method in METHODS.values():
        assert set(method.errors) <= known
    assert roles.WRITERS < roles.READERS < roles.EVERYONE


def test_a_session_goes_out_and_comes_back_in(call, controller, tmp_path, repository):
    session = call("sessions/new", label="out")["id"]
    call("sessions/append", session=session, kind="user.message", text="hello")
    text = call("sessions/export", session=session)["text"]
    again = call("sessions/import", text=text)
    assert (again["session_id"], again["added"], again["sessions"][0]["status"]) == (session, 0, "unchanged")
    (repository.path / "out.jsonl").write_text(text)
    assert call("sessions/import", path="out.jsonl", dry_run=True)["dry_run"] is True
    for wrong in ({}, {"text": text, "path": "x"}):
        assert call("sessions/import", fails=True, **wrong)["code"] == -32602
    for path in ("nope.jsonl", "\0", "."):
        assert call("sessions/import", fails=True, path=path)["data"]["code"] == "import_unreadable"
