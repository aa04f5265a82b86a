"""The output schema of a worker in a plan: a table of the plan itself, or a JSON file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.semantics.errors import InvalidOutputSchema
from bridge.semantics.results import MAX_OUTPUT_SCHEMA_BYTES, check_output_schema


def read_output_schema(
    given: Mapping[str, Any] | str | None, plan_folder: Path, repository_root: Path
) -> Mapping[str, Any] | None:
    """Return the schema that a plan gives for a worker's ``data``, ready for use.

    Parameters
    ----------
    given
        The schema, the path of a file that holds it, or None.
    plan_folder
        What the path counts from.
    repository_root
        The file must lie in here or in the plan's own folder.

    Raises
    ------
    InvalidOutputSchema
        If the file is elsewhere, unreadable or not JSON, or the schema cannot be used. ``details["reason"]`` is the
        cause in words that follow a key's name.
    """
    if given is None:
        return None
    schema = _read(given, plan_folder, repository_root) if isinstance(given, str) else given
    check_output_schema(schema)
    return dict(schema)


def _read(name: str, plan_folder: Path, repository_root: Path) -> Any:
    if Path(name).is_absolute():
        raise _unusable(f"the path {name!r} must be relative to the plan file")
    try:
        file = (plan_folder / name).resolve()
        if not any(file.is_relative_to(folder.resolve()) for folder in (repository_root, plan_folder)):
            raise _unusable(f"the path {name!r} leads out of the repository")
        with file.open("rb") as stream:
            content = stream.read(MAX_OUTPUT_SCHEMA_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unusable(f"the file {name!r} cannot be read: {reason}") from error
    if len(content) > MAX_OUTPUT_SCHEMA_BYTES:
        raise _unusable(f"the file {name!r} is larger than {MAX_OUTPUT_SCHEMA_BYTES} bytes")
    try:
        return parse_json(content)
    except NotCanonical as error:
        raise _unusable(f"the file {name!r} is not JSON: {error.message.rstrip('.')}") from error


def _unusable(reason: str) -> InvalidOutputSchema:
    return InvalidOutputSchema(f"The output schema cannot be used: {reason}.", details={"reason": reason})
