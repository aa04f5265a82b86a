"""The words that offer relinking where a lost workspace seems to stand elsewhere now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridge.workspaces.models import Workspace

#: Code of the warning, for programs.
RELINK_OFFERED = "relink_offered"


def offer(found: Workspace) -> str:
    """Return the warning that a repository looks like a lost workspace."""
    label = "" if found.label is None else f" ({found.label})"
    return (
        f"this repository has the history of workspace {found.id}{label}, which stood at {found.path} and is gone "
        f"there. If it was moved or cloned anew: bridge init --relink --workspace {found.id}"
    )
