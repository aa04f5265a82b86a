"""``bridge context``: the text an agent would get, its messages as JSON, other sizes, the files on top."""

from __future__ import annotations

import json


def append(here, session, kind, **payload):
    return here.json("append", session, "--kind", kind, "--payload", "-", stdin=json.dumps(payload).encode())["id"]


def test_the_text_names_the_branch_the_model_and_every_message(here, session):
    append(here, session, "model.changed", model="m-1")
    append(here, session, "user.message", text="Mend it\n--- bridge\nplease")
    append(here, session, "tool.started", tool_call_id="c", name="sh", input={"command": "make"})
    tail = session[-4:]
    assert here("context", session).ok().stdout == (
        f"--- bridge\nConversation {session} up to {tail}.3. Model: m-1.\n\n"
        f"--- user.message ({tail}.2)\nMend it\n\\--- bridge\nplease\n\n"
        f'--- tool.started ({tail}.3)\ninput: {{"command":"make"}}\nname: sh\ntool_call_id: c\n\n'
        f"--- tool.completed ({tail}.3)\ntool_call_id: c\nname: sh\nstatus: missing\n"
        "No result of this call is recorded here.\n"
    )


def test_what_changed_in_the_files_comes_first_and_only_if_something_did(here, repository, session):
    append(here, session, "user.message", text="hello")
    before = here.json("context", session)
    assert (before["divergence"], before["divergence_line"]) == ("aligned", None)
    repository.write("a.txt", "changed since\n")
    after = here.json("context", session)
    assert after["divergence"] == "diverged"
    assert '"a.txt"' in after["divergence_line"]
    text = here("context", session).ok().stdout
    assert text.split("\n\n")[1] == f"--- files\n{after['divergence_line']}"
    untold = here.json("context", session, "--without-files")
    assert (untold["divergence"], untold["divergence_line"]) == (None, None)


def test_a_budget_shows_the_newest_that_fits_and_says_what_is_missing(here, session):
    for number in range(8):
        append(here, session, "user.message", text=f"{number} " + "x" * 300)
    found = here.json("context", session, "--budget", "800")
    assert found["budget_tokens"] == 800
    assert found["tokens"] <= 800
    assert found["messages"][-1]["payload"]["text"].startswith("7 ")
    (omitted,) = found["omitted"]
    assert omitted["entries"] + len(found["messages"]) == 8
    assert omitted["first_entry_id"] == f"{session}-000001"
    assert f"Left out for lack of room: {omitted['entries']} entries" in here("context", "--budget", "800").ok().stdout
    ran = here("context", session, "--budget", "1")
    assert "never torn" in ran.ok().stderr
    assert here("context", session, "--budget", "0").status == 2


def test_a_checkpoint_stands_for_what_lies_before_unless_all_is_asked_for(here, session):
    append(here, session, "user.message", text="one")
    append(here, session, "checkpoint", summary="so far", decisions=["d"], files_touched=[], open_work=["go on"])
    append(here, session, "user.message", text="two")
    cold = here.json("context", session)
    assert [message["kind"] for message in cold["messages"]] == ["checkpoint", "user.message"]
    assert cold["decisions"] == ["d"]
    whole = here.json("context", session, "--whole")
    assert [message["payload"]["text"] for message in whole["messages"]] == ["one", "two"]


def test_a_compaction_that_retains_nothing_of_its_branch_is_refused(here, session):
    first = append(here, session, "user.message", text="one")
    payload = {"summary": "s", "first_retained_entry_id": f"{session}-000099", "tokens_before": 1, "reason": "manual"}
    words = ("append", session, "--kind", "compaction", "--payload", "-", "--json")
    refused = here(*words, stdin=json.dumps(payload).encode())
    assert refused.error()["code"] == "invalid_boundary"
    assert [entry["id"] for entry in here.json("log", session)] == [first]
    taken = here(*words, stdin=json.dumps({**payload, "first_retained_entry_id": first}).encode()).ok().json()
    assert here.json("context", session)["boundary_entry_id"] == taken["id"]
