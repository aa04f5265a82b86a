"""The contracts that this Bridge knows, in their order; of them the newest and the one before are read.

A further version is one module in ``versions`` and one folder under ``schema/semantic/``: they are found there. The
version that falls out of reach is refused by name from then on.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any, Final

from bridge.semantics import versions
from bridge.semantics.contracts import Contract

#: How many versions are read: the current one and the one before.
READABLE: Final = 2
_MODULE = re.compile(r"v([1-9][0-9]*)")


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


def discover() -> Registry:
    """Return the registry of all modules in ``versions``.

    Raises
    ------
    ValueError
        As :class:`Registry`.
    """
    names = [found.name for found in pkgutil.iter_modules(versions.__path__)]
    numbers = sorted(int(match[1]) for match in map(_MODULE.fullmatch, names) if match)
    return Registry(*map(_contract, numbers))


def _contract(number: int) -> Contract:
    module = importlib.import_module(f"{versions.__name__}.v{number}")
    return Contract(number, module.KINDS, getattr(module, "from_previous", None))


REGISTRY: Final = discover()
