"""Who may do what, where nobody is asked."""

from __future__ import annotations

import anyio
import pytest

from bridge.adapters.permission import (
    WRITING_KINDS,
    PermissionOption,
    PermissionRequest,
    allow,
    allow_reading,
    refuse,
)

KINDS = ("allow_always", "allow_once", "reject_always", "reject_once")
OPTIONS = tuple(PermissionOption(kind, kind, kind) for kind in KINDS)


def answer(policy, kind="execute", options=OPTIONS):
    return anyio.run(policy, PermissionRequest("a tool", kind, "c1", options)).option_id


@pytest.mark.parametrize("kind", ["", "read", "execute", *sorted(WRITING_KINDS)])
def test_a_worker_is_allowed_once_and_one_that_only_looks_may_not_write(kind):
    assert answer(allow, kind) == "allow_once"
    assert answer(allow_reading, kind) == ("reject_once" if kind in WRITING_KINDS else "allow_once")
    assert answer(refuse, kind) == "reject_once"


@pytest.mark.parametrize("policy", [allow, allow_reading, refuse])
def test_what_is_not_offered_is_not_chosen(policy):
    assert answer(policy, options=()) is None
    assert answer(policy, options=(PermissionOption("x", "x", "other"),)) is None
    assert answer(policy, options=OPTIONS[:1] + OPTIONS[2:3]) in ("allow_always", "reject_always")
