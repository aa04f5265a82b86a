"""Putting the hook client where hosts find it: a copy in the state directory, under a name that never changes.

So the line in a host's settings stays what it was trusted as, whatever becomes of this installation; the copy is
brought up to date whenever a controller starts.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridge.control.capture.places import CLIENT_NAME, SPOOL_FOLDER, hooks_folder, replace_file
from bridge.foundation.config import DATABASE_VARIABLE, HOME_VARIABLE, Settings
from bridge.foundation.redaction import portable_formats
from bridge.hooks import client
from bridge.hooks.client import FORMATS_FILE, SETTINGS_FILE
from bridge.process.ownprogram import own_command
from bridge.rpc.resident.endpoint import Endpoint

#: Longest first line that every kernel reads of a script, in bytes, with its end.
MAX_SHEBANG_BYTES: Final = 127


def place_client(settings: Settings, environment: Mapping[str, str]) -> Path:
    """Write the client and what it goes by, and return where it is. Nothing is written that is there already.

    Raises
    ------
    OSError
        If the state directory cannot be written.
    """
    folder = hooks_folder(settings)
    (folder / SPOOL_FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    endpoint = Endpoint(str(settings.home), settings.database_url)
    started = {HOME_VARIABLE: str(settings.home)}
    if environment.get(DATABASE_VARIABLE):
        started[DATABASE_VARIABLE] = environment[DATABASE_VARIABLE]
    facts = {
        "socket": endpoint.socket_path,
        "info": endpoint.info_path,
        "start": [*own_command("serve", "--detach", "--json")],
        "environment": started,
        "patience": settings.hook_patience_seconds,
    }
    replace_file(folder / SETTINGS_FILE, json.dumps(facts).encode())
    replace_file(folder / FORMATS_FILE, json.dumps({"formats": portable_formats()}).encode())
    source = Path(client.__file__).read_bytes()
    path = folder / CLIENT_NAME
    # Not the interpreter of an environment that may be taken away, but the one that this was made from.
    for name, text in _scripts(path, os.path.realpath(sys.executable), source).items():
        replace_file(folder / name, text, mode=0o700)
    return path


def is_placed(settings: Settings) -> bool:
    """Tell whether the client was ever put there."""
    return (hooks_folder(settings) / CLIENT_NAME).exists()


def interpreter_of(path: Path) -> str | None:
    """Return the interpreter that a placed client runs on; None if it is no client."""
    try:
        first = path.read_bytes()[:4096].partition(b"\n")[0].decode("utf-8", "replace")
    except OSError:
        return None
    if first.startswith("#!/bin/sh"):
        words = shlex.split(path.read_text().splitlines()[1])
        return words[1] if len(words) > 1 else None
    return first[2:].removesuffix(" -IS") if first.startswith("#!") else None


def _scripts(path: Path, interpreter: str, source: bytes) -> dict[str, bytes]:
    line = f"#!{interpreter} -IS\n".encode()
    if len(line) <= MAX_SHEBANG_BYTES and not set(interpreter) & set(" \t"):
        return {path.name: line + source}
    # A path that the kernel would cut or split: through a shell, which takes a millisecond more.
    beside = path.with_name(path.name + ".py")
    words = shlex.join([interpreter, "-I", "-S", str(beside)])
    return {beside.name: source, path.name: f'#!/bin/sh\nexec {words} "$@"\n'.encode()}
