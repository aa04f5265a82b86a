"""The published vectors hold for Bridge, and for a second implementation that shares no code with it."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bridge.foundation.canonical import canonical_bytes, parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import ZERO_HASH, digest_hex, entry_hash, event_hash, hash_combine, leaf_hash

VECTORS = Path(__file__).resolve().parents[3] / "schema" / "vectors"
CANONICAL = json.loads((VECTORS / "canonical-json.json").read_text(encoding="ascii"))
HASHES = json.loads((VECTORS / "hashes.json").read_text(encoding="ascii"))


class Literal:
    def __init__(self, text: str) -> None:
        self.text = text


def independent_canonical(text: str) -> str:
    """Canonical JSON from the standard library and a dozen lines; it made the published vectors."""

    def write(value: Any) -> str:
        if isinstance(value, Literal):
            return value.text
        if isinstance(value, dict):
            return "{" + ",".join(f"{write(key)}:{write(value[key])}" for key in sorted(value)) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(write, value)) + "]"
        return json.dumps(value, ensure_ascii=False)

    return write(json.loads(text, parse_float=Literal))


def independent_entry_canonical(entry: dict[str, Any]) -> str:
    return independent_canonical(json.dumps(entry))


def names(vectors: list[dict[str, Any]]) -> list[str]:
    return [vector["name"] for vector in vectors]


@pytest.mark.parametrize("vector", CANONICAL["accepted"], ids=names(CANONICAL["accepted"]))
def test_canonical_json_has_the_published_form(vector: dict[str, str]) -> None:
    assert canonical_bytes(parse_json(vector["input"])).decode() == vector["canonical"]
    assert canonical_bytes(parse_json(vector["canonical"])).decode() == vector["canonical"]
    assert independent_canonical(vector["input"]) == vector["canonical"]
    assert sha256(vector["canonical"].encode()).hexdigest() == vector["sha256"]


@pytest.mark.parametrize("vector", CANONICAL["refused"], ids=names(CANONICAL["refused"]))
def test_what_has_no_canonical_form_is_refused(vector: dict[str, str]) -> None:
    text = bytes.fromhex(vector["input_hex"]) if "input_hex" in vector else vector["input"]
    with pytest.raises(NotCanonical):
        parse_json(text)


@pytest.mark.parametrize("vector", HASHES["leaf_hash"])
def test_leaf_hash(vector: dict[str, str]) -> None:
    data = bytes.fromhex(vector["data"])
    assert leaf_hash(data).hex() == vector["hash"]
    assert sha256(bytes([0]) + data).hexdigest() == vector["hash"]


@pytest.mark.parametrize("vector", HASHES["hash_combine"])
def test_hash_combine(vector: dict[str, str]) -> None:
    left, right = bytes.fromhex(vector["left"]), bytes.fromhex(vector["right"])
    assert hash_combine(left, right).hex() == vector["hash"]
    assert sha256(bytes([3]) + left + right).hexdigest() == vector["hash"]


def test_event_hashes_form_a_chain_that_begins_with_zeros() -> None:
    previous = ZERO_HASH
    assert previous == bytes(32)
    for vector in HASHES["event_hash"]:
        assert previous.hex() == vector["previous"]
        body = vector["body"].encode()
        assert sha256(previous + body).hexdigest() == vector["hash"]
        previous = event_hash(previous, body)
        assert previous.hex() == vector["hash"]


@pytest.mark.parametrize("vector", HASHES["entry_hash"], ids=names(HASHES["entry_hash"]))
def test_entry_hash(vector: dict[str, Any]) -> None:
    entry = vector["entry"]
    assert independent_entry_canonical(entry) == vector["canonical"]
    assert sha256(vector["canonical"].encode()).hexdigest() == vector["hash"]
    assert digest_hex(vector["payload"].encode()) == entry["payload_hash"]
    assert (
        entry_hash(**{("entry_id" if name == "id" else name): value for name, value in entry.items()}) == vector["hash"]
    )


def test_each_entry_vector_pins_the_one_before_it() -> None:
    hashes = [vector["hash"] for vector in HASHES["entry_hash"]]
    parents = [vector["entry"]["parent_entry_hash"] for vector in HASHES["entry_hash"]]
    assert parents == [None, *hashes[:-1]]
    assert len(set(hashes)) == len(hashes)
