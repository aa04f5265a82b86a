"""Where a worker's processes may write, and what is said where this machine cannot keep them from more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bridge.adapters.states import expanded, state_paths
from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations.model import Request
from bridge.control.delegations.placesettings import WorkerSettings, worker_settings
from bridge.control.errors import ConfinementRefused
from bridge.foundation.config import ConfinementMode
from bridge.foundation.errors import InvalidConfiguration
from bridge.git.repository import RepositoryLocation
from bridge.process.confinement import Confinement, Notice, available, notices

#: What people are told, by notice.
WORDS = {
    Notice.LANDLOCK_UNAVAILABLE: "the kernel has no Landlock, so the worker can write wherever you can",
    Notice.NETWORK_UNENFORCED: "the kernel cannot keep the worker from the network",
}


@dataclass(frozen=True, slots=True)
class Confining:
    """How a worker is confined: not at all without a ``confinement``, and what of what was asked is not kept."""

    confinement: Confinement | None
    notices: tuple[Notice, ...] = ()


def mode_of(controller: Controller, settings: WorkerSettings) -> ConfinementMode:
    """Return whether workers are confined: the person's own word goes before the checkout's file."""
    return controller.settings.confinement or settings.confinement or ConfinementMode.AUTO


def is_to_be_lent(controller: Controller, request: Request, checkout: Path) -> bool:
    """Tell whether a worker is going to write its objects into a folder of its own; :func:`confine` decides."""
    if request.write_mode != WriteMode.ISOLATED or available() is not None:
        return False
    try:
        return mode_of(controller, worker_settings(checkout)) is not ConfinementMode.OFF
    except InvalidConfiguration:
        # Told when the place is made, where it ends the delegation.
        return False


def confine(
    controller: Controller,
    request: Request,
    settings: WorkerSettings,
    *,
    location: RepositoryLocation | None,
    lent: Path | None,
    temporary: Path,
    is_network_allowed: bool = True,
) -> Confining:
    """Return what confines a worker.

    It is kept from the network where the checkout's ``[worker]``, the policy or its own request says so.

    Parameters
    ----------
    location
        Its worktree; None outside a repository.
    lent
        The folder its git writes new objects into; None if it shares the repository's.
    temporary
        Its folder for temporary files.
    is_network_allowed
        Whether the policy lets workers of its role reach the network.

    Raises
    ------
    ConfinementRefused
        If it must be confined and cannot be, or not as asked; if the network is to be kept from this very worker and
        cannot be; or if it asks for the network where the checkout keeps that from all.
    """
    mode = mode_of(controller, settings)
    if request.network is True and settings.is_offline:
        raise ConfinementRefused(
            "The task asks for the network, which [worker] in the checkout's bridge.toml keeps from workers. "
            "It was not started.",
            details={"reason": "network_kept_by_checkout"},
        )
    is_offline = settings.is_offline or not is_network_allowed or request.network is False
    wanted = Confinement(
        (*_own(request, location, lent), temporary, *_outside(controller, request, settings)),
        is_offline=is_offline,
    )
    missing = notices(wanted)
    if mode is ConfinementMode.OFF:
        missing = (Notice.NETWORK_UNENFORCED,) if is_offline else ()
    is_own_wish = request.network is False and Notice.NETWORK_UNENFORCED in missing
    if is_own_wish or (missing and mode is ConfinementMode.ENFORCE):
        said = "; ".join(f"{notice}: {WORDS[notice]}" for notice in missing)
        raise ConfinementRefused(
            f"The worker must be confined, and that cannot be done here as asked ({said}). It was not started.",
            details={"notices": [str(notice) for notice in missing]},
        )
    is_confined = mode is not ConfinementMode.OFF and available() is None
    return Confining(wanted if is_confined else None, missing)


def _own(request: Request, location: RepositoryLocation | None, lent: Path | None) -> tuple[Path, ...]:
    if location is None or request.write_mode == WriteMode.READ_ONLY:
        return ()
    if request.write_mode == WriteMode.SHARED:
        # It works in the user's checkout, commits there and moves the branch: that is what was asked for.
        return (location.root, location.git_dir, location.common_dir)
    own = (location.root, location.git_dir)
    if lent is None:
        return (*own, location.common_dir)
    # Large files of git-lfs are named by their content and are not lent; a worker may add some.
    return (*own, lent, location.common_dir / "lfs")


def _outside(controller: Controller, request: Request, settings: WorkerSettings) -> tuple[Path, ...]:
    named = controller.environment.get("HOME")
    home = Path(named) if named else None
    own = state_paths(request.harness, controller.settings.harness, state=controller.settings.home, home=home)
    for path in own:
        # A rule needs something to stand on: at its first start a harness could not make its folder.
        if not path.suffix:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return (*own, *expanded(settings.writable, home))
