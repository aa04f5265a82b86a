"""Proof bundles and portable sessions, judged by the stand-alone program alone; and that it says what verify says."""

from __future__ import annotations

import json
import random
import runpy
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from bridge.control.checks.anchoring import anchor_log
from bridge.control.checks.proving import prove_entry
from bridge.control.checks.verification import verify
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.conversations.errors import EntryNotFound
from bridge.foundation.errors import BridgeError
from bridge.integrity.coverage import COVERAGE
from bridge.semantics.schemas import field_errors, validator
from tests.databases import unguarded
from tests.mutants import NOWHERE, Hand, Mutation, build, flipped, opened

PROGRAM = Path(__file__).parents[3] / "docs" / "verifier" / "bridge_verifier.py"
COVERED = sorted((table, name) for table, columns in COVERAGE.items() for name, one in columns.items() if one.part)
check = runpy.run_path(str(PROGRAM))["check"]


@pytest.fixture
def made(database_url, tmp_path, repository):
    with opened(tmp_path / "home", database_url) as controller:
        yield controller, build(controller, repository, tmp_path, entries=45)


def export(controller, session):
    file = BytesIO()
    export_session(controller, NOWHERE, ExportRequest(session=session), file.write)
    return file.getvalue()


def result_of(controller, sessions):
    with controller.store.read() as connection:
        found = connection.exec_driver_sql("SELECT result_entry_id FROM delegations WHERE result_commit IS NOT NULL")
        return found.scalars().first()


@pytest.mark.one_database("reads a file of the project")
def test_the_program_is_short_and_stands_alone():
    text = PROGRAM.read_text()
    assert len(text.splitlines()) < 200
    imported = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= set(sys.stdlib_module_names)


def test_a_bundle_of_every_kind_of_entry_holds(made, tmp_path):
    controller, sessions = made
    references = [
        f"{sessions.main}-000000",
        f"{sessions.main}-000031",
        f"{sessions.main}-000008",
        f"{sessions.main}-000041",
    ]
    references += [f"{sessions.fork}-000004", f"{sessions.bystander}-000004", result_of(controller, sessions)]
    for reference in references:
        bundle = prove_entry(controller, NOWHERE, reference)
        data = bundle.encoded()
        assert check(data) == [], reference
        assert field_errors(validator("proof/v1/bundle"), json.loads(data)) == []
        assert check(data, str(bundle.log)) == []
        assert len(check(data, "0" * 64 + "/3")) == 1
        for event in bundle.value["events"]:
            assert len(event["inclusion"]) <= 20
    fork = json.loads(prove_entry(controller, NOWHERE, references[4]).encoded())
    assert f"{sessions.main}-000009" in [above["id"] for above in fork["ancestry"]]
    result = json.loads(prove_entry(controller, NOWHERE, references[-1]).encoded())["result"]
    assert len(result["base_commit"]) == len(result["result_commit"]) == 40
    # As somebody would who has nothing but the two files.
    assert run_alone(tmp_path, data) == (0, "holds\n")
    status, told = run_alone(tmp_path, data.replace(b'"semantic_schema_version":2', b'"semantic_schema_version":3', 1))
    assert (status, "its hash does not follow" in told) == (1, True)


