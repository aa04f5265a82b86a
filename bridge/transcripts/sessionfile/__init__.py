"""Session files: Bridge's portable session tree, one JSON object per line. A library of its own.

It knows neither database nor git. docs/session-files.md describes format, guarantees and use::

    from bridge.transcripts.sessionfile import SessionFile, SessionTree

    tree = SessionTree(SessionFile.create("talk.session.jsonl"))
    root = tree.append({"role": "user", "content": "Where is the parser?"})
    tree.append({"role": "assistant", "content": "In bridge/transcripts."})
    tree.move_to(root.id)  # the next message begins another branch
"""

from __future__ import annotations

from bridge.transcripts.sessionfile.errors import SessionFileError
from bridge.transcripts.sessionfile.file import SessionFile, random_id
from bridge.transcripts.sessionfile.limits import FORMAT_VERSION, MAX_ENTRIES, MAX_FILE_BYTES, MAX_LINE_BYTES
from bridge.transcripts.sessionfile.reading import TornTail
from bridge.transcripts.sessionfile.records import SessionEntry, SessionHeader
from bridge.transcripts.sessionfile.tree import SessionTree

__all__ = [
    "FORMAT_VERSION",
    "MAX_ENTRIES",
    "MAX_FILE_BYTES",
    "MAX_LINE_BYTES",
    "SessionEntry",
    "SessionFile",
    "SessionFileError",
    "SessionHeader",
    "SessionTree",
    "TornTail",
    "random_id",
]
