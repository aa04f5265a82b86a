"""Writing Bridge's hooks into a host's own settings, and taking them out again.

What is foreign in them stays as it is, byte for byte: comments, order, blanks. A file as it was is kept in the state
directory, so that taking the hooks out gives it back exactly, if nobody changed it meanwhile; else only what is
Bridge's is taken out. All of it blocks.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.control.capture.places import hooks_folder, read_json, replace_file
from bridge.foundation.config import Settings
from bridge.hooks.errors import HostSettingsChanged, HostSettingsUnreadable
from bridge.hooks.hosts import HostSettings, hook_line
from bridge.hooks.jsonc import Edit, Node, NotJson, added, edited, parse, removed

#: In the folder of hooks: the files that were changed, and what they were before.
RECORD_FILE: Final = "installed.json"
BACKUP_FOLDER: Final = "backups"
#: Largest settings file that is touched, in bytes.
MAX_BYTES: Final = 4 * 1024 * 1024
_EVENTS: Final = "hooks"
_NEW_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one settings file, made or planned.

    Parameters
    ----------
    path
        The file, with symlinks followed.
    before, after
        Its contents; None where there is no file.
    without
        Of an installation: the contents without Bridge's hooks, which is what is kept as they were before.
    is_exact
        Of a removal: whether it gives back what was there before, rather than only take out what is Bridge's.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    without: bytes | None = None
    is_exact: bool = True

    @property
    def is_change(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """Return the change as people read one; empty if there is none."""
        old, new = (
            [] if data is None else data.decode("utf-8", "replace").splitlines(keepends=True)
            for data in (self.before, self.after)
        )
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Found:
    """What of Bridge's stands in a settings file.

    Parameters
    ----------
    events
        The events with Bridge's line, each with the number of its group and of the hook in that.
    missing
        Events that should have it and do not, or have it with another time.
    """

    path: Path
    events: dict[str, tuple[int, int]]
    missing: tuple[str, ...]

    @property
    def is_installed(self) -> bool:
        return bool(self.events)


def plan_install(settings: Settings, host: HostSettings, path: Path) -> Change:
    """Return the change that puts the hooks into a file; none if all are there.

    Raises
    ------
    HostSettingsUnreadable
        If the file is not what the host would accept.
    """
    target = _real(path)
    before = _read(target)
    line = hook_line(settings.home, host.name)
    text = _text(target, before)
    wanted = host.entry(line)
    found = inspect(settings, host, path)
    if found.is_installed and not found.missing:
        return Change(target, before, before, before)
    # An entry of an earlier release may have another time: all are written anew, together.
    text = _without(target, text, line)
    without = None if before is None else text.encode()
    for event in host.events:
        text = _with_event(target, text, event, wanted)
    return Change(target, before, text.encode(), without)


def plan_uninstall(settings: Settings, host: HostSettings, path: Path) -> Change:
    """Return the change that takes the hooks out of a file; none if there are none.

    Raises
    ------
    HostSettingsUnreadable
        If the file is not what the host would accept.
    """
    target = _real(path)
    before = _read(target)
    known = _records(settings).get(str(target))
    if known is not None and before is not None and _digest(before) == known["after"]:
        return Change(target, before, _backup(settings, known))
    line = hook_line(settings.home, host.name)
    if before is None or json.dumps(line)[1:-1].encode() not in before:
        return Change(target, before, before)
    after = _without(target, _text(target, before), line)
    return Change(target, before, after.encode(), is_exact=False)


def install(settings: Settings, change: Change) -> None:
    """Make a change that installs, and remember what the file was before.

    Raises
    ------
    HostSettingsChanged
        If the file is not what the change was planned for any more.
    OSError
        If it cannot be written.
    """
    if not change.is_change or change.after is None:
        return
    records = _records(settings)
    known = records.get(str(change.path))
    if known is None or change.before is None or _digest(change.before) != known["after"]:
        records[str(change.path)] = known = _keep_backup(settings, change)
    known["after"] = _digest(change.after)
    _replace(change)
    _write_records(settings, records)


def uninstall(settings: Settings, change: Change) -> None:
    """Make a change that takes the hooks out, and forget the backup. Raises as :func:`install`."""
    records = _records(settings)
    known = records.pop(str(change.path), None)
    if change.is_change:
        _replace(change)
        if change.after is None and known is not None:
            for folder in known.get("folders", ()):
                _remove_if_empty(Path(folder))
    if known is not None:
        _write_records(settings, records)
        if known["backup"] is not None:
            (hooks_folder(settings) / BACKUP_FOLDER / known["backup"]).unlink(missing_ok=True)


def inspect(settings: Settings, host: HostSettings, path: Path) -> Found:
    """Return what of Bridge's stands in a file. Raises HostSettingsUnreadable as :func:`plan_install`."""
    target = _real(path)
    line = hook_line(settings.home, host.name)
    root = _root(target, _text(target, _read(target)))
    events: dict[str, tuple[int, int]] = {}
    missing: list[str] = []
    wanted = host.entry(line)
    for event in host.events:
        groups = _groups(root, event)
        places = [
            (number, index, group.plain())
            for number, group in enumerate(groups.children if groups is not None else ())
            for index in _own_hooks(group, line)
        ]
        if places:
            number, index, plain = places[0]
            events[event] = (number, index)
            if plain.get("hooks", [])[index] == wanted["hooks"][0] and plain.get("matcher") == wanted.get("matcher"):
                continue
        missing.append(event)
    return Found(target, events, tuple(missing))


# -- in the text ---------------------------------------------------------------------------------------------------