def run_alone(folder, data):
    (folder / "proof.json").write_bytes(data)
    command = [sys.executable, "-I", str(PROGRAM), str(folder / "proof.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_bundle_leads_to_every_anchor_that_was_kept(made):
    controller, sessions = made
    before = anchor_log(controller)
    controller.recorder.label(sessions.main, f"{sessions.main}-000003", "more")
    bundle = prove_entry(controller, NOWHERE, f"{sessions.main}-000003")
    assert bundle.log.size > before.log.size
    assert check(bundle.encoded()) == []


def test_an_entry_that_is_not_there_has_no_proof(made):
    controller, sessions = made
    with pytest.raises(EntryNotFound):
        prove_entry(controller, NOWHERE, f"{sessions.main}-009999")


def test_sessions_hold_with_their_origins_states_and_long_texts(made):
    controller, sessions = made
    for session in (sessions.main, sessions.fork, sessions.bystander):
        assert check(export(controller, session)) == []


@pytest.mark.parametrize("part", ["bundle", "session"])
def test_whatever_is_changed_in_a_file_is_seen(made, part):
    """Every value in it, each in its turn: a bit of a text is flipped, a number is another one, an item is gone."""
    controller, sessions = made
    if part == "bundle":
        lines = [json.loads(prove_entry(controller, NOWHERE, result_of(controller, sessions)).encoded())]
        free = {"made_at", "source"}
    else:
        lines = [json.loads(line) for line in export(controller, sessions.fork).splitlines()]
        # What pins nothing (docs/portable-format.md), and what the entries' digest alone covers.
        free = {"exported_at", "workspace_id", "agent_id", "harness", "label", "labels", "status", "parent_session_id",
                "parent_relation", "updated_at", "active_entry_id", "next_sequence", "kinds", "states", "manifests",
                "pages", "hidden", "scope", "complete"}  # fmt: skip
    chance = random.Random(part)
    seen = 0
    for line in lines:
        if line["type"] == "bridge.session":
            continue
        for holder, name in list(places(line)):
            if name in free or (part == "session" and chance.random() > 0.2):
                continue
            value = holder[name]
            is_plain = isinstance(value, (str, int)) and not isinstance(value, bool)
            changed = flipped(value, chance) if is_plain else None if value is not None else "x"
            holder[name] = changed.decode("latin-1") if isinstance(changed, bytes) else changed
            assert check(b"".join(map(written, lines))), (name, value, holder[name])
            holder[name] = value
            seen += 1
    assert seen > 50


def written(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def places(value):
    """Yield every member of every object, and every item of every list, with what holds it."""
    for name in value if isinstance(value, dict) else range(len(value)):
        if isinstance(value[name], (dict, list)) and value[name]:
            yield from places(value[name])
        else:
            yield value, name


#: Tables of which a portable session or a bundle holds values.
CARRIED = ("session_entries", "repository_states", "manifests", "manifest_pages", "audit_events", "log_leaves")


@pytest.mark.one_database("what a hand can do to a file")
@pytest.mark.parametrize("table", CARRIED)
def test_the_program_says_of_an_altered_store_what_verify_says(made, table):
    """Nothing is given out of the altered rows, or the program sees them; where verify finds nothing, it does not."""
    controller, sessions = made
    with controller.store.read() as connection:
        result = connection.exec_driver_sql("SELECT result_entry_id FROM delegations").scalars().first()
    healthy = export(controller, sessions.main)
    chance = random.Random(table)
    wanted = [name for covered, name in COVERED if covered == table]
    with unguarded(controller.store.url) as connection:
        hand = Hand(connection)
        rows = [row for row in hand.rows(table) if concerns(row, sessions, result)]
        for name in wanted:
            for row in chance.sample([row for row in rows if row[name] is not None], 1):
                mutation = Mutation(table, name, row, flipped(row[name], chance))
                with hand.mutated(mutation) as is_done:
                    if is_done:
                        compare(controller, sessions, result, mutation, healthy)
        compare(controller, sessions, result, None, healthy)


def concerns(row, sessions, result):
    """Return whether what is given out below holds a row: the main session, or what speaks of one result."""
    if "chain_id" in row:
        return row["chain_id"] == result.rpartition("-")[0]
    return row.get("session_id", sessions.main) == sessions.main


def compare(controller, sessions, result, mutation, healthy):
    by_verify = verify(controller, NOWHERE, None, only=("tree", "chain", "log", "states"))
    files = {
        "session": given_out(lambda: export(controller, sessions.main)),
        "bundle": given_out(lambda: prove_entry(controller, NOWHERE, result).encoded()),
    }
    seen = {name for name, data in files.items() if data is None or check(data)}
    if mutation is None:
        assert by_verify.is_healthy
        assert not seen
        return
    assert not by_verify.is_healthy, mutation
    # What verify finds in the chain alone is not in a session's file; a bundle holds three events of it.
    is_in_file = mutation.table.startswith(("session_entries", "repository", "manifest"))
    keys = [mutation.row.get(name) for name in ("entry_hash", "state_digest", "dirty_hash", "page_digest")]
    is_in_file = is_in_file and next(key for key in keys if key).encode() in healthy
    if is_in_file and mutation.column not in UNPINNED:
        # A state or a manifest that is not found under its digest is left out: that much less is in the file.
        assert "session" in seen or len(files["session"].splitlines()) < len(healthy.splitlines()), mutation
    if mutation.table == "log_leaves" and mutation.column == "hashes":
        assert "bundle" in seen or not uses(mutation, files["bundle"]), mutation


def given_out(make):
    """Return a file's bytes; None if Bridge refuses to make it, because of what is damaged."""
    try:
        return make()
    except (BridgeError, ValueError, KeyError, TypeError, AttributeError):
        return None


def uses(mutation, data):
    """Return whether a bundle rests on the leaf that was altered."""
    return data is None or mutation.row["hashes"].hex()[:64] in data.decode()


#: What of an entry no hash covers (its event does, which is not in a session's file), and what is not in the file.
UNPINNED = {"observed_at", "unknown_path", "unknown_detail", "external_source", "payload_outline", "payload_bytes",
            "blob_digest"}  # fmt: skip
