"""Keeps typer from importing pydantic for values that need no conversion.

typer converts every parameter through pydantic, also an absent one and one that is a string already; importing
it takes longer (130 ms) than most commands run. Here absent values and plain strings are let through, and
everything else takes typer's own way. Should a release of typer arrange this differently, nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand, TyperGroup


class _Conversion:
    """Stands before typer's conversion of one parameter and builds it only when it is needed."""

    def __init__(self, parameter: Any) -> None:
        self._is_multiple = bool(getattr(parameter, "multiple", False)) or parameter.nargs != 1
        descriptor = parameter.type_descriptor
        has_parser = getattr(descriptor.parameter_info, "parser", None) is not None
        self._is_text = descriptor.annotation in (str, list[str]) and not has_parser
        self._typers_own: Callable[[], Any] = parameter.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if not self._is_multiple and (value is None or (self._is_text and isinstance(value, str))):
            return value
        if self._is_multiple and (not value or (self._is_text and all(isinstance(one, str) for one in value))):
            return tuple(value or ())
        return self._typers_own().coerce(value, param=param, ctx=ctx)


def _with_conversion(parameter: Any) -> Any:
    if hasattr(parameter, "get_runtime_param") and hasattr(parameter, "type_descriptor"):
        conversion = parameter.__dict__.get("bridge_conversion")
        if conversion is None:
            conversion = _Conversion(parameter)
            parameter.bridge_conversion = conversion
            parameter.get_runtime_param = lambda: conversion
    return parameter


class Command(TyperCommand):
    """A command that starts fast."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_with_conversion(parameter) for parameter in super().get_params(ctx)]


class Group(TyperGroup):
    """A group of commands that starts fast."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [_with_conversion(parameter) for parameter in super().get_params(ctx)]
