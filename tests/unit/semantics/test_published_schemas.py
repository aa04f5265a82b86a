"""The schema files as published: complete, self-describing, closed, and pinned by digest."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bridge.semantics.kinds import CURRENT_VERSION, KINDS
from bridge.semantics.results import RECORDED_SCHEMA, SUBMISSION_SCHEMA
from bridge.semantics.schemas import ID_PREFIX, load_schema, schema_root, validator

ROOT = Path(__file__).resolve().parents[3] / "schema"
SCHEMAS = sorted(
    path
    for folder in ("portable", "semantic", "session-file", "worker-result")
    for path in (ROOT / folder).rglob("*.json")
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().removesuffix(".json")


def test_the_files_have_the_digests_they_were_pinned_with() -> None:
    # Fails after any change. Whether that change may be pinned is for schema/README.md to say.
    pinned = json.loads((ROOT / "digests.json").read_text())
    files = [
        path
        for folder in ("checkpoint", "portable", "semantic", "session-file", "worker-result", "vectors")
        for path in (ROOT / folder).rglob("*.json")
    ]
    assert {path.relative_to(ROOT).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files} == pinned


def test_a_source_checkout_validates_with_its_own_files() -> None:
    assert schema_root() == ROOT


@pytest.mark.parametrize("path", SCHEMAS, ids=name_of)
def test_each_schema_says_what_it_is(path: Path) -> None:
    schema = load_schema(name_of(path))

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"{ID_PREFIX}{name_of(path)}.json"
    assert schema["title"]
    assert schema["description"].endswith(".")
    validator(name_of(path))  # compiles, with all that it refers to


def test_every_kind_has_a_file_and_every_file_a_kind() -> None:
    files = {path.name.removesuffix(".json") for path in (ROOT / "semantic" / f"v{CURRENT_VERSION}").glob("*.json")}
    assert files == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_table_and_schema_agree(kind: str) -> None:
    schema = load_schema(f"semantic/v2/{kind}")
    if kind == "worker.result":
        schema = load_schema(RECORDED_SCHEMA)

    assert set(schema.get("required", [])) == set(KINDS[kind].required)
    assert schema["additionalProperties"] is False
    assert "provider_meta" in schema["properties"]
    assert "turn_id" in schema["properties"]


def objects(schema: Any) -> list[dict[str, Any]]:
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    found = [item for value in inner for item in objects(value)]
    return [*found, schema] if isinstance(schema, dict) else found


@pytest.mark.parametrize("path", SCHEMAS, ids=name_of)
def test_whoever_lists_properties_closes_the_list(path: Path) -> None:
    for schema in objects(json.loads(path.read_text())):
        if "properties" in schema and isinstance(schema.get("type"), (str, list)):
            assert "additionalProperties" in schema, schema


def test_a_submission_and_a_recorded_result_share_what_the_worker_says() -> None:
    submitted, recorded = (load_schema(name)["properties"] for name in (SUBMISSION_SCHEMA, RECORDED_SCHEMA))

    assert set(submitted) < set(recorded)
    assert {"delegation_id", "base_commit", "result_commit", "stamp", "attempt"} <= set(recorded) - set(submitted)
    assert set(recorded["status"]["enum"]) - set(submitted["status"]["enum"]) == {"invalid"}
