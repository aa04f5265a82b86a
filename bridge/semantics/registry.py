"""The contracts that this Bridge knows, in their order; of them the newest and the one before are read.

A further version is one module (its kinds, and how the version before reads under it), one folder under
``schema/semantic/`` and one line here, along with ``CURRENT_VERSION`` and ``READABLE_VERSIONS`` in ``kinds``. The
version that falls out of reach is refused by name from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bridge.semantics import upcast_v1
from bridge.semantics.kinds import KINDS, Kind

#: Kind and payload of one version to the payload of the next; pure.
Upcast: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]
#: How many versions are read: the current one and the one before.
READABLE: Final = 2


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


class Registry:
    """An unbroken series of contracts.

    Raises
    ------
    ValueError
        If a version is left out, or a later one does not say how the one before it reads.
    """

    def __init__(self, *contracts: Contract) -> None:
        if [contract.version for contract in contracts] != list(range(1, len(contracts) + 1)):
            raise ValueError("semantic versions are numbered from 1 without a gap")
        if any(contract.from_previous is None for contract in contracts[1:]):
            raise ValueError("every version but the first says how the one before it reads")
        self._contracts = contracts
        self.current = contracts[-1]
        #: The versions that are read, oldest first.
        self.readable = tuple(contract.version for contract in contracts[-READABLE:])

    def upcast(self, version: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a payload of a readable version as the current contract would have written it."""
        for contract in self._contracts[version:]:
            if contract.from_previous is not None:
                payload = contract.from_previous(kind, payload)
        return payload


REGISTRY: Final = Registry(
    Contract(1, {}),
    Contract(2, KINDS, from_previous=upcast_v1.upcast),
)
