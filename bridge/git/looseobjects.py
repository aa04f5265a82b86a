"""Writing git objects and refs without git: for a repository of our own, where a process would cost too much.

The formats are as old as git (https://git-scm.com/docs/gitrepository-layout): an object is its kind, length and
content, compressed, under its hash; a ref is a file with the hash. Tests hold them against ``git fsck``.
"""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterable, Mapping
from hashlib import sha1, sha256
from itertools import groupby
from pathlib import Path

_IDENTITY = b"Bridge <bridge@localhost>"


class LooseWriter:
    """Writes into a bare repository of our own, whose refs are files.

    Parameters
    ----------
    path
        The repository. Its configuration says which hash names its objects.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        with open(os.path.join(self._path, "config"), "rb") as file:
            self._is_sha256 = b"objectformat = sha256" in file.read().lower()

    def are_loose(self, object_ids: Iterable[str]) -> bool:
        """Return whether all of these objects are here, each in a file of its own."""
        return all(os.path.exists(self._file(object_id)) for object_id in object_ids)

    def write(self, kind: bytes, content: bytes) -> str:
        """Write an object, unless it is here already, and return its id."""
        whole = b"%s %d\0%s" % (kind, len(content), content)
        # The name of an object is not a secret kept by the hash: SHA-1 is what most repositories use for it.
        name = sha256(whole).hexdigest() if self._is_sha256 else sha1(whole, usedforsecurity=False).hexdigest()
        target = self._file(name)
        if not os.path.exists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _replace(target, zlib.compress(whole, 1), mode=0o444)
        return name

    def write_tree(self, objects: Mapping[str, str]) -> str:
        """Write a tree that holds blobs by digest, with one level of folders between, and return its id."""
        folders = [
            (folder.encode("ascii"), self._tree(b"100644", ((digest[2:], objects[digest]) for digest in digests)))
            for folder, digests in groupby(sorted(objects), key=lambda digest: digest[:2])
        ]
        return self._tree(b"40000", ((folder.decode("ascii"), tree) for folder, tree in folders))

    def write_commit(self, tree: str, moment: int) -> str:
        """Write a commit without parents and message, and return its id."""
        who = b"%s %d +0000" % (_IDENTITY, moment)
        return self.write(b"commit", b"tree %s\nauthor %s\ncommitter %s\n\n" % (tree.encode("ascii"), who, who))

    def write_ref(self, ref: str, object_id: str) -> None:
        """Point a new ref to an object."""
        target = os.path.join(self._path, ref)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _replace(target, object_id.encode("ascii") + b"\n", mode=0o644)

    def _tree(self, mode: bytes, entries: Iterable[tuple[str, str]]) -> str:
        # The names are hexadecimal and of one length: in the order of their text, as git wants them.
        parts = [b"%s %s\0%s" % (mode, name.encode("ascii"), bytes.fromhex(object_id)) for name, object_id in entries]
        return self.write(b"tree", b"".join(parts))

    def _file(self, object_id: str) -> str:
        return os.path.join(self._path, "objects", object_id[:2], object_id[2:])


def _replace(target: str, content: bytes, *, mode: int) -> None:
    """Write a file beside its place and move it there: nobody ever sees half of it."""
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