def _with_event(path: Path, text: str, event: str, entry: dict[str, Any]) -> str:
    root = _root(path, text)
    if root.kind == "nothing":
        # Comments alone, or nothing: what there is stays in front.
        lead = text if not text.strip() else f"{text.rstrip()}\n"
        return f"{lead}{json.dumps({_EVENTS: {event: [entry]}}, indent=2)}\n"
    hooks = root.get(_EVENTS)
    if hooks is None:
        return edited(text, added(text, root, {event: [entry]}, name=_EVENTS))
    groups = hooks.get(event)
    if groups is None:
        return edited(text, added(text, hooks, [entry], name=event))
    return edited(text, added(text, groups, entry))


def _without(path: Path, text: str, line: str) -> str:
    """Return settings without Bridge's hooks, and without what would be left empty by that."""
    while True:
        root = _root(path, text)
        edits = _one_removal(root, text, line)
        if not edits:
            return text
        text = edited(text, edits)


def _one_removal(root: Node, text: str, line: str) -> list[Edit]:
    hooks = root.get(_EVENTS) if root.kind == "object" else None
    if hooks is None or hooks.kind != "object":
        return []
    for index, groups in enumerate(hooks.children):
        if groups.kind != "array":
            continue
        own = {number: _own_hooks(group, line) for number, group in enumerate(groups.children)}
        own = {number: found for number, found in own.items() if found}
        if not own:
            continue
        number, found = next(iter(own.items()))
        group = groups.children[number]
        commands = group.get("hooks")
        if commands is not None and len(found) < len(commands.children):
            return removed(text, commands, found)
        if len(groups.children) > 1:
            return removed(text, groups, [number])
        if len(hooks.children) > 1:
            return removed(text, hooks, [index])
        return removed(text, root, [root.keys.index(_EVENTS)])
    return []


def _own_hooks(group: Node, line: str) -> list[int]:
    commands = group.get("hooks") if group.kind == "object" else None
    if commands is None or commands.kind != "array":
        return []
    return [
        index
        for index, hook in enumerate(commands.children)
        if hook.kind == "object" and (command := hook.get("command")) is not None and command.value == line
    ]


def _groups(root: Node, event: str) -> Node | None:
    hooks = root.get(_EVENTS) if root.kind == "object" else None
    groups = hooks.get(event) if hooks is not None and hooks.kind == "object" else None
    return groups if groups is not None and groups.kind == "array" else None


def _root(path: Path, text: str) -> Node:
    try:
        root = parse(text)
    except NotJson as error:
        raise _unreadable(path, str(error), error.line) from error
    if root.kind == "nothing":
        return root
    if root.kind != "object":
        raise _unreadable(path, "it is no object", 1)
    hooks = root.get(_EVENTS)
    if hooks is not None and hooks.kind != "object":
        raise _unreadable(path, f"{_EVENTS!r} is no object", text.count("\n", 0, hooks.start) + 1)
    for event, groups in zip(hooks.keys if hooks else (), hooks.children if hooks else (), strict=True):
        if groups.kind != "array" and event[:1].isupper() and event not in {"enabled", "disabled"}:
            raise _unreadable(path, f"{event!r} is no array", text.count("\n", 0, groups.start) + 1)
    return root


def _unreadable(path: Path, why: str, line: int) -> HostSettingsUnreadable:
    return HostSettingsUnreadable(
        f"{str(path)!r} cannot be used: {why}. Nothing was changed.",
        hint=f"Mend line {line} of it, then repeat.",
        details={"path": str(path), "line": line},
    )


# -- on the disk ---------------------------------------------------------------------------------------------------


def _real(path: Path) -> Path:
    """Return the file itself: settings are often links into a folder of such files, and stay links."""
    return Path(os.path.realpath(path))


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostSettingsUnreadable(
            f"{str(path)!r} cannot be read: {error.strerror}. Nothing was changed.",
            hint="Mend its permissions, then repeat.",
            details={"path": str(path), "line": 0},
        ) from error
    if len(data) > MAX_BYTES:
        raise _unreadable(path, f"it has more than {MAX_BYTES} bytes", 1)
    return data


def _text(path: Path, data: bytes | None) -> str:
    try:
        return "" if data is None else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8", (data or b"").count(b"\n", 0, error.start) + 1) from error


def _replace(change: Change) -> None:
    """Put new contents in the place of the old at once, if these are still what they were."""
    if _read(change.path) != change.before:
        raise HostSettingsChanged(
            f"{str(change.path)!r} was changed meanwhile. Nothing was written.", details={"path": str(change.path)}
        )
    if change.after is None:
        change.path.unlink()
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = _NEW_MODE if change.before is None else change.path.stat().st_mode & 0o7777
    replace_file(change.path, change.after, mode=mode)


def _keep_backup(settings: Settings, change: Change) -> dict[str, Any]:
    folders = _missing_folders(change.path.parent)
    if change.without is None:
        return {"backup": None, "folders": [str(folder) for folder in folders]}
    name = f"{_digest(str(change.path).encode())[:16]}-{_digest(change.without)[:16]}"
    folder = hooks_folder(settings) / BACKUP_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(folder / name, change.without)
    return {"backup": name, "folders": []}


def _backup(settings: Settings, known: dict[str, Any]) -> bytes | None:
    if known["backup"] is None:
        return None
    return (hooks_folder(settings) / BACKUP_FOLDER / str(known["backup"])).read_bytes()


def _missing_folders(folder: Path) -> Sequence[Path]:
    """Return the folders that will have to be made, the innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # the host has put something there since
        return


def _records(settings: Settings) -> dict[str, dict[str, Any]]:
    found = read_json(hooks_folder(settings) / RECORD_FILE)
    return found if isinstance(found, dict) else {}


def _write_records(settings: Settings, records: dict[str, dict[str, Any]]) -> None:
    folder = hooks_folder(settings)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(folder / RECORD_FILE, json.dumps(records, indent=2, sort_keys=True).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
