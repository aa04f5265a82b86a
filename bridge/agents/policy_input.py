"""The stored form of a policy decision's whole input, and the replay from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

from bridge.agents.errors import InvalidPolicyInput
from bridge.agents.policy import (
    Decision,
    DelegationRequest,
    PolicyFacts,
    PolicyLimits,
    RoleRule,
    RunningWorker,
    WriteMode,
    decide,
)
from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.errors import NotCanonical

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """Everything a decision depends on."""

    #: Version of the stored form and of the rules; a changed rule changes it.
    VERSION: ClassVar[int] = 1

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
            If it is not JSON, of another version, or does not have exactly the fields of this one.
        """
        try:
            stored = parse_json(text)
            if stored["version"] != cls.VERSION:
                raise InvalidPolicyInput(
                    f"The policy input has version {stored['version']!r}; this Bridge replays {cls.VERSION}.",
                    details={"found": stored["version"], "supported": cls.VERSION},
                )
            return cls(
                request=_build(DelegationRequest, stored["request"]),
                facts=_build(PolicyFacts, stored["facts"]),
                limits=_build(PolicyLimits, stored["limits"]),
            )
        except (NotCanonical, KeyError, TypeError, ValueError) as error:
            raise InvalidPolicyInput(f"The policy input cannot be read: {error}.") from error

    def decide(self) -> Decision:
        return decide(self.request, self.facts, self.limits)


def replay(text: str) -> Decision:
    """Decide again from a stored input; equal to the decision stored beside it. Raises as ``PolicyInput.from_text``."""
    return PolicyInput.from_text(text).decide()


def _build(cls: type[_T], stored: dict[str, Any]) -> _T:
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type] # every class here is a dataclass
    if set(stored) != names:
        raise ValueError(f"{cls.__name__} has other fields: {', '.join(sorted(names ^ set(stored)))}")
    return cls(**{name: _value(name, value) for name, value in stored.items()})


def _value(name: str, value: Any) -> Any:
    match name:
        case "write_mode":
            return WriteMode(value)
        case "write_modes":
            return tuple(WriteMode(item) for item in value)
        case "running":
            return tuple(_build(RunningWorker, item) for item in value)
        case "role_rules":
            return tuple(_build(RoleRule, item) for item in value)
        case _:
            return tuple(value) if isinstance(value, list) else value
