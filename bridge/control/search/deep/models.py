"""Which model the settings name for the deep search."""

from __future__ import annotations

from bridge.adapters.models.port import SearchModel
from bridge.control.controller import Controller
from bridge.process.environment import child_environment


def model_of(controller: Controller) -> SearchModel | None:
    """Return the model that a deep search may ask; None if none is set up. Starts nothing."""
    wanted = controller.settings.deep_search
    if wanted is None:
        return None
    if wanted.model is not None:
        from bridge.adapters.models.library import LibraryModel

        key = None if wanted.api_key_variable is None else controller.environment.get(wanted.api_key_variable)
        return LibraryModel(wanted.model, base_url=wanted.base_url, api_key=key)
    from bridge.adapters.models.toolfree import ToolFreeModel

    name = wanted.harness or ""
    own = controller.settings.harness.get(name)
    return ToolFreeModel(
        name,
        controller.settings.deep,
        child_environment(controller.environment, {} if own is None else own.env),
        wanted.program,
    )
