"""SQL that revisions keep in files beside them: one statement to a paragraph, run one by one.

Never as a script: ``sqlite3.executescript`` commits the open transaction before it does anything.
"""

from __future__ import annotations

from pathlib import Path

#: Where the revisions are.
VERSIONS = Path(__file__).parent / "versions"


def statements_of(name: str) -> list[str]:
    """Return the statements of a file in ``versions``, ready for ``op.execute``."""
    text = (VERSIONS / name).read_text(encoding="utf-8")
    # A colon before a word would be a parameter.
    return [paragraph.strip().replace(":", "\\:") for paragraph in text.split("\n\n") if paragraph.strip()]
