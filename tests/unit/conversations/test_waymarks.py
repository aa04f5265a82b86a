"""The index that contexts are found by covers what projection looks for."""

from __future__ import annotations

import re

from bridge.conversations.shape.runs import LANDMARK_KINDS
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage.tables.conversations import WAYMARK_CONDITION


def test_the_index_names_what_projection_looks_for():
    named = set(re.findall(r"kind = '([^']+)'", WAYMARK_CONDITION))
    assert named == LANDMARK_KINDS
    versions = re.findall(r"semantic_schema_version <> (\d+)", WAYMARK_CONDITION)
    assert tuple(map(int, versions)) == READABLE_VERSIONS
