"""Bringing the index of a new worktree to what another one held: entries by object id, no file is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bridge.git.manifest import ABSENT_MODE, ManifestRow
from bridge.git.objects import NO_FETCH
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
from bridge.git.repository import RepositoryLocation

_REPOSITORY_MODE = b"160000"


@dataclass(frozen=True, slots=True)
class StagedEntry:
    """What the index held for a tracked path that git status listed."""

    row: ManifestRow

    @property
    def is_staged(self) -> bool:
        return self.row.is_staged

    @property
    def is_intended(self) -> bool:
        """Whether it was added without content (``git add --intent-to-add``)."""
        return not self.row.is_staged and self.row.worktree_status == b"A"

    def object_ids(self) -> list[bytes]:
        """Return the objects that the entry needs; a submodule's commit is none of this repository's."""
        row = self.row
        pairs = zip(row.modes, row.object_ids, strict=True) if row.is_unmerged else [(row.modes[1], row.object_ids[1])]
        return [object_id for mode, object_id in pairs if mode not in (ABSENT_MODE, _REPOSITORY_MODE)]

    def lines(self) -> Iterator[bytes]:
        """Yield what ``git update-index --index-info -z`` takes."""
        row = self.row
        zero = b"0" * len(row.object_ids[0])
        yield b"0 " + zero + b"\t" + row.path + b"\0"
        if row.is_unmerged:
            for stage_number, (mode, object_id) in enumerate(zip(row.modes, row.object_ids, strict=True), 1):
                if mode != ABSENT_MODE:
                    yield b"%s %s %d\t%s\0" % (mode, object_id, stage_number, row.path)
        elif row.modes[1] != ABSENT_MODE:
            yield b"%s %s\t%s\0" % (row.modes[1], row.object_ids[1], row.path)


def stage(
    location: RepositoryLocation, entries: Sequence[StagedEntry], *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> list[bytes]:
    """Write entries into the index of a worktree, which must be the caller's own; return paths that could not be.

    Those are the ones whose staged content the repository does not have any more; their entries stay as they were.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git refuses.
    """
    staged = [entry for entry in entries if entry.is_staged]
    wanted = list(dict.fromkeys(object_id for entry in staged for object_id in entry.object_ids()))
    present = _present(location, wanted, timeout_seconds)
    known = [entry for entry in staged if present.issuperset(entry.object_ids())]
    if known:
        run_git(
            ["update-index", "-z", "--index-info"],
            cwd=location.root,
            timeout_seconds=timeout_seconds,
            stdin=b"".join([line for entry in known for line in entry.lines()]),
        )
    intended = [entry.row.path for entry in entries if entry.is_intended and entry.row.is_present]
    for path in intended:
        # One by one: a path whose content is not known is not there, and must not keep the others out.
        run_git(
            ["--literal-pathspecs", "add", "--intent-to-add", "--sparse", "--", path],
            cwd=location.root,
            timeout_seconds=timeout_seconds,
            accepted=(0, 1, 128),
        )
    kept = {id(entry) for entry in known}
    return [entry.row.path for entry in staged if id(entry) not in kept]


def _present(location: RepositoryLocation, object_ids: Sequence[bytes], timeout_seconds: float) -> frozenset[bytes]:
    if not object_ids:
        return frozenset()
    output = run_git(
        ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        stdin=b"".join([object_id + b"\n" for object_id in object_ids]),
        extra_environment=NO_FETCH,
    )
    lines = (line.split(b" ") for line in output.stdout.splitlines())
    return frozenset(name for name, kind in lines if kind == b"blob")
