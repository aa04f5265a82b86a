"""What a session file may have at most. What is larger is refused by its id, and never cut."""

from __future__ import annotations

from typing import Final

#: Version of the format; headers and entries of another are refused by name.
FORMAT_VERSION: Final = 1
#: Bytes of one line, without its line feed and a carriage return before it.
MAX_LINE_BYTES: Final = 65_536
#: Bytes of one file.
MAX_FILE_BYTES: Final = 4_194_304
#: Entries of one file; the header is none.
MAX_ENTRIES: Final = 4_096
#: Seconds that a writer waits for another one, unless told otherwise.
LOCK_SECONDS: Final = 10.0
