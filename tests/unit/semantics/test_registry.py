"""Adding a semantic version, proved with one that does not exist: N-1 is read, what lies before is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.semantics import schemas
from bridge.semantics.contracts import Contract
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import OpaqueReason, interpret, require_readable
from bridge.semantics.kinds import KINDS, Kind
from bridge.semantics.registry import REGISTRY, Registry
from bridge.semantics.versions.v2 import from_previous as from_v1

# What the one module of a version 3 would hold: messages have parts instead of a text, and there is one new kind.
KINDS_V3 = {**KINDS, "user.message": Kind("user.message", ("parts",)), "mood": Kind("mood", ("word",))}


def from_v2(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    if kind != "user.message":
        return payload
    return {name: value for name, value in payload.items() if name != "text"} | {"parts": [payload["text"]]}


V3 = Registry(Contract(1, {}), Contract(2, KINDS, from_previous=from_v1), Contract(3, KINDS_V3, from_previous=from_v2))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The published schemas with the one folder of a version 3 beside the others."""
    root = tmp_path / "schema"
    shutil.copytree(schemas.schema_root(), root)
    shutil.copytree(root / "semantic" / "v2", root / "semantic" / "v3")
    for file in (root / "semantic" / "v3").glob("*.json"):
        text = file.read_text().replace("/semantic/v2/", "/semantic/v3/")
        file.write_text(text)
    parts = {"type": "object", "required": ["parts"], "properties": {"parts": {"type": "array"}}}
    (root / "semantic" / "v3" / "user.message.json").write_text(json.dumps(parts))
    (root / "semantic" / "v3" / "mood.json").write_text(json.dumps({"type": "object", "required": ["word"]}))
    monkeypatch.setattr(schemas, "schema_root", lambda: root)
    schemas.validator.cache_clear()
    yield root
    schemas.validator.cache_clear()


def read(version: int, kind: str, payload: Any) -> Any:
    return interpret(version, kind, json.dumps(payload), registry=V3, entry_id="s-000001")


def test_the_new_version_is_current_and_the_one_before_is_read(folder: Path) -> None:
    assert (V3.current.version, V3.readable) == (3, (2, 3))
    assert read(3, "user.message", {"parts": ["hi"]}).payload == {"parts": ["hi"]}
    assert read(3, "mood", {"word": "good"}).opaque is False
    assert read(2, "user.message", {"text": "hi"}).payload == {"parts": ["hi"]}
    assert read(2, "note", {"text": "hi"}).payload == {"text": "hi"}


def test_what_the_new_version_needs_and_the_old_one_lacks_stays_opaque(folder: Path) -> None:
    assert read(3, "user.message", {"text": "hi"}).reason is OpaqueReason.INCOMPLETE
    assert read(2, "mood", {}).reason is OpaqueReason.INCOMPLETE
    assert read(2, "unheard.of", {}).reason is OpaqueReason.UNKNOWN_KIND


@pytest.mark.parametrize("version", [0, 1, 4])
def test_what_lies_before_and_after_is_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedSemanticVersion) as caught:
        read(version, "note", {"text": "hi"})
    assert caught.value.details == {"entry": "s-000001", "found": version, "supported": [2, 3]}
    with pytest.raises(UnsupportedSemanticVersion):
        require_readable(version, registry=V3)


def test_todays_registry_goes_on_reading_what_it_read() -> None:
    assert REGISTRY.readable == (1, 2)
    with pytest.raises(UnsupportedSemanticVersion):
        interpret(3, "mood", '{"word":"good"}')


@pytest.mark.parametrize(
    "contracts",
    [
        (Contract(2, KINDS),),
        (Contract(1, {}), Contract(3, KINDS, from_previous=from_v2)),
        (Contract(1, {}), Contract(2, KINDS)),
    ],
)
def test_a_series_with_a_gap_is_none(contracts: tuple[Contract, ...]) -> None:
    with pytest.raises(ValueError, match=r"gap|reads"):
        Registry(*contracts)
