"""Which differences matter most to a conversation: what it edited, what it read, then the rest, folded by folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

from bridge.workspaces.pathchanges import PathDifference

#: Lock files of package managers: they change with every install and are written by programs.
LOCK_FILES = frozenset(
    {
        b"bun.lock",
        b"bun.lockb",
        b"Cargo.lock",
        b"composer.lock",
        b"deno.lock",
        b"flake.lock",
        b"Gemfile.lock",
        b"go.sum",
        b"gradle.lockfile",
        b"mix.lock",
        b"npm-shrinkwrap.json",
        b"package-lock.json",
        b"packages.lock.json",
        b"pdm.lock",
        b"Pipfile.lock",
        b"pnpm-lock.yaml",
        b"Podfile.lock",
        b"poetry.lock",
        b"uv.lock",
        b"yarn.lock",
    }
)
#: Folders that tools fill. Names that people also give to sources (build, target, vendor) are not among them.
GENERATED_FOLDERS = frozenset(
    {b".gradle", b".next", b".tox", b".turbo", b".venv", b"__pycache__", b"dist", b"node_modules"}
)
#: Ends of the names of files that tools write.
GENERATED_SUFFIXES = (b".css.map", b".js.map", b".min.css", b".min.js", b".pb.go", b".pyc", b"_pb2.py")
#: Folders into which the rest is folded; what would be more goes one level up.
MAX_FOLDERS = 8


class Rank(IntEnum):
    """How near a path is to the conversation."""

    EDITED = 0
    READ = 1
    OTHER = 2
    #: A lock or generated file that the conversation did not use: counted, not named.
    GENERATED = 3


@dataclass(frozen=True, slots=True)
class Touched:
    """Paths that a conversation used, as raw bytes relative to the top level."""

    edited: frozenset[bytes] = frozenset()
    read: frozenset[bytes] = frozenset()

    def rank(self, difference: PathDifference) -> Rank:
        """Return how near a difference is; a renamed path counts under both its names."""
        names = {difference.path, difference.old_path}
        if names & self.edited:
            return Rank.EDITED
        if names & self.read:
            return Rank.READ
        return Rank.GENERATED if is_generated(difference.path) else Rank.OTHER


@dataclass(frozen=True, slots=True)
class RankedDifference:
    """A difference and how near it is to the conversation."""

    difference: PathDifference
    rank: Rank


@dataclass(frozen=True, slots=True)
class Folder:
    """How many of the remaining differences lie in a folder, at any depth; the empty name is the top level."""

    path: bytes
    count: int


def is_generated(path: bytes) -> bool:
    """Return whether a path looks like a lock or generated file by the lists above."""
    *folders, name = path.split(b"/")
    return name in LOCK_FILES or name.endswith(GENERATED_SUFFIXES) or not GENERATED_FOLDERS.isdisjoint(folders)


def ranked(differences: Sequence[PathDifference], touched: Touched) -> list[RankedDifference]:
    """Return the differences, the nearest to the conversation first, then by path."""
    pairs = [RankedDifference(difference, touched.rank(difference)) for difference in differences]
    return sorted(pairs, key=lambda pair: (pair.rank, pair.difference.path))


def folded(paths: Collection[bytes], *, max_folders: int = MAX_FOLDERS) -> list[Folder]:
    """Return in how many folders some paths lie, the fullest first.

    Folders are as deep as possible while there are no more than ``max_folders`` of them; with more than that at
    the top level the fullest are named, and the others together count as the top level.
    """
    if not paths:
        return []
    parts = [path.split(b"/")[:-1] for path in paths]
    depth = max(len(folders) for folders in parts)
    counts = _counted(parts, depth)
    while len(counts) > max_folders and depth > 1:
        depth -= 1
        counts = _counted(parts, depth)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ordered) > max_folders:
        named = [item for item in ordered if item[0]][: max_folders - 1]
        rest = sum(counts.values()) - sum(count for _, count in named)
        ordered = [*named, (b"", rest)]
    return [Folder(path, count) for path, count in ordered]


def _counted(parts: Collection[list[bytes]], depth: int) -> Counter[bytes]:
    return Counter(b"/".join(folders[:depth]) for folders in parts)
