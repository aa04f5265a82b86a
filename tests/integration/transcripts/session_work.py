"""What is killed at every one of its system calls, and what is looked at afterwards; see tests/killing.py."""

from __future__ import annotations

from bridge.transcripts.sessionfile import SessionFile, SessionFileError
from tests.sessionfiles import beside, create, entry_line, header_line, user

TORN = b'{"type":"entry","id":"cut'


def creation(folder):
    return lambda: create(folder / "x")


def commit(folder):
    file = create(folder / "x")
    file.append(None, user("old"))
    return lambda: file.append("entry-001", user("new"))


def second_commit_after_a_kill(folder):
    """A commit that finds what one leaves that was killed after its rename, and half a generation."""
    path = folder / "x"
    file = create(path)
    (folder / ".x.recovery").write_bytes(path.read_bytes())
    (folder / ".x.next").write_bytes(b"half")
    (folder / ".x.restore").write_bytes(b"half")
    return lambda: file.append(None, user("new"))


def commit_after_a_torn_tail(folder):
    path = folder / "x"
    path.write_bytes(header_line() + b"\n" + entry_line("entry-000") + b"\n" + TORN)
    file = SessionFile.load(path)
    return lambda: file.append(None, user("new"))


def look(folder):
    """Return what a fresh look finds, and whether the next append works."""
    path = folder / "x"
    if not path.exists():
        create(path)
        return {"generation": "none", "entries": 0, "after": [], "size": 0, "torn": False}
    size = path.stat().st_size
    try:
        file = SessionFile.load(path)
        entries, torn = len(file.entries), file.torn_tail is not None
        file.append(file.entries[-1].id if file.entries else None, user("next"))
    except SessionFileError as error:
        return {"generation": error.constant, "entries": -1, "after": beside(path), "size": size, "torn": False}
    whole = len(SessionFile.load(path).entries) == entries + 1
    return {
        "generation": "whole" if whole else "lost",
        "entries": entries,
        "after": [name for name in beside(path) if ".torn-" not in name],
        "size": size,
        "torn": torn,
        "kept": [(folder / name).read_bytes() == TORN for name in beside(path) if ".torn-" in name],
    }
