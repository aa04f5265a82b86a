"""The sessions of the scripted agent: what was said, kept in a folder so that they can be taken up again."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

_ID: Final = re.compile(r"scripted-[0-9]{6}")
_LAST: Final = 999_999


@dataclass
class ScriptedSession:
    """One session.

    Parameters
    ----------
    said
        Pairs of who (user, agent) and what, in order.
    played
        Numbers of the script's turns that were played and are not repeated.
    """

    id: str
    directory: str
    said: list[tuple[str, str]] = field(default_factory=list)
    played: list[int] = field(default_factory=list)
    model: str = "scripted-1"


class SessionFolder:
    """Sessions in a folder, or in memory alone if there is none. The number of a new one is the first that is free."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._count = 0

    @property
    def is_durable(self) -> bool:
        return self._folder is not None

    def new(self, directory: str) -> ScriptedSession:
        if self._folder is None:
            self._count += 1
            return ScriptedSession(f"scripted-{self._count:06d}", directory)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = max((int(path.stem[-6:]) for path in self._folder.glob("scripted-[0-9]*.json")), default=0)
        while number < _LAST:
            number += 1
            identity = f"scripted-{number:06d}"
            try:
                os.close(os.open(self._path(identity), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                continue
            session = ScriptedSession(identity, directory)
            self.save(session)
            return session
        raise ValueError("there are too many sessions")

    def save(self, session: ScriptedSession) -> None:
        if self._folder is None:
            return
        path = self._path(session.id)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(asdict(session)), encoding="utf-8")
        draft.replace(path)

    def load(self, identity: str) -> ScriptedSession | None:
        """Return a session; None if there is none of that id, or its file says nothing."""
        if self._folder is None or _ID.fullmatch(identity) is None:
            return None
        try:
            found: dict[str, Any] = json.loads(self._path(identity).read_text(encoding="utf-8"))
            found["said"] = [(str(who), str(text)) for who, text in found["said"]]
            return ScriptedSession(**found)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _path(self, identity: str) -> Path:
        if self._folder is None:
            raise ValueError("these sessions are in memory only")
        return self._folder / f"{identity}.json"
