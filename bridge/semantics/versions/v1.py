"""The untyped contract of the older linear history: any kind, any object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridge.semantics.contracts import Kind

KINDS: Final[Mapping[str, Kind]] = {}
