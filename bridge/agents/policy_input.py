"""The stored form of a policy decision's whole input, and the replay from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from bridge.agents.errors import InvalidPolicyInput
from bridge.agents.policy import decide
from bridge.agents.policy_model import (
    Decision,
    DelegationRequest,
    HarnessRule,
    PolicyFacts,
    PolicyLimits,
    QuotaPause,
    RetryRule,
    RoleRule,
    RunningWorker,
    WriteMode,
)
from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.errors import NotCanonical

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """Everything a decision depends on."""

    #: Version of the stored form and of the rules; a changed rule changes it. Version 2 added fields, whose defaults
    #: decide as version 1 did.
    VERSION: ClassVar[int] = 2
    READABLE: ClassVar[tuple[int, ...]] = (1, 2)

    request: DelegationRequest
    facts: PolicyFacts
    limits: PolicyLimits

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.VERSION,
            "request": asdict(self.request),
            "facts": asdict(self.facts),
            "limits": asdict(self.limits),
        }

    def to_text(self) -> str:
        """Return the canonical JSON that is stored with the decision."""
        return canonical_text(self.to_json())

    @classmethod
    def from_text(cls, text: str) -> PolicyInput:
        """Read a stored input back.

        Raises
        ------
        InvalidPolicyInput
            If it is not JSON, of a version that is not readable, or does not have exactly the fields of its version.
        """
        try:
            stored = parse_json(text)
            version = stored["version"]
            if version not in cls.READABLE:
                readable = " and ".join(map(str, cls.READABLE))
                raise InvalidPolicyInput(
                    f"The policy input has version {version!r}; this Bridge replays {readable}.",
                    details={"found": version, "supported": list(cls.READABLE)},
                )
            return cls(
                request=_build(DelegationRequest, stored["request"], version),
                facts=_build(PolicyFacts, stored["facts"], version),
                limits=_build(PolicyLimits, stored["limits"], version),
            )
        except (NotCanonical, KeyError, TypeError, ValueError) as error:
            raise InvalidPolicyInput(f"The policy input cannot be read: {error}.") from error

    def decide(self) -> Decision:
        return decide(self.request, self.facts, self.limits)


def replay(text: str) -> Decision:
    """Decide again from a stored input; equal to the decision stored beside it. Raises as ``PolicyInput.from_text``."""
    return PolicyInput.from_text(text).decide()


#: Fields that version 2 added.
_ADDED: Mapping[type, frozenset[str]] = MappingProxyType(
    {
        DelegationRequest: frozenset({"harness", "workspace", "credential", "waited_seconds"}),
        RunningWorker: frozenset({"role", "harness", "workspace", "is_paused"}),
        PolicyFacts: frozenset({"elsewhere", "paused"}),
        RoleRule: frozenset({"max_running", "is_network_allowed"}),
        PolicyLimits: frozenset(
            {"max_running_in_workspace", "max_queue_seconds", "allowed_harnesses", "harness_rules", "retry_rules"}
        ),
    }
)


def _build(cls: type[_T], stored: dict[str, Any], version: int) -> _T:
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type] # every class here is a dataclass
    if version < 2:
        names -= _ADDED.get(cls, frozenset())
    if set(stored) != names:
        raise ValueError(f"{cls.__name__} has other fields: {', '.join(sorted(names ^ set(stored)))}")
    return cls(**{name: _value(name, value, version) for name, value in stored.items()})


#: Fields that hold values of a class each.
_NESTED: Mapping[str, type] = MappingProxyType(
    {
        "running": RunningWorker,
        "elsewhere": RunningWorker,
        "paused": QuotaPause,
        "role_rules": RoleRule,
        "harness_rules": HarnessRule,
        "retry_rules": RetryRule,
    }
)


def _value(name: str, value: Any, version: int) -> Any:
    match name:
        case "write_mode":
            return WriteMode(value)
        case "write_modes":
            return tuple(WriteMode(item) for item in value)
        case _ if name in _NESTED:
            return tuple(_build(_NESTED[name], item, version) for item in value)
        case _:
            return tuple(value) if isinstance(value, list) else value
