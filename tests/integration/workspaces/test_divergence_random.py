"""Random work on a real repository: the report names exactly the files whose bytes differ."""

from __future__ import annotations

import os
import random

import pytest

from bridge.foundation.clock import SystemClock
from bridge.git.observe import observe
from bridge.workspaces.divergence import compare
from bridge.workspaces.wording import PROMPT_LIMIT, agent_text, one_line

NAMES = ["a", "b", "c d", "dir/a", "dir/é", "dir/sub/x", "new\nline", "ignored.log"]
CONTENTS = ["", "one\n", "two\n" * 20, "three\n" * 20, "four\n" * 20]
#: Operations before the stamp, and between stamp and comparison.
STEPS = 8


class Worker:
    """Somebody who does random things in a repository."""

    def __init__(self, repository, seed):
        self.repository = repository
        self.random = random.Random(seed)

    def work(self, steps):
        for _ in range(steps):
            names = "write write remove move add commit commit_all reset stash untrack mode restore git_mv"
            getattr(self, self.random.choice(names.split()))()

    def name(self):
        return self.random.choice(NAMES)

    def existing(self):
        return [name for name in NAMES if (self.repository.path / name).is_file()]

    def write(self):
        self.repository.write(self.name(), self.random.choice(CONTENTS))

    def remove(self):
        for name in self.existing()[:1]:
            (self.repository.path / name).unlink()

    def move(self):
        names = self.existing()
        if names:
            target = self.repository.path / self.name()
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.repository.path / self.random.choice(names)).rename(target)

    def git(self, *arguments):
        self.repository.git(*arguments, check=False)

    def git_mv(self):
        (self.repository.path / "dir").mkdir(exist_ok=True)
        self.git("mv", "-f", self.name(), self.name())

    def add(self):
        self.git("add", "--", self.name())

    def commit(self):
        self.git("commit", "-q", "-m", "some")

    def commit_all(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "all")

    def reset(self):
        self.git("reset", "-q", self.random.choice(["--soft", "--mixed", "--hard"]), "HEAD~1")

    def stash(self):
        self.git("stash", "-q", "-u")

    def untrack(self):
        self.git("rm", "-q", "--cached", "--", self.name())

    def mode(self):
        for name in self.existing()[:1]:
            (self.repository.path / name).chmod(self.random.choice([0o644, 0o755]))

    def restore(self):
        self.git("checkout", "-q", "HEAD", "--", self.name())


def files(root):
    """Return what is on the disk, but for what git ignores: path to executable bit and bytes."""
    found = {}
    for path in root.rglob("*"):
        relative = os.fsencode(path.relative_to(root))
        if path.is_file() and not relative.startswith(b".git/"):
            found[relative] = (bool(path.stat().st_mode & 0o100), path.read_bytes())
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_report_names_exactly_the_files_that_differ(repository, seed):
    repository.commit("start", _gitignore="*.log\n", dir__a="one\n")
    worker = Worker(repository, seed)
    worker.work(STEPS)
    then, before = observe(repository.path, clock=SystemClock()), files(repository.path)
    worker.work(STEPS)
    now, after = observe(repository.path, clock=SystemClock()), files(repository.path)
    report = compare(then.state, then.manifest, now)
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    # A file that git ignores at both moments is in no stamp.
    tracked = {os.fsencode(name) for name in repository.git("ls-files", "-z").split("\0")}
    differing -= {path for path in differing if path.endswith(b".log") and path not in tracked}
    told, told_same = set(), set()
    for change in report.changes:
        item = change.difference
        (told if item.is_content_changed else told_same).update(filter(None, (item.path, item.old_path)))
    ignored = {path for path in told | told_same if path.endswith(b".log")}
    assert told - ignored == differing - ignored
    assert differing & ignored <= told
    assert then.state != now.state or not report.changes
    assert len(agent_text(report, PROMPT_LIMIT)) <= PROMPT_LIMIT
    assert "\n" not in one_line(report)
