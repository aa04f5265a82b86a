"""Every value of every covered column of a store of 200 entries, a bit of each flipped: found, and nothing else is."""

from __future__ import annotations

import pytest

from bridge.control.checks.verification import verify
from tests.databases import unguarded
from tests.mutants import COVERED, NOWHERE, Hand, build, check_flips, opened

#: More than any table of that store has rows.
ALL = 10_000


@pytest.mark.parametrize("table", sorted({table for table, _ in COVERED}))
def test_a_bit_of_every_value_is_found(table, repository, tmp_path):
    with opened(tmp_path / "home") as controller:
        sessions = build(controller, repository, tmp_path)
        assert verify(controller, NOWHERE, None).is_healthy
        with unguarded(controller.store.url) as connection:
            check_flips(controller, Hand(connection), sessions, table, samples=ALL)
