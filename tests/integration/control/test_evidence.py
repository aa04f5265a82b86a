"""Evidence: the exact stored bytes, or one typed refusal per cause, before anything is started."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from bridge.adapters.taskfolder import MAX_INLINE_EVIDENCE_BYTES
from bridge.control.delegations import evidence
from bridge.control.errors import (
    ReferenceForeignSession,
    ReferenceInvalidResult,
    ReferenceNotAResult,
    ReferenceNotFound,
    ReferenceNotOnActiveBranch,
    TooMuchEvidence,
)
from bridge.conversations.models import EntryDraft, NewSession
from bridge.semantics.errors import UnsupportedSemanticVersion
from tests.databases import behind

pytestmark = pytest.mark.usefixtures("database_url")

#: Computes from the bytes of the file and from those that stand in the request itself.
READER = """
[item] = task["evidence"]
file = pathlib.Path(item["path"]).read_bytes()
request = pathlib.Path(os.environ["BRIDGE_TASK"]).read_bytes()
hand_in(data={
    "digest": hashlib.sha256(file).hexdigest(),
    "given": item["digest"],
    "is_inline": b'"payload":' + file in request,
    "text": file.decode(),
})
"""


def record_result(world: Any, session_id: str, *, status: str = "completed", **payload: Any) -> str:
    values = {"delegation_id": "d0", "status": status, "summary": "by hand", **payload}
    return world.controller.recorder.append_now(session_id, EntryDraft(kind="worker.result", payload=values)).id


def resolve(world: Any, session_id: str | None, *references: str) -> Any:
    with world.controller.store.read() as connection:
        return evidence.resolve_all(connection, session_id, references)


@pytest.mark.parametrize("filler", ["", "x" * (MAX_INLINE_EVIDENCE_BYTES + 1)])
def test_a_sibling_gets_the_exact_stored_bytes(world: Any, filler: str) -> None:
    floats = '{"status": "completed", "summary": "naïve ü", "data": {"n": 1.50, "e": 1e3, "f": "%s"}}'
    body = f"pathlib.Path(os.environ['BRIDGE_RESULT']).write_text({floats % filler!r})"
    text = world.worker("one", body) + world.worker("other", "hand_in()") + world.worker("two", READER, needs=["one"])
    outcome = world.run(text)
    assert outcome.is_completed, [world.details(name) for name in ("one", "two")]
    stored = world.entry(world.task("one").result_entry_id).payload_text
    assert '"n":1.50' in stored
    data = world.result("two")["data"]
    assert data["text"] == stored
    assert data["digest"] == data["given"] == hashlib.sha256(stored.encode()).hexdigest()
    assert data["is_inline"] is (filler == "")
    assert world.result("two")["evidence"] == [world.task("one").result_entry_id]


def test_what_is_computed_changes_when_the_evidence_does(world: Any) -> None:
    def run(value: int) -> str:
        world.run(world.worker("one", f"hand_in(data={value})") + world.worker("two", READER, needs=["one"]))
        return str(world.result("two")["data"]["digest"])

    assert run(1) != run(2)


def test_evidence_of_an_earlier_run_is_cited_by_a_plan_in_the_same_session(world: Any) -> None:
    first = world.run(world.worker("one", "hand_in(data=7)"))
    reference = world.task("one").result_entry_id
    number = str(world.entry(reference).sequence)
    text = world.worker("two", READER, evidence=[reference, number])
    outcome = world.run(text, session_id=first.plan.session_id)
    assert outcome.is_completed, world.details("two")
    assert outcome.plan.session_id == first.plan.session_id
    assert json.loads(world.result("two")["data"]["text"])["data"] == 7


def test_an_entry_on_the_shared_path_of_a_fork_belongs_to_the_fork(world: Any) -> None:
    first = world.run(world.worker("one", "hand_in(data=7)"))
    reference = world.task("one").result_entry_id
    recorder = world.controller.recorder
    fork = recorder.fork(reference, NewSession(workspace_id=world.workspace.id, harness="test")).id
    late = record_result(world, first.plan.session_id)
    assert world.run(world.worker("two", READER, evidence=[reference]), session_id=fork).is_completed
    assert [item.reference for item in resolve(world, fork, reference)] == [reference]
    with pytest.raises(ReferenceForeignSession):
        resolve(world, fork, late)


REFUSALS = {
    "unknown": ReferenceNotFound,
    "malformed": ReferenceNotFound,
    "foreign": ReferenceForeignSession,
    "left": ReferenceNotOnActiveBranch,
    "message": ReferenceNotAResult,
    "invalid": ReferenceInvalidResult,
    "version": UnsupportedSemanticVersion,
}


def make_reference(world: Any, session_id: str, case: str) -> str:
    match case:
        case "unknown":
            return f"{session_id}-000999"
        case "malformed":
            return "no reference at all"
        case "foreign":
            return record_result(world, world.session())
        case "left":
            start = world.head(session_id)
            left = record_result(world, session_id)
            world.controller.recorder.move_head(session_id, start)
            return left
        case "message":
            return world.say(session_id, "no result")
        case "invalid":
            return record_result(world, session_id, status="invalid")
    reference = record_result(world, session_id)
    # Append-only by trigger: a newer program's row is made by writing it as that one would have.
    with behind(world.controller.store.url) as database:
        database.execute("UPDATE session_entries SET semantic_schema_version = 3 WHERE id = ?", (reference,))
    return reference


@pytest.mark.parametrize("case", REFUSALS)
def test_what_may_not_be_cited_is_refused_by_name_before_anything_starts(world: Any, case: str) -> None:
    session_id = world.session("begin")
    reference = make_reference(world, session_id, case)
    before = (world.head(session_id), [world.count(table) for table in ("session_entries", "delegations", "plans")])
    with pytest.raises(REFUSALS[case]) as caught:
        world.run(world.shell("two", "touch started", evidence=[reference]), session_id=session_id)
    assert "Nothing" in caught.value.message or case == "version"
    assert before == (
        world.head(session_id),
        [world.count(table) for table in ("session_entries", "delegations", "plans")],
    )
    assert not world.controller.settings.worktrees.exists()


def test_every_refusal_has_its_own_code_and_status() -> None:
    errors = set(REFUSALS.values()) | {TooMuchEvidence}
    assert len({error.code for error in errors}) == len({error.exit_status for error in errors}) == len(errors)


def test_evidence_cited_for_a_session_yet_to_be_made_is_foreign(world: Any) -> None:
    reference = record_result(world, world.session())
    with pytest.raises(ReferenceForeignSession):
        world.run(world.shell("two", "true", evidence=[reference]))


def test_the_number_of_references_is_bounded(world: Any) -> None:
    session_id = world.session()
    references = [record_result(world, session_id) for _ in range(evidence.MAX_REFERENCES + 1)]
    assert len(resolve(world, session_id, *references[1:])) == evidence.MAX_REFERENCES
    assert len(resolve(world, session_id, *references[1:], references[1])) == evidence.MAX_REFERENCES
    with pytest.raises(TooMuchEvidence):
        resolve(world, session_id, *references)


def test_needs_and_evidence_are_counted_together_before_anything_starts(world: Any) -> None:
    session_id = world.session()
    references = [record_result(world, session_id) for _ in range(evidence.MAX_REFERENCES)]
    text = world.shell("one", "touch started") + world.shell("two", "true", needs=["one"], evidence=references)
    with pytest.raises(TooMuchEvidence):
        world.run(text, session_id=session_id)
    assert world.count("delegations") == 0


def test_the_bytes_of_references_are_bounded(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = world.session()
    references = [record_result(world, session_id) for _ in range(2)]
    size = sum(len(world.entry(reference).payload_text.encode()) for reference in references)
    monkeypatch.setattr(evidence, "MAX_EVIDENCE_BYTES", size)
    # The same result under another name counts once.
    again = str(world.entry(references[0]).sequence)
    assert len(resolve(world, session_id, *references, again)) == 2
    monkeypatch.setattr(evidence, "MAX_EVIDENCE_BYTES", size - 1)
    with pytest.raises(TooMuchEvidence):
        resolve(world, session_id, *references)


def test_evidence_left_behind_while_a_plan_runs_stops_what_needs_it(world: Any) -> None:
    session_id = world.session("begin")
    start = world.head(session_id)
    reports: list[Any] = []

    class Leaving(list[Any]):
        """Goes back to the beginning once the first worker has ended."""

        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_finished":
                world.controller.recorder.move_head(session_id, start)

    reports = Leaving()
    text = world.shell("one", "true") + world.shell("two", "touch started", needs=["one"])
    world.run(text, session_id=session_id, reports=reports)
    assert world.task("two").status == "rejected"
    assert world.details("two")["decision"]["reason"] == "reference_not_on_active_branch"
    # The plan's own entries stayed on its branch, and the head where the conversation had gone.
    assert world.head(session_id) == start
