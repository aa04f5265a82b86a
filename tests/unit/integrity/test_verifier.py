"""The stand-alone program against the published vectors."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VECTORS = json.loads((ROOT / "schema" / "vectors" / "proof.json").read_text(encoding="utf-8"))
check = runpy.run_path(str(ROOT / "docs" / "verifier" / "bridge_verifier.py"))["check"]


def encoded(value):
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def session(lines):
    return "".join(line + "\n" for line in lines).encode()


def test_what_is_published_as_sound_holds():
    assert check(encoded(VECTORS["bundle"])) == []
    assert check(encoded(VECTORS["bundle"]), VECTORS["log"]) == []
    assert check(session(VECTORS["session"])) == []
    assert check(session([line + "\r" for line in VECTORS["session"]])) == []


@pytest.mark.parametrize("change", VECTORS["altered_bundles"], ids=lambda change: "/".join(map(str, change["path"])))
def test_an_altered_bundle_does_not(change):
    bundle = json.loads(json.dumps(VECTORS["bundle"]))
    *way, last = change["path"]
    holder = bundle
    for name in way:
        holder = holder[name]
    assert holder[last] != change["value"]
    holder[last] = change["value"]
    assert check(encoded(bundle))


@pytest.mark.parametrize(
    "change", VECTORS["altered_sessions"], ids=lambda change: str(next(iter(change.values())))[:20]
)
def test_an_altered_session_does_not(change):
    lines = list(VECTORS["session"])
    if "without_line" in change:
        del lines[change["without_line"]]
        assert check(session(lines))
        return
    text = session(lines).decode()
    assert change["replace"] in text
    assert check(text.replace(change["replace"], change["with"], 1).encode())


OTHERS = [b"", b"\n", b"{}\n", b"[]", b"\xff\n", b'{"type":"bridge.proof","format_version":2}\n', b"[" * 100_000]


@pytest.mark.parametrize("data", OTHERS, ids=len)
def test_anything_else_does_not_hold_and_does_not_crash(data):
    assert check(data)


def test_another_log_is_not_led_to():
    assert check(encoded(VECTORS["bundle"]), "0" * 64 + "/7") == [f"the bundle does not lead to the log {'0' * 64}/7"]
