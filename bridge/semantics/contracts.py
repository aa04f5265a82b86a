"""What a semantic version consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

#: Whether the projector may put an entry into restored context.
Visibility: TypeAlias = Literal["eligible", "hidden"]
ELIGIBLE: Final = "eligible"
HIDDEN: Final = "hidden"

#: Kind and payload of one version to the payload of the next; pure.
Upcast: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """What one kind of entry is.

    Parameters
    ----------
    name
        Provider-neutral name, dots included.
    required
        Payload fields that are always there.
    visibility
        Whether the projector may put such an entry into restored context, unless its writer says otherwise.
        Hidden entries are recorded and exported all the same, and still count where a projection looks for
        facts rather than text.
    is_conversational
        Whether a child that leads here makes its parent a branch point.
    """

    name: str
    required: tuple[str, ...]
    visibility: Visibility = ELIGIBLE
    is_conversational: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """What entries of one semantic version are.

    Parameters
    ----------
    version
        Its number; its schemas are in ``schema/semantic/v<number>/``.
    kinds
        Its kinds by name; empty for the untyped first one.
    from_previous
        How a payload of the version before reads under this one; None for the first.
    """

    version: int
    kinds: Mapping[str, Kind]
    from_previous: Upcast | None = None
