"""The error classes of the package keep to their range and say what they must."""

from __future__ import annotations

from bridge.foundation.errors import error_classes
from bridge.git import errors


def test_codes_and_exit_statuses_are_unique_and_in_range():
    found = [cls for cls in error_classes() if cls.__module__ == errors.__name__]
    assert len({cls.code for cls in found}) == len(found)
    # The classes of one family share a status; but for those every class has its own.
    own = [
        cls.exit_status
        for cls in found
        if all(base.__dict__.get("exit_status") != cls.exit_status for base in cls.__mro__[1:])
    ]
    assert len(set(own)) == len(own)
    assert {cls.exit_status for cls in found} == set(range(26, 41))
    for cls in found:
        assert cls.summary.endswith(".")
        assert cls.default_hint
