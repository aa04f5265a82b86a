"""A session of a real store as a document."""

from __future__ import annotations

import re

import pytest

from bridge.control.exchange.entrywords import _result
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.transcripts.document import Fields
from bridge.workspaces.store import save_state

NOWHERE = Standpoint()


def put(controller, session, kind, payload, **fields):
    return controller.recorder.append_now(session, EntryDraft(kind=kind, payload=payload, **fields)).id


def shown(controller, session, format_="html", **request):
    pieces: list[bytes] = []
    export_session(controller, NOWHERE, ExportRequest(session=session, format=format_, **request), pieces.append)
    return b"".join(pieces).decode()


@pytest.fixture
def session(controller):
    return controller.recorder.create_session(NewSession(label="a <talk>", harness="codex")).id


def test_branches_are_linked_there_and_back(controller, session):
    first = put(controller, session, "user.message", {"text": "question"})
    put(controller, session, "assistant.message", {"text": "answer one"})
    put(controller, session, "assistant.message", {"text": "answer two"}, parent_entry_id=first)
    page = shown(controller, session)
    assert "answer one" in page
    assert "answer two" in page
    assert f'<a href="#{first}">{first}</a>' in page
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links <= set(re.findall(r'id="([^"]+)"', page))
    assert "branch-1" in links
    assert "a &lt;talk&gt;" in page
    active = shown(controller, session, scope="active")
    assert "answer two" not in active
    assert "branch-1" not in active
    text = shown(controller, session, "markdown")
    assert set(re.findall(r"\(#([^)]+)\)", text)) <= set(re.findall(r'<a id="([^"]+)">', text))


def test_a_branch_is_named_after_what_was_said_on_it(controller, session):
    first = put(controller, session, "user.message", {"text": "question"})
    put(controller, session, "session.status", {"status": "restored", "reason": "because"})
    put(controller, session, "assistant.message", {"text": "answer one"})
    controller.recorder.move_head(session, first)
    put(controller, session, "assistant.message", {"text": "answer two"})
    assert "[branch 1: answer one]" in shown(controller, session, "markdown", hidden=True)


def test_hidden_entries_are_shown_on_request(controller, session):
    put(controller, session, "user.message", {"text": "seen"})
    put(controller, session, "note", {"text": "unseen"}, context_visibility="hidden")
    for format_ in ("html", "markdown"):
        assert "unseen" not in shown(controller, session, format_)
        assert "unseen" in shown(controller, session, format_, hidden=True)


def test_a_call_stands_with_its_result_and_failures_are_open(controller, session):
    call = put(controller, session, "tool.started", {"tool_call_id": "c", "name": "shell", "input": {"command": "ls"}})
    done = put(
        controller,
        session,
        "tool.completed",
        {"tool_call_id": "c", "name": "shell", "status": "failed", "output": "no such"},
    )
    lost = put(controller, session, "tool.started", {"tool_call_id": "d", "name": "edit", "input": {"path": "x"}})
    page = shown(controller, session)
    article = re.search(rf'<article[^>]*id="{call}">.*?</article>', page, re.DOTALL)
    assert article is not None
    assert f'<a id="{done}"></a>' in article.group()
    assert "<details open>" in article.group()
    assert "no such" in article.group()
    assert "tool_failed" in article.group()
    assert re.search(rf'id="{lost}">.*?no result', page, re.DOTALL)


def test_states_of_the_files_are_told_where_they_change(controller, session, repository):
    for name in (None, None, "new.txt"):
        if name:
            (repository.path / name).write_text("uncommitted")
        seen = controller.observer.observe(repository.path)
        controller.recorder.append_now(
            session,
            EntryDraft(kind="user.message", payload={"text": "x"}),
            seen.stamp,
            first=lambda recording, seen=seen: save_state(recording.tx, seen, recording.moment),
        )
    head = repository.git("rev-parse", "HEAD").strip()[:10]
    page = shown(controller, session)
    assert page.count(f"@ {head}, clean") == 1
    assert page.count(f"@ {head}, uncommitted changes") == 1


def test_a_workers_result_is_a_table():
    result = {
        "delegation_id": "d1",
        "status": "failed",
        "summary": "It **broke**.",
        "files_changed": ["a.py", "b|c.py"],
        "risks": ["slow"],
    }
    assert _result(result)[1] == Fields(
        [("status", "failed"), ("task", "d1"), ("files changed", "a.py\nb|c.py"), ("risks", "slow")]
    )


def test_a_fork_shows_what_it_shares_under_its_session(controller, session):
    first = put(controller, session, "user.message", {"text": "shared"})
    put(controller, session, "user.message", {"text": "not shared"})
    fork = controller.recorder.fork(first, NewSession(parent_session_id=session, parent_relation="forked")).id
    put(controller, fork, "user.message", {"text": "own"})
    page = shown(controller, fork)
    assert f'id="session-{session}"' in page
    assert "not shared" not in page
    assert page.index("<p>shared</p>") < page.index("<p>own</p>")


def test_what_cannot_be_read_stands_as_it_is_stored(controller, session):
    put(controller, session, "provider.unknown", {"raw_type": "x.y", "raw": {"a": 1}})
    assert "x.y" in shown(controller, session, hidden=True)
